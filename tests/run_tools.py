"""Small tasks and a small run on the real model, shared by the tests of whole runs."""

import json

import pytest

from tcb_bench.config import RunConfig, TaskOptions

QUESTIONS = [
    {"q": "The capital of France is", "a": "Paris"},
    {"q": "Two plus two is", "a": "4"},
    {"q": "The opposite of hot is", "a": "cold"},
]
SWEEP = """\
task: phrases
class: !function tcb_bench.task.TcbTask
dataset_path: json
dataset_kwargs: {data_files: {test: phrases.jsonl}}
test_split: test
doc_to_text: q
doc_to_target: a
generation_kwargs: {until: ["\\n"], max_gen_toks: 6}
repeats: 3
sweep: {temperature: [0.0, 0.6, 1.2]}
tcb: {request: generate_traced, position: first, answer: exact}
metadata: {version: 1, license: CC0-1.0}
"""
STOCK = """\
task: stock_choice
dataset_path: json
dataset_kwargs: {data_files: {test: DATA}}
test_split: test
output_type: multiple_choice
doc_to_text: "{{q}}"
doc_to_choice: "{{['Paris', '4', 'cold']}}"
doc_to_target: "{{['Paris', '4', 'cold'].index(a)}}"
metric_list: [{metric: acc, aggregation: mean, higher_is_better: true}]
metadata: {version: 1.0}
"""


@pytest.fixture(scope="module")
def task_folder(tmp_path_factory):
    task_folder = tmp_path_factory.mktemp("tasks")
    data = task_folder / "phrases.jsonl"
    data.write_text("".join(json.dumps(q) + "\n" for q in QUESTIONS))
    (task_folder / "phrases.yaml").write_text(SWEEP)
    (task_folder / "stock.yaml").write_text(STOCK.replace("DATA", str(data)))
    return task_folder


@pytest.fixture(scope="module")
def do(smollm2_folder, tmp_path_factory):
    """run(...) on the real model with everything small."""
    from tcb_bench.run import run

    output = tmp_path_factory.mktemp("runs")

    def do(name, *tasks, include=(), **more):
        options = TaskOptions(**{"data": "sample", "limit": 2, **more.pop("options", {})})
        return run(
            RunConfig(
                model=f"hf/{smollm2_folder}",
                tasks=tasks,
                options=options,
                include_path=include,
                output_path=output / name,
                **more,
            )
        )

    return do


def samples(outcome, task):
    [path] = [p for p in outcome.sample_paths if p.name.startswith(f"samples_{task}_2")]
    return [json.loads(line) for line in path.read_text().splitlines()]
