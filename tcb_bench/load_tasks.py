"""Task names to Task objects through lm-eval's TaskManager, one by one: one failure is one."""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import datasets
import lm_eval.tasks
from lm_eval.tasks import TaskManager

from tcb_bench.conditions import conditions
from tcb_bench.config import TaskOptions
from tcb_bench.data import MissingData
from tcb_bench.errors import DataError, TcbBenchError, UnknownName, UsageError, reason
from tcb_bench.perturb.kinds import needs
from tcb_bench.selection import draw, limit_size
from tcb_bench.task import RUN_KEY
from tcb_bench.task_files import TaskFile, catalogue, expand
from tcb_bench.task_sweep import PERTURBED, narrowed

NO_TASKS = (".py", ".pyc", ".md", ".json", ".sh")
"""Endings of the files beside lm-eval's tasks that define none."""


@dataclass(slots=True)
class Loaded:
    """What a run will ask.

    Attributes:
        tasks: unique name -> Task object; a sweep's cells are tasks of their own (``name|cell``).
        groups: group name -> names of its tasks that are there.
        missing: task name -> why it is not there (``--data DIR`` without its files).
        samples: for lm-eval's own tasks, the document indices to take.
        absent: group name -> names of its tasks that are missing.
    """

    tasks: dict[str, Any] = field(default_factory=dict)
    groups: dict[str, list[str]] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    samples: dict[str, list[int]] = field(default_factory=dict)
    absent: dict[str, list[str]] = field(default_factory=dict)

    @property
    def missing_text(self) -> str:
        """Why the first missing task is not there, and how many more are not; "" = none is."""
        first = next(iter(self.missing.values()), "")
        return f"{first} (and {len(self.missing) - 1} more)" if len(self.missing) > 1 else first

    def resources(self) -> dict[str, dict[str, str]]:
        """Task -> name and version of what its perturbations loaded; tasks without any left out."""
        ours = [task for task in self.tasks.values() if hasattr(task, "is_tcb_task")]
        found = {task.base_name: task.documents.perturber.tools.versions() for task in ours}
        return {name: versions for name, versions in found.items() if versions}


def load_tasks(
    names: Sequence[str], options: TaskOptions, include: Sequence[Path] = (), *, is_run: bool = True
) -> Loaded:
    """All tasks of ``names`` (tasks, groups, globs) with their documents.

    ``is_run``: the prompts will be rendered, so what perturbations need is loaded and checked.

    Raises:
        UnknownName: no such task, here or in lm-eval.
        UsageError: a YAML or an option is wrong.
        DataError: documents cannot be loaded, or no task of the run has any.
    """
    known = catalogue(include)
    wanted = _globbed(names, known)
    for name in wanted:
        if name not in known and not _is_in_lm_eval(name):
            raise _unknown(name, known)
    loaded = Loaded()
    manager = TaskManager(include_defaults=False, metadata={RUN_KEY: options})
    for name in wanted:
        if name not in known:
            _add_stock(loaded, name, _stock_manager(name, known), options)
            continue
        for leaf in expand([name], known):
            _add_leaf(loaded, leaf, manager, known, options)
    loaded.groups = _groups(names, known, loaded)
    loaded.absent = {
        name: [leaf for leaf in expand([name], known) if leaf in loaded.missing]
        for name in loaded.groups
    }
    if is_run:
        _check_resources(loaded)
    if not loaded.tasks:
        first = next(iter(loaded.missing.values()), "nothing to run")
        raise DataError(f"no task of this run has documents: {first}")
    return loaded


def _check_resources(loaded: Loaded) -> None:
    """What the conditions' perturbations need is loaded now, before a model and any inference."""
    for task in loaded.tasks.values():
        if hasattr(task, "is_tcb_task"):
            changes = [task.options.condition[a] for a in PERTURBED if a in task.options.condition]
            task.documents.perturber.tools.check(needs(changes))


def _globbed(names: Sequence[str], known: Mapping[str, TaskFile]) -> list[str]:
    """The names with globs replaced by what they match among our tasks."""
    wanted: list[str] = []
    for name in names:
        wanted += expand([name], known) if any(c in name for c in "*?[") else [name]
    return list(dict.fromkeys(wanted))


def _stock_manager(name: str, known: Mapping[str, TaskFile]) -> TaskManager:
    """lm-eval's own index (slow to build, so only when a name is not ours)."""
    manager = TaskManager()
    if name not in manager.task_index:
        raise _unknown(name, known)
    return manager


def _unknown(name: str, known: Mapping[str, TaskFile]) -> UnknownName:
    return UnknownName("task", name, known, "`tcb-bench ls tasks` shows all there are")


def _is_in_lm_eval(name: str) -> bool:
    """Whether a file of lm-eval's tasks holds the name at all: seconds, its index takes a minute.

    Files are read as bytes: what they include has any ending, and a task may be named in it.
    """
    wanted = name.encode()
    for folder, _, files in os.walk(Path(lm_eval.tasks.__file__).parent):
        paths = (Path(folder, file) for file in files if not file.endswith(NO_TASKS))
        if any(wanted in path.read_bytes() for path in paths):
            return True
    return False


def _add_leaf(
    loaded: Loaded,
    name: str,
    manager: TaskManager,
    known: Mapping[str, TaskFile],
    options: TaskOptions,
) -> None:
    if name in loaded.missing or any(
        name == getattr(t, "base_name", key) for key, t in loaded.tasks.items()
    ):
        return
    if known[name].kind == "plain":
        _add_stock(loaded, str(known[name].path), manager, options)
        return
    try:
        task = _build(manager, name, known[name].path)
    except MissingData as error:
        loaded.missing[name] = str(error)
        return
    for cell in conditions(narrowed(task.axes, options.where, name)):
        clone = task.in_condition(cell)
        if len(clone.eval_docs):
            loaded.tasks[clone.config.task] = clone
        else:
            loaded.missing[clone.config.task] = f"{name}: no document for {cell.id}"


def _build(manager: TaskManager, name: str, path: Path) -> Any:
    try:
        return next(iter(manager.load([str(path)])["tasks"].values()))
    except TcbBenchError:
        raise
    except Exception as error:  # Jinja, a missing column, a function that does not import
        raise UsageError(
            f"{path}: task {name} cannot be built: {type(error).__name__}: {reason(error)}"
        ) from error


def _add_stock(loaded: Loaded, spec: str, manager: TaskManager, options: TaskOptions) -> None:
    """A task of lm-eval's own kind, by name or file: documents, prompts, scores are lm-eval's."""
    try:
        built = manager.load([spec])
    except Exception as error:  # the hub, a data set's own format, a YAML of lm-eval's
        raise DataError(f"lm-eval's task {spec} cannot be loaded: {reason(error)}") from error
    for leaf, task in built["tasks"].items():
        (task.config.metadata or {}).pop(RUN_KEY, None)
        if options.num_fewshot is not None:
            task.set_config("num_fewshot", options.num_fewshot)
        if options.gen_kwargs and task.OUTPUT_TYPE == "generate_until":
            task.set_config("generation_kwargs", dict(options.gen_kwargs), update=True)
        task.set_fewshot_seed(options.seed)
        loaded.tasks[leaf] = task
        size = limit_size(options.limit, len(task.eval_docs))
        if size is not None:
            loaded.samples[leaf] = draw(
                [str(i) for i in range(len(task.eval_docs))], size, options.seed
            )


def _groups(
    names: Sequence[str], known: Mapping[str, TaskFile], loaded: Loaded
) -> dict[str, list[str]]:
    """Groups that were asked for, each with those of its leaf tasks that are there."""
    present = {getattr(task, "base_name", name) for name, task in loaded.tasks.items()}
    groups = [name for name in names if name in known and known[name].kind == "group"]
    members = {name: [leaf for leaf in expand([name], known) if leaf in present] for name in groups}
    return {name: leaves for name, leaves in members.items() if leaves}


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Keeps lm-eval's bar per task and its notes off the screen; ours is one bar in all."""
    logging.getLogger("lm_eval").setLevel(logging.ERROR)  # its warnings name its own defaults
    logging.getLogger("huggingface_hub").setLevel(logging.ERROR)  # we say what failed, in one line
    names = ("lm_eval.api.task", "lm_eval.api.model", "lm_eval.models.huggingface")
    modules: list[Any] = [sys.modules[name] for name in names if name in sys.modules]
    bars = [module.tqdm for module in modules]
    for module, bar in zip(modules, bars, strict=True):
        module.tqdm = functools.partial(_hidden, bar)
    were_off = datasets.are_progress_bars_disabled()
    datasets.disable_progress_bars()
    try:
        yield
    finally:
        if not were_off:
            datasets.enable_progress_bars()
        for module, bar in zip(modules, bars, strict=True):
            module.tqdm = bar


def _hidden(bar: Any, *args: Any, **kwargs: Any) -> Any:
    """A progress bar that is not drawn, whatever its caller says."""
    return bar(*args, **{**kwargs, "disable": True})
