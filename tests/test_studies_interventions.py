"""The study `interventions`: prompts, files, whole runs. Oracles: the task itself, texts by hand."""

import json
from functools import partial
from pathlib import Path

import pytest
from interventions_tools import SHOTS, file_in, session_in
from toy_models import byte_tokenizer, toy

from tcb_bench.config import RunConfig, TaskOptions
from tcb_bench.durable import DurableLM
from tcb_bench.errors import DataError, UnknownName, UsageError
from tcb_bench.metrics.answers import final_number
from tcb_bench.studies.interventions_file import SETS, read_interventions
from tcb_bench.studies.interventions_prompts import asked, chosen_items, orders, the_task
from tcb_bench.studies.interventions_rows import check_settings
from tcb_bench.studies.run_study import run_study
from tcb_bench.studies.settings import read_settings

DESCRIPTION = "Solve the problem step by step. End with: The final answer is \\boxed{X}.\n\n"
CUE = "Let's think step by step."


@pytest.fixture
def session_of(tmp_path):
    return partial(session_in, tmp_path)


@pytest.fixture
def file_of(tmp_path):
    return partial(file_in, tmp_path)


def prompts_of(session, path):
    task = the_task(session)
    return task, asked(session, task, read_interventions(path), chosen_items(session, task))


def test_with_the_tasks_own_examples_a_row_is_the_tasks_own_prompt(session_of, file_of, tmp_path):
    from tcb_bench.task_files import catalogue

    own = catalogue(())["gsm8k_tcb"].path.parent / "shots.jsonl"
    (tmp_path / "own.jsonl").write_bytes(own.read_bytes())
    session = session_of(seeds=1, item="test/5,test/29")
    task, found = prompts_of(session, file_of([{"description": "a", "shots": "own.jsonl"}]))
    expected = {r.doc["tcb_id"]: r.args for r in session.prompts(task)}
    assert [one.item for one in found] == ["test/5", "test/29"]
    for one in found:
        assert one.arguments == expected[one.item]


def test_a_row_changes_the_prompt_where_it_says(session_of, file_of):
    row = {
        "description": "all",
        "shots": "mine.jsonl",
        "n_shots": 2,
        "question_suffix": "(All {{of}} it.)",
        "prefix": "Be exact.",
        "instruction": "Add up. Say \\boxed{X}.",
    }
    rows = [row, {**row, "description": "bare", "cue": "", "prefix": "", "n_shots": 1}]
    session = session_of(seeds=1)
    task, (full, bare) = prompts_of(session, file_of(rows))
    question = full.doc["question"]
    assert full.prompt == (
        "Add up. Say \\boxed{X}.\n\n"
        f"Question: Q1?\nAnswer: {CUE} {SHOTS[0]['target']}\n\n"
        f"Question: Q2?\nAnswer: {CUE} {SHOTS[1]['target']}\n\n"
        f"Question: {question} (All {{{{of}}}} it.)\nAnswer: Be exact. {CUE}"
    )
    assert bare.prompt.endswith(
        f"Question: Q1?\nAnswer: {SHOTS[0]['target']}\n\n"
        f"Question: {question} (All {{{{of}}}} it.)\nAnswer:"
    )
    assert full.arguments[1] == task.generation() and task.generation()["max_gen_toks"] == 512


def test_the_shipped_eight_are_the_papers(session_of):
    session = session_of()
    _, found = prompts_of(session, "interventions_table5.yaml")
    file = read_interventions("interventions_table5.yaml")
    first = {one.row: one for one in found if one.seed == 0}
    days, n_shots = "(Felix works 7 days a week.)", [5, 5, 5, 5, 5, 1, 0, 5]
    ends = {
        1: "",
        2: "",
        3: "Let's think step by step.",
        4: "showing your detailed work.",
        5: "to find the final answer.",
        6: "to find the final answer.",
        7: "",
        8: "each step is clearly justified.",
    }
    for row, one in first.items():
        tail = one.prompt.rsplit("Question: ", 1)[1]
        assert (f"? {days}\n" in tail) == (row > 1), row
        assert tail.endswith(f"{ends[row]} {CUE}" if ends[row] else f"Answer: {CUE}"), row
        assert one.prompt.count("The final answer is \\boxed{") == n_shots[row - 1] + 1, row
        assert one.prompt.startswith(DESCRIPTION) == (row != 7), row
    assert first[7].prompt.startswith("Decompose this problem algebraically.")
    paper = [row.paper["delta_tcb"] for row in file.rows]  # BC table 5, typed from the paper
    assert paper == [8.20, 46.97, 10.95, 62.14, 10.38, 103.87, 49450.23, 58.28]
    prompts = {row: {o.prompt for o in found if o.row == row} for row in first}
    assert [len(prompts[row]) for row in range(1, 9)] == [5, 5, 5, 5, 5, 5, 1, 5]


def test_orders_are_different_the_same_in_every_row_and_kept_by_more_seeds():
    rows = read_interventions("interventions_table5.yaml").rows
    many = orders(rows[0], 120, 7)
    assert many[0] == (0, 1, 2, 3, 4) and len(set(many)) == 120  # all of 5!
    assert orders(rows[0], 5, 7) == many[:5] == orders(rows[7], 5, 7)
    assert orders(rows[0], 5, 8) != many[:5]
    one_of_five = orders(rows[5], 7, 7)
    assert sorted(one_of_five[:5]) == [(0,), (1,), (2,), (3,), (4,)]
    assert one_of_five[5:] == one_of_five[:2]
    assert orders(rows[6], 3, 7) == [(), (), ()]


def test_examples_are_right_and_none_is_the_data_sets(shared_data):
    real = set()
    for name in ("test", "train"):
        for line in (shared_data / "gsm8k" / f"{name}.jsonl").read_text().splitlines():
            real |= runs(json.loads(line)["question"])
    for name in SETS:
        rows = {"algebraic": 0, "arithmetic": 2, "hyper_specific": 4}
        shots = read_interventions("interventions_icl.yaml").rows[rows[name]].shots
        assert len(shots) == 5
        for shot in shots:
            assert not runs(shot["question"]) & real
            *_, last = shot["target"].removesuffix("}.").split("{")
            before = shot["target"].rsplit(" The final", 1)[0]
            assert final_number(before).text == last != "60"


def runs(text, n=8):
    words = text.lower().split()
    return {tuple(words[i : i + n]) for i in range(len(words) - n + 1)}


ERRORS = [
    ([{"description": "a", "prefx": "b"}], "row 1: no key 'prefx'; did you mean 'prefix'?"),
    ([{"prefix": "b"}], "row 1: no description"),
    ([{"description": "a"}, {"description": "a"}], "description 'a' is given twice"),
    ([{"description": "a", "shots": "algebraics"}], "did you mean 'algebraic'?"),
    ([{"description": "a", "shots": "no.jsonl"}], "no.jsonl: cannot be read"),
    ([{"description": "a", "shots": "mine.jsonl", "n_shots": 4}], "number from 0 to 3"),
    ([{"description": "a", "prefix": 3}], "prefix: 3 is no text"),
    ([{"description": "a", "paper": {"delta": 3}}], "paper: no key 'delta'"),
    (["a"], "row 1: 'a' is no mapping"),
    ([], "no rows"),
]


@pytest.mark.parametrize(("rows", "message"), ERRORS, ids=lambda value: str(value)[:20])
def test_a_wrong_file_is_refused_in_one_line(file_of, rows, message):
    with pytest.raises((UsageError, DataError), match=".*") as error:
        read_interventions(file_of(rows))
    assert message in str(error.value) and "\n" not in str(error.value)


def test_wrong_settings_items_and_examples_are_refused(session_of, file_of):
    with pytest.raises(UsageError, match="no such file.*interventions_table5.yaml"):
        read_interventions("nowhere.yaml")
    with pytest.raises(UsageError, match="headline: 3"):
        read_interventions(file_of([{"description": "a"}], headline=3))
    with pytest.raises(
        DataError, match=r"test/811: not among the 30 .* \(test/0 to test/29\).*hub"
    ):
        chosen_items(session_of("test/811"), the_task(session_of()))
    with pytest.raises(UsageError, match="cue='Think'"):
        prompts_of(session_of(cue="Think"), file_of([{"description": "a"}]))
    session = session_of()
    question = the_task(session).eval_docs[5]["question"]
    path = file_of([{"description": "a", "shots": "mine.jsonl"}])
    with Path(path).with_suffix(".jsonl").open("a") as file:
        file.write(json.dumps({"question": question, "target": "x"}))
    with pytest.raises(DataError, match="example 4 of mine.jsonl is test/5 itself"):
        prompts_of(session, path)
    for name, value in (("seeds", 0), ("level", 1.0), ("stable_quantile", 2.0), ("stable_at", -1)):
        with pytest.raises(UsageError, match=name):
            check_settings(read_settings("interventions", None, {name: value}))
    with pytest.raises(UnknownName, match="relative_flip_radius"):
        check_settings(read_settings("interventions", None, {"stable_by": "flip_radius_relative"}))


def run(model, output, path, **over):
    settings = {"interventions": path, "item": "test/5", "seeds": 2, "resamples": 200}
    said_lines = []
    config = RunConfig(
        model=model,
        tasks=("gsm8k_tcb",),
        output_path=output,
        options=TaskOptions(data="sample"),
    )
    settings = read_settings("interventions", None, {**settings, **over})
    return run_study("interventions", config, settings, say=said_lines.append), said_lines


def test_killed_and_resumed_nothing_is_asked_twice(tmp_path, file_of, monkeypatch):
    toy(max_position_embeddings=2048).save_pretrained(tmp_path / "model")
    byte_tokenizer().save_pretrained(tmp_path / "model")
    model = f"hf/{tmp_path / 'model'}"
    rows = [{"description": "a", "shots": "mine.jsonl"}, {"description": "b", "shots": "none"}]
    more = {"max_gen_toks": 4}
    forward = DurableLM._forward

    def cut(self, kind, asks, keep):
        def kept(index, response):
            keep(index, response)
            raise KeyboardInterrupt

        forward(self, kind, asks, kept)

    monkeypatch.setattr(DurableLM, "_forward", cut)
    with pytest.raises(KeyboardInterrupt):
        run(model, tmp_path / "runs", file_of(rows), **more)
    monkeypatch.undo()
    first, lines = run(model, tmp_path / "runs", file_of(rows), **more)
    assert "asked 2, found in the store 1" in lines  # two orders, and one prompt without examples
    again, lines = run(model, tmp_path / "runs", file_of(rows), **more)
    assert "asked 0, found in the store 3" in lines
    assert again.findings.rows == first.findings.rows and again.signature == first.signature
    rows[1]["prefix"] = "Be exact."
    changed, _ = run(model, tmp_path / "runs", file_of(rows), **more)
    assert changed.signature != first.signature  # the file's content is part of it, not its name


@pytest.mark.slow
def test_the_demo_model_answers_a_table(smollm2_folder, tmp_path, file_of):
    suffix = "(It has 2 parts.)"
    rows = [
        {"description": "a", "shots": "mine.jsonl", "n_shots": 1},
        {"description": "b", "shots": "mine.jsonl", "n_shots": 1, "question_suffix": suffix},
        {"description": "c", "question_suffix": suffix},
    ]
    path = file_of(rows, headline=2)
    outcome, _ = run(f"hf/{smollm2_folder}", tmp_path, path, max_gen_toks=12)
    assert outcome.exit_code == 0
    record = json.loads((outcome.folder / "study.json").read_text())
    found = record["summary"]["rows"]
    assert [row["n_prompts"] for row in found] == [2, 2, 1]
    samples = [json.loads(s) for s in (outcome.folder / "samples.jsonl").read_text().splitlines()]
    assert len(samples) == 6
    assert any(s["stability"] for s in samples)
    for row in found:  # the figures are those of the samples
        own = {s["prompt"]: s for s in samples if s["row"] == row["row"]}.values()
        logs = [s["stability"]["log10_delta_tcb"] for s in own if s["stability"]]
        assert row["log10_delta_tcb_mean_n"] == len(logs)
        if logs:
            assert row["log10_delta_tcb_mean"] == pytest.approx(sum(logs) / len(logs))
    names = {figure["name"] for figure in record["figures"]}
    assert names == {"interventions_quadrants", "interventions_delta"}
    assert record["data"]["sha256"]["mine.yaml"]
