"""BC's table 2 and the approximations' errors, from data to tables.

Oracles: counts by hand; Wilson's formula; resamples by brute force; for whole runs a copy of the
toy model's W in float64, with the states that transformers gives.
"""

import json
import math

import numpy as np
import pytest
import torch
from test_metrics_geometry import moved_by_a_copy
from toy_models import byte_tokenizer, toy

from tcb_bench.config import RunConfig, TaskOptions
from tcb_bench.errors import UsageError
from tcb_bench.studies.approximations import _p90, error_table
from tcb_bench.studies.geometry_plan import Plan, Point
from tcb_bench.studies.geometry_tables import Statistics, notes, tables
from tcb_bench.studies.run_study import run_study
from tcb_bench.studies.settings import read_settings

STATISTICS = Statistics(resamples=500, level=0.95, seed=0)
SMALL = {"sweep_competitors": [2, 20], "sweep_alpha": [1.0], "sweep_beta": [2.0]}
TEXTS = ["The sky is", "2 + 2 =", "The sky is", "Once upon a time", "x" * 500]
TASK = """\
task: short_prompts
class: !function tcb_bench.task.TcbTask
dataset_path: json
dataset_kwargs: {data_files: {test: prompts.jsonl}}
test_split: test
doc_to_text: q
doc_to_target: a
tcb: {request: next_token, position: prompt_end}
metadata: {version: 1, license: CC0-1.0}
"""


# ---- from measured prompts to the tables


def plan_of(**changes):
    return Plan(read_settings("geometry", over={**SMALL, **changes}))


def point(v_eff, cluster, disperse, data="mmlu", is_repeat=False):
    """A prompt of log10 delta 1.0; every cluster move gives one value, every disperse the other."""
    moved = {move: cluster if move[1] > 0 else disperse for move in plan_of().moves}
    return Point(
        data=data,
        id="",
        is_repeat=is_repeat,
        v_eff=v_eff,
        p_top1=0.5,
        top1_token=1,
        log10_delta=1.0,
        moved=moved,
    )


POINTS = [
    point(1.5, 1.3, 0.8),  # holds
    point(19.99, 1.3, 1.2),  # the disperse half fails
    point(20.0, 1.0, 0.8),  # no change is no increase: the cluster half fails
    point(100.0, 1.1, 0.9),  # holds, and 100 still is medium
    point(1.5, 1.3, 0.8, data="dpd", is_repeat=True),
    point(100.1, 0.9, 1.1, data="dpd"),  # both halves fail
]


def rows_of(table, **wanted):
    return [row for row in table.rows if all(row[k] == v for k, v in wanted.items())]


def test_the_paper_s_table_counts_each_category_alone_and_every_prompt_once_together():
    table = tables(POINTS, plan_of(), STATISTICS)[0]
    found = {(row["data"], row["category"]): (row["n_held"], row["n"]) for row in table.rows}
    assert found == {
        ("mmlu", "< 20"): (1, 2),
        ("mmlu", "20-100"): (1, 2),
        ("mmlu", "> 100"): (0, 0),
        ("mmlu", "overall"): (2, 4),
        ("dpd", "< 20"): (1, 1),
        ("dpd", "20-100"): (0, 0),
        ("dpd", "> 100"): (0, 1),
        ("dpd", "overall"): (1, 2),
        ("all together", "< 20"): (1, 2),
        ("all together", "20-100"): (1, 2),
        ("all together", "> 100"): (0, 1),
        ("all together", "overall"): (2, 5),
    }
    [empty] = rows_of(table, data="mmlu", category="> 100")
    assert empty["held"] is None and empty["reason"] == "no prompt has such a v_eff"
    assert [row["paper"] for row in table.rows[:4]] == [0.95, 0.92, 0.80, 0.90]


def test_the_halves_and_the_median_ratios_stand_beside_it():
    halves, ratios = tables(POINTS, plan_of(), STATISTICS)[1:3]
    [row] = rows_of(halves, data="all together", category="overall")
    assert (row["cluster_held"], row["disperse_held"]) == (3 / 5, 3 / 5)
    [row] = rows_of(ratios, data="all together", category="overall")
    # cluster: 1.3, 1.3, 1.0, 1.1, 0.9 less 1.0; disperse: 0.8, 1.2, 0.8, 0.9, 1.1 less 1.0
    assert row["cluster_ratio"] == pytest.approx(10**0.1)
    assert row["disperse_ratio"] == pytest.approx(10**-0.1)
    [single] = rows_of(ratios, data="dpd", category="> 100")
    assert single["cluster_ratio_ci_low"] is None and "interval" in single["reason"]


def test_the_sweeps_vary_one_setting_at_a_time():
    sweep = tables(POINTS, plan_of(), STATISTICS)[3]
    assert [(row["setting"], row["value"]) for row in sweep.rows] == [
        ("K", 2),
        ("K", 20),
        ("alpha", 1.0),
        ("beta", 2.0),
    ]
    assert all((row["n"], row["n_held"]) == (5, 2) for row in sweep.rows)
    assert plan_of().moves == [
        *((10, 0.5), (10, -0.5), (2, 0.5), (2, -0.5), (20, 0.5), (20, -0.5)),
        *((10, 1.0), (10, -2.0)),
    ]


def test_other_bins_have_no_figures_of_the_paper():
    table = tables(POINTS, plan_of(bins=[2, 30]), STATISTICS)[0]
    assert {row["paper"] for row in table.rows} == {None}


def test_the_notes_say_what_failed_what_is_twice_and_what_has_no_value():
    plan = plan_of()
    rows = [{"held": True}, {"reason": "too long"}]
    said = " ".join(notes(POINTS, plan, rows, tables(POINTS, plan, STATISTICS)[0]))
    assert "all together: held for 2 of 5 prompts (40.0%); the paper's 90% lies outside" in said
    assert "only the cluster half failed in 1, only the disperse half in 1, both in 1" in said
    assert "1 prompts have the text of an earlier one" in said
    assert "1 of 2 prompts have no value: too long" in said


@pytest.mark.parametrize(("k", "n"), [(0, 3), (3, 3), (7, 50)])
def test_the_interval_of_a_share_is_wilson_s(k, n):
    z = 1.959963984540054
    middle = (k + z**2 / 2) / (n + z**2)
    half = z / (n + z**2) * math.sqrt(k * (n - k) / n + z**2 / 4)
    found = STATISTICS.share([True] * k + [False] * (n - k))
    assert (found.value, found.n) == (k / n, n)
    assert (found.ci_low, found.ci_high) == pytest.approx((middle - half, middle + half), abs=1e-9)


@pytest.mark.parametrize(
    "wrong",
    [
        {"alpha": 0.0},
        {"alpha": 1.5},
        {"beta": -0.5},
        {"competitors": 0},
        {"sweep_competitors": [2.5]},
        {"sweep_beta": ["far"]},
        {"bins": [100, 20]},
        {"bins": [20]},
    ],
    ids=str,
)
def test_settings_out_of_range_are_refused_in_one_line(wrong):
    with pytest.raises(UsageError, match=next(iter(wrong)).removeprefix("sweep_")):
        plan_of(**wrong)


# ---- the approximations' errors


def test_errors_are_of_log10_ratios_per_regime():
    # exact 1.0; refined off by -0.3 and 0.1, diffuse by 1 and 3, peaked exact
    values = [[1.5, 1.0, 0.7, 2.0, 1.0], [1.9, 1.0, 1.1, 4.0, 1.0], [500.0, 1.0, 1.0, 1.0, 0.5]]
    table = error_table(values)
    rows = {(row["form"], row["regime"]): row for row in table.rows}
    refined, diffuse = rows["refined", "< 2"], rows["diffuse", "< 2"]
    assert (refined["n"], refined["error"]) == (2, pytest.approx(0.2))
    assert refined["ratio"] == pytest.approx((10**-0.3 + 10**0.1) / 2)
    assert (diffuse["error"], diffuse["error_p90"]) == pytest.approx((2, 3))
    assert rows["peaked", "> 100"]["ratio"] == pytest.approx(10**-0.5)
    assert rows["peaked", "> 100"]["reason"] == "one prompt has no interval"
    assert rows["peaked", "20-100"]["error"] is None
    assert rows["peaked", "20-100"]["reason"] == "no such prompt"
    assert [rows[form, "all"]["n"] for form in ("refined", "diffuse", "peaked")] == [3, 3, 3]


def test_the_interval_of_the_ninetieth_percentile_is_that_of_resampling():
    size = np.random.default_rng(1).exponential(size=60)
    drawn = np.random.default_rng(2).choice(size, (20_000, 60))
    brute = np.quantile(drawn, 0.9, axis=1, method="inverted_cdf")
    found = _p90(size, seed=0)
    assert found.value == np.quantile(size, 0.9, method="inverted_cdf")
    ordered = list(np.sort(size))
    for ours, theirs in zip(
        (found.ci_low, found.ci_high), np.quantile(brute, (0.025, 0.975)), strict=True
    ):
        assert abs(ordered.index(ours) - np.searchsorted(ordered, theirs)) <= 1


# ---- whole runs


@pytest.fixture(scope="module")
def toy_run(tmp_path_factory):
    """(do, model): the study on a random model with prompts of ours, one of them too long."""
    folder = tmp_path_factory.mktemp("geometry")
    model = toy(spread=0.6)
    model.save_pretrained(folder / "model")
    byte_tokenizer().save_pretrained(folder / "model")
    (folder / "tasks").mkdir()
    lines = "".join(json.dumps({"q": text, "a": "x"}) + "\n" for text in TEXTS)
    (folder / "tasks" / "prompts.jsonl").write_text(lines)
    (folder / "tasks" / "short_prompts.yaml").write_text(TASK)

    def do(**changes):
        said = []
        config = RunConfig(
            model=f"hf/{folder / 'model'}",
            tasks=("short_prompts",),
            include_path=(folder / "tasks",),
            output_path=folder / "runs",
            options=TaskOptions(),
        )
        settings = read_settings("geometry", over={**SMALL, "approximations": True, **changes})
        return run_study("geometry", config, settings, say=said.append), said

    return do, model


def test_a_run_has_the_values_of_a_copied_w_and_a_second_one_asks_nothing(toy_run):
    do, model = toy_run
    outcome, said = do()
    study = json.loads((outcome.folder / "study.json").read_text())
    lines = (outcome.folder / "samples.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    weight = model.get_output_embeddings().weight.detach().double()[:263]
    for row, text in zip(rows[:4], TEXTS, strict=False):
        ids = byte_tokenizer()(text, return_tensors="pt").input_ids
        with torch.no_grad():
            x = weight @ model.model(ids).last_hidden_state[0, -1].double()
        for count, share, log10 in row["moves"]:
            assert log10 == pytest.approx(moved_by_a_copy(x, weight, count, share), abs=1e-4)
        o = torch.softmax(x, 0)
        assert row["v_eff"] == pytest.approx(1 / (o**2).sum().item(), rel=1e-3)
        plain = moved_by_a_copy(x, weight, 1, 0.0)
        assert row["held"] == (row["log10_delta_cluster"] > plain > row["log10_delta_disperse"])
    assert [row["is_repeat"] for row in rows] == [False, False, True, False, False]
    assert "reason" in rows[4] and "held" not in rows[4]
    # three distinct prompts that fit; four with the one that stands twice
    assert rows_of_record(study, "geometry", category="overall")[0]["n"] == 4
    assert {row["n"] for row in study["summary"]["sweeps"] if row["category"] == "overall"} == {3}
    assert rows_of_record(study, "approximations", form="peaked", regime="all")[0]["n"] == 3
    assert {f["name"] for f in study["figures"]} == {
        *("geometry_ratios", "geometry_sweeps_held", "geometry_sweeps_ratio")
    }
    assert outcome.exit_code == 0
    again, said_again = do()
    assert said_again[-1].startswith("asked 0, ")
    assert (again.folder / "samples.jsonl").read_text().splitlines() == lines


def rows_of_record(study, name, **wanted):
    [table] = [table for table in study["tables"] if table["name"] == name]
    return [row for row in table["rows"] if all(row[k] == v for k, v in wanted.items())]


def test_more_competitors_than_tokens_are_refused(toy_run):
    do, _ = toy_run
    with pytest.raises(UsageError, match="K must be from 1 to 262"):
        do(sweep_competitors=[263])


@pytest.mark.slow
def test_the_command_on_the_demo_model_shows_the_table_and_writes_a_page(
    tmp_path, capsys, demo_gguf
):
    from tcb_bench.cli import run_command

    words = "study geometry --data sample --tasks mmlu_tcb_reasoning_philosophy --limit 2"
    status = run_command([*words.split(), "--output_path", str(tmp_path)])
    shown = capsys.readouterr().out
    assert status == 0
    assert "delta(cluster) > delta(orig) > delta(disperse) (BC table 2)" in shown
    page = (tmp_path / "demo" / "studies" / "geometry" / "study.html").read_text()
    assert "paper, LLaMA-3.1-8B" in page and page.count("<svg") + page.count("data:image") >= 3
