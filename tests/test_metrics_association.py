"""Expected values: scipy.stats' spearmanr, pearsonr and mannwhitneyu, on data and resamples."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from tcb_bench.metrics.association import (
    _product_moment,
    auroc,
    half_of_variance,
    pearson,
    spearman,
)


def pairs(n=60, seed=0):
    rng = np.random.default_rng(seed)
    x = np.round(rng.normal(size=n), 1)  # with ties
    return x, np.round(x + rng.normal(size=n), 1)


def area(score, event):
    u = stats.mannwhitneyu(score[event == 1], score[event == 0]).statistic
    return u / ((event == 1).sum() * (event == 0).sum())


def resampled(x, y, statistic):
    rng = np.random.default_rng(1)
    rows = rng.integers(0, len(x), size=(3000, len(x)))
    return np.array([statistic(x[r], y[r]) for r in rows])


def test_spearman_is_scipys_with_ties():
    x, y = pairs()
    assert spearman(x, y).value == pytest.approx(stats.spearmanr(x, y).statistic)


def test_spearmans_interval_is_that_of_ranks_taken_anew():
    x, y = pairs()
    draws = resampled(x, y, lambda a, b: stats.spearmanr(a, b).statistic)
    found = spearman(x, y, resamples=10_000)
    limits = np.quantile(draws, [0.025, 0.975])
    assert (found.ci_low, found.ci_high) == pytest.approx(limits, abs=0.25 * draws.std())


def test_pearson_is_scipys():
    x, y = pairs()
    for a, b in [(x, y), (10**x, 10.0 ** (3 * y)), (1e12 + x, y), (1e200 * x, 1e-200 * y)]:
        assert pearson(a, b).value == pytest.approx(stats.pearsonr(a / a.max(), b / b.max())[0])


@pytest.mark.parametrize("power", [0, 2])
def test_pearsons_interval_is_that_of_resamples(power):
    x, y = pairs()
    x, y = (10 ** (power * x), 10 ** (power * y)) if power else (x, y)
    draws = resampled(x, y, lambda a, b: np.corrcoef(a, b)[0, 1])  # as scipy, sooner
    found = pearson(x, y, resamples=10_000)
    limits = np.quantile(draws, [0.025, 0.975])
    assert (found.ci_low, found.ci_high) == pytest.approx(limits, abs=0.25 * draws.std())
    assert found.stderr == pytest.approx(draws.std(), rel=0.1)


def test_a_far_value_costs_the_resamples_without_it_no_digits():
    """Oracle: of resamples without the far pair, those of the same pairs alone."""
    x, y = pairs(30)
    counts = np.vstack([np.r_[np.ones(30), 0], np.r_[np.arange(30) % 3 == 0, 0]]).astype(float)
    found = _product_moment(counts, np.r_[x, 1e15], np.r_[y, -1e15])
    assert found[0] == pytest.approx(stats.pearsonr(x, y).statistic, rel=1e-12)
    assert found[1] == pytest.approx(stats.pearsonr(x[::3], y[::3]).statistic, rel=1e-12)


def test_pearson_of_an_infinite_length_is_not_known():
    assert pearson([1.0, 2.0, math.inf, 3.0], [1.0, 2.0, 4.0, 3.0]).value is None
    assert pearson([1.0, 2.0, math.nan, 3.0], [1.0, 2.0, 4.0, 3.0]).value == pytest.approx(1)


def test_resamples_of_one_value_alone_are_left_out():
    """0.1 three times has a mean that is not 0.1; every resample that varies has r = 1."""
    found = pearson([0.1, 0.1, 0.1, 0.2], [0.3, 0.3, 0.3, 0.7])
    assert (found.value, found.ci_low, found.ci_high) == pytest.approx((1, 1, 1))


def test_half_of_the_variance_is_that_of_the_fewest_values():
    values = np.array([0.0, 1.0, 2.0, 10.0, -4.0, 0.5])
    squares = (values - values.mean()) ** 2
    sizes = (
        k
        for k in range(1, 7)
        if any(sum(c) >= squares.sum() / 2 for c in itertools.combinations(squares, k))
    )
    assert half_of_variance(values) == next(sizes)
    assert half_of_variance([*np.zeros(300), 1e300]) == 1
    assert half_of_variance([-1.0, 1.0] * 10) == 10
    assert half_of_variance([3.0, 3.0, math.nan]) is None
    assert half_of_variance([3.0, math.inf]) is None


def test_auroc_is_mann_whitneys_u():
    x, y = pairs()
    event = (y > 0.5).astype(float)
    found = auroc(x, event, resamples=10_000)
    draws = resampled(x, event, area)
    assert found.value == pytest.approx(area(x, event))
    limits = np.quantile(draws, [0.025, 0.975])
    assert (found.ci_low, found.ci_high) == pytest.approx(limits, abs=0.25 * draws.std())


def test_perfect_and_reversed_orders():
    x = np.arange(30.0)
    assert spearman(x, x**3).value == pytest.approx(1)
    assert spearman(x, -x).value == pytest.approx(-1)
    assert auroc(x, x > 14).value == 1.0
    assert auroc(-x, x > 14).value == 0.0
    assert auroc(np.ones(30), x > 14).value == 0.5


def test_an_overflown_length_is_the_largest():
    x = np.array([1.0, 2.0, math.inf, 3.0])
    assert spearman(x, [1.0, 2.0, 4.0, 3.0]).value == pytest.approx(1)


def test_missing_values_are_left_out_in_pairs():
    x, y = pairs(20)
    gappy = np.r_[x, math.nan, 3.0]
    assert spearman(gappy, np.r_[y, 1.0, math.nan]) == spearman(x, y)


def test_what_does_not_vary_has_no_association():
    assert spearman(np.ones(9), np.arange(9.0)).value is None
    assert spearman([1.0, 2.0], [1.0, 2.0]).value is None
    assert pearson(np.full(9, 0.1), np.arange(9.0)).value is None
    assert pearson([1.0, 2.0], [1.0, 2.0]).value is None
    assert auroc(np.arange(5.0), np.ones(5)).value is None


@pytest.mark.parametrize("function", [spearman, pearson, auroc])
def test_two_lengths_are_refused(function):
    with pytest.raises(ValueError, match="length"):
        function([1.0, 2.0], [1.0])
