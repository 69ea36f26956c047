"""Pairs of runs of one model that differ in dtype or back end alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

from tcb_bench.report.load_run import Run, TaskRun, signature_differences, signature_parts

BACKENDS = ("hf", "vllm")
"""First parts of a model's label that say what ran it, not which model it is."""

MAY_DIFFER = frozenset({"model", "backend", "dtype", "weights"})
"""Parts of a signature: names are compared without the back end, and hf's digest sees the dtype."""

OF_THE_WEIGHTS = (
    *("quantization", "peft", "delta", "gguf_file", "subfolder", "autogptq", "gptqmodel"),
)
"""What makes another model of the same name; compared where one back end states both."""

DTYPES = ("float64", "float32", "float16", "bfloat16")
"""The widest first; of two with 16 bits float16 has the longer mantissa."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """One task as one model answered it twice.

    Attributes:
        task: a task, or a group whose tasks are taken together.
        reference: the run of the wider dtype, of equal dtypes that of the back end hf.
        other: the run compared with it.
        members: the tasks that have the samples.
        reason: why the two cannot be compared; None where they can.
    """

    task: str
    reference: Run
    other: Run
    members: Sequence[str]
    reason: str | None


def model_name(run: Run) -> str:
    """The model's name without what ran it: ``org/name`` of ``hf/org/name``."""
    label = str(run.top.get("model_name"))
    backend, _, name = label.partition("/")
    return name if name and backend in BACKENDS else label


def setting(task: TaskRun) -> tuple[str | None, str | None]:
    """Dtype and back end."""
    parts = signature_parts(task.signature)
    return parts.get("dtype"), parts.get("backend")


def pairs(runs: Sequence[Run]) -> list[Pair]:
    """Every two runs of one model, task by task, whose dtype or back end differs.

    A group of tasks is one pair. Where its two data differ, those of its tasks whose data agree
    are pairs of their own.
    """
    found = []
    for a, b in combinations(runs, 2):
        if model_name(a) == model_name(b):
            found += _pairs_of(a, b)
    return found


def _pairs_of(a: Run, b: Run) -> list[Pair]:
    shared = [n for n in a.tasks if n in b.tasks and setting(a.tasks[n]) != setting(b.tasks[n])]
    found: dict[str, Pair] = {name: _pair(a, b, name) for name in shared}
    groups = [pair for name, pair in found.items() if pair.members != [name]]
    for group in groups:
        for name in group.members:
            if name in found and (group.reason is None or found[name].reason is not None):
                del found[name]  # the group says it
    return list(found.values())


def _pair(a: Run, b: Run, name: str) -> Pair:
    reference, other = sorted((a, b), key=lambda run: _rank(run.tasks[name]))
    inside = reference.tasks[name].config.get("task")
    members = inside if isinstance(inside, list) else [name]
    reason = _reason(reference, other, name)
    return Pair(task=name, reference=reference, other=other, members=members, reason=reason)


def _rank(task: TaskRun) -> tuple[int, bool]:
    """Lowest for the run to measure others by; runs that rank alike keep their order."""
    dtype, backend = setting(task)
    return DTYPES.index(dtype) if dtype in DTYPES else len(DTYPES), backend != "hf"


def _reason(a: Run, b: Run, name: str) -> str | None:
    """What makes two runs of a task answer different questions, or be different models."""
    first, second = a.tasks[name], b.tasks[name]
    unlike = signature_differences(first.signature, second.signature)
    is_file_digest = setting(first)[1] == setting(second)[1] == "vllm"  # of weights as stored
    free = MAY_DIFFER - {"weights"} if is_file_digest else MAY_DIFFER
    unlike = {key: values for key, values in unlike.items() if key not in free}
    data = tuple((task.facts.get("data") or {}).get("sha256") for task in (first, second))
    if "data" in unlike or data[0] != data[1]:
        marks = unlike.get("data") or tuple(str(mark)[:12] for mark in data)
        return f"not compared: other documents (data {marks[0]} and {marks[1]})"
    models = (a.block.get("model") or {}), (b.block.get("model") or {})
    if setting(first)[1] == setting(second)[1]:
        stated = {key: (models[0].get(key), models[1].get(key)) for key in OF_THE_WEIGHTS}
        unlike |= {key: values for key, values in stated.items() if values[0] != values[1]}
    if not unlike:
        return None
    text = ", ".join(f"{key} {x or 'none'} and {y or 'none'}" for key, (x, y) in unlike.items())
    return f"not compared: other settings ({text})"
