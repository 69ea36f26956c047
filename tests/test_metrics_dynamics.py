"""Dips, loops and the permutation test.

Oracles: scipy's median_abs_deviation; brute force over all starts, periods and lengths; all
combinations of a permutation test, enumerated.
"""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import median_abs_deviation

from tcb_bench.metrics.dynamics import (
    Loop,
    find_loop,
    first_against_others,
    robust_z,
)

RNG = np.random.default_rng(0)


def test_robust_z_is_scipys_median_and_mad():
    x = RNG.normal(size=101) ** 3
    expected = (x - np.median(x)) / median_abs_deviation(x, scale="normal")
    np.testing.assert_allclose(robust_z(x), expected, rtol=1e-4)


def test_a_window_sees_its_neighbours_alone_and_is_cut_at_the_ends():
    x = RNG.normal(size=40)
    ours = robust_z(x, window=6)
    for t in range(40):
        near = x[max(0, t - 6) : t + 7]
        mad = median_abs_deviation(near, scale="normal")
        assert ours[t] == pytest.approx((x[t] - np.median(near)) / mad, rel=1e-4)


def test_infinite_lengths_are_high_and_missing_ones_are_missing():
    z = robust_z([1.0, 2, 3, 4, np.inf, np.nan, 5])
    assert z[4] == np.inf
    assert np.isnan(z[5])
    assert z[0] == pytest.approx((1 - 3.5) / (1.4826 * 1.5))  # |x - 3.5|: .5 .5 1.5 1.5 2.5 inf


@pytest.mark.parametrize("values", [[1.0] * 9, [1, 2, 3, 4], [], [np.inf] * 5 + [1.0]])
def test_without_a_spread_there_is_no_z(values):
    assert np.isnan(robust_z(values)).all()


def brute_loop(tokens, repeats, longest, least):
    """The rule as the docstring of ``find_loop`` says it."""
    n = len(tokens)
    for s, p in itertools.product(range(n), range(1, longest + 1)):
        for length in range(n - s, 0, -1):
            is_cycle = all(tokens[i] == tokens[i - p] for i in range(s + p, s + length))
            if is_cycle and length >= max(repeats * p, least):
                return Loop(s, p, length)
    return None


@settings(max_examples=400, deadline=None)
@given(
    st.lists(st.integers(0, 2), max_size=24),
    st.integers(2, 4),
    st.integers(1, 6),
    st.integers(1, 9),
)
def test_a_loop_is_what_brute_force_finds(tokens, repeats, longest, least):
    ours = find_loop(tokens, repeats=repeats, longest=longest, least=least)
    assert ours == brute_loop(tokens, repeats, longest, least)


def test_a_loop_begins_with_the_first_token_that_repeats():
    loop = find_loop([9, 8, 7, *[1, 2, 3, 4] * 5, 6, 6])
    assert loop == Loop(3, 4, 20)
    assert (loop.onset, loop.end) == (7, 23)
    assert find_loop([5] * 11) is None  # "ha, ha, ha" is none
    assert find_loop([5] * 12) == Loop(0, 1, 12)


def enumerated_p(groups):
    """Share of all choices of a first per group whose |d| reaches the observed one."""

    def gap(choice):
        return np.mean([g[i] - np.delete(g, i).mean() for g, i in zip(groups, choice, strict=True)])

    groups = [np.asarray(g, float) for g in groups]
    every = [gap(c) for c in itertools.product(*(range(len(g)) for g in groups))]
    return np.mean(np.abs(every) >= abs(every[0]) - 1e-12), every[0]


@pytest.mark.parametrize(
    "groups",
    [
        [[3, 1, 1, 0], [2, 1, 1.5], [4, 0, 2, 2, 1]],
        [[0, 0, 1], [0, 0, 1], [1, 0, 0, 0]],
        [[1, 1], [1, 1]],
        [[5, 1], [4, 1], [6, 2], [5, 2], [7, 1], [5, 3]],
    ],
)
def test_p_is_that_of_all_combinations(groups):
    p, difference = enumerated_p(groups)
    ours = first_against_others(groups, resamples=20_000)
    assert ours.p == pytest.approx(p, abs=0.015)
    assert ours.difference.value == pytest.approx(difference)
    assert ours.first - ours.others == pytest.approx(difference)
    assert ours.difference.n == len(groups)


def test_groups_without_a_first_or_another_value_are_left_out_and_counted():
    groups = [[np.nan, 1, 2], [1.0], [], [3, np.nan, 1], [2, 2, 0]]
    ours = first_against_others(groups)
    assert ours.difference.n == 2
    assert ours.difference.value == pytest.approx((2 + 1) / 2)
    none = first_against_others([[1.0]])
    assert (none.p, none.first, none.difference.n) == (None, None, 0)


def test_under_the_null_hypothesis_small_p_values_are_rare():
    ps = []
    for seed in range(200):
        draw = np.random.default_rng(seed)
        groups = [draw.normal(size=draw.integers(2, 7)) for _ in range(8)]
        ps.append(first_against_others(groups, resamples=400, seed=seed).p)
    assert np.mean(np.array(ps) <= 0.05) < 0.1  # 4 standard errors above 0.05 is 0.11
    assert 0.4 < np.mean(ps) < 0.6


@pytest.mark.parametrize(
    "call",
    [
        lambda: robust_z([[1.0]]),
        lambda: robust_z([1.0], window=0),
        lambda: find_loop([1], repeats=1),
    ],
)
def test_what_does_not_fit_is_refused(call):
    with pytest.raises(ValueError, match="expected"):
        call()
