"""The prompts study, whole, on a user's own tasks and a tiny random model.

Oracles: prompts written by hand, the model's own logits, the store, a second invocation.
"""

import json
import sqlite3
import zlib

import pytest
import torch
import yaml
from toy_models import byte_tokenizer, toy

from tcb_bench.cli import run_command
from tcb_bench.config import RunConfig, TaskOptions
from tcb_bench.errors import UsageError
from tcb_bench.load_tasks import load_tasks, quiet
from tcb_bench.studies.prompts_space import Prompt, read_space
from tcb_bench.studies.prompts_task import baseline_of, read_base, with_sizes, write_variant
from tcb_bench.studies.run_study import run_study
from tcb_bench.studies.settings import read_settings

pytestmark = pytest.mark.slow

SPACE = {
    "instructions": ["Be careful.", "Think."],
    "directives": ["Choose {{1 + 1}} times."],
    "reflections": ["Check it."],
    "phrasings": ["Here it is."],
    "n_shots": [0, 1, 2],
    "orders": 3,
    "shots": {"own": {}},
}

CHOICE = """\
task: colours
class: !function tcb_bench.task.TcbTask
dataset_path: json
dataset_kwargs: {data_files: {test: colours.jsonl, train: more.jsonl}}
test_split: test
training_split: train
doc_to_text: q
gen_prefix: "Answer:"
doc_to_choice: ["A", "B"]
doc_to_target: a
num_fewshot: 0
tcb: {request: next_token, columns: {question: q}}
metadata: {version: 1, license: CC0-1.0}
"""
SUM = """\
task: sums
class: !function tcb_bench.task.TcbTask
dataset_path: json
dataset_kwargs: {data_files: {test: sums.jsonl}}
test_split: test
description: "Add.\\n\\n"
doc_to_text: "Q: {{question}}\\nA:"
doc_to_target: answer
num_fewshot: 2
fewshot_config: {sampler: first_n}
generation_kwargs: {until: ["Q:"], max_gen_toks: 6}
tcb: {request: generate_traced, position: final_number, shots: shots.jsonl}
metadata: {version: 1, license: CC0-1.0}
"""
NAMES = ("snow", "coal", "milk", "night", "paper", "soot", "chalk", "ink")


def write_rows(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.fixture(scope="module")
def tasks(tmp_path_factory):
    folder = tmp_path_factory.mktemp("own")
    rows = [{"q": f"Is {name} white, or is it black?", "a": i % 2} for i, name in enumerate(NAMES)]
    write_rows(folder / "colours.jsonl", rows)
    write_rows(folder / "more.jsonl", [{"q": f"Is {n} white?", "a": 1} for n in ("tar", "jet")])
    sums = [{"question": f"What is {i} plus {i + 1}?", "answer": str(2 * i + 1)} for i in range(6)]
    write_rows(folder / "sums.jsonl", sums)
    write_rows(
        folder / "shots.jsonl",
        [{"question": f"What is {i} plus 1?", "answer": f"It is {i + 1}."} for i in range(10, 13)],
    )
    (folder / "colours.yaml").write_text(CHOICE)
    (folder / "sums.yaml").write_text(SUM)
    (folder / "space.yml").write_text(yaml.safe_dump(SPACE))
    return folder


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "tiny"
    toy(max_position_embeddings=2048).save_pretrained(folder)
    byte_tokenizer().save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def study(tasks, model, tmp_path_factory):
    """study(task, **settings) on the tiny model, with what it said."""
    output = tmp_path_factory.mktemp("studies")

    def go(task, **changes):
        sizes = {"questions": 8, "budget": 3, "seeds": 1, "resamples": 50}
        given = {"space": str(tasks / "space.yml"), **sizes, **changes}
        config = RunConfig(
            model=f"hf/{model}",
            tasks=(task,),
            output_path=output,
            options=TaskOptions(),
            include_path=(tasks,),
            device="cpu",
            batch_size="4",
        )
        said = []
        settings = read_settings("prompts", None, given)
        return run_study("prompts", config, settings, tag=task, say=said.append), said

    return go


def requests_of(name, include, **options):
    """Document id -> prompt, of a task loaded by name."""
    with quiet():
        (task,) = load_tasks([name], TaskOptions(**options), include).tasks.values()
        task.build_all_requests(limit=None, rank=0, world_size=1)
    return {one.doc["tcb_id"]: one.args[0] for one in task.instances}


def variant(task, prompt, include, folder, *, data="hub", **changes):
    """The prompts of ``task`` written with ``prompt`` and loaded again."""
    space = read_space({**SPACE, **changes}, "next_token")
    with quiet():
        (base_task,) = load_tasks([task], TaskOptions(data=data), include).tasks.values()
    base = read_base(base_task, include, space, pool=9, max_gen_toks=None)
    space = with_sizes(space, [base])
    if prompt is None:
        prompt = baseline_of([base])
    write_variant(base, prompt, space, 0, folder / "new.yaml")
    return requests_of(base.new_name, [*include, folder], data=data)


def test_a_prompt_is_rendered_as_written_by_hand(tasks, tmp_path):
    prompt = Prompt(
        instruction="Think.", directive=SPACE["directives"][0], reflection="Check it.", n_shots=1
    )
    found = variant("colours", prompt, [tasks], tmp_path)
    assert found["0"] == (
        "Think. Check it.\n\nChoose 2 times.\nIs tar white? Answer: B\n\n"
        "Choose 2 times.\nIs snow white, or is it black? Answer:"
    )
    after = variant("colours", prompt, [tasks], tmp_path / "b", directive_place="after")
    assert after["0"].endswith("Is snow white, or is it black?\nChoose 2 times.\nAnswer:")
    own = variant("sums", Prompt(instruction="Think."), [tasks], tmp_path / "c")
    assert own["0"] == "Add. Think.\n\nQ: What is 0 plus 1?\nA:"


@pytest.mark.parametrize("task", ["mmlu_tcb_philosophy", "gsm8k_tcb", "colours", "sums"])
def test_the_baseline_is_the_tasks_own_prompt(task, tasks, tmp_path):
    data = "hub" if task in ("colours", "sums") else "sample"
    original = requests_of(task, [tasks], data=data)
    assert len(original) > 3
    assert variant(task, None, [tasks], tmp_path, data=data) == original


def test_a_python_file_beside_the_task_comes_along(tasks, tmp_path):
    own = tmp_path / "own"
    own.mkdir()
    (own / "target.py").write_text("def gold(doc):\n    return doc['a']\n")
    write_rows(own / "data.jsonl", [{"q": f"Q{i}", "a": i % 2} for i in range(4)])
    text = CHOICE.replace("doc_to_target: a", "doc_to_target: !function target.gold")
    text = text.replace("{test: colours.jsonl, train: more.jsonl}", "{test: data.jsonl}")
    text = text.replace("training_split: train\n", "").replace("task: colours", "task: with_code")
    (own / "with_code.yaml").write_text(text)
    found = variant("with_code", Prompt(instruction="Think."), [own], tmp_path / "new")
    assert found["3"] == "Think.\n\nQ3 Answer:"
    (own / "with_code.yaml").write_text(
        text.replace("doc_to_text: q", "doc_to_text: !function target.gold")
    )
    with pytest.raises(UsageError, match="doc_to_text is a Python function"):
        variant("with_code", Prompt(), [own], tmp_path / "other")


def record_of(outcome):
    record = json.loads((outcome.folder / "study.json").read_text())
    lines = (outcome.folder / "samples.jsonl").read_text().splitlines()
    return record, [json.loads(line) for line in lines]


def stored(folder):
    """Every request in the store."""
    connection = sqlite3.connect(f"file:{folder / 'store.sqlite'}?mode=ro", uri=True)
    rows = connection.execute("SELECT request FROM responses").fetchall()
    connection.close()
    return [json.loads(zlib.decompress(request)) for (request,) in rows]


@pytest.fixture(scope="module")
def colours(study):
    return study("colours")[0]


def test_the_whole_loop_on_a_users_task(study, colours):
    outcome = colours
    record, rows = record_of(outcome)
    tables = {table["name"]: table["rows"] for table in record["tables"]}
    paper = [r for r in tables["prompts_strategies"] if r["source"] == "paper, LLaMA-3.1-8B"]
    assert [(r["acc"], r["delta"], r["ppl"], r["acc_worst"]) for r in paper] == [
        (0.55, 15.4, 3.2, 0.25),
        (0.7, 18.2, 1.9, 0.4),
        (0.72, 35.8, 2.4, 0.65),
    ]
    choose = record["summary"]["questions_choosing"]
    report = record["summary"]["questions_reported"]
    assert len(choose) == len(report) == 4 and not set(choose) & set(report)
    for row in rows:  # what chooses is never reported on, and the other way round
        here = f"{row['task']}/{row['id']}"
        assert here in {"search": choose}.get(
            row["phase"], report if "report" in row["phase"] else choose + report
        )
    trace = record["summary"]["trace"]
    assert [sum(s["guide"] == guide for s in trace) for guide in ("delta", "ppl", "random")] == [
        4
    ] * 3
    for guide in ("delta", "ppl", "random"):  # the rows give the scores again
        (choice,) = (s for s in trace if s["guide"] == guide and s["is_choice"])
        mine = [r for r in rows if r["phase"] == "search" and r["key"] == choice["key"]]
        assert sum(r["acc"] for r in mine) / 4 == pytest.approx(choice["acc"])
        assert sum(r["nll"] for r in mine) / 4 == pytest.approx(choice["nll"])
        assert record["summary"]["choices"][guide]["key"] == choice["key"]
    for table in record["tables"]:
        for row in table["rows"]:
            is_paper = str(row.get("source", "")).startswith("paper")
            assert is_paper or row.get("n", 1) or row["reason"], table["name"]
    assert not (outcome.folder / ".candidates").exists()
    again, said = study("colours")
    assert said[-1].startswith("asked 0,")
    assert record_of(again)[1] == rows


def test_the_winner_is_a_task_that_gives_the_prompts_that_were_scored(colours, capsys):
    outcome = colours
    winner = outcome.folder / "winner.yaml"
    found = requests_of("colours_prompt", [outcome.folder])
    assert len(found) == 8 and set(found.values()) <= {
        one["arguments"][0] for one in stored(outcome.folder)
    }
    assert run_command(["validate", str(winner)]) == 0
    assert "1 task(s) valid" in capsys.readouterr().out
    moved = yaml.safe_load(winner.read_text().replace("!function ", ""))
    assert moved["dataset_kwargs"]["data_files"]["test"].startswith("..")


def test_a_final_numbers_likelihood_is_the_models_own(study, model, tasks):
    outcome, _ = study("sums")
    record, rows = record_of(outcome)
    assert record["summary"]["choices"]["baseline"]["n_shots"] == 2
    clean = [r for r in rows if r["phase"] == "report baseline" and not r["condition"]]
    assert all(r["nll"] > 0 for r in clean)
    pairs = [
        one["arguments"] for one in stored(outcome.folder) if one["request"] == "loglikelihood"
    ]
    from transformers import AutoModelForCausalLM, AutoTokenizer

    oracle = AutoModelForCausalLM.from_pretrained(model).double()
    tokenizer = AutoTokenizer.from_pretrained(model)
    expected = []
    for context, text in pairs:
        whole = tokenizer(context + text, return_tensors="pt").input_ids
        spaces = len(context) - len(context.rstrip())  # they belong to the answer
        n = len(text) + spaces  # a token is a byte here
        with torch.no_grad():
            logs = torch.log_softmax(oracle(whole).logits[0, -n - 1 : -1], -1)
        expected.append(-float(logs.gather(1, whole[0, -n:, None]).sum()))
    for row in clean:
        assert min(abs(row["nll"] - value) for value in expected) < 1e-3
    questions = {row["id"]: 2 * int(row["id"]) + 1 for row in clean}
    assert {text.strip() for _, text in pairs} >= {str(value) for value in questions.values()}


def test_what_cannot_be_optimised_is_refused(study, tasks):
    with pytest.raises(UsageError, match="budget=0"):
        study("colours", budget=0)
    with pytest.raises(UsageError, match="winner"):
        study("colours", winner="luck")
    with pytest.raises(UsageError, match="to perturb"):
        renamed = CHOICE.replace(", columns: {question: q}", "").replace("colours\n", "plain\n", 1)
        (tasks / "plain.yaml").write_text(renamed)
        study("plain")
