"""What all studies share: settings, the session, files, the report. Oracle: the hf back end."""

import io
import json
import math
import re
import sys
import types
from pathlib import Path

import pytest
import torch
from report_runs import Written, write_run
from rich.console import Console
from toy_models import byte_tokenizer, toy

from tcb_bench import commands
from tcb_bench.__main__ import main
from tcb_bench.config import RunConfig, TaskOptions
from tcb_bench.errors import DataError, ModelError, StoreError, UnknownName, UsageError
from tcb_bench.report.build import report
from tcb_bench.report.table import Column, Table
from tcb_bench.studies import STUDIES, run_study
from tcb_bench.studies.findings import Findings
from tcb_bench.studies.settings import HERE, read_settings
from tcb_bench.tables import data_table

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


def test_a_run_and_its_studies_are_one_report_with_the_run_first(study_of, tmp_path):
    outcome, _ = study_of(norm_study)
    run = outcome.folder.parents[1]
    write_run(run, Written(temperatures=(), contexts=(), types=(), n_questions=3))
    html, *_ = report([run], tmp_path / "report")
    text = html.read_text()
    titles = re.findall(r'<h2 id="[^"]*"><a[^>]*>(.*?)</a>', text)
    study = next(title for title in titles if title.startswith("Study layers: hf/"))
    first, last = "Scores of tasks without a sweep", "Settings"
    assert titles.index(first) < titles.index(study) < titles.index(last) == len(titles) - 1
    assert f"Below the run: {study}." in text
    assert "studies/layers/figures in the folder of hf/" in text


def test_a_damaged_study_file_is_named(study_of, tmp_path):
    outcome, _ = study_of(norm_study)
    (outcome.folder / "study.json").write_text('{"tables": 1}')
    with pytest.raises(DataError, match=r"study\.json: not a file of `tcb-bench study`"):
        report([outcome.folder.parents[1]], tmp_path / "report")


def test_a_figure_that_is_gone_is_named(study_of, tmp_path):
    outcome, _ = study_of(norm_study)
    path = outcome.folder / "study.json"
    files = {"png": "figures/x.png", "svg": "figures/x.svg"}
    picture = {"name": "x", **files, "title": "", "caption": "", "width": 1}
    path.write_text(json.dumps(json.loads(path.read_text()) | {"figures": [picture]}))
    with pytest.raises(DataError, match=r"x\.png: the study's figure is missing"):
        report([outcome.folder], tmp_path / "report")


def test_brackets_in_a_text_are_no_markup_of_the_terminal(study_of, capsys):
    def study(session):
        table = Table("t", "[/i] title", "[/n]", [Column("x", "[/c]", None)], [{"x": "[/b] cell"}])
        return Findings(tables=[table], rows=[], notes=["[/b] a note"])

    commands._show_study(study_of(study)[0])
    shown = capsys.readouterr().out
    for text in ("[/i] title", "[/n]", "[/c]", "[/b] cell", "[/b] a note"):
        assert text in shown


def test_a_table_too_wide_for_the_terminal_comes_in_parts_with_every_number_whole(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    columns = [Column("set", "set"), *(Column(f"c{i}", f"column {i}") for i in range(9))]
    row = {"set": "all", **{f"c{i}": f"{i}.00 [{i}.25, {i}.75]" for i in range(9)}}
    out = io.StringIO()
    console = Console(file=out, width=80)
    for part in data_table(Table("t", "Wide", "", columns, [row])):
        console.print(part)
    lines = out.getvalue().splitlines()
    assert all(row[f"c{i}"] in out.getvalue() for i in range(9)) and max(map(len, lines)) <= 80
    assert sum("all" in line for line in lines) == out.getvalue().count("Wide") > 1


@pytest.mark.parametrize("name", STUDIES)
def test_every_study_has_its_settings_and_its_module(name):
    settings = read_settings(name)
    assert settings["version"] >= 1
    assert callable(run_study.study_module(name).study)
    text = (HERE / f"{name}.yaml").read_text()
    assert text.count("#") >= len(settings) - 1, "each setting has a comment"


@pytest.fixture
def shipped(tmp_path, monkeypatch):
    (tmp_path / "toy.yaml").write_text(
        "version: 1\nshare: 0.5\nn: 3\nnames: [a]\nfile: null\nshares_of: [1.0]\n"
        "resamples: 9\nlevel: 0.95\nspace: null\nexample: null\nmax_gen_toks: null\n"
    )
    monkeypatch.setattr("tcb_bench.studies.settings.HERE", tmp_path)
    return tmp_path


def test_settings_a_file_and_then_single_values(shipped):
    (shipped / "own.yaml").write_text("share: 1\nfile: x.yaml\n")
    found = read_settings("toy", shipped / "own.yaml", {"names": "b", "n": 4, "example": 5})
    own = {"share": 1.0, "n": 4, "names": ["b"], "file": "x.yaml", "example": "5"}
    assert found == read_settings("toy") | own
    assert isinstance(found["share"], float)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"shares": 1}, UnknownName, "did you mean 'share'"),
        ({"n": 1.5}, UsageError, "--set: n=1.5: expected a whole number"),
        ({"n": True}, UsageError, "expected a whole number"),
        ({"share": "x"}, UsageError, "expected a number"),
        ({"names": {"a": 1}}, UsageError, "expected a list"),
        ({"names": ["a", 1]}, UsageError, "expected a list of texts"),
        ({"names": None}, UsageError, "expected a list"),
        ({"shares_of": [1, math.inf]}, UsageError, "expected a list of finite numbers"),
        ({"share": math.nan}, UsageError, "expected a finite value"),
        ({"version": 2}, UsageError, "this study is version 1"),
        ({"resamples": 0}, UsageError, "resamples=0: expected from 1 to 1000000"),
        ({"level": 1.5}, UsageError, "expected from 0.01 to 0.9999"),
        ({"space": [1]}, UsageError, "expected a text or a mapping"),
        ({"max_gen_toks": "x"}, UsageError, "expected a whole number"),
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


def test_fresh_moves_no_store_for_a_study_that_cannot_start(study_of):
    study_of(norm_study)

    def refuses(session):
        raise UsageError("a setting out of range")

    with pytest.raises(UsageError):
        study_of(refuses, fresh=True)
    _, said = study_of(norm_study)
    assert "asked 0, found in the store 7" in said
    _, said = study_of(norm_study, fresh=True)
    assert "asked 7, found in the store 0" in said


def test_figures_that_cannot_be_written_are_one_line_and_lose_nothing(study_of):
    outcome, _ = study_of(norm_study)
    figures = outcome.folder / "figures"
    figures.rmdir()
    figures.write_text("in the way")
    with pytest.raises(StoreError, match="the answers are safe in the store"):
        study_of(norm_study)
    figures.unlink()
    _, said = study_of(norm_study)
    assert "asked 0, found in the store 7" in said


def test_a_model_without_a_chat_template_is_refused(study_of):
    with pytest.raises(ModelError, match="leave --apply_chat_template out"):
        study_of(norm_study, apply_chat_template=True)
