"""Ranks as ranges: which models differ, and how often equal ones are said to.

Oracles: scipy's paired t-test, numpy's median of repeated values, `variability.area_under_curve`,
hand computation, and simulations of models that are equal or far apart by construction.
"""

import numpy as np
import pytest
from scipy import stats

from tcb_bench.leaderboards.boards import BoardColumn, Cell
from tcb_bench.leaderboards.rank_curves import Sweep, areas, cvs, drops, heights, onsets
from tcb_bench.leaderboards.rank_medians import median_draws, shared_medians
from tcb_bench.leaderboards.rank_pairs import (
    above,
    drawn_differences,
    interval_p_values,
    mean_differences,
    median_differences,
    p_values,
    rank_ranges,
)
from tcb_bench.leaderboards.rank_ranges import ranked
from tcb_bench.metrics.statistics import resampled_sums
from tcb_bench.metrics.variability import area_under_curve

COLUMN = BoardColumn(key="acc", label="", unit="share", higher_is_better=True, digits=3, meaning="")


def holed(rng, shape, share):
    """Normal values with holes."""
    values = rng.normal(size=shape)
    values[rng.random(shape) < share] = np.nan
    return values


def test_mean_differences_are_paired_t_tests_on_shared_questions():
    values = holed(np.random.default_rng(0), (5, 40), 0.2) + 100  # a shared level costs no digits
    found = mean_differences(values)
    p = p_values(found)
    for i, j in zip(*np.triu_indices(5, 1), strict=True):
        both = ~np.isnan(values[i]) & ~np.isnan(values[j])
        test = stats.ttest_rel(values[i][both], values[j][both])
        assert found.value[i, j] / found.stderr[i, j] == pytest.approx(test.statistic, rel=1e-9)
        assert p[i, j] == pytest.approx(test.pvalue, rel=1e-9)
        assert found.n[i, j] == found.distinct[i, j] == both.sum()


def test_weights_of_means_count_as_in_mean_intervals():
    from tcb_bench.metrics.statistics import mean_intervals

    rng = np.random.default_rng(1)
    values, weights = rng.normal(size=(2, 30)), rng.uniform(0.5, 2, 30)
    found = mean_differences(values, weights)
    truth = mean_intervals((values[0] - values[1])[:, None], weights=weights)[0]
    assert found.value[0, 1] == pytest.approx(truth.value, rel=1e-12)
    assert found.stderr[0, 1] == pytest.approx(truth.stderr, rel=1e-12)


@pytest.mark.parametrize("n_questions", [1, 2, 7, 60, 301])
def test_median_draws_are_medians_of_the_repeated_values(n_questions):
    rng = np.random.default_rng(n_questions)
    values = holed(rng, (4, n_questions), 0.3)
    values[3] = np.round(values[3])  # ties
    counts = resampled_sums(np.eye(n_questions), resamples=60, seed=0)
    counts[0] = 0.0
    counts[0, 0] = n_questions  # far outside the window around the median
    found = median_draws(values, counts)
    for b, model in np.ndindex(found.shape):
        drawn = np.repeat(values[model], counts[b].astype(int))
        drawn = drawn[~np.isnan(drawn)]
        truth = np.median(drawn) if len(drawn) else np.nan
        assert found[b, model] == pytest.approx(truth, rel=1e-12, nan_ok=True)


@pytest.mark.parametrize("share", [0.0, 0.4])
def test_shared_medians(share):
    values = holed(np.random.default_rng(2), (6, 31), share)
    values[5, 3:] = np.nan if share else values[5, 3:]
    found = shared_medians(values)
    for i, j in np.ndindex(found.shape):
        both = ~np.isnan(values[i]) & ~np.isnan(values[j])
        truth = np.median(values[i][both]) if both.any() else np.nan
        assert found[i, j] == pytest.approx(truth, rel=1e-12, nan_ok=True)


def test_the_standard_error_of_medians_is_that_of_a_brute_force_paired_bootstrap():
    rng = np.random.default_rng(3)
    values = np.exp(rng.normal(size=60) + 0.5 * rng.normal(size=(2, 60)))
    counts = resampled_sums(np.eye(60), resamples=4000, seed=5)
    found = median_differences(values, median_draws(values, counts))
    rows = rng.integers(0, 60, (4000, 60))
    medians = np.median(values[:, rows], axis=2)
    assert found.value[0, 1] == np.median(values[0]) - np.median(values[1])
    assert found.stderr[0, 1] == pytest.approx((medians[0] - medians[1]).std(ddof=1), rel=0.05)


def accuracies(rng, models, questions):
    """Equal models: the same chance of every question, hard ones hard for all."""
    chance = 1 / (1 + np.exp(-1 - 2 * rng.normal(size=questions)))
    return (rng.random((models, questions)) < chance).astype(float)


def lengths(rng, models, questions):
    """Equal models: skewed lengths, a fifth of them missing."""
    values = np.exp(rng.normal(size=questions) + rng.normal(size=(models, questions)))
    values[rng.random(values.shape) < 0.2] = np.nan
    return values


@pytest.mark.parametrize(
    ("models", "questions", "repeats"), [(2, 15, 400), (6, 100, 300), (12, 200, 100)]
)
def test_equal_accuracies_are_seldom_said_to_differ(models, questions, repeats):
    rng = np.random.default_rng(models)
    wrong = 0
    for _ in range(repeats):
        found = mean_differences(accuracies(rng, models, questions))
        wrong += above(found.value, p_values(found)).any()
    assert wrong <= stats.binom.ppf(0.999, repeats, 0.05)


@pytest.mark.parametrize(("models", "questions", "repeats"), [(2, 30, 200), (5, 60, 100)])
def test_equal_medians_are_seldom_said_to_differ(models, questions, repeats):
    rng = np.random.default_rng(models)
    wrong = 0
    for seed in range(repeats):
        values = lengths(rng, models, questions)
        counts = resampled_sums(np.eye(questions), resamples=300, seed=seed)
        found = median_differences(values, median_draws(values, counts))
        wrong += above(found.value, p_values(found)).any()
    assert wrong <= stats.binom.ppf(0.999, repeats, 0.05)


def test_clear_differences_are_seen_and_close_ones_share_a_range():
    rng = np.random.default_rng(4)
    chance = np.array([[0.9], [0.9], [0.5], [0.1]])
    values = (rng.random((4, 300)) < chance).astype(float)
    means = mean_differences(values)
    is_above = above(means.value, p_values(means))
    assert rank_ranges(is_above, higher_is_better=True) == ([1, 1, 3, 4], [2, 2, 3, 4])
    assert rank_ranges(is_above, higher_is_better=False) == ([3, 3, 2, 1], [4, 4, 2, 1])
    lengths = np.exp(rng.normal(size=300) + rng.normal(size=(3, 300)) + [[0.0], [0.0], [1.5]])
    counts = resampled_sums(np.eye(300), resamples=1000)
    medians = median_differences(lengths, median_draws(lengths, counts))
    is_above = above(medians.value, p_values(medians))
    assert rank_ranges(is_above, higher_is_better=True) == ([2, 2, 1], [3, 3, 1])


def test_few_questions_never_separate_whatever_they_say():
    values = np.array([[1.0] * 5, [0.0] * 5])  # p >= 2^-4, where a bootstrap interval is a point
    found = mean_differences(values)
    assert p_values(found)[0, 1] == 2.0**-4
    assert not above(found.value, p_values(found)).any()
    six = mean_differences(np.array([[1.0] * 6, [0.0] * 6]))
    assert above(six.value, p_values(six)).tolist() == [[False, True], [False, False]]
    same = mean_differences(np.array([[0.1, 0.7, 0.3]] * 2))
    assert p_values(same)[0, 1] == 1


def test_models_are_compared_on_the_questions_both_have():
    """A model that answers only the easy half looks better, and is worse on what both answer."""
    rng = np.random.default_rng(5)
    hardness = np.linspace(2, -2, 200)
    good = hardness + rng.normal(0, 0.3, 200)
    picky = np.where(hardness > 0, hardness - 0.5 + rng.normal(0, 0.3, 200), np.nan)
    values = np.array([good, picky])
    assert np.nanmedian(picky) > np.nanmedian(good)
    means = mean_differences(values)
    assert above(means.value, p_values(means))[0, 1]
    counts = resampled_sums(np.eye(200), resamples=500)
    medians = median_differences(values, median_draws(values, counts))
    assert medians.value[0, 1] > 0 and medians.n[0, 1] == 100


def test_intervals_decide_where_there_are_no_samples():
    value, low, high = (
        np.array(x) for x in ([0.5, 0.6, 0.7], [0.44, 0.55, 0.66], [0.56, 0.65, 0.74])
    )
    p = interval_p_values(value, low, high)
    assert p[0, 1] > 0.05  # they overlap
    assert p[0, 2] < 0.05 / 3  # far apart, also for three pairs
    assert p[1, 2] == pytest.approx(2 * stats.norm.sf(1.959963984540054 * 0.1 / 0.09))
    assert interval_p_values(value, np.full(3, np.nan), high)[0, 2] == 1


def test_cells_without_a_value_or_with_a_reason_are_not_ranked():
    cell = Cell(value=0.5, ci_low=0.45, ci_high=0.55, n=99)
    cells = [
        cell,
        Cell(value=0.9, ci_low=0.85, ci_high=0.95, n=99),
        Cell(value=0.99, ci_low=0.98, ci_high=1.0, n=99, reason="the model ignores temperature"),
        Cell(value=None, ci_low=None, ci_high=None, n=0, reason="no hidden states"),
    ]
    found = [(c.rank_low, c.rank_high) for c in ranked(cells, None, COLUMN)]
    assert found == [(2, 2), (1, 1), (None, None), (None, None)]
    assert ranked([cell], None, COLUMN) == [cell]  # nothing to be compared with


def test_drawn_differences_use_the_joint_draws():
    rng = np.random.default_rng(6)
    shared = rng.normal(size=4000)
    draws = np.array([shared, shared + 0.1 * rng.normal(size=4000)]).T  # nearly the same noise
    found = drawn_differences(np.array([0.0, 0.5]), draws, np.array([80.0, 100.0]))
    assert found.stderr[0, 1] == pytest.approx(0.1, rel=0.05)
    assert found.n[0, 1] == 80 and above(found.value, p_values(found))[1, 0]


SWEEP = Sweep(
    temperatures=np.array([0.0, 0.5, 2.0]),
    contexts=["original", "ner"],
    cells=np.arange(12).reshape(3, 2, 2),
)


def test_areas_drops_and_cvs_by_hand_and_by_variability():
    means = np.linspace(1.0, 0.45, 12)
    levels = heights(means[None], SWEEP)
    assert levels[0, 0, 0] == pytest.approx((means[0] + means[1]) / 2)
    one = area_under_curve(SWEEP.temperatures, levels[0, :, 0].reshape(3, 1, 1)).value
    assert areas(levels, SWEEP.temperatures)[0, 0] == pytest.approx(one, rel=1e-12)
    assert drops(levels)[0] == pytest.approx(0.4)  # each of four curves falls by 8 x 0.05
    deviations = np.where(np.arange(12) < 6, 0.1, np.nan) * means
    assert cvs(means[None], deviations[None])[0] == pytest.approx(0.1)


def test_onset_is_where_a_context_starts_to_stay_below():
    rng = np.random.default_rng(7)
    fall = {"original": [0, 0, 0], "ner": [0, 0.3, 0.5]}
    means = np.full((12, 40), np.nan)
    for t, k, part in np.ndindex(3, 2, 2):
        own = slice(0, 20) if part == 0 else slice(20, 40)  # each type has its own questions
        level = 0.9 - fall[SWEEP.contexts[k]][t]
        means[SWEEP.cells[t, k, part], own] = level + rng.normal(0, 0.05, 20)
    found = onsets(means, SWEEP, weights=np.ones(40), resamples=1000, seed=0)
    assert found == {"original": None, "ner": 0.5}
