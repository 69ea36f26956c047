"""Expected values: scipy.stats.spearmanr and mannwhitneyu, on the data and on each resample."""

import math

import numpy as np
import pytest
from scipy import stats

from tcb_bench.metrics.association import auroc, spearman


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
    assert auroc(np.arange(5.0), np.ones(5)).value is None


@pytest.mark.parametrize("function", [spearman, auroc])
def test_two_lengths_are_refused(function):
    with pytest.raises(ValueError, match="length"):
        function([1.0, 2.0], [1.0])
