"""The page of one entry: all its numbers, its figures, its settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tcb_bench.leaderboards.columns import Columns
from tcb_bench.leaderboards.entry import Entry, EntryCondition, EntryMetric
from tcb_bench.leaderboards.render_board import Placed
from tcb_bench.leaderboards.render_curves import curves
from tcb_bench.leaderboards.render_figures import Figure, Numbers
from tcb_bench.leaderboards.render_histogram import distribution
from tcb_bench.leaderboards.render_numbers import NONE, count, significant
from tcb_bench.leaderboards.render_page import Link, Page, fill
from tcb_bench.leaderboards.render_place import Place
from tcb_bench.leaderboards.render_scatter import conflicts
from tcb_bench.leaderboards.render_settings import counted, notices, settings, summary
from tcb_bench.leaderboards.render_sweep import metric_of, quality, sweep
from tcb_bench.metrics import METRICS

STABILITY = "relative_flip_radius_median"
IN_CONDITIONS = ("acc", STABILITY, "log10_relative_delta_mean", "p_top1_median")
"""Metrics of each condition that its page shows, after the score and its CV."""


def render_entry(
    entry: Entry, columns: Columns | None, path: str, places: Sequence[Place], menu: Sequence[Link]
) -> Page:
    """The page of an entry.

    Args:
        entry: what to show.
        columns: its sample rows; None where they lie elsewhere.
        path: of the page.
        places: where it stands.
        menu: all boards.
    """
    view = {
        "model": entry.model.id,
        "task": entry.task.name,
        "tier": Placed(entry, path).tier,
        "is_partial": entry.is_partial,
        "places": places,
        "notices": notices(entry, columns),
        "summary": summary(entry),
        "metrics": _metrics(entry),
        "figures": _figures(entry, columns),
        "conditions": _conditions(entry.conditions),
        "signature": entry.signature,
        "settings": settings(entry),
        "links": entry.links,
    }
    return fill("template_entry.html", path, menu, entry=view)


def _metrics(entry: Entry) -> Numbers:
    """All aggregates; those of completed texts beside them where they differ."""
    completed = {metric.name: metric for metric in entry.metrics_completed}
    is_same = list(entry.metrics) == list(entry.metrics_completed)
    better = {True: "higher", False: "lower", None: "neither"}
    rows = []
    for metric in entry.metrics:
        own = completed.get(metric.name)
        beside = (significant(own.value), _ends(own), count(own.n)) if own else (NONE, "", "")
        rows.append(
            (
                *(metric.name, significant(metric.value), _ends(metric), count(metric.n)),
                *(() if is_same else beside),
                *(metric.unit, better[metric.higher_is_better]),
            )
        )
    more = () if is_same else ("completed", "interval", "n")
    heads = ("metric", "all", "interval", "n", *more, "unit", "better")
    return Numbers(heads, rows, (0, len(heads) - 2, len(heads) - 1))


def _ends(metric: EntryMetric) -> str:
    if metric.ci_low is None or metric.ci_high is None:
        return ""
    return f"{significant(metric.ci_low)} to {significant(metric.ci_high)}"


def _figures(entry: Entry, columns: Columns | None) -> list[Figure]:
    found: list[Figure | None] = []
    score = quality(entry.conditions)
    effective = {condition.temperature_effective for condition in entry.conditions}
    note = {
        "false": "The model ignores the temperature: differences along it are noise of its runs.",
        "unknown": "Whether the model heeds the temperature is not known.",
        "remapped": "The model takes the temperature on a scale of its own.",
    }
    notes = " ".join(note[name] for name in sorted(effective) if name in note)
    for name in (score, STABILITY):
        swept = sweep(entry.conditions, name) if name else None
        if swept:
            found.append(curves(f"curve-{name}", swept, _title(swept.metric, swept.x), notes))
    if columns is not None:
        found.append(conflicts("conflicts", columns))
        found.append(distribution("distribution", columns.values["log10_relative_delta"]))
    return [figure for figure in found if figure is not None]


def _title(metric: str, x: str) -> str:
    stem = metric.removesuffix("_median").removesuffix("_mean")
    what = {"bertscore_f1": "Quality", STABILITY: "Stability"}.get(metric, METRICS[stem].meaning)
    return f"{what} over {x.replace('_', ' ')}: {metric}"


def _conditions(conditions: Sequence[EntryCondition]) -> Numbers | None:
    """A row for each condition of a sweep; None for a task without one."""
    if len(conditions) < 2:
        return None
    score = quality(conditions)
    wanted = dict.fromkeys([*([score, f"{score}_cv"] if score else []), *IN_CONDITIONS])
    names = [name for name in wanted if any(metric_of(c, name) for c in conditions)]
    axes = list(dict.fromkeys(axis for condition in conditions for axis in condition.axes))
    heads = (*axes, *names, "n", "responses")
    rows = [_condition(condition, axes, names) for condition in conditions]
    return Numbers(heads, rows, (*range(len(axes)), len(heads) - 1))


def _condition(
    condition: EntryCondition, axes: Sequence[str], names: Sequence[str]
) -> tuple[str, ...]:
    own: Mapping[str, Any] = {metric.name: metric for metric in condition.metrics}
    cells = []
    for name in names:
        metric = own.get(name)
        ends = f" ({_ends(metric)})" if metric and _ends(metric) else ""
        cells.append(f"{significant(metric.value, 3)}{ends}" if metric else NONE)
    n = own[names[0]].n if names and names[0] in own else 0
    values = ("none" if condition.axes.get(a) is None else str(condition.axes[a]) for a in axes)
    return (*values, *cells, count(n), counted(condition.counts))
