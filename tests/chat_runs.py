"""API models on the fault server: one asked directly, and whole runs of tiny tasks in this process."""

import json
import os
from contextlib import contextmanager
from unittest import mock

from lm_eval.api.instance import Instance

from tcb_bench.config import RunConfig, TaskOptions
from tcb_bench.models.chat_load import load_chat
from tcb_bench.models.chat_options import ApiOptions
from tcb_bench.models.resolve import resolve
from tcb_bench.run import run

KEY = "sk-test-0123456789abcdef"
ELEVEN = [round(0.2 * i, 1) for i in range(11)]  # the temperatures of the preset
QUESTIONS = [{"q": f"Name the {n} river.", "a": "stone"} for n in ("first", "second", "third")]
SUMS = [{"q": f"What is {n} + 1?", "a": str(n + 1)} for n in (1, 2, 3, 4)]
LETTERS = [{"q": f"Question {n}?", "a": n % 4} for n in range(4)]
RIVERS = """\
task: rivers
class: !function tcb_bench.task.TcbTask
dataset_path: json
dataset_kwargs: {data_files: {test: rivers.jsonl}}
test_split: test
doc_to_text: q
doc_to_target: a
generation_kwargs: {until: ["\\n\\n"], max_gen_toks: 60}
repeats: 3
sweep: {temperature: [0.0, 0.6, 1.4]}
tcb: {request: generate, answer: short_answer}
metadata: {version: 1, license: CC0-1.0}
"""
SUMS_YAML = """\
task: sums
class: !function tcb_bench.task.TcbTask
dataset_path: json
dataset_kwargs: {data_files: {test: sums.jsonl}}
test_split: test
doc_to_text: q
doc_to_target: a
generation_kwargs: {until: ["Question:"], max_gen_toks: 60}
tcb: {request: generate_traced, position: final_number, answer: final_number}
metadata: {version: 1, license: CC0-1.0}
"""
LETTERS_YAML = """\
task: letters
class: !function tcb_bench.task.TcbTask
dataset_path: json
dataset_kwargs: {data_files: {test: letters.jsonl}}
test_split: test
doc_to_text: q
doc_to_choice: ["A", "B", "C", "D"]
doc_to_target: a
tcb: {request: next_token, position: prompt_end}
metadata: {version: 1, license: CC0-1.0}
"""


def write_tasks(folder):
    """The tasks ``rivers`` (27 texts), ``sums`` (4 texts) and ``letters`` (4 choices)."""
    folder.mkdir(exist_ok=True)
    for name, yaml, rows in (
        ("rivers", RIVERS, QUESTIONS),
        ("sums", SUMS_YAML, SUMS),
        ("letters", LETTERS_YAML, LETTERS),
    ):
        (folder / f"{name}.yaml").write_text(yaml)
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def arguments(server, args="", key=KEY):
    """``--model_args`` for the server; ``key=None``: the key comes from the environment."""
    url = server if isinstance(server, str) else server.url
    named = f",api_key={key}" if key else ""
    return f"base_url={url}{named}" + (f",{args}" if args else "")


def chat(server, model="openai/gpt-4o", args="", *, folder=None, **api):
    """A ChatAPI for the server; ``api`` are ApiOptions."""
    spec = resolve(model, arguments(server, args), api=ApiOptions(**api))
    return load_chat(spec, folder / "log" if folder else None)


def text_request(prompt, **over):
    """A request for a text, every parameter stated, greedy without stability unless ``over``."""
    kwargs = {"until": [], "max_gen_toks": 60, "temperature": 0.0, "top_p": 1.0, "top_k": 0}
    kwargs |= {"repetition_penalty": 1.0, "min_p": 0.0, "seed": None, **over}
    if kwargs["temperature"] > 0 and kwargs["seed"] is None:
        kwargs["seed"] = 7
    return Instance("generate_traced", {}, (prompt, kwargs), 0)


def ask(lm, prompts, **over):
    """The responses to texts asked for directly."""
    return lm.generate_traced([text_request(prompt, **over) for prompt in prompts])


def choose(lm, prompts, choices=("A", "B", "C", "D")):
    """The responses to questions with choices."""
    return lm.next_token([Instance("next_token", {}, (p, choices), 0) for p in prompts])


def run_config(server, folder, tasks, model="openai/gpt-4o", args="", **api):
    """The settings of a run.

    Args:
        server: a FaultServer or an address.
        folder: where the tasks are written and the run folder is made.
        tasks: names, with commas.
        model: ``provider/name``.
        args: more model arguments.
        api: ApiOptions, and ``options`` of the tasks, ``key`` (None: of the environment), ``fresh``.
    """
    options = TaskOptions(**{"bert_score_model": "none", **api.pop("options", {})})
    key, fresh = api.pop("key", KEY), api.pop("fresh", False)
    return RunConfig(
        model=model,
        model_args=arguments(server, args, key),
        tasks=tuple(tasks.split(",")),
        options=options,
        include_path=(write_tasks(folder / "tasks"),),
        output_path=folder / "runs",
        fresh=fresh,
        api=ApiOptions(**api),
    )


def run_api(server, folder, tasks, model="openai/gpt-4o", args="", *, lines=None, **api):
    """A whole run in this process; ``lines`` gets each line for the user."""
    config = run_config(server, folder, tasks, model, args, **api)
    return run(config, say=(lines if lines is not None else []).append)


def samples(outcome, task=""):
    """Sample rows of a run: (condition, document) -> the sample."""
    found = {}
    for path in outcome.sample_paths:
        for line in path.read_text().strip().split("\n"):  # U+2028 may stand in a text
            sample = json.loads(line)
            if task in ("", sample["task"]):
                found[sample["condition"], sample["doc_id"]] = sample
    return found


def rows(outcome, task=""):
    """All scored rows, in order of condition, document and repeat."""
    return [row for _, sample in sorted(samples(outcome, task).items()) for row in sample["rows"]]


def block(outcome, task):
    """What the result says of a task."""
    return outcome.result["tcb_bench"]["tasks"][task]


@contextmanager
def environment(**variables):
    """Environment variables for a while."""
    with mock.patch.dict(os.environ, variables):
        yield
