"""Contexts, interaction, types, shares, ranks: studies whose right answers are known."""

import math

import numpy as np
import pytest
from study_grids import CONTEXTS, TEMPERATURES, exact, grid, row_of, rows_of, simulated, truth

from tcb_bench.metrics.paired import holm, sign_flip_p
from tcb_bench.report.analysis_cells import Settings
from tcb_bench.report.analysis_contexts import contexts_table
from tcb_bench.report.analysis_crossings import crossings_table
from tcb_bench.report.analysis_despite import despite_table
from tcb_bench.report.analysis_interaction import ANY, interaction_table
from tcb_bench.report.analysis_models import model_crossings_table, ranks_table
from tcb_bench.report.analysis_shares import shares_table
from tcb_bench.report.analysis_types import types_table

QUICK = Settings(resamples=1000)


def noisy(effects=None, seed=0, questions=40, runs=3):
    return simulated(np.random.default_rng(seed), truth(effects), questions, runs)


# Contexts against the original


def test_verdicts_name_what_was_put_in():
    effects = {(None, "ner"): -0.03, (2.0, "remove_half"): 0.03}
    table = contexts_table([grid(noisy(effects, questions=100))], QUICK)
    assert {row["verdict"] for row in rows_of(table, context="ner")} == {"worse"}
    assert row_of(table, context="remove_half", temperature=2.0)["verdict"] == "better"
    same = rows_of(table, context="replace_half")
    assert {row["verdict"] for row in same} == {"equivalent within 0.01"}


def test_p_is_corrected_over_all_contexts_and_temperatures():
    scores = noisy({(1.4, "ner"): -0.006})
    table = contexts_table([grid(scores)], QUICK)
    m = scores.mean(axis=3)
    columns = np.stack([m[t, c] - m[t, 0] for t in range(4) for c in (1, 2, 3)], axis=1)
    expected = holm(sign_flip_p(columns, resamples=1000))
    assert [row["p_holm"] for row in table.rows] == pytest.approx(expected)
    assert [row["difference"] for row in table.rows] == pytest.approx(columns.mean(axis=0))


def test_the_original_may_stand_anywhere():
    scores = noisy({(None, "ner"): -0.03})
    order = [3, 1, 0, 2]
    moved = grid(scores[:, order], contexts=[CONTEXTS[i] for i in order])
    for table in (contexts_table, interaction_table):
        plain = {
            (r["temperature"], r["context"]): r["n"] for r in table([grid(scores)], QUICK).rows
        }
        found = {(r["temperature"], r["context"]): r["n"] for r in table([moved], QUICK).rows}
        assert found == plain
    row = row_of(contexts_table([moved], QUICK), context="ner", temperature=0.0)
    assert row["difference"] == pytest.approx((scores[0, 3] - scores[0, 0]).mean())


# Interaction


def test_the_interaction_stands_where_it_was_put():
    table = interaction_table([grid(noisy({(2.0, "ner"): -0.03, (None, "ner"): -0.02}))], QUICK)
    standing = [(r["temperature"], r["context"]) for r in table.rows if r["stands"]]
    assert standing == [(None, ANY), (2.0, "ner")]
    assert row_of(table, temperature=2.0, context="ner")["contrast"] == pytest.approx(
        -0.03, abs=0.01
    )


# Types


def test_the_change_of_a_type_is_that_of_its_questions():
    first = exact(truth({(2.0, None): -0.04}), questions=8)
    second = exact(truth({(2.0, None): -0.01}), questions=15)
    table = types_table([grid(first), grid(second, question_type="comparison")], QUICK)
    row = row_of(table, temperature=2.0)
    assert (row["first"], row["second"]) == (pytest.approx(-0.04), pytest.approx(-0.01))
    assert row["difference"] == pytest.approx(-0.03)
    slope = row_of(table, temperature=None)
    assert slope["first"] == pytest.approx(np.polyfit(TEMPERATURES, [0, 0, 0, -0.04], 1)[0])
    assert (row["n_first"], row["n_second"]) == (8, 15)


def test_a_context_that_one_type_lacks_is_left_out_of_both():
    first, second = exact(truth({(2.0, "ner"): -0.4})), exact(truth())
    second[3, 3] = math.nan
    table = types_table([grid(first), grid(second, question_type="comparison")], QUICK)
    assert row_of(table, temperature=2.0)["difference"] == pytest.approx(0, abs=1e-12)
    assert row_of(table, temperature=None)["first"] == pytest.approx(0, abs=1e-12)


# Shares


def test_shares_name_the_factor_that_moves_the_scores():
    flat = np.full((1, 1, 6, 2), 0.8)
    temperature = truth({(1.4, None): -0.1, (2.0, None): -0.2})[:, :, None, None] + flat
    pair = [grid(temperature), grid(temperature, question_type="comparison")]
    table = shares_table(pair, QUICK)
    assert row_of(table, source="temperature")["share"] == pytest.approx(1)
    shifted = [grid(temperature), grid(temperature - 0.3, question_type="comparison")]
    assert row_of(shares_table(shifted, QUICK), source="question type")["share"] > 0.7


def test_a_missing_temperature_and_an_incomplete_question_are_left_out():
    scores = noisy()
    scores[3, 2] = math.nan
    scores[0, 0, 5, 1] = math.nan
    row = row_of(shares_table([grid(scores)], QUICK), source="run")
    assert (row["n"], row["n_left_out"]) == (39, 1)
    nothing = shares_table([grid(np.full_like(scores, math.nan))], QUICK)
    assert {row["share"] for row in nothing.rows} == {None}


# Crossings and ranks


def test_a_change_of_rank_between_perturbations_stands():
    effects = {(0.0, "ner"): -0.03, (2.0, "remove_half"): -0.03}
    table = crossings_table([grid(noisy(effects))], QUICK)
    row = row_of(table, a="remove_half", b="ner")
    assert (row["low"], row["high"], row["verdict"]) == (0.0, 2.0, "changes rank")
    assert row["low_difference"] == pytest.approx(0.03, abs=0.01)
    assert row["high_difference"] == pytest.approx(-0.03, abs=0.01)
    others = [r for r in table.rows if r is not row]
    assert "changes rank" not in {r["verdict"] for r in others}


def test_models_that_cross_change_rank_and_close_ones_share_a_range():
    steady = noisy()
    falls = truth({(1.4, None): -0.03, (2.0, None): -0.06})[:, :, None, None]
    wobble = np.where(np.arange(40) % 2, 0.004, -0.003)[:, None]  # of mean 0.0005
    models = {"gpt": noisy(seed=1) + 0.03 + falls, "steady": steady, "twin": steady + wobble}
    grids = [grid(scores, model=model) for model, scores in models.items()]
    table = ranks_table(grids, QUICK)
    assert row_of(table, model="gpt", temperature=0.0)["rank_range"] == "1"
    assert row_of(table, model="gpt", temperature=2.0)["rank_range"] == "3"
    ranges = {row_of(table, model=m, temperature=2.0)["rank_range"] for m in ("steady", "twin")}
    assert ranges == {"1-2"}
    crossed = model_crossings_table(grids, QUICK)
    assert row_of(crossed, a="gpt", b="steady")["verdict"] == "changes rank"
    assert row_of(crossed, a="steady", b="twin")["verdict"] != "changes rank"


def test_models_are_compared_on_the_questions_they_share():
    scores = exact(truth(), questions=12)
    first, second = grid(scores, model="a"), grid(scores[:, :, :7] - 0.01, model="b")
    row = row_of(ranks_table([first, second], QUICK), model="a", temperature=0.0)
    assert (row["n"], row["rank"]) == (7, 1)
    assert row["score"] == pytest.approx(scores[0, :, :7].mean())


def test_models_without_a_shared_question_have_no_rank():
    scores = exact(truth(), questions=5)
    grids = [grid(scores, model="a"), grid(scores, model="b", question_type="comparison")]
    assert {row["rank"] for row in ranks_table(grids, QUICK).rows} == {None}
    assert {row["n"] for row in model_crossings_table(grids, QUICK).rows} == {0}


# Right despite the perturbation


def test_shares_of_right_answers_by_hand():
    # original right: 1, 1, 0, 0; context right: 1, 0, 1/2, 0
    acc = np.zeros((1, 2, 4, 2))
    acc[0, 0, :2] = 1
    acc[0, 1] = [[1, 1], [0, 0], [1, 0], [0, 0]]
    row = despite_table([grid({"acc": acc})], QUICK).rows[0]
    assert (row["both"], row["kept"], row["gained"], row["n"]) == (0.25, 0.5, 0.25, 4)


def test_nothing_right_is_nothing_kept():
    row = despite_table([grid({"acc": np.zeros((1, 2, 5, 2))})], QUICK).rows[0]
    assert (row["both"], row["kept"], row["gained"]) == (0.0, None, 0.0)
    assert row["reason"] == "no answer is right under the original"
