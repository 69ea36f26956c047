"""Expected values: by hand, from numpy.std and numpy.trapezoid, or brute-force resampling."""

import math

import numpy as np
import pytest

from tcb_bench.metrics.statistics import Interval, mean_intervals, resampled_means
from tcb_bench.metrics.variability import (
    area_under_curve,
    baseline_cv,
    question_means,
    run_deviations,
    summaries,
    summary,
)

NAN = math.nan
NOTHING = Interval(None, None, None, None, 0)


def study(q=40, runs=3, seed=0):
    rng = np.random.default_rng(seed)
    return 0.9 + 0.03 * rng.normal(size=(q, 1)) + 0.02 * rng.normal(size=(q, runs))


def brute(scores, statistic, resamples=20_000, seed=9):
    """Quantiles and spread of a statistic over questions resampled with all their runs."""
    rng = np.random.default_rng(seed)
    rows = rng.integers(0, len(scores), size=(resamples, len(scores)))
    values = np.array([statistic(scores[r]) for r in rows[:3000]])
    return np.quantile(values, [0.025, 0.975]), values.std()


def test_a_hand_computed_condition():
    # m = 2, 5; s = 1, sqrt(2) over two runs; CV = (1 + sqrt 2) / 2 / 3.5
    found = summary([[1.0, 2.0, 3.0], [4.0, 6.0, NAN]])
    assert (found.mean.value, found.n, found.n_runs) == (3.5, 2, 5)
    assert found.run_std.value == pytest.approx((1 + math.sqrt(2)) / 2)
    assert found.question_std == pytest.approx(math.sqrt(4.5))
    assert found.cv.value == pytest.approx((1 + math.sqrt(2)) / 7)


def test_means_and_deviations_are_numpys():
    scores = study(30, 4)
    assert question_means(scores) == pytest.approx(scores.mean(axis=1))
    assert run_deviations(scores) == pytest.approx(scores.std(axis=1, ddof=1))


def test_one_run_has_a_mean_but_no_deviation():
    found = summary([[0.5], [0.7]])
    assert found.mean.value == pytest.approx(0.6)
    assert found.run_std == found.cv == NOTHING
    mixed = summary([[0.5, NAN], [0.7, 0.9]])
    assert (mixed.run_std.n, mixed.mean.n) == (1, 2)
    assert mixed.run_std.value == pytest.approx(math.sqrt(0.02))


def test_a_condition_without_a_score_has_no_number():
    found = summary(np.full((3, 2), NAN))
    assert found.mean == found.run_std == found.cv == NOTHING
    assert (found.question_std, found.n, found.n_runs) == (None, 0, 0)


def test_a_mean_of_zero_has_no_cv():
    assert summary([[0.0, 0.0], [0.0, 0.0]]).cv.value is None


@pytest.mark.parametrize("part", ["mean", "run_std", "cv"])
def test_intervals_agree_with_brute_force_resampling_of_whole_questions(part):
    scores = study(50)
    statistic = {
        "mean": lambda x: x.mean(),
        "run_std": lambda x: x.std(axis=1, ddof=1).mean(),
        "cv": lambda x: x.std(axis=1, ddof=1).mean() / x.mean(),
    }[part]
    (low, high), spread = brute(scores, statistic)
    found = getattr(summary(scores), part)
    assert found.value == pytest.approx(statistic(scores))
    assert (found.ci_low, found.ci_high) == pytest.approx((low, high), abs=0.2 * spread)
    assert found.stderr == pytest.approx(spread, rel=0.06)


def test_a_condition_does_not_depend_on_the_others():
    first, second = study(seed=1), study(seed=2)
    second[3] = NAN
    together = summaries(np.stack([first, second]), resamples=500)
    assert together[1].mean.ci_low == pytest.approx(summary(second, resamples=500).mean.ci_low)
    assert together[0].cv.ci_high == pytest.approx(summary(first, resamples=500).cv.ci_high)


def test_whole_weights_are_copies_of_questions():
    scores, weights = study(12), np.array([1, 2, 3] * 4)
    copies = np.repeat(scores, weights, axis=0)
    weighted, plain = summary(scores, weights=weights), summary(copies)
    assert weighted.mean.value == pytest.approx(plain.mean.value)
    assert weighted.cv.value == pytest.approx(plain.cv.value)
    scale = math.sqrt(12 / 11 * 23 / 24)  # ddof 1 counts questions, of which there are 12, not 24
    assert weighted.question_std == pytest.approx(plain.question_std * scale)


def test_a_weighted_mean_has_the_interval_of_its_ratio_estimator():
    values, weights = study(60).mean(axis=1), np.linspace(0.5, 1.5, 60)
    [found] = mean_intervals(values[:, None], weights=weights)
    table = np.stack([values, weights], axis=1)
    (low, high), spread = brute(table, lambda x: x[:, 0] @ x[:, 1] / x[:, 1].sum())
    assert (found.ci_low, found.ci_high) == pytest.approx((low, high), abs=0.2 * spread)
    assert found.stderr == pytest.approx(spread, rel=0.1)


def test_equal_weights_of_any_size_change_nothing():
    values = study(20).mean(axis=1)[:, None]
    plain, weighted = mean_intervals(values), mean_intervals(values, weights=np.full(20, 0.3))
    assert vars(weighted[0]) == pytest.approx(vars(plain[0]))
    assert resampled_means(values, resamples=7).shape == (7, 1)


@pytest.mark.parametrize("weights", [[1.0, 0.0], [1.0, -1.0], [1.0, NAN], [1.0]])
def test_a_weight_that_is_not_positive_is_refused(weights):
    with pytest.raises(ValueError, match="weights"):
        mean_intervals([[1.0], [2.0]], weights=weights)


def test_baseline_cv_is_the_mean_cv_over_temperatures():
    scores = np.stack([study(seed=s) * (1 - 0.1 * s) for s in range(3)])
    expected = [x.std(axis=1, ddof=1).mean() / x.mean() for x in scores]
    found = baseline_cv(scores)
    assert found.value == pytest.approx(np.mean(expected))
    assert found.ci_low < found.value < found.ci_high
    gap = np.concatenate([scores, np.full((1, 40, 3), NAN)])
    assert baseline_cv(gap).value == pytest.approx(found.value)
    assert baseline_cv(np.full((2, 4, 3), NAN)).value is None


def test_area_is_numpys_trapezoid_over_the_range():
    scores, at = np.stack([study(seed=s) - 0.1 * s for s in range(4)]), [0.0, 0.2, 1.0, 2.0]
    found = area_under_curve(at, scores)
    heights = scores.mean(axis=(1, 2))
    by_hand = sum((heights[i] + heights[i + 1]) / 2 * (at[i + 1] - at[i]) for i in range(3)) / 2
    assert found.value == pytest.approx(by_hand)
    curves = np.moveaxis(scores.mean(axis=2), 0, 1)
    areas = ((curves[:, 1:] + curves[:, :-1]) / 2 * np.diff(at)).sum(axis=1) / 2
    [expected] = mean_intervals(areas[:, None])
    assert (found.ci_low, found.ci_high) == pytest.approx((expected.ci_low, expected.ci_high))


def test_a_flat_curve_has_its_height_and_one_point_too():
    assert area_under_curve([0.0, 0.3, 2.0], np.full((3, 5, 2), 0.7)).value == pytest.approx(0.7)
    assert area_under_curve([0.4], np.full((1, 5, 2), 0.7)).value == pytest.approx(0.7)


def test_a_curve_with_an_unknown_height_has_no_area():
    scores = np.full((3, 5, 2), 0.7)
    scores[1] = NAN
    assert area_under_curve([0.0, 1.0, 2.0], scores).value is None


@pytest.mark.parametrize("at", [[0.0, 0.0], [1.0, 0.5], [0.0]])
def test_temperatures_that_do_not_rise_or_fit_are_refused(at):
    with pytest.raises(ValueError, match="temperatures"):
        area_under_curve(at, np.zeros((2, 3, 1)))


def test_another_shape_is_refused():
    with pytest.raises(ValueError, match="shape"):
        summary([1.0, 2.0])
