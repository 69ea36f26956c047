"""What all studies share: settings, the session, files, the report. Oracle: the hf back end."""

import json
import sys
import types
from pathlib import Path

import pytest
import torch
from toy_models import byte_tokenizer, toy

from tcb_bench.__main__ import main
from tcb_bench.config import RunConfig, TaskOptions
from tcb_bench.errors import DataError, UnknownName, UsageError
from tcb_bench.report.build import report
from tcb_bench.report.table import Column, Table
from tcb_bench.studies import STUDIES, run_study
from tcb_bench.studies.findings import Findings
from tcb_bench.studies.settings import HERE, read_settings

CONTEXTS = ["one", "two two", "three", [5, 6, 7]]


def norms(states):
    return [{"norm": float(x), "inf": float("inf")} for x in states.norm(dim=1)]


def norm_study(session):
    """h's length behind four contexts, and the same from the session's requests."""
    values = session.states("norm", CONTEXTS, norms, seed=session.seed)
    answers = session.ask("next_token", [(str(i), (c, ())) for i, c in enumerate(CONTEXTS[:3])])
    rows = [
        {"id": i, "norm": value["norm"], "h_norm": answer and answer.stability["h_norm"]}
        for i, (value, answer) in enumerate(zip(values, [*answers, None], strict=True))
    ]
    table = Table("norms", "Lengths", "note", [Column("norm", "norm", 3)], rows)
    return Findings(tables=[table], rows=rows, notes=["<b>bold</b> claim"], summary={"n": 4})


@pytest.fixture
def study_of(tmp_path, monkeypatch):
    """Runs a function as the study `layers` on a toy model saved to a folder."""
    model, tokenizer = toy(), byte_tokenizer()
    model.save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")

    def run(function, **more):
        module = types.ModuleType("tcb_bench.studies.layers")
        module.study = function
        monkeypatch.setitem(sys.modules, "tcb_bench.studies.layers", module)
        said = []
        config = RunConfig(
            model=f"hf/{tmp_path / 'model'}",
            tasks=("none",),
            output_path=tmp_path / "runs",
            options=TaskOptions(data="sample"),
            **more,
        )
        return run_study.run_study("layers", config, {"version": 1}, say=said.append), said

    return run


def test_values_of_states_are_those_of_the_head_and_are_kept(study_of):
    outcome, said = study_of(norm_study)
    assert "asked 7, found in the store 0" in said
    rows = outcome.findings.rows
    assert [row["norm"] for row in rows[:3]] == pytest.approx([r["h_norm"] for r in rows[:3]])
    record = json.loads((outcome.folder / "study.json").read_text())
    assert record["tables"][0]["rows"] == [dict(row) for row in rows]
    assert record["summary"] == {"n": 4} and record["errors"] == 0
    assert record["signature"].startswith("study:layers|v:1|model:hf/")
    again, said = study_of(norm_study)
    assert "asked 0, found in the store 7" in said
    assert again.findings.rows == rows


def test_other_parameters_are_other_values(study_of):
    seen = []

    def counted(states):
        seen.append(len(states))
        return [0] * len(states)

    def study(session):
        for bits in (1, 1, 2):
            session.states("count", CONTEXTS[:2], counted, bits=bits)
        return Findings(tables=[], rows=[])

    study_of(study)
    assert sum(seen) == 4


def test_what_was_measured_before_a_crash_is_not_measured_again(study_of):
    seen = []

    def once(states):
        if seen:
            raise KeyboardInterrupt
        seen.append(len(states))
        return norms(states)

    def broken(session):
        session.states("norm", CONTEXTS, once, seed=session.seed)

    with pytest.raises(KeyboardInterrupt):
        study_of(broken, batch_size="1")
    _, said = study_of(norm_study)
    assert "asked 6, found in the store 1" in said


def test_states_that_are_not_finite_or_too_long_are_failures(study_of):
    def study(session):
        (token,) = session.model.tokenizer("z", add_special_tokens=False)["input_ids"]
        session.model.model.get_input_embeddings().weight.data[token] = torch.nan
        values = session.states("norm", ["x" * 500, "y", "z"], norms)
        return Findings(tables=[], rows=[{"value": value} for value in values])

    outcome, _ = study_of(study)
    long, fine, broken = (row["value"] for row in outcome.findings.rows)
    assert long.state == "unscored" and "has 500 tokens" in long.reason
    assert fine["norm"] > 0
    assert broken.state == "unscored" and "not finite" in broken.reason
    assert outcome.exit_code == 0, "unscored is no error: asking again would not help"


def test_the_report_shows_studies_also_without_a_run(study_of, tmp_path):
    outcome, _ = study_of(norm_study)
    html, *_ = report([outcome.folder.parents[1]], tmp_path / "report")
    text = html.read_text()
    assert "Study layers: hf/" in text and "Lengths" in text
    assert "<b>bold</b>" not in text and "&lt;b&gt;bold" in text


def test_a_damaged_study_file_is_named(study_of, tmp_path):
    outcome, _ = study_of(norm_study)
    (outcome.folder / "study.json").write_text('{"tables": 1}')
    with pytest.raises(DataError, match=r"study\.json: not a file of `tcb-bench study`"):
        report([outcome.folder.parents[1]], tmp_path / "report")


@pytest.mark.parametrize("name", STUDIES)
def test_every_study_has_its_settings_and_its_module(name):
    settings = read_settings(name)
    assert settings["version"] >= 1
    assert callable(run_study.study_module(name).study)
    text = (HERE / f"{name}.yaml").read_text()
    assert text.count("#") >= len(settings) - 1, "each setting has a comment"


@pytest.fixture
def shipped(tmp_path, monkeypatch):
    (tmp_path / "toy.yaml").write_text("version: 1\nshare: 0.5\nn: 3\nnames: [a]\nfile: null\n")
    monkeypatch.setattr("tcb_bench.studies.settings.HERE", tmp_path)
    return tmp_path


def test_settings_a_file_and_then_single_values(shipped):
    (shipped / "own.yaml").write_text("share: 1\nfile: x.yaml\n")
    found = read_settings("toy", shipped / "own.yaml", {"names": "b", "n": 4})
    assert found == {"version": 1, "share": 1.0, "n": 4, "names": ["b"], "file": "x.yaml"}
    assert isinstance(found["share"], float)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"shares": 1}, UnknownName, "did you mean 'share'"),
        ({"n": 1.5}, UsageError, "--set: n=1.5: expected a whole number"),
        ({"n": True}, UsageError, "expected a whole number"),
        ({"share": "x"}, UsageError, "expected a number"),
        ({"names": {"a": 1}}, UsageError, "expected a list"),
    ],
)
def test_settings_that_do_not_fit(shipped, change, error, message):
    with pytest.raises(error, match=message):
        read_settings("toy", None, change)


def test_the_command_line_names_the_nearest(capsys):
    assert main(["study", "layer"]) == 2
    assert "did you mean layers?" in capsys.readouterr().err
    assert main(["study", "layers", "--set", "prbes=3"]) == 2
    assert "no setting in --set 'prbes'" in capsys.readouterr().err
    assert main(["study", "layers", "--config", str(Path("no.yaml"))]) == 2
    assert "no.yaml" in capsys.readouterr().err
