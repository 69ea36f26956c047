"""Run folders to a study: settings, counts, grids, and what is missing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any

from tcb_bench.errors import DataError, UsageError
from tcb_bench.report.grid import Grid
from tcb_bench.report.load_grids import grids_of
from tcb_bench.report.load_run import Run, read_run, signature_differences

OF_THE_MODEL = frozenset({"model", "rev", "backend", "dtype", "weights", "chat", "turns"})
"""Settings in which two models may differ and still be compared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    """Everything a report is made of.

    Attributes:
        runs: one for each folder, in the order given; labels are unique.
        grids: by task, model and question type; none for tasks without such a sweep.
        missing: conditions of the full grid that a model was not asked.
        notices: what limits a comparison, a sentence each.
    """

    runs: Sequence[Run]
    grids: Sequence[Grid]
    missing: Sequence[Mapping[str, Any]]
    notices: Sequence[str]


def load(folders: Sequence[Path], *, may_lack_results: bool = False) -> Study:
    """Reads run folders, or folders that hold run folders (an ``--output_path``).

    Scores are read line by line; texts stay in the files, and ``Grid.samples`` reads them there.
    ``may_lack_results``: folders without results (they have studies only) are passed over.

    Raises:
        UsageError: no folder is given.
        DataError: a folder without results, or files that are not as `tcb-bench run` wrote them.
    """
    if not folders:
        raise UsageError("no run folder given; give one or more folders that a run wrote")
    found = _run_folders(folders)
    if may_lack_results:
        found = [folder for folder in found if any(folder.glob("results_*.json"))]
    runs = _unique_labels([read_run(folder) for folder in found])
    grids, missing = grids_of(runs)
    notices = [text for run in runs for text in run.notices]
    notices += _unlike_settings(runs) + _unlike_questions(grids) + _deaf_to_temperature(grids)
    return Study(runs=runs, grids=grids, missing=missing, notices=notices)


def _run_folders(folders: Sequence[Path]) -> list[Path]:
    """Each folder once, in order; a folder of run folders stands for all of them."""
    found: dict[Path, None] = {}
    for folder in folders:
        if not folder.is_dir():
            raise DataError(f"{folder}: no such folder; give a folder that `tcb-bench run` wrote")
        inside = [] if any(folder.glob("results_*.json")) else sorted(folder.iterdir())
        holders = [path for path in inside if any(path.glob("results_*.json"))]
        found |= dict.fromkeys(path.resolve() for path in holders or [folder])
    return list(found)


def _unique_labels(runs: Sequence[Run]) -> list[Run]:
    """Two folders of one model name are told apart by their folders, else by a number."""
    labels: list[str] = []
    often = Counter(run.label for run in runs)
    for run in runs:
        label = f"{run.label} [{run.folder}]" if often[run.label] > 1 else run.label
        seen = labels.count(label)
        labels.append(label)
        labels[-1] = f"{label} #{seen + 1}" if seen else label
    return [replace(run, label=label) for run, label in zip(runs, labels, strict=True)]


def _unlike_settings(runs: Sequence[Run]) -> list[str]:
    notices = []
    for a, b in combinations(runs, 2):
        for name in sorted(a.tasks.keys() & b.tasks.keys()):
            differing = signature_differences(a.tasks[name].signature, b.tasks[name].signature)
            unlike = {k: v for k, v in differing.items() if k not in OF_THE_MODEL}
            if unlike:
                text = ", ".join(f"{k} {x} and {y}" for k, (x, y) in unlike.items())
                notices.append(f"{name}: {a.label} and {b.label} differ in settings: {text}")
    return sorted(notices)


def _unlike_questions(grids: Sequence[Grid]) -> list[str]:
    asked: dict[tuple[str, str], dict[tuple[str, ...], list[str]]] = {}
    for grid in grids:
        sets = asked.setdefault((grid.task, grid.question_type), {})
        sets.setdefault(tuple(grid.questions), []).append(grid.model)
    notices = []
    for (task, question_type), sets in asked.items():
        if len(sets) > 1:
            text = "; ".join(f"{', '.join(models)}: {len(ids)}" for ids, models in sets.items())
            kind = f" {question_type}" if question_type else ""
            notices.append(f"{task}: the models were asked different{kind} questions ({text})")
    return notices


def _deaf_to_temperature(grids: Sequence[Grid]) -> list[str]:
    said = {
        False: "accepts a temperature and ignores it; differences between temperatures are noise",
        "remapped": "remaps the temperature; temperatures are those requested",
    }
    found = {
        f"{g.model}: {said[g.temperature_effective]}": None
        for g in grids
        if g.temperature_effective in (False, "remapped")
    }
    return list(found)
