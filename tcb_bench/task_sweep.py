"""The mapping ``sweep`` of a task file: axes and their values, and ``--where`` over them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any

from tcb_bench.conditions import value_text
from tcb_bench.errors import UnknownName, UsageError
from tcb_bench.perturb.kinds import parse
from tcb_bench.strict_yaml import nearest, wrong
from tcb_bench.task_section import At, Section, is_number, is_whole
from tcb_bench.task_spec import TcbSpec

Axes = dict[str, tuple[Any, ...]]
PERTURBED = ("context", "query", "shots")
"""Axes whose values are perturbations: of the documents, the question, the few-shot examples."""

_NUMBERS: dict[str, tuple[type, Callable[[Any], bool], str]] = {
    "temperature": (float, lambda x: is_number(x) and 0 <= x <= 2, "numbers from 0 to 2"),
    "top_p": (float, lambda x: is_number(x) and 0 < x <= 1, "numbers above 0, up to 1"),
    "top_k": (int, lambda x: is_whole(x, 0), "whole numbers >= 0 (0 = no limit)"),
    "max_gen_toks": (int, lambda x: is_whole(x, 1), "whole numbers >= 1"),
}
SAMPLED = tuple(_NUMBERS)
"""Axes that are sampling parameters."""


def sweep_axes(config: Mapping[str, Any], spec: TcbSpec, where: str | At) -> Axes:
    """The checked ``sweep`` of a task config, axis -> values in YAML order; empty for none.

    Values are a list, or ``{start, stop, step}`` for a sampling parameter, stepped in decimals (so
    that 3 * 0.2 is 0.6). ``context``, ``query`` and ``shots`` take perturbations, and the axes of
    ``tcb.axes`` values of their column.

    Raises:
        UsageError: an unknown axis, no values, a value out of range or one given twice.
    """
    if "sweep" not in config:
        return {}
    found = Section(config["sweep"], "sweep", where)
    known = _known(spec)
    found.allow(known, f"the axes are {', '.join(known)}")
    axes = {}
    for axis, given in found.values.items():
        values = _range(found, axis) if isinstance(given, dict) else given
        if not isinstance(values, list) or not values:
            raise found.bad(axis, f"expected a list of {_expected(axis)}")
        axes[axis] = tuple(_listed(found, axis, value) for value in values)
        if len(set(axes[axis])) != len(values):
            raise found.bad(axis, "expected each value once")
    return axes


def _expected(axis: str) -> str:
    return _NUMBERS[axis][2] if axis in _NUMBERS else "names"


def _listed(sweep: Section, axis: str, value: Any) -> Any:
    try:
        return _checked(axis, value)
    except UnknownName as error:
        raise wrong(sweep.at(f"sweep.{axis}"), f"sweep.{axis}", str(error)) from None
    except UsageError as error:
        if axis in _NUMBERS:
            raise sweep.bad(axis, f"expected a list of {_expected(axis)}") from None
        raise wrong(sweep.at(f"sweep.{axis}"), f"sweep.{axis}", str(error)) from None


def _known(spec: TcbSpec) -> list[str]:
    own = [axis for axis in PERTURBED if axis != "context" or spec.has_documents]
    return [*SAMPLED, *own, *spec.axes]


def _range(sweep: Section, axis: str) -> list[Any]:
    found = sweep.inside(axis)
    found.allow(("start", "stop", "step"))
    parts = [found.values.get(key) for key in ("start", "stop", "step")]
    if axis not in _NUMBERS or not all(map(is_number, parts)) or not float(parts[2] or 0) > 0:
        expected = "expected start, stop and a step > 0, for a sampling parameter"
        raise sweep.bad(axis, expected)
    start, stop, step = (Decimal(repr(part)) for part in parts)
    kind = _NUMBERS[axis][0]
    return [kind(start + i * step) for i in range(int((stop - start) / step) + 1)]


def _checked(axis: str, value: Any) -> Any:
    """The value as it is kept; a whole temperature becomes a float, so that ids agree.

    Raises:
        UsageError: not a value of this axis.
    """
    if axis in _NUMBERS:
        kind, is_good, expected = _NUMBERS[axis]
        if not is_good(value):
            raise UsageError(f"got {value!r}, expected {expected}")
        return kind(value)
    if not isinstance(value, str) or not value or "," in value:
        raise UsageError(f"got {value!r}, expected a text without a comma")
    if axis in PERTURBED:
        parse(value, axis)
    return value


def narrowed(axes: Axes, where: Mapping[str, Sequence[str]], task: str) -> Axes:
    """The axes with the values that ``--where`` names in place of the YAML's, also new ones.

    ``--where context=none`` or ``temperature=0.3`` may name what the YAML does not list, so that a
    study can grow; documents' own axes only know values of the YAML.

    Raises:
        UsageError: an axis that the task does not have, or a value that is none of it.
    """
    for axis in where:
        if axis not in axes:
            hint = nearest(axis, axes, f"its axes are {', '.join(axes) or 'none'}")
            raise UsageError(f"--where {axis}: task {task} has no such axis; {hint}")
    return {axis: _chosen(axis, values, where.get(axis)) for axis, values in axes.items()}


def _chosen(axis: str, values: tuple[Any, ...], wanted: Sequence[str] | None) -> tuple[Any, ...]:
    if wanted is None:
        return values
    by_text = {value_text(value): value for value in values}
    chosen = []
    for text in wanted:
        if text in by_text:
            chosen.append(by_text[text])
        elif axis in _NUMBERS or axis in PERTURBED:
            chosen.append(_named(axis, text))
        else:
            raise UnknownName(f"value of --where {axis}", text, by_text)
    return tuple(sorted(set(chosen), key=[*values, *chosen].index))


def _named(axis: str, text: str) -> Any:
    value: Any = text
    if axis in _NUMBERS:
        try:
            value = float(text) if _NUMBERS[axis][0] is float else int(text)
        except ValueError:
            raise UsageError(f"--where {axis}={text}: expected {_NUMBERS[axis][2]}") from None
    try:
        return _checked(axis, value)
    except UnknownName:
        raise
    except UsageError as error:
        raise UsageError(f"--where {axis}: {error}") from None
