"""What a run would ask, and the plan of a study. Oracle: the paper's own numbers (TP section 4)."""

import sys

import pytest

from tcb_bench.__main__ import main
from tcb_bench.config import TaskOptions
from tcb_bench.dry_run import DryRun
from tcb_bench.errors import UsageError
from tcb_bench.plan import check_files, plan_configs, read_plan, run_plan
from tcb_bench.planned import conditions_of, planned
from tcb_bench.task_files import tasks_folder

PAPER = tasks_folder() / "hotpotqa_tempperturb" / "paper.plan.yaml"
TASK = "hotpotqa_tempperturb"


def test_the_papers_plan_is_440_conditions_and_396_000_responses():
    counting = DryRun()
    models = [counting.count(*each) for each in plan_configs(read_plan(PAPER))]
    assert len(models) == 5
    rows = [row for model in models for row in model.tasks]
    assert sum(row.conditions for row in rows) == 440
    assert sum(row.responses for row in rows) == 396_000
    assert {(row.questions, row.runs) for row in rows} == {(600, 3)}


def test_a_dry_run_prints_the_totals(capsys):
    assert main(["run", "--plan", str(PAPER), "--dry-run"]) == 0
    shown = capsys.readouterr().out
    assert "396,000" in shown
    assert "440 conditions" in shown
    assert "tokens not known: data set hotpotqa/hotpot_qa" in shown  # no hub in the tests


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, (88, 600, 79_200)),
        ({"limit": 4}, (88, 24, 24 * 44 * 3)),
        ({"limit": 1000}, (88, 600, 79_200)),
        ({"limit": 0.5}, (88, 300, 39_600)),
        ({"where": {"temperature": ["0.0", "0.6"], "context": ["ner"]}}, (4, 600, 3600)),
        ({"where": {"question_type": ["bridge"]}}, (44, 300, 39_600)),
    ],
    ids=str,
)
def test_limits_and_parts_are_counted_per_stratum(options, expected):
    [row] = planned([TASK], TaskOptions(**options))
    assert (row.conditions, row.questions, row.responses) == expected
    assert row.is_design


def test_with_data_at_hand_the_documents_are_counted():
    [row] = planned([TASK], TaskOptions(data="sample", limit=2))
    assert (row.conditions, row.questions, row.responses) == (88, 12, 12 * 44 * 3)
    assert not row.is_design
    [mmlu] = planned(["mmlu_tcb_philosophy"], TaskOptions(data="sample", limit=3))
    assert (mmlu.conditions, mmlu.questions, mmlu.runs, mmlu.responses) == (1, 3, 1, 3)


def test_conditions_are_88_one_per_line_and_a_part_of_them_by_where(capsys):
    assert main(["ls", "conditions", TASK]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(set(lines)) == 88
    assert lines[0] == "temperature=0.0,context=original,question_type=bridge"
    assert "temperature=0.6,context=ner,question_type=comparison" in lines
    assert (
        main(["ls", "conditions", TASK, "--where", "temperature=0.6,1.2", "--where", "context=ner"])
        == 0
    )
    assert len(capsys.readouterr().out.splitlines()) == 4


def test_conditions_need_a_task_with_a_sweep():
    with pytest.raises(UsageError, match="has no sweep"):
        conditions_of("gsm8k_tcb", TaskOptions())
    with pytest.raises(UsageError, match="is a group"):
        conditions_of("mmlu_tcb", TaskOptions())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("models: [{model: demo}]", "plan.tasks is missing"),
        ("tasks: [a]\nmodels: []", ":2: plan.models is"),
        ("tasks: [a]\nmodels: [{modl: demo}]", "did you mean 'model'"),
        ("tasks: [a]\nmodels: [{model_args: x}]", "models.model is missing"),
        ("tasks: [a]\nmodels: [{model: demo}, {model: demo}]", "demo would share one"),
        ("tasks: [a]\nmodels: [{model: demo}]\nrun: {limt: 1}", "did you mean 'limit'"),
        ("tasks: [a]\nmodel: [{model: demo}]", "did you mean 'models'"),
    ],
)
def test_what_is_wrong_in_a_plan_is_named_with_its_line(tmp_path, text, message):
    path = tmp_path / "study.plan.yaml"
    path.write_text(text)
    with pytest.raises(UsageError, match=message):
        read_plan(path)


def test_a_missing_file_is_said_before_any_model(tmp_path):
    path = tmp_path / "s.plan.yaml"
    path.write_text("tasks: [a]\nmodels: [{model: demo}]\nrun: {references: none.jsonl}")
    with pytest.raises(UsageError, match="none.jsonl is not there"):
        check_files(read_plan(path))


def test_options_become_words_of_the_run_a_models_own_over_the_plans(tmp_path):
    path = tmp_path / "s.plan.yaml"
    path.write_text(
        "tasks: [a, b]\nrun: {limit: 2, apply_chat_template: true, where: {context: [ner, none]}}\n"
        "models:\n- {model: demo, run: {limit: 3}}\n- {model: openai/x}\n"
    )
    first, second = read_plan(path).entries
    assert first.arguments == (
        *("--model", "demo", "--model_args", "", "--limit", "3"),
        *("--apply_chat_template", "--where", "context=ner,none"),
    )
    assert (first.resource, second.resource) == ("local", "openai/x")


def test_every_model_gets_its_own_process_and_one_that_fails_stops_no_other(tmp_path, monkeypatch):
    """A fake interpreter stands for ``python -m tcb_bench``: it notes its words and fails for one."""
    fake = tmp_path / "python"
    fake.write_text(
        f"#!{sys.executable}\nimport os, sys\n"
        f"open({str(tmp_path / 'calls')!r}, 'a').write(f\"{{os.getpid()}} {{' '.join(sys.argv[1:])}}\\n\")\n"
        "print('said', file=sys.stderr)\nsys.exit(1 if 'bad' in sys.argv else 3 if 'half' in sys.argv else 0)\n"
    )
    fake.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(fake))
    path = tmp_path / "s.plan.yaml"
    path.write_text(
        f"tasks: [t]\noutput_path: {tmp_path / 'runs'}\nmodels: [{{model: bad}}, {{model: half, resource: gpu}}, {{model: demo}}]\n"
    )
    said = []
    assert run_plan(read_plan(path), said.append) == 1
    calls = [line.split(" ", 1) for line in (tmp_path / "calls").read_text().splitlines()]
    assert len({pid for pid, _ in calls}) == 3
    assert sorted(words.split()[4] for _, words in calls) == ["bad", "demo", "half"]
    assert any("bad: failed (exit 1), see" in line for line in said)
    assert "said" in (tmp_path / "runs" / "bad.log").read_text()
