"""The study ``layers`` on the real small model, and its tables on numbers made by hand."""

import json
import math

import numpy as np
import pytest

from tcb_bench.config import RunConfig, TaskOptions
from tcb_bench.errors import UsageError
from tcb_bench.metrics.statistics import median_intervals
from tcb_bench.studies.layers_tables import (
    Series,
    agreement,
    check_table,
    depth_table,
    names_of,
)
from tcb_bench.studies.run_study import run_study
from tcb_bench.studies.settings import read_settings

TASK = "mmlu_tcb_philosophy"
SETTINGS = {"probes": 4, "directions": 2}


@pytest.fixture(scope="module")
def do(smollm2_folder, tmp_path_factory):
    output = tmp_path_factory.mktemp("studies")

    def do(tasks=(TASK,), limit=2, tag="", **changes):
        config = RunConfig(
            model=f"hf/{smollm2_folder}",
            tasks=tasks,
            options=TaskOptions(data="sample", limit=limit),
            output_path=output,
            device="cpu",
        )
        lines = []
        settings = read_settings("layers", None, {**SETTINGS, **changes})
        outcome = run_study("layers", config, settings, tag=tag, say=lines.append)
        return outcome, lines

    return do


@pytest.mark.slow
def test_on_the_demo_model_it_finds_the_closed_form_and_asks_nothing_twice(do):
    outcome, lines = do()
    assert "asked 2, found in the store 0" in lines
    rows = [json.loads(s) for s in (outcome.folder / "samples.jsonl").read_text().splitlines()]
    record = json.loads((outcome.folder / "study.json").read_text())
    assert [row["state"] for row in rows] == ["scored"] * 2
    for row in rows:
        last = row["last"]
        assert len(last["log10_norm"]) == len(row["log10_x_norm"]) == 32
        off = last["log10_norm"][-1] - row["exact"]
        assert abs(off) < 5 * last["error"][-1] + 1e-4
        assert last["low"][-1] <= last["log10_norm"][-1] <= last["high"][-1]
    assert record["summary"]["check"]["n"] == 2
    assert {figure["name"] for figure in record["figures"]} == {"layers_norm", "layers_relative"}
    middle = np.median([row["last"]["log10_norm"][5] for row in rows])
    assert record["tables"][0]["rows"][5]["norm"] == pytest.approx(middle)
    first = (outcome.folder / "study.json").read_bytes()
    again, lines = do()
    assert "asked 0, found in the store 2" in lines
    assert (again.folder / "study.json").read_bytes() == first
    _, lines = do(limit=1, probes=5)
    assert "asked 1, found in the store 0" in lines


@pytest.mark.slow
def test_all_positions_contain_the_last_and_end_in_it(do):
    outcome, _ = do(limit=1, tag="all", all_positions=True)
    [row] = map(json.loads, (outcome.folder / "samples.jsonl").read_text().splitlines())
    last, every = (np.array(row[name]["log10_norm"]) for name in ("last", "all"))
    assert (every >= last - 1e-6).all()
    assert every[0] > last[0] + 0.1
    assert every[-2:] == pytest.approx(last[-2:], abs=1e-6)  # behind the last block only one counts
    names = [table.name for table in outcome.findings.tables]
    assert names == ["layers_last", "layers_all", "layers_check"]


@pytest.mark.slow
def test_what_cannot_be_probed_is_told_before_anything_is_asked(do):
    with pytest.raises(UsageError, match="gsm8k_tcb asks for generate_traced"):
        do(tasks=("gsm8k_tcb",), tag="gsm")
    with pytest.raises(UsageError, match="probes=1: expected from 2"):
        do(tag="few", probes=1)


@pytest.mark.parametrize("word", ["true", "True", True])
def test_a_switch_is_set_in_yamls_words_or_pythons(word):
    assert read_settings("layers", None, {"all_positions": word})["all_positions"] is True
    with pytest.raises(UsageError, match="true or false"):
        read_settings("layers", None, {"all_positions": "yes"})


def series(norm, error=0.01):
    norm = np.array(norm, dtype=float)
    return Series("last", "the last position", norm, norm + 1, np.full(norm.shape, error), 0)


def test_the_table_has_medians_of_prompts_and_counts_those_without_a_log():
    one = series([[0.0, 2.0, 5.0], [1.0, 4.0, 7.0], [math.nan, 9.0, 6.0]])
    table = depth_table(one, np.array([5.0, 7.0, 6.5]), {"probes": 4, "directions": 2})
    rows = table.rows
    assert [row["layer"] for row in rows] == [*names_of(3), "closed form"]
    assert [row["norm"] for row in rows] == [0.5, 4.0, 6.0, 6.5]
    assert [row["n"] for row in rows] == [2, 3, 3, 3]
    assert "1 prompts" in rows[0]["reason"]
    assert "n" in [column.key for column in table.columns]
    expected = median_intervals(one.norm)[1]
    assert (rows[1]["norm_ci_low"], rows[1]["norm_ci_high"]) == (expected.ci_low, expected.ci_high)
    assert rows[1]["relative"] == 5.0
    assert rows[1]["probe_error"] == 0.01


def test_agreement_by_hand():
    probed = np.array([1.0, 2.0, 3.4, math.nan])
    found = agreement(probed, np.full(4, 0.3), np.array([1.0, 1.0, 3.0, 2.0]), 0.4)
    assert found["n"] == 3
    assert found["difference"] == pytest.approx(0.4)
    assert found["largest"] == 1
    assert found["z_largest"] == pytest.approx(1 / 0.5)  # 0.3 and 0.4 in quadrature
    assert found["within"] == 3
    none = agreement(np.array([math.nan]), np.array([math.nan]), np.array([-math.inf]), 0.1)
    assert none == {"n": 0}
    assert all(row["value"] is not None or row["reason"] for row in check_table(none).rows)
