"""Draws and limits: pure functions of ids and seed. Oracle: hashlib by hand, and set arithmetic."""

import hashlib
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tcb_bench.errors import UsageError
from tcb_bench.selection import draw, limit_size, stable_hash

IDS = [f"law/test/{i}" for i in range(200)]


def test_a_hash_is_the_first_63_bits_of_sha256_of_the_joined_parts():
    digest = hashlib.sha256(b"7\x1flaw/test/3").digest()
    assert stable_hash(7, "law/test/3") == int.from_bytes(digest[:8], "big") // 2


def test_parts_are_kept_apart():
    assert stable_hash("a", "bc") != stable_hash("ab", "c")


@given(st.integers(0, 250), st.integers(0, 5))
def test_a_draw_does_not_depend_on_the_order_of_the_rows(size, seed):
    shuffled = random.Random(seed).sample(IDS, len(IDS))
    drawn = {IDS[i] for i in draw(IDS, size, seed)}
    assert {shuffled[i] for i in draw(shuffled, size, seed)} == drawn
    assert len(drawn) == min(size, len(IDS))


@given(st.integers(1, 199), st.integers(0, 5))
def test_a_larger_draw_contains_the_smaller_and_keeps_the_files_order(size, seed):
    small, large = draw(IDS, size, seed), draw(IDS, size + 1, seed)
    assert set(small) < set(large)
    assert large == sorted(large)


def test_another_seed_draws_other_documents_and_none_are_twice():
    assert draw(IDS, 20, 0) != draw(IDS, 20, 1)
    assert len(set(draw(IDS, 20, 0))) == 20


@pytest.mark.parametrize(
    ("limit", "available", "size"),
    [
        (None, 9, None),
        (1, 9, 1),
        (1.0, 9, 1),
        (0.1, 95, 10),
        (0.1, 5, 1),
        (100, 9, 100),
        (0.999, 10, 10),
    ],
)
def test_a_limit_is_a_count_or_a_share_of_this_task(limit, available, size):
    assert limit_size(limit, available) == size


@pytest.mark.parametrize("limit", [0, -1, -0.5, 1.5, float("nan"), float("inf")])
def test_a_limit_that_makes_no_sense_is_a_usage_error(limit):
    with pytest.raises(UsageError, match="--limit"):
        limit_size(limit, 10)
