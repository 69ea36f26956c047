"""Batches by length, and what happens when memory runs out (design: `auto` that works)."""

import pytest
import torch

from tcb_bench.models.batching import Batcher, auto_batcher, bytes_per_token
from tcb_bench.responses import Failure


class Memory:
    """Answers with the row's own index, and has room for ``limit`` padded tokens."""

    def __init__(self, lengths, limit=10**9, error=torch.OutOfMemoryError):
        self.lengths, self.limit, self.error, self.batches = lengths, limit, error, []

    def __call__(self, rows):
        self.batches.append(rows)
        if len(rows) * max(self.lengths[row] for row in rows) > self.limit:
            raise self.error("CUDA out of memory. Tried to allocate 20.00 MiB")
        return rows


def run(batcher, memory, keys=None):
    found = {}
    keys = keys or [0] * len(memory.lengths)
    batcher.run(memory.lengths, keys, memory, found.__setitem__)
    return found


def test_batches_hold_rows_of_similar_length_longest_first():
    memory = Memory([3, 50, 2, 49, 1])
    found = run(Batcher(2), memory)
    assert memory.batches == [[1, 3], [0, 2], [4]]
    assert found == {i: i for i in range(5)}


def test_the_token_budget_counts_padding_and_one_row_always_goes():
    memory = Memory([100, 10, 10, 4, 4, 4])
    run(Batcher(8, max_tokens=20), memory)
    assert memory.batches == [[0], [1, 2], [3, 4, 5]]


def test_rows_of_different_keys_never_share_a_batch():
    memory = Memory([5, 4, 3, 2])
    run(Batcher(8), memory, ["a", "b", "a", "b"])
    assert memory.batches == [[0, 2], [1, 3]]


@pytest.mark.parametrize("error", [torch.OutOfMemoryError, RuntimeError, MemoryError])
def test_a_batch_too_large_is_halved_and_nothing_is_answered_twice(error):
    lengths = [40] * 16
    memory, answered = Memory(lengths, 200, error), []
    batcher = Batcher(16)
    batcher.run(lengths, [0] * 16, memory, lambda i, _: answered.append(i))
    assert sorted(answered) == list(range(16))
    assert [len(rows) for rows in memory.batches] == [16, 8, 4, 4, 4, 4]
    assert batcher.max_tokens == 160


def test_a_row_that_does_not_fit_alone_fails_alone():
    memory = Memory([1000, 10, 10], 100)
    found = run(Batcher(4), memory)
    assert isinstance(found[0], Failure)
    assert "out of memory" in found[0].reason
    assert (found[1], found[2]) == (1, 2)


def test_any_other_error_goes_through():
    def compute(rows):
        raise RuntimeError("mat1 and mat2 shapes cannot be multiplied")

    with pytest.raises(RuntimeError, match="shapes"):
        Batcher(4).run([1], [0], compute, lambda *_: None)


def test_an_automatic_batch_is_bounded_by_memory_and_device():
    few = auto_batcher(torch.device("cpu"), 10**12)
    many = auto_batcher(torch.device("cpu"), 1)
    assert (few.max_tokens, many.max_tokens) == (1024, 2**18)
    assert many.max_rows == 16
    assert auto_batcher(torch.device("cpu"), 1, max_rows=3).max_rows == 3


def test_the_estimate_of_a_tokens_memory_counts_its_keys_and_values(hf_demo):
    config = hf_demo.config
    cache = 2 * 30 * 3 * 64 * 4  # keys and values, layers, heads, head width, bytes of a float
    assert cache < bytes_per_token(config, 4) < 3 * cache
