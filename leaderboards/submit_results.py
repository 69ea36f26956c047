"""The result files of a run folder: what they hold, and the newest of each task."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from tcb_bench.errors import DataError, UnknownName
from tcb_bench.leaderboards.entry_files import first_problem
from tcb_bench.records import ResultFile


@dataclass(frozen=True, slots=True)
class Found:
    """A task or group of a run, and the result file that has it."""

    task: str
    path: Path
    result: ResultFile


def read_result(path: Path) -> ResultFile:
    """A result file of this version.

    Raises:
        DataError: it cannot be read or is none.
    """
    try:
        return ResultFile.model_validate_json(path.read_bytes())
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}") from None
    except ValidationError as error:
        raise DataError(
            f"{path}: no result of this version: {first_problem(error)}; "
            "`tcb-bench score RUN` writes it again"
        ) from None


def find_tasks(run: Path, wanted: Sequence[str] = (), file: Path | None = None) -> list[Found]:
    """Each task of a run with its newest result file, or those of the one file that is named.

    Args:
        run: the run folder.
        wanted: names of tasks or groups; empty = all that are no members of a group.
        file: a result file; None = all of the folder.

    Raises:
        DataError: no result there, one that cannot be read, or a task that has no data.
        UnknownName: a task that the run does not have.
    """
    paths = [file] if file is not None else sorted(run.glob("results_*.json"))
    raw = {path: parsed(path) for path in paths}
    ours = [path for path in paths if raw[path].get("tcb_bench", {}).get("tasks")]
    if not ours:
        raise DataError(
            f"{file or run}: no result of tcb-bench there; give the folder of a run, e.g. runs/demo"
        )
    ours.sort(key=lambda path: raw[path].get("date", 0), reverse=True)
    newest: dict[str, Path] = {}
    for path in ours:
        for task in raw[path]["tcb_bench"]["tasks"]:
            newest.setdefault(task, path)
    names = list(wanted) or _heads(newest, raw)
    for name in names:
        if name not in newest:
            raise _absent(name, newest, [raw[path] for path in ours])
    read = {path: read_result(path) for path in {newest[name] for name in names}}
    return [Found(name, newest[name], read[newest[name]]) for name in names]


def sample_paths(result_path: Path, tasks: Sequence[str]) -> list[Path]:
    """The sample files that were written with a result, in the order of ``tasks``."""
    stamp = result_path.stem.removeprefix("results_")
    return [result_path.with_name(f"samples_{task}_{stamp}.jsonl") for task in tasks]


def run_samples(result_path: Path, tasks: Sequence[str]) -> Iterator[dict[str, Any]]:
    """The sample rows of a result, in the run's order.

    Raises:
        DataError: a file is not there or holds no JSON.
    """
    for path in sample_paths(result_path, tasks):
        try:
            with path.open(encoding="utf-8") as file:
                yield from map(json.loads, file)
        except OSError as error:
            raise DataError(
                f"{path}: cannot be read: {error.strerror}; `tcb-bench score RUN` writes it again"
            ) from None
        except ValueError as error:
            raise DataError(f"{path}: a line is no JSON: {error}") from None


def parsed(path: Path) -> dict[str, Any]:
    """The JSON object of a file.

    Raises:
        DataError: it cannot be read, or is none.
    """
    try:
        found = json.loads(path.read_bytes())
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise DataError(f"{path}: no JSON: {error}") from None
    if not isinstance(found, dict):
        raise DataError(f"{path}: no result; expected a JSON object with results in it")
    return found


def _heads(newest: dict[str, Path], raw: dict[Path, dict[str, Any]]) -> list[str]:
    """Tasks and groups that are no members of a group."""
    members: set[str] = set()
    for path in dict.fromkeys(newest.values()):
        for task in raw[path]["tcb_bench"]["tasks"].values():
            members |= set(task["data"].get("members") or ())
    return [task for task in newest if task not in members]


def _absent(name: str, newest: dict[str, Path], results: list[dict[str, Any]]) -> Exception:
    for result in results:
        if name in result["tcb_bench"].get("missing", {}):
            return DataError(f"{name}: not in this run: {result['tcb_bench']['missing'][name]}")
        if name in result.get("results", {}):
            return DataError(
                f"{name}: one of lm-eval's own tasks, which has no conditions or quantities here; "
                "submit it from a result file of lm-eval with --from-lm-eval"
            )
    return UnknownName("task of this run", name, newest, f"it has {', '.join(newest)}")
