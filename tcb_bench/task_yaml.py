"""Task files read strictly: lm-eval hides a broken YAML, this names the file and the line."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from tcb_bench.strict_yaml import Parsed, nearest, wrong
from tcb_bench.task_include import Merged, load
from tcb_bench.task_section import is_whole
from tcb_bench.task_spec import TcbSpec, tcb_spec
from tcb_bench.task_sweep import sweep_axes
from tcb_bench.task_warnings import task_warnings

__all__ = ["Kind", "TaskYaml", "TcbSpec", "read_strict", "sweep_axes", "tcb_spec"]

Kind = Literal["task", "group", "plain"]

CLASS = "tcb_bench.task.TcbTask"
OWN_KEYS = ("dataset_revision", "tcb", "sweep")
GROUP_KEYS = ("group", "group_alias", "task", "aggregate_metric_list", "metadata", "tag")
TASK_CONFIG = (
    *("task", "task_alias", "tag", "custom_dataset", "dataset_path", "dataset_name"),
    *("dataset_kwargs", "training_split", "validation_split", "test_split", "fewshot_split"),
    *("process_docs", "doc_to_text", "doc_to_target", "doc_to_image", "doc_to_audio"),
    *("unsafe_code", "doc_to_choice", "process_results", "use_prompt", "description"),
    *("target_delimiter", "fewshot_delimiter", "fewshot_config", "num_fewshot", "metric_list"),
    *("output_type", "generation_kwargs", "repeats", "filter_list", "should_decontaminate"),
    *("doc_to_decontamination_query", "gen_prefix", "metadata"),
)
"""Fields of lm-eval's TaskConfig, spelt out so that reading a file does not import lm-eval."""

TASK_KEYS = (*TASK_CONFIG, "class", "group", "task_list", *OWN_KEYS)
FILE_BUILDERS = ("json", "csv", "parquet", "text", "arrow")


@dataclass(frozen=True, slots=True)
class TaskYaml:
    """A checked task file.

    Attributes:
        path: the file, as it was given.
        config: its mapping with includes resolved; ``!function x.y`` is the text ``x.y``.
        lines: top-level key -> line, for the keys of this file itself.
        kind: ``task`` (of our class), ``group``, or ``plain`` (an ordinary lm-eval task).
        warnings: what is allowed but looks like a slip, as ``FILE:LINE: ...``.
    """

    path: Path
    config: dict[str, Any]
    lines: Mapping[str, int]
    kind: Kind
    warnings: tuple[str, ...]


def read_strict(path: Path, cache: dict[Path, Parsed] | None = None) -> TaskYaml:
    """The task or group in ``path``, checked as far as that goes without loading anything.

    Args:
        path: the YAML file.
        cache: parsed files, shared by calls that meet the same bases.

    Raises:
        UsageError: ``FILE:LINE: what was found; what was expected``.
    """
    merged = load(path, cache)
    kind = _kind(merged)
    check = {"task": _check_task, "group": _check_group, "plain": _check_plain}[kind]
    check(merged, path)
    lines = {key: line for key, line in merged.own_lines.items() if key in merged.config}
    return TaskYaml(path, merged.config, lines, kind, tuple(task_warnings(merged)))


def _kind(merged: Merged) -> Kind:
    config = merged.config
    if "task" not in config and "group" not in config:
        unknown = [key for key in config if key not in (*TASK_KEYS, *GROUP_KEYS)]
        slip = next((key for key in unknown if nearest(key, ("task", "group"), "")), None)
        found = "neither `task` nor `group`" + (f", but {slip!r}" if slip is not None else "")
        at = f"{merged.label}:1" if slip is None else merged.at(str(slip))
        raise wrong(at, found, "expected one (files that are only included begin with _)")
    if config.get("class") == CLASS:
        return "task"
    return "group" if "group" in config and "class" not in config else "plain"


def _check_plain(merged: Merged, _path: Path) -> None:
    for key in OWN_KEYS:
        if key in merged.config:
            found = f"{key} in a task without our class"
            raise wrong(merged.at(key), found, f"expected `class: !function {CLASS}`")
    _check_name(merged, "task")


def _check_group(merged: Merged, _path: Path) -> None:
    config = merged.config
    for key in config:
        if key not in GROUP_KEYS:
            hint = nearest(key, GROUP_KEYS, "a task's settings belong in the task's own file")
            raise wrong(merged.at(str(key)), f"unknown key {key!r} in a group", hint)
    _check_name(merged, "group")
    members = config.get("task")
    names = [members] if isinstance(members, str) else members
    if not isinstance(names, list) or not names:
        raise wrong(merged.at("task"), f"task is {members!r}", "expected the names of the members")
    for name in names:
        if not isinstance(name, str):
            expected = "expected a name (what differs goes into a task file of its own)"
            raise wrong(merged.at("task"), f"a member is {name!r}", expected)


def _check_name(merged: Merged, key: str) -> None:
    """Names are typed with commas between them, matched with globs, and are parts of file names."""
    name = merged.config.get(key)
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z0-9._+-]{1,120}", name):
        expected = "expected a text of at most 120 letters, digits, . _ + or -"
        raise wrong(merged.at(key), f"{key} is {name!r}", expected)


def _check_task(merged: Merged, path: Path) -> None:
    config = merged.config
    for key in config:
        if key not in TASK_KEYS:
            hint = nearest(key, TASK_KEYS, "expected a field of lm-eval's TaskConfig or of ours")
            raise wrong(merged.at(str(key)), f"unknown key {key!r}", hint)
    _check_name(merged, "task")
    spec = tcb_spec(config, merged.at)
    if spec.shots is not None and not (path.parent / spec.shots).is_file():
        found = f"tcb.shots {spec.shots!r} is not there"
        raise wrong(merged.at("tcb.shots"), found, "expected a JSONL file beside the YAML")
    sweep_axes(config, spec, merged.at)
    if not is_whole(config.get("repeats", 1), 1):
        found = f"repeats is {config['repeats']!r}"
        raise wrong(merged.at("repeats"), found, "expected a whole number >= 1")
    _check_data(merged)
    _check_version(merged)


def _check_version(merged: Merged) -> None:
    metadata = merged.config.get("metadata")
    if not isinstance(metadata, dict) or not isinstance(metadata.get("version"), int | float | str):
        expected = "expected `metadata: {version: 1}` (results name the version of their task)"
        raise wrong(merged.at("metadata.version"), "there is no metadata.version", expected)


def _check_data(merged: Merged) -> None:
    """Data of the hub is pinned, so that two runs mean the same documents."""
    config = merged.config
    name = config.get("dataset_path")
    if name is None or (isinstance(name, str) and Path(name).exists()):
        return
    kwargs = config.get("dataset_kwargs")
    if name in FILE_BUILDERS:
        if not isinstance(kwargs, dict) or not kwargs.get("data_files"):
            expected = "expected `dataset_kwargs: {data_files: ...}` with it"
            raise wrong(merged.at("dataset_path"), f"dataset_path is {name!r}", expected)
        return
    revision = config.get("dataset_revision")
    if not isinstance(revision, str) or not re.fullmatch(r"[0-9a-f]{40}", revision):
        given = f"is {revision!r}" if "dataset_revision" in config else f"is missing for {name!r}"
        expected = "expected the commit's 40 hex digits (a branch moves, and results with it)"
        at = merged.at("dataset_revision" if "dataset_revision" in config else "dataset_path")
        raise wrong(at, f"dataset_revision {given}", expected)
