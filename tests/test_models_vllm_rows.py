"""States kept in a worker: what is asked for comes back, memory is bounded, ranks add up.

Oracle: ``token_stability`` in float64 on the same states. No engine is needed.
"""

import threading

import pytest
import torch

from tcb_bench.metrics.delta_tcb import Head, token_stability
from tcb_bench.metrics.delta_tcb_head import weight_radius
from tcb_bench.models import vllm_rows
from tcb_bench.models.vllm_rows import LAST, Rows, Step

V, D = 50, 8
WEIGHT = torch.randn(V, D, generator=torch.Generator().manual_seed(1))
NO_LIMIT = 2**40
N = 60


def rows_of(limit=NO_LIMIT):
    return Rows(Head(WEIGHT), list, limit)


def step(seed, positions, tokens):
    hidden = torch.randn(len(positions), D, generator=torch.Generator().manual_seed(seed))
    return Step(hidden, torch.tensor(positions), torch.tensor(tokens))


def truth(hidden, tokens, choices=None):
    choices = None if choices is None else torch.tensor(choices)
    return token_stability(
        hidden.double(), WEIGHT.double(), tokens=torch.tensor(tokens), choices=choices
    )


def test_rows_of_several_requests_come_back_by_position_with_their_quantities():
    rows, first, second = rows_of(), step(1, [4, 9], [7, 3]), step(2, [10, 5], [2, 8])
    rows.add(["a", "b"], [1, 1], first)
    rows.add(["b", "a"], [1, 1], second)
    found = rows.collect([["a", None, []], ["b", [10], []]])
    assert [f["positions"] for f in found] == [[4, 5], [10]]
    assert [f["tokens"] for f in found] == [[7, 8], [2]]
    expected = truth(torch.stack([first.hidden[0], second.hidden[1]]), [7, 8])
    for name in ("delta_tcb", "nll", "flip_radius", "h_norm"):
        ours = torch.tensor(found[0]["quantities"][name], dtype=torch.float64)
        torch.testing.assert_close(ours, getattr(expected, name), rtol=1e-4, atol=1e-6)
    assert rows.held == 0


def test_choices_come_with_the_question_and_may_differ_in_number():
    rows, one = rows_of(), step(3, [1, 2, 3], [0, 0, 0])
    rows.add([f"{LAST}1", f"{LAST}2", "c"], [1, 1, 1], one)
    asks = [[f"{LAST}1", [1], [5, 6]], [f"{LAST}2", [2], [9]], ["c", None, []]]
    found = rows.collect(asks)
    expected = torch.log_softmax(one.hidden @ WEIGHT.T, 1)
    assert found[0]["quantities"]["choice_logprobs"][0] == pytest.approx(
        expected[0, [5, 6]].tolist(), abs=1e-5
    )
    assert found[1]["quantities"]["choice_logprobs"][0] == pytest.approx(
        [expected[1, 9].item()], abs=1e-5
    )
    assert "choice_logprobs" not in found[2]["quantities"]


def test_a_recomputed_position_counts_once_and_the_last_one_wins():
    rows, old, new = rows_of(), step(4, [6], [1]), step(5, [6], [2])
    rows.add(["a"], [1], old)
    rows.add(["a"], [1], new)
    (found,) = rows.collect([["a", None, []]])
    assert (found["positions"], found["tokens"]) == ([6], [2])
    assert found["quantities"]["h_norm"][0] == pytest.approx(new.hidden.norm().item(), rel=1e-5)


def test_rejected_drafts_and_parts_of_prompts_are_no_predictions():
    rows = rows_of()
    rows.add(["a", "b"], [3, 1], step(6, [4, 5, 6, 30], [7, 3, -1, -1]))
    found = rows.collect([["a", None, []], ["b", None, []]])
    assert [f["positions"] for f in found] == [[4, 5], []]
    assert found[1]["quantities"] == {}


def test_requests_that_are_not_measured_hold_no_memory():
    rows = rows_of()
    rows.add([None, None], [1, 1], step(7, [1, 1], [0, 0]))
    assert rows.held == 0
    rows.add(["a"], [1], step(8, [1], [0]))
    rows.collect([["a", [], []]])
    rows.add(["a"], [1], step(9, [2], [0]))  # the engine was one step ahead
    assert rows.held == 0


def test_states_beyond_the_limit_are_measured_early_with_the_same_numbers():
    free, bounded = rows_of(), rows_of(limit=3 * D * 4)
    steps = [(step(20 + i, [i, 10 + i], [i, i + 1])) for i in range(6)]
    for rows in (free, bounded):
        for one in steps:
            rows.add(["a", "b"], [1, 1], Step(one.hidden, one.positions, one.tokens))
            assert rows.held <= rows.limit or rows is free
    assert bounded.spills == 3 and free.spills == 0
    asks = [["b", None, []], ["a", [0, 5], []]]
    one, other = free.collect(asks), bounded.collect(asks)
    for a, b in zip(one, other, strict=True):
        assert a["positions"] == b["positions"] and a["tokens"] == b["tokens"]
        for name, values in a["quantities"].items():
            assert b["quantities"][name] == pytest.approx(values, rel=1e-5), name


def test_choices_are_not_lost_where_memory_is_short():
    rows = rows_of(limit=1)
    rows.add([f"{LAST}7", "long"], [1, 1], step(11, [3, 3], [0, 1]))
    (found,) = rows.collect([[f"{LAST}7", [3], [1, 2]]])
    assert len(found["quantities"]["choice_logprobs"][0]) == 2


def test_a_state_with_nan_is_named_and_harms_no_other():
    rows, one = rows_of(), step(12, [1, 1], [0, 0])
    one.hidden[0, 3] = torch.nan
    rows.add(["a", "b"], [1, 1], one)
    bad, good = rows.collect([["a", None, []], ["b", None, []]])
    assert (bad["sound"], good["sound"]) == (False, True)
    assert good["quantities"]["delta_tcb"][0] == pytest.approx(
        truth(one.hidden[1:], [0]).delta_tcb.item(), rel=1e-4
    )


def test_nan_at_a_position_nobody_asks_for_is_noticed_too():
    for limit in (NO_LIMIT, 1):
        rows, one = rows_of(limit), step(14, [1, 2], [0, 0])
        one.hidden[1, 0] = torch.inf
        rows.add(["a"], [2], one)
        (found,) = rows.collect([["a", [1], []]])
        assert found["positions"] == [1]
        assert found["sound"] is False


@pytest.mark.parametrize(
    "cuts", [[20], [1, 30], [20, 40]], ids=["2 ranks", "3 ranks", "last short"]
)
def test_ranks_with_slices_of_the_vocabulary_give_the_whole(cuts, monkeypatch):
    """The slices are padded to one length, as vLLM's are, so that all ranks take equal steps."""
    monkeypatch.setattr(vllm_rows, "WORKSPACE", 2**10)
    edges, tokens = [0, *cuts, V], [(7 * i) % V for i in range(N)]
    slices = list(zip(edges[:-1], edges[1:], strict=True))
    barrier, shared = threading.Barrier(len(slices), timeout=20), [None] * len(slices)

    def rank(number, results):
        def exchange(parts):
            shared[number] = parts[0]
            barrier.wait()
            every = list(shared)
            barrier.wait()
            return every

        a, b = slices[number]
        padded = torch.zeros(max(y - x for x, y in slices), D)
        padded[: b - a] = WEIGHT[a:b]
        rows = Rows(Head(padded, n_vocab=b - a, first_id=a), exchange, NO_LIMIT)
        rows.add(["a"], [N], step(13, list(range(N)), tokens))
        results[number] = (rows.collect([["a", None, [2, 44]]])[0], rows.radius())

    results = [None] * len(slices)
    threads = [threading.Thread(target=rank, args=(i, results)) for i in range(len(slices))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    expected = truth(step(13, [1] * N, [0] * N).hidden, tokens, [2, 44])
    for found, radius in results:
        assert radius == pytest.approx(weight_radius(WEIGHT), rel=1e-5)
        for name in ("delta_tcb", "nll", "flip_radius", "choice_mass", "choice_flip_radius"):
            ours = torch.tensor(found["quantities"][name], dtype=torch.float64)
            torch.testing.assert_close(ours, getattr(expected, name), rtol=1e-4, atol=1e-6)
