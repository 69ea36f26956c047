"""Expected values: scipy.stats.mannwhitneyu, on the data and on resamples drawn by hand."""

import numpy as np
import pytest
from scipy import stats

from tcb_bench.metrics.association import auroc
from tcb_bench.metrics.paired_auroc import paired_aurocs


def data(n=80, seed=0):
    rng = np.random.default_rng(seed)
    event = rng.random(n) < 0.4
    good = np.round(event + rng.normal(size=n), 1)  # with ties
    return np.column_stack([good, good + rng.normal(size=n), rng.normal(size=n)]), event


def area(score, event):
    u = stats.mannwhitneyu(score[event], score[~event]).statistic
    return u / (event.sum() * (~event).sum())


def test_areas_are_mann_whitneys_and_differences_those_of_the_areas():
    scores, event = data()
    found = paired_aurocs(scores, event)
    areas = [area(column, event) for column in scores.T]
    assert [i.value for i in found.areas] == pytest.approx(areas)
    assert [i.value for i in found.differences] == pytest.approx(np.subtract(areas, areas[0]))
    assert (found.n, found.n_events) == (80, event.sum())


def test_intervals_of_areas_are_those_of_the_single_auroc():
    scores, event = data()
    found = paired_aurocs(scores, event, seed=3).areas[1]
    single = auroc(scores[:, 1], event, seed=3)
    assert (found.ci_low, found.ci_high) == pytest.approx((single.ci_low, single.ci_high))


def test_the_interval_of_a_difference_is_of_paired_resamples():
    scores, event = data()
    rng = np.random.default_rng(1)
    rows = rng.integers(0, len(event), size=(800, len(event)))
    draws = np.array([area(scores[r, 1], event[r]) - area(scores[r, 0], event[r]) for r in rows])
    found = paired_aurocs(scores, event, resamples=10_000).differences[1]
    limits = np.quantile(draws, [0.025, 0.975])
    assert (found.ci_low, found.ci_high) == pytest.approx(limits, abs=0.25 * draws.std())
    assert paired_aurocs(scores, event).differences[0].ci_high == 0.0  # of itself


def test_rows_that_lack_one_score_are_left_out_for_all():
    scores, event = data()
    gappy = np.vstack([scores, [np.nan, 5.0, 5.0]])
    assert paired_aurocs(gappy, [*event, True]) == paired_aurocs(scores, event)


def test_an_infinite_length_is_the_largest():
    assert paired_aurocs([[1.0], [2.0], [np.inf]], [0, 0, 1]).areas[0].value == 1.0


def test_one_kind_only_has_no_area():
    found = paired_aurocs([[1.0], [2.0]], [1, 1])
    assert found.areas[0].value is None and found.differences[0].value is None


@pytest.mark.parametrize("shape", [(3,), (4, 1), (3, 0)])
def test_shapes_that_do_not_fit_are_refused(shape):
    with pytest.raises(ValueError, match="expected scores"):
        paired_aurocs(np.ones(shape), [0, 1, 1])
