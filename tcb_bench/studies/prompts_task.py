"""A prompt as a task YAML: the file that the search loads is the file that the user gets."""

from __future__ import annotations

import json
import os
import random
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml
from jinja2 import TemplateError

from tcb_bench.data import ID_COLUMN
from tcb_bench.errors import UsageError, reason
from tcb_bench.selection import draw, stable_hash
from tcb_bench.studies.prompts_space import OWN, Prompt, Space
from tcb_bench.task_files import catalogue, read_strict

SUFFIX = "_prompt"
"""What the name of a task with another prompt ends in."""

TEXT_FIELDS = ("description", "doc_to_text", "gen_prefix")
Rows = Sequence[Mapping[str, Any]]


class _Function(str):
    """A value that is written as ``!function x.y``."""


_Dumper: Any = type("_Dumper", (yaml.SafeDumper,), {})
_Dumper.add_representer(  # a prompt's line ends stay visible, as \\n
    str,
    lambda dumper, value: dumper.represent_scalar(
        "tag:yaml.org,2002:str", value, style='"' if "\n" in value else None
    ),
)
_Dumper.add_representer(
    _Function, lambda dumper, value: dumper.represent_scalar("!function", str(value))
)


@dataclass(frozen=True, slots=True)
class Base:
    """A task whose prompt is varied: its file, its config, and its usable sets of examples."""

    name: str
    path: Path
    config: Mapping[str, Any]
    task: Any
    sets: Mapping[str, Rows]

    @property
    def new_name(self) -> str:
        """The name under which it has another prompt."""
        return self.name + SUFFIX


def read_base(
    task: Any, include: Sequence[Path], space: Space, *, pool: int, max_gen_toks: int | None
) -> Base:
    """A loaded task as one whose prompt can be varied.

    Args:
        task: of our class.
        include: folders with a user's tasks.
        space: what a prompt may be made of.
        pool: examples taken from the task's own at most.
        max_gen_toks: in place of the task's own, or None.

    Raises:
        UsageError: it has a sweep, or its prompt comes from Python functions.
    """
    name = task.base_name
    if task.axes:
        raise UsageError(f"{name} has a sweep ({', '.join(task.axes)}); give a task without one")
    path = catalogue(include)[name].path.resolve()
    config = dict(read_strict(path).config)
    shown = {key: getattr(task.config, key) for key in TEXT_FIELDS}
    shown |= {key: getattr(task.fewshot_cfg, key, None) for key in _fewshot(config)}
    for key, value in shown.items():
        if callable(value):
            raise UsageError(f"{name}: {key} is a Python function; expected a template to vary")
    if max_gen_toks is not None and task.spec.request != "next_token":
        given = config.get("generation_kwargs") or {}
        config["generation_kwargs"] = {**given, "max_gen_toks": max_gen_toks}
    found = {OWN: _own_rows(task, takes_first(config), pool)}
    for other, one in space.shots.items():
        if one.rows is not None and _shows(task, one.rows, one.config, other, space):
            found[other] = one.rows
    return Base(name, path, config, task, {k: rows for k, rows in found.items() if rows})


def baseline_of(bases: Sequence[Base]) -> Prompt:
    """The tasks' own prompt.

    Raises:
        UsageError: they show different numbers of examples.
    """
    counts = {base.task.config.num_fewshot or 0 for base in bases}
    if len(counts) > 1:
        names = ", ".join(base.name for base in bases)
        raise UsageError(f"{names} show different numbers of examples; give tasks that agree")
    return Prompt(n_shots=counts.pop())


def with_sizes(space: Space, bases: Sequence[Base]) -> Space:
    """The space with the number of examples that every task has, for each set that all have."""
    names = [name for name in space.shots if all(name in base.sets for base in bases)]
    sizes = {name: min(len(base.sets[name]) for base in bases) for name in names}
    return replace(space, sizes=sizes)


def takes_first(config: Mapping[str, Any]) -> bool:
    """Whether a task shows the first examples of its pool, the same for every document."""
    return bool(_fewshot(config).get("sampler") == "first_n")


def _fewshot(config: Mapping[str, Any]) -> Mapping[str, Any]:
    return config.get("fewshot_config") or {}


def _own_rows(task: Any, is_fixed: bool, pool: int) -> Rows:
    """The task's own examples: its first ones where it takes these, else drawn by seed.

    Where the task names none and shows none, lm-eval would take the questions themselves: none.
    """
    config = task.config
    named = task.spec.shots or config.fewshot_split or config.training_split
    if not (named or task.fewshot_cfg.samples or config.num_fewshot):
        return []
    rows = [dict(row) for row in task.sampler.df]
    size = max(pool, task.config.num_fewshot or 0)
    order = range(len(rows))[:size]
    ids = [str(i) for i in range(len(rows))]
    picked = order if is_fixed else draw(ids, size, task.options.seed)
    return [{k: v for k, v in rows[i].items() if k != ID_COLUMN} for i in picked]


def _shows(task: Any, rows: Rows, config: Mapping[str, Any], name: str, space: Space) -> bool:
    """Whether the task can show these examples; a user's own that it cannot are refused."""
    try:
        for row in rows:
            task.doc_to_text(dict(row), config.get("doc_to_text"))
            target = config.get("doc_to_target") or task.fewshot_cfg.doc_to_target
            task.doc_to_target(dict(row), target)
    except (TemplateError, KeyError, TypeError) as error:
        if space.is_shipped:
            return False
        raise UsageError(
            f"space: the examples {name!r} do not fit {task.base_name}: {reason(error)}; expected "
            "the columns that its doc_to_text and doc_to_target use (or fewshot_config for them)"
        ) from error
    return True


def ordered(rows: Rows, prompt: Prompt, seed: int) -> list[Mapping[str, Any]]:
    """All examples of a set in the prompt's order; its first ``n_shots`` are shown."""
    found = list(rows)
    if prompt.order:
        random.Random(stable_hash(seed, "shots", prompt.shots, prompt.order)).shuffle(found)
    return found


def write_variant(base: Base, prompt: Prompt, space: Space, seed: int, target: Path) -> None:
    """Writes the task with this prompt to ``target``, complete, with its examples beside it.

    Paths in it are relative to its folder; Python files that the task names are copied there.
    """
    folder = target.parent
    folder.mkdir(parents=True, exist_ok=True)
    tcb = {k: v for k, v in base.config["tcb"].items() if k != "shots"}
    about = f"{base.name} with a prompt chosen by `tcb-bench study prompts`"
    changes: dict[str, Any] = {
        **_functions(base, folder),
        "num_fewshot": prompt.n_shots,
        **_texts(base, prompt, space),
        "metadata": {**base.config["metadata"], "description": about},
    }
    if prompt.n_shots:
        rows = ordered(base.sets[prompt.shots], prompt, seed)
        shots = target.with_name(f"{target.stem}_shots.jsonl")
        lines = [json.dumps(row, ensure_ascii=False) + "\n" for row in rows]
        shots.write_text("".join(lines), encoding="utf-8")
        tcb["shots"] = shots.name
        own, more = _fewshot(base.config), space.shots.get(prompt.shots)
        config = {**own, **(more.config if more else {}), "sampler": "first_n"}
        changes["fewshot_config"] = config
    _move(tcb, changes, base, folder)
    first = {"task": base.new_name, "class": _Function(base.config["class"])}
    config = {**first, **base.config, **changes, "tcb": tcb, **first}
    text = yaml.dump(config, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=10**6)
    target.write_text(text, encoding="utf-8")


def write_group(names: Sequence[str], name: str, target: Path) -> None:
    """A group of the tasks that one prompt was chosen for."""
    about = {"version": 1, "description": "One prompt, chosen by `tcb-bench study prompts`"}
    record = {"group": name, "task": list(names), "metadata": about}
    target.write_text(yaml.safe_dump(record, sort_keys=False), encoding="utf-8")


def _texts(base: Base, prompt: Prompt, space: Space) -> dict[str, str]:
    """The task's own templates with what the prompt adds to them."""
    found = {}
    added = " ".join(text for text in (prompt.instruction, prompt.reflection) if text)
    if added:
        own = _template(base, "description")
        body, tail = own.rstrip(), own[len(own.rstrip()) :] or "\n\n"
        found["description"] = f"{body} {added}{tail}" if body else f"{added}{tail}"
    if prompt.directive:
        own = _template(base, "doc_to_text")
        glue = "" if own.endswith("\n") else "\n"
        after = f"{own}{glue}{prompt.directive}\n"
        found["doc_to_text"] = f"{prompt.directive}\n{own}" if space.is_directive_first else after
    return found


def _template(base: Base, key: str) -> str:
    """A field as a template, also where it names a column."""
    own = str(base.config.get(key) or "")
    return f"{{{{{own}}}}}" if own in base.task.features else own


def _functions(base: Base, folder: Path) -> dict[str, Any]:
    """Fields that are Python functions, tagged as such, with their file copied where it is one."""
    found: dict[str, Any] = {}
    for key, value in base.config.items():
        if isinstance(value, str) and callable(getattr(base.task.config, key, None)):
            found[key] = _Function(value)
            module = base.path.parent / f"{value.rpartition('.')[0]}.py"
            if module.is_file():
                shutil.copy(module, folder)
    return found


def _move(tcb: dict[str, Any], changes: dict[str, Any], base: Base, folder: Path) -> None:
    """Paths beside the old file, as seen from the new one."""

    def moved(value: Any) -> Any:
        if isinstance(value, dict):
            return {k: moved(v) for k, v in value.items()}
        if isinstance(value, list):
            return [moved(v) for v in value]
        old = base.path.parent / str(value)
        return os.path.relpath(old, folder.resolve()) if old.exists() else value

    sample = tcb.get("sample", "sample")
    if (base.path.parent / sample).is_dir():
        tcb["sample"] = moved(sample)
    kwargs = base.config.get("dataset_kwargs")
    if isinstance(kwargs, dict) and "data_files" in kwargs:
        files = moved(kwargs["data_files"])
        changes["dataset_kwargs"] = {**kwargs, "data_files": files}
