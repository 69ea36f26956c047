"""Run folders as a run writes them, with scores that the caller decides."""

import json
import random
from dataclasses import dataclass, field
from pathlib import Path

from tcb_bench.conditions import Condition

CONTEXTS = ("original", "replace_half", "remove_half", "ner")
PAPER_TEMPERATURES = tuple(round(0.2 * i, 1) for i in range(11))
TASK = "hotpotqa_tempperturb"
STATES = ("scored", "truncated", "empty", "filtered", "error", "unscored")
STAMP = "2026-01-01T00-00-00.000000"


@dataclass(kw_only=True)
class Written:
    """What a synthetic run has; ``score(axes, question, repeat)`` gives the one score."""

    model: str = "toy"
    temperatures: tuple = (0.0, 0.6, 2.0)
    contexts: tuple = CONTEXTS
    types: tuple = ("bridge", "comparison")
    n_questions: int = 4
    repeats: int = 3
    score: object = None
    text: object = lambda axes, question, repeat: f"The answer to {question} is {repeat}."
    keep: object = lambda axes: True  # which conditions were run
    change_row: object = lambda axes, question, row: row
    weights: dict = field(default_factory=dict)
    metric: str = "bertscore_f1"
    effective: object = "true"
    task: str = TASK
    settings: str = "limit:all"
    is_partial: bool = False
    has_stability: bool = False
    dtype: str | None = None
    backend: str | None = None
    data: str = "abc"  # digest of the documents
    facts: dict = field(default_factory=dict)  # more of what the model says of itself
    tcb: dict = field(default_factory=dict)  # the task's own mapping in its YAML


def noisy(model_seed, *, fall=0.05, start=1.0, noise=0.004):
    """Scores that fall and scatter with T above ``start``, more so in a perturbed context."""

    def score(axes, question, repeat):
        temperature, context = axes.get("temperature", 0.0), axes.get("context", "original")
        base = random.Random(f"{model_seed}/{question}").gauss(0.93, 0.015)
        draw = random.Random(f"{model_seed}/{question}/{axes}/{repeat}")
        place = CONTEXTS.index(context) if context in CONTEXTS else 1
        excess = max(0.0, temperature - start)
        loss = 0.006 * place + fall * excess**2 * (1 + 0.3 * place) * draw.uniform(0.5, 1.5)
        return min(1.0, base - loss + draw.gauss(0, noise * (0.2 + temperature)))

    return score


def axes_of(run):
    """Axes of every condition that was run, an axis without values left out."""
    given = {"temperature": run.temperatures, "context": run.contexts, "question_type": run.types}
    found = [{}]
    for name, values in given.items():
        found = [{**axes, name: value} for axes in found for value in values] if values else found
    return [axes for axes in found if run.keep(axes)]


def row_of(run, axes, question, repeat):
    score = run.score or noisy(run.model)
    stability = {}
    if run.has_stability and axes.get("temperature", 0.0) == 0.0:
        stability["relative_flip_radius"] = random.Random(question).lognormvariate(-4, 1)
    return run.change_row(
        axes,
        question,
        {
            "repeat": repeat,
            "key": f"{question}/{repeat}",
            "state": "scored",
            "acc": float(repeat % 2 == 0),
            "answer": None,
            "reason": None,
            "stability": stability,
            "text": run.text(axes, question, repeat),
            "finish_reason": "stop",
            "completion_tokens": 5,
            "prompt_tokens": 100,
            "reused_from": None,
            "scores": {run.metric: score(axes, question, repeat), "refusal": 0, "garbled": 0},
        },
    )


def samples_of(run, axes):
    kind = axes.get("question_type", "")
    for number in range(run.n_questions):
        question = f"{kind or 'q'}-{number:03}"
        doc = {"question": f"What is {question}?", "answer": str(number), "type": kind}
        weight = {"weight": run.weights[question]} if question in run.weights else {}
        yield {
            "doc_id": question,
            "task": run.task,
            "condition": Condition(axes).id,
            "doc": doc,
            "target": str(number),
            "reference": f"It is {number}.",
            "prompt": f"Documents ... {doc['question']}",
            "acc": 1.0,
            "rows": [row_of(run, axes, question, repeat) for repeat in range(run.repeats)],
            **weight,
        }


def write_run(folder: Path, run: Written, stamp: str = STAMP) -> Path:
    """Writes one invocation's results and samples into a run folder; returns the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    samples = {Condition(axes).id: list(samples_of(run, axes)) for axes in axes_of(run)}
    lines = [json.dumps(sample) for docs in samples.values() for sample in docs]
    (folder / f"samples_{run.task}_{stamp}.jsonl").write_text("".join(f"{x}\n" for x in lines))
    cells = {}
    for axes in axes_of(run):
        rows = [row for sample in samples[Condition(axes).id] for row in sample["rows"]]
        cells[Condition(axes).id] = {
            "axes": axes,
            "temperature_effective": run.effective,
            "counts": {state: sum(row["state"] == state for row in rows) for state in STATES},
            "metrics": {
                "acc": {"value": 0.5, "ci_low": 0.4, "ci_high": 0.6, "stderr": 0.05, "n": 4}
            },
            "metrics_completed": {},
        }
    (folder / f"results_{stamp}.json").write_text(json.dumps(result_of(run, cells)))
    return folder


def result_of(run, cells):
    precision = {"backend": run.backend, "dtype": run.dtype}
    parts = [f"{name}:{value}" for name, value in precision.items() if value]
    parts += [f"data:sample@{run.data}", run.settings, "seed:0"]
    signature = "|".join([f"task:{run.task}|v:1|model:{run.model}", *parts])
    entry = {
        "signature": signature,
        "data": {"id": "toy/data", "split": "train", "source": "sample", "sha256": run.data},
        "counts": {},
        "usage": {"prompt_tokens": 1, "completion_tokens": 1},
        "conditions": cells,
    }
    config = {"task": run.task, "sweep": {"context": list(run.contexts)}, "repeats": run.repeats}
    config |= {"tcb": run.tcb} if run.tcb else {}
    about = {"model": run.model, "backend": "hf", "n_parameters": 135, "revision": None}
    return {
        "results": {run.task: {"alias": run.task}},
        "group_subtasks": {},
        "configs": {run.task: config},
        "versions": {run.task: 1},
        "model_name": run.model,
        "date": 1796030352.8,
        "tcb_bench": {
            "schema_version": 1,
            "environment": {"python": "3.11", "numpy": "2.0"},
            "model": about | run.facts,
            "seeds": {"run": 0},
            "wall_time_s": 12.5,
            "is_partial": run.is_partial,
            "missing": {},
            "tasks": {run.task: entry},
        },
    }


def rewrite(path, change):
    """Applies ``change`` to the JSON of a result file."""
    value = json.loads(path.read_text(encoding="utf-8"))
    change(value)
    path.write_text(json.dumps(value), encoding="utf-8")
