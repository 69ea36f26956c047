"""An entry's conditions as curves: which axis runs along x, which gives lines, which panels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tcb_bench.leaderboards.entry import EntryCondition, EntryMetric
from tcb_bench.records import Axis

QUALITY = ("bertscore_f1", "rougeL", "f1", "acc")
"""The score that curves show: the first of these that an entry has."""


@dataclass(frozen=True, slots=True)
class Point:
    """One condition on a curve."""

    x: float
    value: float | None
    ci_low: float | None
    ci_high: float | None
    n: int


@dataclass(frozen=True, slots=True)
class Curve:
    """A line: conditions that differ along x alone."""

    label: str
    points: Sequence[Point]


@dataclass(frozen=True, slots=True)
class Panel:
    """Curves that belong into one plot."""

    label: str
    curves: Sequence[Curve]


@dataclass(frozen=True, slots=True)
class Sweep:
    """One metric over the conditions of an entry."""

    metric: str
    x: str
    panels: Sequence[Panel]


def quality(conditions: Sequence[EntryCondition]) -> str | None:
    """The score that stands for the answers' quality; None where no condition has one."""
    known = {m.name for c in conditions for m in c.metrics if m.value is not None}
    return next((name for name in QUALITY if name in known), None)


def metric_of(condition: EntryCondition, name: str) -> EntryMetric | None:
    """A metric of a condition by its name."""
    return next((metric for metric in condition.metrics if metric.name == name), None)


def sweep(conditions: Sequence[EntryCondition], metric: str) -> Sweep | None:
    """The curves of a metric; None where nothing varies along a number.

    x is the temperature, or else the first axis of numbers that varies; lines are the contexts, or
    else the first other axis that varies; panels are all other axes together.
    """
    x = _x_axis(conditions)
    if x is None:
        return None
    others = [
        axis for axis in conditions[0].axes if axis != x and len(_values(conditions, axis)) > 1
    ]
    line = "context" if "context" in others else next(iter(others), None)
    panel_axes = [axis for axis in others if axis != line]
    found: dict[str, dict[str, list[Point]]] = {}
    for condition in conditions:
        place = condition.axes.get(x)
        own = metric_of(condition, metric)
        if own is None or isinstance(place, str | bool | None):
            continue
        panel = ", ".join(_text(condition.axes.get(axis)) for axis in panel_axes)
        label = _text(condition.axes.get(line)) if line else metric
        point = Point(float(place), own.value, own.ci_low, own.ci_high, own.n)
        found.setdefault(panel, {}).setdefault(label, []).append(point)
    panels = [
        Panel(
            label, [Curve(name, sorted(points, key=lambda p: p.x)) for name, points in own.items()]
        )
        for label, own in found.items()
    ]
    return Sweep(metric, x, panels) if panels else None


def _x_axis(conditions: Sequence[EntryCondition]) -> str | None:
    names = list(conditions[0].axes) if conditions else []
    ordered = sorted(names, key=lambda name: name != "temperature")
    return next((name for name in ordered if _is_numeric(_values(conditions, name))), None)


def _is_numeric(values: Sequence[Axis]) -> bool:
    numbers = [v for v in values if isinstance(v, int | float) and not isinstance(v, bool)]
    return len(numbers) > 1 and all(v is None or v in numbers for v in values)


def _values(conditions: Sequence[EntryCondition], axis: str) -> list[Axis]:
    return list(dict.fromkeys(condition.axes.get(axis) for condition in conditions))


def _text(value: Axis) -> str:
    return "none" if value is None else str(value)
