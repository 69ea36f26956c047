"""What is exported: the newest result of each task of a run, fit to leave this machine."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tcb_bench.errors import DataError, UnknownName
from tcb_bench.leaderboards.export_clean import cleaned, model_name
from tcb_bench.leaderboards.submit_results import read_result, run_samples
from tcb_bench.records import ResultFile, TaskRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A result file and those of its tasks that are exported.

    Attributes:
        path: where it lies; its sample files are beside it.
        stamp: the time in its name.
        result: what it says, without paths and secrets of this machine.
        model: what the model is called in the export.
        tasks: tasks and groups of ours, in the result's order.
        stock: lm-eval's own tasks, which have numbers but no conditions.
    """

    path: Path
    stamp: str
    result: ResultFile
    model: str
    tasks: tuple[str, ...]
    stock: tuple[str, ...]

    def record(self, task: str) -> TaskRecord:
        """What the result says of a task of ours."""
        return self.result.tcb_bench.tasks[task]

    def members(self, group: str) -> list[str]:
        """Tasks of a group; of a task none, and of lm-eval's own groups neither."""
        record = self.result.tcb_bench.tasks.get(group)
        return list((record and record.data.members) or ())

    @property
    def leaves(self) -> list[str]:
        """The exported tasks that have samples of their own: all but groups."""
        return [task for task in self.tasks if not self.members(task)]

    @property
    def heads(self) -> list[str]:
        """The exported tasks and groups that belong to no exported group."""
        inner = {name for task in self.tasks for name in self.members(task)}
        return [task for task in self.tasks if task not in inner]

    def config(self, task: str) -> dict[str, Any]:
        """A task's YAML as understood; of a group, that of its first task."""
        members = self.members(task)
        return self.result.configs.get(members[0] if members else task, {})

    def samples(self, task: str) -> Iterator[dict[str, Any]]:
        """The sample rows of a task (not a group), one at a time, in the run's order.

        Raises:
            DataError: the file is not there, is no JSON, or is of an older version.
        """
        for sample in run_samples(self.path, [task]):
            if "rows" not in sample:
                raise DataError(f"{self.path}: the samples of {task} are no rows of this version")
            yield sample


def find_sources(
    run: Path,
    wanted: Sequence[str] = (),
    file: Path | None = None,
    *,
    model_id: str | None = None,
) -> tuple[list[Source], list[str]]:
    """The newest result of each task of a run, or the one file that is named.

    Args:
        run: the run folder.
        wanted: tasks or groups, a group with its tasks; empty = all.
        file: a result file, of the folder or anywhere; None = the folder's.
        model_id: what the model is to be called; None = its own name.

    Returns:
        Sources, the newest first, and notes: older results of another version are left out.

    Raises:
        DataError: no result there, or the newest (or the named one) cannot be read.
        UnknownName: a task that the run does not have.
    """
    paths = [_named(run, file)] if file is not None else sorted(run.glob("results_*.json"))[::-1]
    if not paths:
        raise DataError(f"{run}: no results_*.json there; give the folder of a run, e.g. runs/demo")
    newest: dict[str, Path] = {}
    read: dict[Path, ResultFile] = {}
    notes: list[str] = []
    for path in paths:
        try:
            read[path] = read_result(path)
        except DataError as error:
            if path is paths[0]:
                raise
            notes.append(f"left out: {error}")
            continue
        for task in read[path].results:
            newest.setdefault(task, path)
    chosen = _chosen(wanted, newest, read)
    sources = [
        _source(path, result, [task for task in chosen if chosen[task] == path], model_id)
        for path, result in read.items()
        if path in chosen.values()
    ]
    return sources, notes


def _named(run: Path, file: Path) -> Path:
    """A result file by its path, or by its name in the run folder."""
    inside = run / file.name
    if file.is_file() or not inside.is_file():
        return file
    return inside


def _chosen(
    wanted: Sequence[str], newest: Mapping[str, Path], read: Mapping[Path, ResultFile]
) -> dict[str, Path]:
    """Task -> its result file, in the order of the results; with a group come its tasks."""
    if not wanted:
        return dict(newest)
    found: dict[str, Path] = {}
    for name in wanted:
        if name not in newest:
            raise UnknownName("task of this run", name, newest)
        path = newest[name]
        record = read[path].tcb_bench.tasks.get(name)
        found |= dict.fromkeys([name, *((record and record.data.members) or ())], path)
    return found


def _source(path: Path, result: ResultFile, names: Sequence[str], model_id: str | None) -> Source:
    label = str(result.config.get("model") or result.tcb_bench.model.get("model"))
    model = model_id or model_name(label)
    raw = json.loads(result.model_dump_json(by_alias=True, exclude_unset=True))
    clean = ResultFile.model_validate(cleaned(raw, label, model))
    ours = clean.tcb_bench.tasks
    return Source(
        path=path,
        stamp=path.stem.removeprefix("results_"),
        result=clean,
        model=model,
        tasks=tuple(name for name in clean.results if name in names and name in ours),
        stock=tuple(name for name in clean.results if name in names and name not in ours),
    )
