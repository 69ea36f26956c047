"""Known answers: scipy on points made here; the whole study on hand-made answers and on SmolLM2."""

import json
import math
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

from tcb_bench.config import RunConfig, TaskOptions
from tcb_bench.load_tasks import Loaded
from tcb_bench.responses import Failure, NextToken
from tcb_bench.studies.correlations import study
from tcb_bench.studies.correlations_points import PAIRS, Regime, correlated
from tcb_bench.studies.correlations_tables import PAPER, verdict
from tcb_bench.studies.run_study import run_study
from tcb_bench.studies.session import Answer
from tcb_bench.studies.settings import read_settings

SETTINGS = read_settings("correlations", over={"resamples": 200})
LOW = "lvd_tcb"


def answer(i, stability, modification="none", state="scored"):
    if state != "scored":
        failed = {
            "state": state,
            "acc": None,
            "answer": None,
            "reason": "too long",
            "stability": {},
        }
        return Answer(f"{i}", {"modification": "m2"}, "p", Failure("too long", state), failed)
    known = {k: v if math.isfinite(v) else None for k, v in stability.items()}
    row = {"state": state, "reason": None, "stability": known, "greedy_token": "x"}
    doc = {"kind": "story", "source": "own", "modification": modification}
    return Answer(f"{i}", doc, "p", NextToken(stability, [], [], 1, "x", 3), row)


def quantities(delta, v_eff, margin, flip=None):
    log = math.log10(delta) if math.isfinite(delta) else 400.0
    return {
        **{"delta_tcb": delta, "log10_delta_tcb": log, "v_eff": v_eff, "logit_margin": margin},
        "flip_radius": delta / 8 if flip is None else flip,
    }


def session(answers, **settings):
    return SimpleNamespace(
        config=RunConfig(model="demo", tasks=(*answers, LOW)),
        settings={**SETTINGS, **settings},
        seed=0,
        load=lambda: Loaded(tasks={name: name for name in answers}, missing={}),
        answers=lambda task: answers[task],
    )


def random_answers(n=40, seed=0):
    rng = np.random.default_rng(seed)
    v_eff, margin = 1 + rng.lognormal(1, 1.5, n), rng.lognormal(0, 1, n)
    delta = 3 * v_eff**0.5 * rng.lognormal(0, 0.2, n)
    rows = zip(delta, v_eff, margin, delta * rng.uniform(0.05, 0.3, n), strict=True)
    return [answer(i, quantities(*map(float, row))) for i, row in enumerate(rows)]


def found(findings):
    rows = findings.summary["correlations"]
    return {(r["regime"], r["x"], r["y"], r["statistic"]): r for r in rows}


def table(findings, name):
    return next(t for t in findings.tables if t.name == name)


def test_every_pair_and_statistic_is_scipys():
    answers = random_answers()
    rows = {
        k: v for k, v in found(study(session({"dpd_tcb": answers}))).items() if k[0] == "dpd_tcb"
    }
    columns = {k: np.array([a.row["stability"][k] for a in answers]) for k in quantities(1, 1, 1)}
    assert len(rows) == 3 * len(PAIRS)
    for (_, x, y, statistic), row in rows.items():
        a, b = columns[x], columns[y]
        oracle = {
            "pearson": lambda a=a, b=b: stats.pearsonr(a, b),
            "pearson_log": lambda a=a, b=b: stats.pearsonr(np.log10(a), np.log10(b)),
            "spearman": lambda a=a, b=b: stats.spearmanr(a, b),
        }[statistic]()
        assert row["value"] == pytest.approx(oracle.statistic)
        assert row["ci_low"] < row["value"] < row["ci_high"]
        assert row["n"] == 40


def modified(v_effs):
    """delta = margin^2 in the low ones, so that Spearman is 1 there and nowhere else."""
    return [
        answer(i, quantities((1 + i) ** 2.0 if v < 2 else 0.5 / (1 + i), v, 1.0 + i), f"m{i % 2}")
        for i, v in enumerate(v_effs)
    ]


def test_only_prompts_below_v_eff_max_count_as_low_and_all_are_told():
    answers = modified([1.1, 1.2, 5.0, 1.3, 2.0, 1.4]) + [answer(6, {}, state="error")]
    findings = study(session({LOW: answers}))
    rows = found(findings)
    assert rows[LOW, "delta_tcb", "logit_margin", "spearman"]["value"] == pytest.approx(1)
    assert rows[LOW, "delta_tcb", "logit_margin", "spearman"]["n"] == 4
    both = rows[f"{LOW} all", "delta_tcb", "logit_margin", "spearman"]
    assert (both["n"], both["value"] < 0.9) == (6, True)
    assert [row["counts"] for row in findings.rows] == [True, True, False, True, False, True, False]
    assert findings.rows[6]["reason"] == "too long"
    by_name = {row["modification"]: row for row in table(findings, "modifications").rows}
    assert [(r["n"], r["n_passed"], r["n_lost"]) for r in by_name.values()] == [
        *[(3, 1, 0), (3, 3, 0), (1, 0, 1), (7, 4, 1)]
    ]
    assert list(by_name) == ["m0", "m1", "m2", "all"]
    assert any(note.startswith("4 of 7 modified prompts") for note in findings.notes)


def test_the_uncertain_part_of_diverse_prompts_is_a_second_view():
    answers = random_answers()
    v_eff, delta = (
        np.array([a.row["stability"][k] for a in answers]) for k in ("v_eff", "delta_tcb")
    )
    row = found(study(session({"dpd_tcb": answers})))[
        "dpd_tcb open", "delta_tcb", "v_eff", "pearson"
    ]
    is_open = v_eff >= 2
    assert 3 < row["n"] == is_open.sum() < 40
    assert row["value"] == pytest.approx(stats.pearsonr(delta[is_open], v_eff[is_open]).statistic)


def test_the_limit_is_a_setting():
    found_two = study(session({LOW: modified([1.1, 1.2, 5.0, 1.3, 2.0, 1.4])}, v_eff_max=1.25))
    assert sum(row["counts"] for row in found_two.rows) == 2
    row = found(found_two)[LOW, "delta_tcb", "v_eff", "pearson"]
    assert (row["value"], row["reason"]) == (None, "2 prompts, at least 3 are needed")


def test_an_infinite_delta_has_ranks_and_a_logarithm_but_no_raw_correlation():
    answers = random_answers(10)
    answers[3] = answer(3, {**quantities(math.inf, 1.0, 200.0), "flip_radius": 9.0})
    findings = study(session({"dpd_tcb": answers}))
    rows = found(findings)
    assert [row["reason"] for row in findings.rows[2:4]] == [None, "not finite: delta_tcb"]
    raw = rows["dpd_tcb", "delta_tcb", "logit_margin", "pearson"]
    assert (raw["value"], raw["reason"]) == (None, "delta_tcb is infinite at 1 prompts")
    for statistic in ("pearson_log", "spearman"):
        assert rows["dpd_tcb", "delta_tcb", "logit_margin", statistic]["n"] == 10
        assert rows["dpd_tcb", "delta_tcb", "logit_margin", statistic]["value"] is not None


def test_what_does_not_vary_and_what_has_no_logarithm_is_null_with_the_reason():
    still = [answer(i, quantities(1.0 + i, 1.5, float(i))) for i in range(5)]
    rows = found(study(session({"dpd_tcb": still})))
    assert rows["dpd_tcb", "delta_tcb", "v_eff", "pearson"]["reason"] == "v_eff does not vary"
    log = rows["dpd_tcb", "delta_tcb", "logit_margin", "pearson_log"]
    assert (log["value"], log["reason"]) == (None, "logit_margin is 0 at 1 prompts: no logarithm")
    assert rows["dpd_tcb", "delta_tcb", "logit_margin", "pearson"]["value"] == pytest.approx(1)
    assert rows["dpd_tcb", "delta_tcb", "logit_margin", "spearman"]["value"] == pytest.approx(1)


def test_the_papers_rows_stand_in_its_layout_above_ours():
    """Oracle: BC table 1, typed off the paper."""
    findings = study(session({"dpd_tcb": random_answers(), LOW: modified([1.1, 1.2, 1.3, 1.4])}))
    n_open = sum(a.row["stability"]["v_eff"] >= 2 for a in random_answers())
    paper = [row for row in findings.tables[0].rows if row["who"].startswith("paper")]
    keys = [column.key for column in findings.tables[0].columns]
    assert [[row[key] for key in keys] for row in paper] == [
        ["Diverse prompts (DPD)", "paper, LLaMA-3.1-8B", 309, "0.95", "-0.40", "-0.41"],
        ["Low v_eff targeted (LVD)", "paper, LLaMA-3.1-8B", 360, "0.08", "0.62", "-0.60"],
    ]
    assert [row["n"] for row in findings.tables[0].rows][::2] == [309, n_open, 4]
    assert [row["n"] for row in findings.tables[0].rows][1::2] == [40, 360, 4]
    assert sum("paper" in note for note in findings.notes) == 6


def test_the_few_prompts_that_decide_a_raw_correlation_are_counted():
    answers = [answer(i, quantities(1.0 + i / 50, 2.0 + i, 1.0)) for i in range(50)]
    answers.append(answer(50, quantities(1e9, 1.0, 30.0)))
    findings = study(session({"dpd_tcb": answers}))
    delta = next(r for r in table(findings, "spread").rows if r["quantity"] == "delta_tcb")
    assert (delta["half"], delta["n"], delta["low"], delta["high"]) == (1, 51, "1", "1e+09")
    assert any("1 of 51 prompts hold half of the variance" in note for note in findings.notes)


def test_another_task_is_a_regime_of_its_own_without_a_row_of_the_paper():
    findings = study(session({"my_task": random_answers(8)}))
    assert [row["regime"] for row in findings.tables[0].rows] == ["my_task", "my_task, v_eff >= 2"]
    assert not any("paper" in note for note in findings.notes)


@pytest.mark.parametrize(
    ("value", "low", "high", "paper", "said"),
    [
        (0.5, 0.2, 0.7, 0.95, "the paper's sign holds"),
        (-0.5, -0.7, -0.2, 0.95, "the opposite sign here"),
        (0.1, -0.2, 0.3, 0.95, "the sign cannot be told here, the interval holds 0"),
        (-0.5, -0.7, -0.2, -0.40, "the paper's sign holds"),
        (0.05, -0.1, 0.15, 0.08, "near zero here too"),
        (0.4, 0.25, 0.6, 0.08, "not near zero here"),
        (-0.4, -0.6, -0.25, 0.08, "not near zero here"),
        (0.1, -0.1, 0.4, 0.08, "cannot be told, the interval is too wide"),
        (None, None, None, 0.08, "cannot be told (why)"),
    ],
)
def test_verdicts_follow_sign_and_interval(value, low, high, paper, said):
    row = {"value": value, "ci_low": low, "ci_high": high, "reason": "why"}
    assert verdict(row, paper, 0.2) == said


def test_approximations_are_added_where_asked(monkeypatch):
    import tcb_bench.studies.approximations as module

    given = []
    monkeypatch.setattr(module, "approximations_table", lambda _, contexts: given.append(contexts))
    answers = {"dpd_tcb": random_answers(5), LOW: modified([1.1, 3.0])}
    assert study(session(answers)).tables[-1].name == "modifications"
    assert study(session(answers, approximations=True)).tables[-1] is None
    assert given == [["p"] * 7]


def test_the_same_resamples_serve_a_second_call():
    points = study(session({"dpd_tcb": random_answers()})).summary["correlations"]
    assert points == study(session({"dpd_tcb": random_answers()})).summary["correlations"]


def test_nothing_measured_is_no_correlation(tmp_path):
    findings = study(session({"dpd_tcb": [answer(0, {}, state="error")]}))
    assert all(row["n"] == 0 and row["reason"] for row in findings.summary["correlations"])
    [picture] = findings.draw(tmp_path)
    assert picture.png.stat().st_size > 0
    assert correlated(Regime("x", "x", (), False), session({}))[0]["value"] is None


@pytest.fixture(scope="module")
def outcome(smollm2_folder, tmp_path_factory):
    folder = tmp_path_factory.mktemp("study")

    def run():
        config = RunConfig(
            model=f"hf/{smollm2_folder}",
            tasks=tuple(SETTINGS["tasks"]),
            options=TaskOptions(data="sample", limit=6),
            output_path=folder,
        )
        said = []
        return run_study("correlations", config, SETTINGS, say=said.append), said

    return run


@pytest.mark.slow
def test_the_study_runs_and_asks_nothing_twice(outcome):
    first, said = outcome()
    assert said[-1] == "asked 12, found in the store 0"
    record = json.loads((first.folder / "study.json").read_text())
    rows = [json.loads(line) for line in (first.folder / "samples.jsonl").read_text().splitlines()]
    assert len(rows) == 12
    assert all(r["counts"] == (r["v_eff"] < 2) for r in rows if r["task"] == LOW)
    assert all(r["delta_tcb"] > 0 and r["v_eff"] >= 1 for r in rows)
    assert {f["name"] for f in record["figures"]} == {f"correlations_{name}" for name in PAPER}
    assert [t["name"] for t in record["tables"]] == [
        *("table1", "correlations", "spread", "modifications")
    ]
    again, said = outcome()
    assert said[-1] == "asked 0, found in the store 12"
    assert json.loads((again.folder / "study.json").read_text())["tables"] == record["tables"]
