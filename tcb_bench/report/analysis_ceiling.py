"""Up to which temperature may a model be run? TP's guideline as a rule with numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from tcb_bench.metrics.statistics import Interval
from tcb_bench.report.analysis_cells import (
    FLAT,
    Settings,
    aligned,
    by_model,
    holds,
    identity_columns,
    ignores_temperature,
    pooled_intervals,
    temperature_column,
    with_types,
)
from tcb_bench.report.grid import Grid
from tcb_bench.report.table import Column, Row, Table

NOTE = (
    "{metric}. Rule: the ceiling is the highest tested temperature such that there, and at every "
    "lower one, the mean score over all contexts is not worse than at the lowest temperature by "
    "more than {margin:g}. 'Not worse' means that the lower limit (one-sided {level:.0%}, "
    "bootstrap of whole questions, paired) of the mean change is above -{margin:g}. "
    "Question types weigh alike. A temperature that lacks a context ends the search."
)


def ceiling_table(grids: Sequence[Grid], settings: Settings) -> Table:
    """One row per model and question type, and one for all types together."""
    note = NOTE.format(metric=settings.metric, margin=settings.margin, level=1 - settings.alpha)
    columns = [
        *identity_columns(grids),
        temperature_column(grids, "ceiling", "ceiling T"),
        Column("change", "change there", 4),
        Column("limit", "lower limit", 4),
        temperature_column(grids, "fails", "first T that fails"),
        Column("fails_change", "change there", 4),
        Column("fails_limit", "lower limit", 4),
        Column("n", "n"),
        Column("reason", "remark"),
    ]
    rows = [row for same in by_model(grids) for row in _rows(same, settings)]
    title = "Ceiling: how far up from the lowest temperature nothing is lost"
    return Table("ceiling", title, note, columns, rows)


def _rows(grids: Sequence[Grid], settings: Settings) -> Iterator[Row]:
    for label, group in with_types(grids):
        row: dict[str, Any] = {"model": grids[0].model, "question_type": label}
        row |= dict.fromkeys(("ceiling", "change", "limit", "fails", "fails_change"))
        row |= {"fails_limit": None, "n": 0}
        if any(map(ignores_temperature, group)):
            yield {**row, "reason": f"{FLAT}: no ceiling"}
        else:
            yield {**row, **_ceiling(group, settings)}


def _ceiling(group: Sequence[Grid], settings: Settings) -> dict[str, Any]:
    temperatures, contexts, parts = aligned(group, settings.metric)
    asked = [c for c in range(len(contexts)) if any(~np.isnan(m[:, c]).all() for m, _ in parts)]
    # a mean with a NaN among its contexts is NaN: only questions with every context count
    changes = [((m[:, asked] - m[0, asked]).mean(axis=1).T, w) for m, w in parts if asked]
    if not changes or any(np.isnan(change[:, 0]).all() for change, _ in changes):
        return {"reason": "contexts missing at the lowest temperature"}
    found = pooled_intervals(changes, **settings.one_sided)
    found[0] = Interval(0.0, 0.0, 0.0, 0.0, found[0].n)
    fails = next((i for i, c in enumerate(found) if not holds(c, settings.margin)), None)
    top = len(found) - 1 if fails is None else fails - 1
    row: dict[str, Any] = {"ceiling": temperatures[top]}
    row |= {"change": found[top].value, "limit": found[top].ci_low}
    row["n"] = found[top].n
    if fails is None:
        return {**row, "reason": "no tested temperature fails"}
    row |= {"fails": temperatures[fails], "fails_change": found[fails].value}
    row["fails_limit"] = found[fails].ci_low
    if found[fails].value is None:
        row["reason"] = f"contexts missing at T = {temperatures[fails]:g}"
    elif found[fails].ci_low is None:
        row["reason"] = "one question has no interval"
    return row
