"""The truth table is written by hand from arXiv:2602.10816, section 4.3 and appendix D.1.

Oracles of accuracy under perturbation: hand computation, and brute-force resamples of questions.
"""

import math

import numpy as np
import pytest

from tcb_bench.metrics.robustness import (
    CASES,
    CONSISTENT_CASES,
    accuracy_variance,
    conflict_case,
    robustness,
    robustness_differences,
    worst_accuracy,
)

# correct, p_top1, stability -> label of accuracy, label of confidence; stable at 0.1
TRUTH = [
    (True, 0.9, 0.05, "accurate_but_unstable", "confident_but_unstable"),
    (True, 0.9, 0.20, "consistent_accurate_stable", "consistent_confident_stable"),
    (True, 0.3, 0.05, "accurate_but_unstable", "consistent_uncertain_unstable"),
    (True, 0.3, 0.20, "consistent_accurate_stable", "uncertain_but_stable"),
    (False, 0.9, 0.05, "consistent_inaccurate_unstable", "confident_but_unstable"),
    (False, 0.9, 0.20, "inaccurate_but_stable", "consistent_confident_stable"),
    (False, 0.3, 0.05, "consistent_inaccurate_unstable", "consistent_uncertain_unstable"),
    (False, 0.3, 0.20, "inaccurate_but_stable", "uncertain_but_stable"),
    (None, 0.9, 0.05, None, "confident_but_unstable"),
    (True, None, 0.05, "accurate_but_unstable", None),
    (None, None, 0.05, None, None),
    (True, 0.9, None, None, None),
]


@pytest.mark.parametrize(("correct", "p_top1", "stability", "accuracy", "confidence"), TRUTH)
def test_the_labels_follow_the_truth_table(correct, p_top1, stability, accuracy, confidence):
    case = conflict_case(correct=correct, p_top1=p_top1, stability=stability, stable_at=0.1)
    assert case == (accuracy, confidence)


def test_the_truth_table_holds_every_published_label():
    seen = {label for row in TRUTH for label in row[3:]} - {None}
    assert seen == set(CASES) | set(CONSISTENT_CASES)
    assert len(CASES) == len(CONSISTENT_CASES) == 4


def test_both_thresholds_are_inclusive():
    case = conflict_case(correct=True, p_top1=0.7, stability=0.1, stable_at=0.1, confident_at=0.7)
    assert case == ("consistent_accurate_stable", "consistent_confident_stable")
    below = conflict_case(
        correct=True,
        p_top1=math.nextafter(0.7, 0),
        stability=math.nextafter(0.1, 0),
        stable_at=0.1,
        confident_at=0.7,
    )
    assert below == ("accurate_but_unstable", "consistent_uncertain_unstable")


def test_confidence_is_judged_at_one_half_by_default():
    case = conflict_case(correct=None, p_top1=0.5, stability=1.0, stable_at=0.1)
    assert case.confidence == "consistent_confident_stable"


@pytest.mark.parametrize(
    ("stability", "accuracy"),
    [(math.inf, "inaccurate_but_stable"), (0.0, "consistent_inaccurate_unstable")],
)
def test_an_infinite_stability_is_stable_and_zero_is_a_value(stability, accuracy):
    case = conflict_case(correct=False, p_top1=0.9, stability=stability, stable_at=0.1)
    assert case.accuracy == accuracy


def test_the_papers_stably_wrong_intervention_is_a_conflict_of_accuracy_only():
    # Table 5, row 7: accuracy 0, v_eff 1.00, delta about 49,450; row 1 has delta 8.20.
    case = conflict_case(correct=False, p_top1=1.0, stability=49_450, stable_at=8.20)
    assert case == ("inaccurate_but_stable", "consistent_confident_stable")


@pytest.mark.parametrize(
    "arguments",
    [{"p_top1": 1.5}, {"p_top1": -0.1}, {"p_top1": math.nan}, {"stability": math.nan}]
    + [{"stable_at": math.nan}, {"confident_at": math.nan}],
    ids=str,
)
def test_what_is_no_probability_or_no_number_is_refused(arguments):
    good = {"correct": True, "p_top1": 0.5, "stability": 1.0, "stable_at": 0.1}
    with pytest.raises(ValueError, match=next(iter(arguments))):
        conflict_case(**good | arguments)


NAN = math.nan
ORIGINAL = [1, 1, 0, 1, NAN]
VARIANTS = [[1, 1, 0, 0], [1, 1, 1, NAN], [0, 1, 0, 0], [NAN] * 4, [1, 1, 1, 1]]
# By hand. Question means: 1/2, 1, 1/4, none, 1. Variances: 1/4, 0, 3/16, none, 0.
# Right under every variant: no, yes, no, none, yes. Both accuracies are known of questions 1 to 3:
# Acc_orig = 2/3, Acc_pert = (1/2 + 1 + 1/4) / 3 = 7/12, PDR = 1 - (7/12) / (2/3) = 1/8.
BY_HAND = {
    "accuracy": (3 / 4, 4),
    "perturbed": (11 / 16, 4),
    "variance": (7 / 64, 4),
    "drop": (1 / 8, 3),
    "worst": (1 / 2, 4),
}


def test_accuracy_under_perturbation_is_what_the_hand_computes():
    found = robustness(ORIGINAL, VARIANTS)._asdict()
    for name, (value, n) in BY_HAND.items():
        assert (found[name].value, found[name].n) == (pytest.approx(value), n), name
        assert found[name].ci_low <= value <= found[name].ci_high
    assert accuracy_variance(VARIANTS)[:3] == pytest.approx([1 / 4, 0, 3 / 16])
    assert np.isnan(accuracy_variance(VARIANTS)[3]) and np.isnan(worst_accuracy(VARIANTS)[3])


def test_the_drop_has_no_value_where_nothing_was_right_and_is_negative_where_it_helps():
    nothing = robustness([0, 0], [[0, 1], [1, 1]])
    assert nothing.drop.value is None and nothing.drop.n == 2
    assert nothing.worst.value == 0.5
    assert robustness([1, 0], [[1, 1], [1, 0]]).drop.value == pytest.approx(-0.5)


def test_no_questions_is_no_value_and_no_error():
    assert {i.value for i in robustness([], np.empty((0, 3)))} == {None}
    assert {i.value for i in robustness([1.0], np.empty((1, 0)))[1:]} == {None}


def brute_force(sides, resamples, seed):
    """Differences of the statistics, recomputed for every drawn set of questions."""
    rng = np.random.default_rng(seed)
    n = len(sides[0][0])
    draws = []
    for _ in range(resamples):
        rows = rng.integers(0, n, n)
        values = []
        for original, variants in sides:
            a, v = original[rows], variants[rows]
            drop = (a.mean() - v.mean()) / a.mean()
            values.append([a.mean(), v.mean(), v.var(axis=1).mean(), drop, v.all(axis=1).mean()])
        draws.append(np.subtract(values[1], values[0]))
    return np.quantile(draws, [0.025, 0.975], axis=0)


def test_paired_intervals_agree_with_brute_force_resamples():
    rng = np.random.default_rng(5)
    n, hard = 80, np.linspace(0.2, 0.95, 80)
    sides = []
    for shift in (0.0, 0.1):
        p = np.clip(hard - shift, 0, 1)
        variants = (rng.random((n, 4)) < p[:, None]).astype(float)
        sides.append(((rng.random(n) < hard).astype(float), variants))
    found = robustness_differences(*sides, resamples=4000, seed=1)
    low, high = brute_force(sides, 4000, seed=2)
    width = high - low
    singles = [robustness(*side) for side in sides]
    for i, (name, interval) in enumerate(found._asdict().items()):
        plain = getattr(singles[1], name).value - getattr(singles[0], name).value
        assert interval.value == pytest.approx(plain), name
        assert abs(interval.ci_low - low[i]) < 0.15 * width[i], name
        assert abs(interval.ci_high - high[i]) < 0.15 * width[i], name


def test_a_prompt_does_not_differ_from_itself():
    for interval in robustness_differences((ORIGINAL, VARIANTS), (ORIGINAL, VARIANTS)):
        assert (interval.value, interval.ci_low, interval.ci_high) == (0.0, 0.0, 0.0)


@pytest.mark.parametrize(
    "arguments",
    [([1], [[1], [0]]), ([1, 2], [[1], [0]]), ([1], [1]), ([[1]], [[1]]), ([1], [[-0.5]])],
    ids=str,
)
def test_tables_that_do_not_fit_are_refused(arguments):
    with pytest.raises(ValueError, match="expected|accuracies"):
        robustness(*arguments)
    with pytest.raises(ValueError, match="expected|accuracies"):
        robustness_differences(([1, 0], [[1], [0]]), arguments)
