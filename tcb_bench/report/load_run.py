"""One run folder: its newest results, grown by what older results of the same folder measured."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tcb_bench.errors import DataError
from tcb_bench.report.load_samples import CellSamples, read_samples, task_of

NO_FACTS = frozenset({"signature", "counts", "usage", "conditions"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One condition of one task as a result file has it, with what its samples come to."""

    id: str
    axes: Mapping[str, Any]
    temperature_effective: Any
    counts: Mapping[str, int]
    metrics: Mapping[str, Mapping[str, Any]]
    completed: Mapping[str, Mapping[str, Any]]  # the same over finished texts only
    perturbation: Mapping[str, int]  # what perturbing its documents came to: flags and counts
    samples: CellSamples | None  # None for a group: its tasks have the samples


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRun:
    """A task as one model answered it.

    Attributes:
        name, signature: as in the result.
        facts: data, references, versions of what scores: all that stands beside the conditions.
        config: the YAML as it was understood.
        usage: tokens over the conditions that are kept.
        cells: condition id -> condition.
    """

    name: str
    signature: str
    facts: Mapping[str, Any]
    config: Mapping[str, Any]
    usage: Mapping[str, int]
    cells: Mapping[str, Cell]


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What one folder holds.

    Attributes:
        label: the model's name, unique in a report; ``folder`` the folder's last two names.
        top: the newest result without its ``tcb_bench`` block; ``block`` is that block.
        tasks: task or group -> what was measured.
        notices: what a reader must know: files that were left out, partial results.
    """

    label: str
    folder: str
    top: Mapping[str, Any]
    block: Mapping[str, Any]
    tasks: Mapping[str, TaskRun]
    notices: Sequence[str]


def read_run(folder: Path) -> Run:
    """The newest results of a folder; conditions they lack come from older ones.

    An older condition counts only where its task has the same signature, for only then does it
    answer the same question.

    Raises:
        DataError: no results, or a file that is none of ours.
    """
    results = {path: _result(path) for path in sorted(folder.glob("results_*.json"), reverse=True)}
    if not results:
        raise DataError(f"{folder}: no results_*.json; give a folder that `tcb-bench run` wrote")
    newest = next(iter(results.values()))
    label = str(newest.get("model_name"))
    notices: list[str] = []
    names = dict.fromkeys(name for r in results.values() for name in r["tcb_bench"]["tasks"])
    tasks = {name: _task(name, results, notices) for name in names}
    if newest["tcb_bench"].get("is_partial"):
        absent = ", ".join(newest["tcb_bench"].get("missing") or {})
        what = f"tasks left out: {absent}" if absent else "the invocation did not finish"
        notices.append(f"partial result ({what})")
    return Run(
        label=label,
        folder="/".join(folder.resolve().parts[-2:]),
        top={key: value for key, value in newest.items() if key != "tcb_bench"},
        block={key: value for key, value in newest["tcb_bench"].items() if key != "tasks"},
        tasks=tasks,
        notices=[f"{label}: {text}" for text in notices],
    )


def _result(path: Path) -> Mapping[str, Any]:
    try:
        result = json.loads(path.read_text(encoding="utf-8"))
        tasks = result["tcb_bench"]["tasks"]
        cells = [cell for task in tasks.values() for cell in task["conditions"].values()]
        is_ours = all(isinstance(cell["metrics"], dict) for cell in cells)
        is_ours = is_ours and all(isinstance(task["signature"], str) for task in tasks.values())
    except (ValueError, KeyError, TypeError, AttributeError):
        is_ours = False
    if not is_ours:
        raise DataError(f"{path}: not a result of tcb-bench; move it out of the run folder")
    return result  # type: ignore[no-any-return]


def _task(name: str, results: Mapping[Path, Mapping[str, Any]], notices: list[str]) -> TaskRun:
    """The task's newest entry, and from older ones the conditions that it lacks."""
    holders = {path: r for path, r in results.items() if name in r["tcb_bench"]["tasks"]}
    first = next(iter(holders.values()))
    entry = first["tcb_bench"]["tasks"][name]
    cells: dict[str, Cell] = {}
    usage: dict[str, int] = {}
    for path, result in holders.items():
        older = result["tcb_bench"]["tasks"][name]
        lacking = [cell for cell in older["conditions"] if cell not in cells]
        if not lacking:
            continue
        if older["signature"] != entry["signature"]:
            notices.append(_left_out(name, path, lacking, entry["signature"], older["signature"]))
            continue
        file = _sample_file(path, name)
        read = read_samples(file, lacking) if file else {}
        cells |= {cell: _cell(cell, older["conditions"][cell], read.get(cell)) for cell in lacking}
        used = [cell.usage for cell in read.values()] or [older.get("usage") or {}]
        usage = {key: usage.get(key, 0) + sum(u.get(key, 0) for u in used) for key in used[0]}
    return TaskRun(
        name=name,
        signature=entry["signature"],
        facts={key: value for key, value in entry.items() if key not in NO_FACTS},
        config=(first.get("configs") or {}).get(name) or {},
        usage=usage,
        cells=cells,
    )


def _noted(entry: Mapping[str, Any]) -> list[tuple[str, Mapping[str, int]]]:
    """What was counted of a condition's texts, each with what it counts."""
    changes = entry.get("perturbation") or {}
    found = [("documents", changes.get("flags")), ("sum", changes.get("counts"))]
    return [(unit, part or {}) for unit, part in [*found, ("answers", entry.get("text_flags"))]]


def _cell(name: str, entry: Mapping[str, Any], samples: CellSamples | None) -> Cell:
    return Cell(
        id=name,
        axes=entry["axes"],
        temperature_effective=entry.get("temperature_effective"),
        counts=entry["counts"],
        metrics=entry["metrics"],
        completed=entry.get("metrics_completed") or {},
        perturbation={
            f"{name} ({unit})": n for unit, part in _noted(entry) for name, n in part.items()
        },
        samples=samples,
    )


def _sample_file(result: Path, task: str) -> Path | None:
    """The samples that were written with a result; a group has none of its own."""
    stamp = result.stem.removeprefix("results_")
    beside = (p for p in sorted(result.parent.glob("samples_*.jsonl")) if p.stem.endswith(stamp))
    return next((path for path in beside if task_of(path) == task), None)


def _left_out(name: str, path: Path, cells: Sequence[str], new: str, old: str) -> str:
    settings = ", ".join(
        f"{key} {before or 'none'} then, {now or 'none'} now"
        for key, (before, now) in signature_differences(old, new).items()
    )
    return (
        f"{name}: {len(cells)} conditions of {path.name} are left out, "
        f"for they were measured with other settings ({settings})"
    )


def signature_parts(signature: str) -> dict[str, str]:
    """Setting -> value, as one signature has them.

    >>> signature_parts("task:gsm8k_tcb|dtype:float32")
    {'task': 'gsm8k_tcb', 'dtype': 'float32'}
    """
    return dict(part.partition(":")[::2] for part in signature.split("|") if ":" in part)


def signature_differences(a: str, b: str) -> dict[str, tuple[str | None, str | None]]:
    """Setting -> its two values, where two signatures differ; None where one lacks it."""
    first, second = signature_parts(a), signature_parts(b)
    keys = dict.fromkeys([*first, *second])
    return {k: (first.get(k), second.get(k)) for k in keys if first.get(k) != second.get(k)}
