"""Tables of noise-free studies, whose right answers are known by construction."""

import math

import numpy as np
import pytest
from study_grids import CONTEXTS, TEMPERATURES, exact, grid, row_of, rows_of, simulated, truth

from tcb_bench.errors import UnknownName, UsageError
from tcb_bench.metrics.statistics import mean_intervals
from tcb_bench.metrics.variability import summary
from tcb_bench.report.analysis import analyse
from tcb_bench.report.analysis_ceiling import ceiling_table
from tcb_bench.report.analysis_cells import FLAT, Settings, by_model, pooled_intervals
from tcb_bench.report.analysis_onset import onset_table
from tcb_bench.report.analysis_summary import baseline_table, flat_summaries, summary_table
from tcb_bench.report.table import cell

QUICK = Settings(resamples=400)
FALL = {(0.6, None): 0.005, (1.4, None): -0.02, (2.0, None): -0.05}


def noisy(effects=None, seed=0, questions=30):
    return simulated(np.random.default_rng(seed), truth(effects), questions)


def test_the_summary_has_each_condition_with_the_numbers_of_the_metric():
    scores = noisy()
    table = summary_table([grid(scores)], QUICK)
    assert len(table.rows) == len(TEMPERATURES) * len(CONTEXTS)
    row = row_of(table, temperature=1.4, context="ner")
    alone = summary(scores[2, 3], resamples=400)
    assert (row["mean"], row["mean_low"]) == pytest.approx((alone.mean.value, alone.mean.ci_low))
    assert (row["cv"], row["n"], row["n_runs"]) == (pytest.approx(alone.cv.value), 30, 90)


def test_a_missing_condition_stays_as_a_row_without_numbers_in_every_table():
    scores = noisy()
    scores[3, 1] = math.nan
    at = {"temperature": 2.0, "context": "replace_half"}
    tables = {
        t.name: t for t in analyse([grid({"bertscore_f1": scores, "acc": scores})], resamples=50)
    }
    for name, value in {
        "summary": "mean",
        "context_vs_original": "difference",
        "interaction": "contrast",
        "right_despite": "both",
        "largest_gaps": "gap",
    }.items():
        row = row_of(tables[name], **at)
        assert row[value] is None, name
        assert row["n"] == 0, name
        assert row["reason"], name
    assert "contexts missing at T = 2" in tables["ceiling"].rows[0]["reason"]
    assert row_of(tables["onset"], context="replace_half")["n"] == 30


def test_an_onset_below_missing_temperatures_says_so():
    scores = noisy(FALL)
    scores[1] = math.nan
    row = row_of(onset_table([grid(scores)], QUICK), context="original")
    assert (row["onset"], row["last_level"]) == (1.4, 0.0)
    assert row["reason"] == "temperatures without a score: 1"


def test_a_model_that_ignores_temperature_has_a_flat_line_and_no_onset():
    scores = noisy(FALL)  # whatever the numbers say
    flat = grid(scores, temperature_effective=False)
    tables = {t.name: t for t in analyse([flat], resamples=50)}
    for name, value in {"onset": "onset", "ceiling": "ceiling", "recommend": "recommended"}.items():
        for row in tables[name].rows:
            assert row[value] is None
            assert FLAT in row["reason"]
    assert [row["reason"] for row in tables["interaction"].rows] == [FLAT]
    [pooled] = rows_of(tables["summary"], temperature=None, context="ner")
    whole = np.moveaxis(scores[:, 3], 0, 1).reshape(30, -1)
    assert pooled["mean"] == pytest.approx(whole.mean())
    assert pooled["run_std"] == pytest.approx(whole.std(axis=1, ddof=1).mean())
    assert flat_summaries(flat, QUICK)["ner"].n_runs == 30 * 12


def test_baselines_by_hand():
    scores = noisy(FALL)
    row = baseline_table([grid(scores)], QUICK).rows[0]
    original = scores[:, 0]
    cvs = [x.std(axis=1, ddof=1).mean() / x.mean() for x in original]
    assert row["baseline_cv"] == pytest.approx(np.mean(cvs))
    heights = original.mean(axis=(1, 2))
    area = sum((heights[i] + heights[i + 1]) / 2 * w for i, w in enumerate((0.6, 0.8, 0.6)))
    assert row["level"] == pytest.approx(area / 2)
    none = grid(scores, contexts=("a", "b", "c", "d"))
    assert baseline_table([none], QUICK).rows[0]["reason"] == "no original context"


# Onset


def test_the_onset_is_the_first_of_the_temperatures_that_stay_below():
    effects = FALL | {(0.6, "ner"): -0.02}
    table = onset_table([grid(noisy(effects))], QUICK)
    found = {row["context"]: (row["onset"], row["last_level"]) for row in table.rows}
    assert found["original"] == found["replace_half"] == (1.4, 0.6)
    assert found["ner"] == (0.6, 0.0)


def test_the_drop_is_that_at_the_onset():
    scores = noisy(FALL)
    row = row_of(onset_table([grid(scores)], QUICK), context="original")
    means = scores.mean(axis=3)
    assert row["drop"] == pytest.approx((means[2, 0] - means[0, 0]).mean())
    assert row["drop_low"] < row["drop"] < row["drop_high"] < 0


def test_a_context_that_recovers_has_no_onset():
    table = onset_table([grid(noisy({(1.4, None): -0.05}, seed=2))], QUICK)
    assert [row["onset"] for row in table.rows] == [None] * 4
    assert table.rows[0]["reason"] == "not below at T = 2"


def test_one_temperature_has_no_onset_and_says_why():
    table = onset_table([grid(noisy()[:1])], QUICK)
    assert {row["reason"] for row in table.rows} == {"no temperature to compare with the lowest"}


# Ceiling


@pytest.mark.parametrize(
    ("effects", "margin", "expected"),
    [
        ({}, 0.01, 2.0),
        (FALL, 0.01, 0.6),
        (FALL, 0.03, 1.4),
        ({(0.6, None): -0.02}, 0.01, 0.0),  # a dip ends the search: every lower T must hold
        ({(2.0, "ner"): -0.03}, 0.01, 1.4),  # over 4 contexts 0.0075, with noise not shown
    ],
)
def test_the_ceiling_follows_the_rule(effects, margin, expected):
    scores = noisy(effects, seed=3)
    row = ceiling_table([grid(scores)], Settings(margin=margin, resamples=400)).rows[0]
    means = scores.mean(axis=(1, 3))  # (T, Q)
    [*_, limits] = [mean_intervals((means - means[0]).T, level=0.9, resamples=400)]
    holds = [True, *[limit.ci_low > -margin for limit in limits[1:]]]
    by_rule = TEMPERATURES[(holds.index(False) if False in holds else 4) - 1]
    assert row["ceiling"] == by_rule
    if (2.0, "ner") not in effects:
        assert by_rule == expected


def test_all_types_together_weigh_alike():
    first, second = exact(truth(FALL), questions=5), exact(truth(), questions=20)
    pair = [grid(first), grid(second, question_type="comparison")]
    row = row_of(ceiling_table(pair, Settings(margin=0.012, resamples=50)), question_type="all")
    assert (row["ceiling"], row["change"]) == (1.4, pytest.approx(-0.01))
    assert (row["fails"], row["fails_change"]) == (2.0, pytest.approx(-0.025))


def test_pooled_intervals_agree_with_brute_force_resampling_within_types():
    rng = np.random.default_rng(0)
    a, b = rng.normal(0, 1, (20, 1)), rng.normal(1, 3, (40, 1))
    [found] = pooled_intervals(
        [(a, np.ones(20)), (b, np.ones(40))], resamples=10_000, level=0.95, seed=0
    )
    draws = [
        (a[rng.integers(0, 20, 20)].mean() + b[rng.integers(0, 40, 40)].mean()) / 2
        for _ in range(10_000)
    ]
    limits = np.quantile(draws, [0.025, 0.975])
    assert found.value == pytest.approx((a.mean() + b.mean()) / 2)
    assert (found.ci_low, found.ci_high) == pytest.approx(limits, abs=0.15 * np.std(draws))


# All together


def test_the_tables_come_in_reading_order_with_one_name_each():
    pair = [grid(noisy()), grid(noisy(seed=1), question_type="comparison")]
    names = [table.name for table in analyse(pair, resamples=50)]
    assert names[:3] == ["recommend", "ceiling", "onset"]
    assert len(set(names)) == len(names)
    assert not {"model_ranks", "right_despite", "smallest_subsets"} & set(names)


def test_every_shown_cell_can_be_read_and_every_row_says_whose_it_is():
    grids = [grid(noisy(seed=s), model=m) for s, m in enumerate("ab")]
    for table in analyse(grids, resamples=50):
        assert table.rows, table.name
        for column in table.columns:
            assert all(cell(row.get(column.key), column.digits) for row in table.rows)
        assert "{" not in table.note


def test_the_same_seed_gives_the_same_tables_and_another_does_not():
    first, again, other = (analyse([grid(noisy())], seed=s, resamples=60) for s in (1, 1, 2))
    assert [t.rows for t in first] == [t.rows for t in again]
    assert [t.rows for t in first] != [t.rows for t in other]


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"metric": "bertscore"}, UnknownName),
        ({"margin": 0.0}, UsageError),
        ({"resamples": 0}, UsageError),
    ],
)
def test_wrong_options_are_refused(options, error):
    with pytest.raises(error):
        analyse([grid(noisy())], **options)


def test_grids_of_a_model_stay_together_in_the_order_given():
    grids = [grid(noisy(), model=m, question_type=q) for m, q in ("bx", "ax", "by", "ay")]
    assert [[g.question_type for g in same] for same in by_model(grids)] == [["x", "y"]] * 2
    assert [same[0].model for same in by_model(grids)] == ["b", "a"]
    with pytest.raises(UsageError, match="no run"):
        analyse([])
