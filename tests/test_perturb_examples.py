"""Changes of the few-shot examples. Expected values: by hand; else properties."""

import random

from hypothesis import given
from hypothesis import strategies as st
from perturb_items import steady

from tcb_bench.perturb.examples import shots_reordering, shots_replacement
from tcb_bench.perturb.item import Shots

examples = st.lists(st.integers(0, 6).map(lambda n: {"question": str(n)}), max_size=5).map(tuple)


def numbered(text):
    return tuple({"question": letter} for letter in text)


def apply(change, shots, seed=0):
    return change(shots, random.Random(seed), None, None)


def letters(change):
    return "".join(example["question"] for example in change.value.chosen)


def test_examples_come_in_every_order_but_the_given_one():
    drawn = {letters(apply(shots_reordering, Shots(numbered("abc")), s)) for s in range(60)}
    assert drawn == {"acb", "bac", "bca", "cab", "cba"}


def test_one_example_is_replaced_where_it_stands_by_one_that_was_not_shown():
    shots = Shots(numbered("abc"), numbered("abxy"))
    drawn = {letters(apply(shots_replacement, shots, s)) for s in range(80)}
    assert drawn == {"xbc", "axc", "abx", "ybc", "ayc", "aby"}


def test_without_another_example_nothing_is_replaced():
    for shots in (Shots(numbered("abc"), numbered("ab")), Shots((), numbered("ab"))):
        change = apply(shots_replacement, shots)
        assert change.value == shots
        assert change.flags == ("no_candidate",)


@steady
@given(examples, st.integers(0, 9))
def test_reordering_keeps_the_examples_and_differs_where_it_can(chosen, seed):
    after = apply(shots_reordering, Shots(chosen, chosen), seed).value

    def key(example):
        return example["question"]

    assert sorted(after.chosen, key=key) == sorted(chosen, key=key)
    assert (after.chosen != chosen) == (len({key(example) for example in chosen}) > 1)
    assert after.pool == chosen


@steady
@given(examples, examples, st.integers(0, 9))
def test_replacement_changes_at_most_one_example(chosen, pool, seed):
    change = apply(shots_replacement, Shots(chosen, pool), seed)
    pairs = list(zip(chosen, change.value.chosen, strict=True))
    changed = [new for old, new in pairs if old != new]
    assert len(changed) == change.counts["replaced"] <= 1
    assert all(new in pool and new not in chosen for new in changed)
