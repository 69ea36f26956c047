"""The truth table is written by hand from arXiv:2602.10816, section 4.3 and appendix D.1."""

import math

import pytest

from tcb_bench.metrics.robustness import CASES, CONSISTENT_CASES, conflict_case

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
