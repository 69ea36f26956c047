"""How much a run will ask, counted without a model: what ``--dry-run`` shows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tcb_bench.conditions import Condition, conditions
from tcb_bench.config import TaskOptions
from tcb_bench.errors import UsageError
from tcb_bench.selection import limit_size
from tcb_bench.task_files import TcbSpec, catalogue, expand, read_strict, sweep_axes, tcb_spec
from tcb_bench.task_sweep import narrowed


@dataclass(frozen=True, slots=True)
class Planned:
    """What one task will ask of one model.

    Attributes:
        task: its name; ``conditions`` are the cells of its sweep (1 without one).
        questions: different documents; ``runs`` is how often each is asked in a condition.
        responses: in all.
        is_design: counted from the YAML's strata and draw, the data not looked at.
    """

    task: str
    conditions: int
    questions: int
    runs: int
    responses: int
    is_design: bool


def planned(
    names: Sequence[str], options: TaskOptions, include: Sequence[Path] = ()
) -> list[Planned]:
    """What each task of ``names`` will ask.

    A task with strata and a draw is counted by its design where the data are on the hub (a cell may
    turn out to hold fewer); every other task by its documents.

    Raises:
        UnknownName, UsageError, DataError: as a run would.
    """
    known = catalogue(include)
    options = replace(options, reference="short", references=None)  # they change no count
    found = []
    for leaf in expand(names, known):
        yaml = read_strict(known[leaf].path)
        if yaml.kind != "task":
            raise UsageError(f"{leaf}: one of lm-eval's own tasks; --dry-run cannot count it")
        spec = tcb_spec(yaml.config, leaf)
        axes = narrowed(sweep_axes(yaml.config, spec, leaf), options.where, leaf)
        cells, runs = conditions(axes), int(yaml.config.get("repeats", 1))
        if options.data == "hub" and spec.strata and spec.draw:
            found.append(_by_design(leaf, spec, cells, runs, options))
        else:
            found.append(_by_data(leaf, runs, options, include))
    return found


def conditions_of(task: str, options: TaskOptions, include: Sequence[Path] = ()) -> list[Condition]:
    """The conditions of one task, in the order of a run; ``--where`` is respected.

    Raises:
        UnknownName: no such task.
        UsageError: it has no sweep.
    """
    known = catalogue(include)
    [leaf, *more] = expand([task], known)
    if more:
        raise UsageError(
            f"{task} is a group; name one of its tasks: {', '.join([leaf, *more][:4])}"
        )
    config = read_strict(known[leaf].path).config
    if not config.get("sweep"):
        raise UsageError(f"{task} has no sweep, so it has one condition without a name")
    return conditions(
        narrowed(sweep_axes(config, tcb_spec(config, leaf), leaf), options.where, leaf)
    )


def _by_design(
    name: str, spec: TcbSpec, cells: Sequence[Condition], runs: int, options: TaskOptions
) -> Planned:
    assert spec.strata and spec.draw
    size = limit_size(options.limit, spec.draw)
    each = spec.draw if size is None else min(size, spec.draw)
    strata = spec.strata
    per_cell = [each * _strata_in(strata, spec.axes, cell.axes) for cell in cells]
    columns = {spec.axes[a]: {c.axes[a] for c in cells} for a in spec.axes if a in cells[0].axes}
    asked = [len(columns.get(c, set(map(str, v))) & set(map(str, v))) for c, v in strata.items()]
    return Planned(
        name, len(cells), each * math.prod(asked), runs, sum(per_cell) * runs, is_design=True
    )


def _strata_in(
    strata: Mapping[str, Sequence[Any]], axes: Mapping[str, str], cell: Mapping[str, Any]
) -> int:
    """How many strata a condition asks: an axis over a stratum's column takes one of its values."""
    fixed = {column for axis, column in axes.items() if axis in cell}
    return math.prod(len(values) for column, values in strata.items() if column not in fixed)


def _by_data(name: str, runs: int, options: TaskOptions, include: Sequence[Path]) -> Planned:
    from tcb_bench.load_tasks import load_tasks, quiet

    with quiet():
        loaded = load_tasks([name], options, include, is_run=False)
    cells = list(loaded.tasks.values())
    ids = {own for cell in cells for own in cell.eval_docs["tcb_id"]}
    responses = sum(len(cell.eval_docs) for cell in cells) * runs
    return Planned(name, len(cells), len(ids), runs, responses, is_design=False)
