"""What a result lacks: tasks of a group, conditions of a sweep, answers, its end."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from tcb_bench.records import ResultFile, TaskRecord

Cell = frozenset[tuple[str, Any]]


def missing_of(result: ResultFile, task: str) -> list[str]:
    """What is missing of a task or group, a phrase each; a ``--limit`` is nothing missing."""
    record = result.tcb_bench.tasks[task]
    found = list(record.missing)
    for name in record.data.members or (task,):
        found += _conditions(result.configs.get(name, {}).get("sweep") or {}, record)
    found = list(dict.fromkeys(found))
    if record.counts.error:
        found.append(f"answers: {record.counts.error} responses in state error")
    if result.tcb_bench.wall_time_s is None:
        found.append("the end: the run was interrupted")
    return found


def _conditions(sweep: Mapping[str, Any], record: TaskRecord) -> list[str]:
    """Conditions of the task's own sweep that the result does not have."""
    axes = {axis: _values(axis, given) for axis, given in sweep.items()}
    if not axes:
        return []
    there: set[Cell] = {frozenset(cell.axes.items()) for cell in record.conditions.values()}
    cells = itertools.product(
        *([(axis, value) for value in values] for axis, values in axes.items())
    )
    return [
        "condition " + ",".join(f"{axis}={value}" for axis, value in cell)
        for cell in cells
        if frozenset(cell) not in there
    ]


def _values(axis: str, given: Any) -> list[Any]:
    """The values of an axis: a list, or ``{start, stop, step}`` stepped in decimals."""
    kind = float if axis in ("temperature", "top_p") else None
    if isinstance(given, Mapping):
        start, stop, step = (Decimal(repr(given[key])) for key in ("start", "stop", "step"))
        steps = [start + i * step for i in range(int((stop - start) / step) + 1)]
        return [(kind or int)(value) for value in steps]
    return [kind(value) for value in given] if kind else list(given)
