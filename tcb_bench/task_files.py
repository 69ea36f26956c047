"""The tasks there are: ours and a user's, by name, every file read strictly."""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from tcb_bench.errors import UnknownName, UsageError
from tcb_bench.strict_yaml import Parsed, nearest, wrong
from tcb_bench.task_yaml import Kind, TaskYaml, TcbSpec, read_strict, sweep_axes, tcb_spec

__all__ = [
    "TaskFile",
    "TaskYaml",
    "TcbSpec",
    "catalogue",
    "expand",
    "read_strict",
    "sweep_axes",
    "tasks_folder",
    "tcb_spec",
]

_IGNORED_FOLDERS = {"__pycache__"}


@dataclass(frozen=True, slots=True)
class TaskFile:
    """One task or group of the catalogue."""

    name: str
    kind: Kind  # task (of our class), group, or plain (an ordinary lm-eval task)
    path: Path
    members: tuple[str, ...]  # a group's direct children, in order
    description: str  # metadata.description, or empty
    request: str | None  # tcb.request of a task of our class
    version: int | float | str | None  # metadata.version


def tasks_folder() -> Path:
    """The folder of the tasks that ship; lm-eval gets it as an include path."""
    return Path(str(files("tcb_bench.tasks")))


def catalogue(include_paths: Sequence[Path] = ()) -> dict[str, TaskFile]:
    """All tasks and groups, by name: ours first, then those of each folder in path order.

    Files that begin with ``_`` and ``*.plan.yaml`` are no tasks: they are read only where another
    file includes them.

    Args:
        include_paths: folders with a user's own task files, searched at any depth.

    Raises:
        UsageError: a folder that is not there, a file that ``read_strict`` refuses, a name that
            two files define, a group with a member nobody defines or that contains itself.
    """
    found: dict[str, TaskFile] = {}
    sources: dict[str, TaskYaml] = {}
    cache: dict[Path, Parsed] = {}
    for path in _task_paths([tasks_folder(), *include_paths]):
        yaml = read_strict(path, cache)
        entry = _entry(yaml)
        if entry.name in found:
            twice = f"{entry.name!r} is defined in {_name_line(sources[entry.name])} already"
            raise wrong(_name_line(yaml), twice, "expected a name of its own")
        found[entry.name], sources[entry.name] = entry, yaml
    for name, entry in found.items():
        _check_members(entry, found, f"{entry.path}:{sources[name].lines.get('task', 1)}")
    return found


def _name_line(yaml: TaskYaml) -> str:
    key = "group" if yaml.kind == "group" else "task"
    return f"{yaml.path}:{yaml.lines.get(key, 1)}"


def _task_paths(folders: Sequence[Path]) -> Iterator[Path]:
    """Task files of the folders, each file once, sorted within its folder."""
    seen: set[Path] = set()
    for folder in folders:
        if not folder.is_dir():
            raise UsageError(f"include path {folder}: no such folder; expected one with task YAMLs")
        for path in sorted(_yaml_files(folder), key=Path.as_posix):
            is_task = not path.name.startswith("_") and not path.name.endswith(".plan.yaml")
            if is_task and path.resolve() not in seen:
                seen.add(path.resolve())
                yield path


def _yaml_files(folder: Path) -> Iterator[Path]:
    """YAML files at any depth; hidden folders (a .venv holds thousands of them) are not entered."""
    for root, folders, names in os.walk(folder):
        folders[:] = [n for n in folders if not n.startswith(".") and n not in _IGNORED_FOLDERS]
        yield from (Path(root, name) for name in names if name.endswith(".yaml"))


def _entry(yaml: TaskYaml) -> TaskFile:
    is_group = yaml.kind == "group"
    members = yaml.config["task"] if is_group else []
    metadata = yaml.config.get("metadata")
    about = metadata if isinstance(metadata, dict) else {}
    return TaskFile(
        name=yaml.config["group" if is_group else "task"],
        kind=yaml.kind,
        path=yaml.path,
        members=(members,) if isinstance(members, str) else tuple(members),
        description=str(about.get("description", "")),
        request=yaml.config["tcb"]["request"] if yaml.kind == "task" else None,
        version=about.get("version"),
    )


def _check_members(group: TaskFile, known: Mapping[str, TaskFile], at: str) -> None:
    for member in group.members:
        if member not in known:
            hint = nearest(member, known, "expected a task or group of the catalogue")
            raise wrong(at, f"group {group.name!r} has no such member: {member!r}", hint)
    below = list(group.members)
    met: set[str] = set()
    while below:
        name = below.pop()
        if name == group.name:
            raise wrong(at, f"group {name!r} contains itself", "expected members below it")
        if name not in met:
            met.add(name)
            below.extend(known[name].members)


def expand(names: Sequence[str], catalogue: Mapping[str, TaskFile]) -> list[str]:
    """Names of single tasks, in order and each once, that ``names`` stand for.

    Args:
        names: tasks, groups (all their tasks, at any depth) and globs like ``mmlu_tcb_*``.
        catalogue: what ``catalogue`` returned.

    Raises:
        UnknownName: a name or a glob that nothing has, with the nearest that there are.
    """
    leaves: dict[str, None] = {}
    for name in names:
        is_glob = any(sign in name for sign in "*?[")
        matched = fnmatch.filter(catalogue, name) if is_glob else [name]
        if not matched or any(one not in catalogue for one in matched):
            hint = f"`tcb-bench ls tasks` shows all {len(catalogue)}"
            raise UnknownName("task", name, catalogue, hint)
        for one in matched:
            leaves.update(dict.fromkeys(_leaves(one, catalogue)))
    return list(leaves)


def _leaves(name: str, catalogue: Mapping[str, TaskFile]) -> Iterator[str]:
    if catalogue[name].kind != "group":
        yield name
    for member in catalogue[name].members:
        yield from _leaves(member, catalogue)
