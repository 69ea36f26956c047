"""The rule applied by hand to noise-free and noisy studies; limits from mean_intervals."""

import math

import numpy as np
import pytest
from study_grids import CONTEXTS, TEMPERATURES, exact, grid, row_of, rows_of, simulated, truth

from tcb_bench.errors import UnknownName, UsageError
from tcb_bench.metrics.statistics import mean_intervals
from tcb_bench.report.recommend import recommend

FEW_SAID = "fewer than 20 questions: no advice"

FALL = {(0.6, None): 0.004, (1.4, None): -0.004, (2.0, None): -0.03}


def test_the_highest_temperature_within_the_margin_of_the_best():
    # levels +0, +0.004 (best), -0.004, -0.03: 1.4 is 0.008 below the best
    table = recommend([grid(exact(truth(FALL)))])
    for context in CONTEXTS:
        row = row_of(table, context=context)
        assert (row["recommended"], row["best"], row["n"]) == (1.4, 0.6, 12)
        assert row["difference"] == pytest.approx(-0.008)
        assert row["best_score"] - row["score"] == pytest.approx(0.008)


@pytest.mark.parametrize(("margin", "expected"), [(0.005, 0.6), (0.0081, 1.4), (0.05, 2.0)])
def test_the_margin_decides(margin, expected):
    table = recommend([grid(exact(truth(FALL)))], margin=margin)
    assert {row["recommended"] for row in table.rows} == {expected}


def test_contexts_are_judged_apart():
    effects = {(2.0, None): -0.05, (1.4, "ner"): -0.02}
    table = recommend([grid(exact(truth(effects)))])
    assert row_of(table, context="original")["recommended"] == 1.4
    assert row_of(table, context="ner")["recommended"] == 0.6


def test_noise_counts_against_a_temperature_by_the_lower_limit():
    scores = simulated(np.random.default_rng(0), truth({(2.0, None): -0.007}), questions=40)
    row = row_of(recommend([grid(scores)]), context="original")
    m = scores[:, 0].mean(axis=2)
    best = int(m.mean(axis=1).argmax())
    limits = [i.ci_low for i in mean_intervals((m - m[best]).T, level=0.9)]
    by_rule = max(t for t in range(4) if t == best or limits[t] > -0.01)
    assert row["recommended"] == TEMPERATURES[by_rule]
    assert row["limit"] == pytest.approx(limits[by_rule])


def test_a_lower_temperature_that_fails_is_named():
    table = recommend([grid(exact(truth({(0.6, None): -0.05})))])
    assert {row["recommended"] for row in table.rows} == {2.0}
    assert {row["reason"] for row in table.rows} == {
        f"worse, or not shown not to be, at T = 0.6; {FEW_SAID}"
    }


def test_a_model_that_ignores_temperature_is_told_so():
    scores = exact(truth(FALL))
    table = recommend([grid(scores, temperature_effective="false")])
    row = row_of(table, context="original")
    assert row["recommended"] is None
    assert row["reason"] == "the model ignores temperature: any will do"
    assert row["score"] == pytest.approx(scores[:, 0].mean())


def test_types_stand_together_and_apart():
    first, second = exact(truth({(2.0, None): -0.03}), 6), exact(truth(), 20)
    table = recommend([grid(first), grid(second, question_type="comparison")], margin=0.02)
    found = {
        row["question_type"]: (row["recommended"], row["n"])
        for row in rows_of(table, context="original")
    }
    assert found == {"all": (2.0, 26), "bridge": (1.4, 6), "comparison": (2.0, 20)}


def test_missing_conditions_are_said():
    scores = exact(truth())
    scores[3, 1] = math.nan
    scores[:, 2] = math.nan
    table = recommend([grid(scores)])
    partly, none = row_of(table, context="replace_half"), row_of(table, context="remove_half")
    assert (partly["recommended"], partly["reason"]) == (
        1.4,
        f"temperatures without a score: 1; {FEW_SAID}",
    )
    assert (none["recommended"], none["n"], none["reason"]) == (None, 0, "no score in this context")


def test_one_question_recommends_only_its_best():
    scores = exact(truth({(2.0, None): -0.001}), questions=1)
    assert row_of(recommend([grid(scores)]), context="ner")["recommended"] == 0.0


def test_wrong_options_are_refused():
    with pytest.raises(UnknownName, match="rouge9"):
        recommend([grid(exact(truth()))], metric="rouge9")
    with pytest.raises(UsageError, match="margin"):
        recommend([grid(exact(truth()))], margin=-1)
