"""README's example task, taken from the text itself, validates and runs as it stands."""

import json
import re

import pytest
from conftest import ROOT

from tcb_bench.__main__ import main

README = (ROOT / "README.md").read_text(encoding="utf-8")


def block(language, n=0):
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)[n]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("readme")
    (folder / "capitals.yaml").write_text(block("yaml", 1), encoding="utf-8")
    (folder / "capitals.jsonl").write_text(block("json"), encoding="utf-8")
    return folder


def test_the_example_is_one_yaml_of_at_most_45_lines():
    assert all(len(block("yaml", n).splitlines()) <= 45 for n in (0, 1))


def test_the_example_validates(folder, capsys):
    assert main(["validate", str(folder / "capitals.yaml")]) == 0
    shown = capsys.readouterr().out
    assert "expected   'B' (index 1)" in shown


@pytest.mark.slow
def test_the_example_runs_and_its_samples_are_its_three_questions(folder, smollm2_folder, tmp_path):
    words = ["run", "--model", f"hf/{smollm2_folder}", "--tasks", "capitals"]
    assert main([*words, "--include_path", str(folder), "--output_path", str(tmp_path)]) == 0
    [path] = tmp_path.rglob("samples_capitals_*.jsonl")
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert [row["doc_id"] for row in rows] == ["0", "1", "2"]
    assert all(row["rows"][0]["stability"]["choice_flip_radius"] > 0 for row in rows)


@pytest.mark.slow
def test_the_example_over_documents_validates_runs_and_reports(smollm2_folder, tmp_path, capsys):
    (tmp_path / "manual.yaml").write_text(block("yaml"), encoding="utf-8")
    (tmp_path / "manual.jsonl").write_text(block("jsonl"), encoding="utf-8")
    assert main(["validate", str(tmp_path / "manual.yaml")]) == 0
    assert "12 conditions" in capsys.readouterr().out
    words = [
        "run",
        "--model",
        f"hf/{smollm2_folder}",
        "--tasks",
        "manual",
        "--include_path",
        str(tmp_path),
    ]
    more = [
        "--bert_score_model",
        "demo",
        "--gen_kwargs",
        "max_gen_toks=6",
        "--where",
        "temperature=0,1.4",
    ]
    assert main([*words, *more, "--output_path", str(tmp_path / "runs")]) == 0
    [path] = (tmp_path / "runs").rglob("samples_manual_*.jsonl")
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert len(rows) == 2 * 4 * 2
    by_context = {r["condition"]: r["prompt"] for r in rows if r["doc_id"] == "m1"}
    assert "compressed air" in by_context["temperature=0.0,context=original"]
    assert "compressed air" not in by_context["temperature=0.0,context=remove_half"]
    [folder] = [p for p in (tmp_path / "runs").iterdir() if p.is_dir()]
    assert main(["report", str(folder)]) == 0
    assert (folder / "report" / "report.html").is_file()


def test_the_two_commands_are_shown_first():
    assert README.index("make demo") < README.index("make test") < README.index("tcb-bench run")


def test_every_task_and_option_that_the_text_names_exists():
    from tcb_bench.parser import build_parser
    from tcb_bench.task_files import catalogue

    assert set(re.findall(r"`((?:mmlu_tcb|gsm8k_tcb|hotpotqa)\w*)`", README)) <= set(catalogue())
    known = {"--help", *re.findall(r"--\w+", build_parser().format_help())}
    commands = list(build_parser()._subparsers._group_actions[0].choices.values())
    for command in commands:
        known |= set(re.findall(r"--\w+", command.format_help()))
        if command._subparsers is not None:
            commands += command._subparsers._group_actions[0].choices.values()
    named = set(re.findall(r"(?<![-\w])--[a-z_]+", README))
    assert named <= known
