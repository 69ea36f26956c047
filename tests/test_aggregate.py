"""Aggregates over sample rows. Oracles: numpy by hand on the same numbers."""

import math

import numpy as np
import pytest

from tcb_bench.aggregate import accuracy_macro, aggregate, as_record, flatten
from tcb_bench.metrics.statistics import Interval


def document(*rows):
    return {"rows": rows}


def row(acc=1.0, state="scored", **stability):
    return {"acc": acc, "state": state, "stability": stability}


DOCUMENTS = [
    document(row(1.0, delta_tcb=2.0, log10_delta_tcb=math.log10(2), h_norm=4.0, flip_radius=1.0)),
    document(row(0.0, delta_tcb=None, log10_delta_tcb=400.0, h_norm=4.0, flip_radius=0.0)),
    document(
        row(
            0.0,
            "truncated",
            delta_tcb=8.0,
            log10_delta_tcb=math.log10(8),
            h_norm=2.0,
            flip_radius=3.0,
        )
    ),
    document(row(None, "error")),
]


def test_an_error_is_in_no_mean_and_completed_leaves_truncated_texts_out():
    everything = aggregate(DOCUMENTS, completed=False, seed=0)["acc"]
    completed = aggregate(DOCUMENTS, completed=True, seed=0)["acc"]
    assert (everything.value, everything.n) == (pytest.approx(1 / 3), 3)
    assert (completed.value, completed.n) == (0.5, 2)


def test_the_mean_of_log10_uses_deltas_own_logarithm_and_leaves_a_radius_of_0_out():
    found = aggregate(DOCUMENTS, completed=False, seed=0)
    logs = [math.log10(2), 400.0, math.log10(8)]
    assert found["log10_delta_tcb_mean"].value == pytest.approx(np.mean(logs))
    relative = [logs[0] - math.log10(4), 400.0 - math.log10(4), logs[2] - math.log10(2)]
    assert found["log10_relative_delta_mean"].value == pytest.approx(np.mean(relative))
    assert found["log10_flip_radius_mean"].n == 2
    assert found["flip_radius_median"].value == 1.0
    assert (found["delta_tcb_median"].value, found["delta_tcb_median"].n) == (8.0, 3)  # 2, 8, +inf


def test_a_document_counts_once_with_the_mean_of_its_repeats():
    documents = [document(row(1.0, v_eff=1.0), row(0.0, v_eff=3.0)), document(row(1.0, v_eff=9.0))]
    found = aggregate(documents, completed=False, seed=0)
    assert (found["acc"].value, found["acc"].n) == (0.75, 2)
    assert found["v_eff_mean"].value == pytest.approx(5.5)


def test_macro_weighs_subjects_alike_and_its_error_is_over_questions():
    big = [document(row(float(i % 2))) for i in range(100)]
    small = [document(row(1.0)), document(row(0.0)), document(row(1.0)), document(row(1.0))]
    macro = accuracy_macro([big, small], completed=False, seed=0)
    assert macro.value == pytest.approx((0.5 + 0.75) / 2)
    errors = [np.std([0, 1] * 50, ddof=1) / 10, np.std([1, 0, 1, 1], ddof=1) / 2]
    assert macro.stderr == pytest.approx(np.hypot(*errors) / 2)


def test_keys_are_lm_evals_and_nothing_is_a_text():
    flat = flatten({"acc": Interval(0.5, 0.1, 0.9, None, 3)}, "none")
    assert flat == {
        "acc,none": 0.5,
        "acc_stderr,none": None,
        "acc_ci_low,none": 0.1,
        "acc_ci_high,none": 0.9,
        "acc_n,none": 3,
    }


def test_what_is_not_finite_is_null_in_a_record():
    assert as_record(Interval(math.inf, 1.0, math.inf, math.nan, 3)) == {
        "value": None,
        "ci_low": 1.0,
        "ci_high": None,
        "stderr": None,
        "n": 3,
    }


def test_acc_always_stands_also_without_any_value():
    found = aggregate([document(row(None, "error"))], completed=False, seed=0)
    assert found == {"acc": Interval(None, None, None, None, 0)}


def test_one_huge_repeat_does_not_decide_a_median():
    documents = [
        document(*(row(delta_tcb=d, log10_delta_tcb=math.log10(d)) for d in (1.0, 2.0, 1e30)))
    ]
    assert aggregate(documents, completed=False, seed=0)["delta_tcb_median"].value == 2.0
