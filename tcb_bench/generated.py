"""Documents that a function makes: ``tcb: {generator: {function: module.name, ...}}``."""

from __future__ import annotations

import importlib
import inspect
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tcb_bench.errors import DataError, TcbBenchError, UsageError, reason

if TYPE_CHECKING:
    from tcb_bench.task_files import TcbSpec

Rows = list[dict[str, Any]]
Generator = Callable[..., Rows]


def made_documents(rows: Rows, config: dict[str, Any], spec: TcbSpec, folder: Path) -> Rows:
    """What the task's generator makes of the rows of one split.

    The function is called as ``function(rows, folder=..., **settings)``: the loaded rows, the
    YAML's folder, and the other keys of ``generator``. The same arguments give the same rows, and
    each has an ``id`` (a text) and the same columns.

    Raises:
        UsageError: the function cannot be imported or does not take these settings.
        DataError: it fails, or what it returns is not a list of such rows.
    """
    settings = dict(spec.generator or {})
    name = settings.pop("function")
    where = f"{config['task']}: tcb.generator {name}"
    function = _function(name, config["task"])
    _check_call(function, ["folder", *settings], where)
    try:
        made = function(rows, folder=folder, **settings)
    except TcbBenchError:
        raise
    except Exception as error:
        raise DataError(
            f"{where} failed{_place(error)}: {type(error).__name__}: {reason(error)}"
        ) from error
    _check(made, where)
    return made


def _check_call(function: Generator, names: Sequence[str], where: str) -> None:
    """Whether the function takes these settings; what it raises itself is another matter."""
    try:
        signature = inspect.signature(function)
    except ValueError:  # some functions written in C do not tell
        return
    try:
        signature.bind([], **dict.fromkeys(names))
    except TypeError as error:
        raise UsageError(
            f"{where}: called as (rows, {', '.join(f'{name}=...' for name in names)}), but it is "
            f"{function.__name__}{signature}: {reason(error)}; give under generator what it takes, "
            "or change the function"
        ) from error


def _place(error: Exception) -> str:
    """The last line of the function's own file on the way to the error; "" where it has none."""
    frames = traceback.extract_tb(error.__traceback__)[1:]
    own = [frame for frame in frames if frame.filename == frames[0].filename]
    return f" at {Path(own[-1].filename).name}:{own[-1].lineno}" if own else ""


def _function(name: str, task: str) -> Generator:
    module, _, attribute = name.rpartition(".")
    try:
        found = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise UsageError(
            f"{task}: tcb.generator.function {name!r} cannot be imported: {reason(error)}; "
            "expected module.function, the module installed or on PYTHONPATH"
        ) from error
    if not callable(found):
        raise UsageError(f"{task}: tcb.generator.function {name!r} is no function")
    return found  # type: ignore[no-any-return]


def _check(made: Any, where: str) -> None:
    if not isinstance(made, list) or not all(isinstance(row, dict) for row in made):
        raise DataError(f"{where} returned {type(made).__name__}; expected a list of mappings")
    if not made:
        raise DataError(f"{where} returned no documents")
    for i, row in enumerate(made):
        if not isinstance(row.get("id"), str) or not row["id"]:
            raise DataError(f"{where}: row {i} has no `id`; expected a text, stable and unique")
        if row.keys() != made[0].keys():
            raise DataError(f"{where}: row {i} has other columns than row 0; expected the same")
