"""From which temperature on is a context significantly below its own lowest-temperature level?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from tcb_bench.metrics.paired import descent_start, sign_flip_p
from tcb_bench.metrics.statistics import mean_intervals
from tcb_bench.report.analysis_cells import (
    FLAT,
    Settings,
    identity,
    identity_columns,
    ignores_temperature,
    means,
    number,
    spread,
    spread_columns,
    temperature_column,
)
from tcb_bench.report.grid import Floats, Grid
from tcb_bench.report.table import Column, Row, Table

NOTE = (
    "{metric}. Each temperature is compared with the lowest of the same context, paired over "
    "questions: one-sided sign-flip test of the mean difference of m. Tests go from the highest "
    "temperature downwards, each at {alpha:.0%}, and stop at the first that is not significant, "
    "which keeps the error of all together at {alpha:.0%} without a further correction. The onset "
    "is the last one reached: there and at every higher tested temperature the context is "
    "significantly below. A context that recovers at the highest temperature has no onset. "
    "drop: mean difference at the onset (at the highest temperature where there is none)."
)


def onset_table(grids: Sequence[Grid], settings: Settings) -> Table:
    """One row per model, question type and context."""
    note = NOTE.format(metric=settings.metric, alpha=settings.alpha)
    if any(map(ignores_temperature, grids)):
        note += " A model that ignores temperature has no onset."
    columns = [
        *identity_columns(grids),
        Column("context", "context"),
        temperature_column(grids, "onset", "onset T"),
        temperature_column(grids, "last_level", "last T not below"),
        *spread_columns("drop", "drop"),
        Column("p", "p", 4),
        Column("n", "n"),
        Column("reason", "remark"),
    ]
    rows = [row for grid in grids for row in _rows(grid, settings)]
    return Table("onset", "Where scores begin to fall", note, columns, rows)


def _rows(grid: Grid, settings: Settings) -> Iterator[Row]:
    table = means(grid, settings.metric)
    for place, context in enumerate(grid.contexts):
        row = {**identity(grid), "context": context, "onset": None, "last_level": None}
        row |= {"drop": None, "p": None, "n": 0}
        if ignores_temperature(grid):
            yield {**row, "reason": FLAT}
        else:
            yield {**row, **_onset(grid, table[:, place], settings)}


def _onset(grid: Grid, m: Floats, settings: Settings) -> dict[str, Any]:
    """``m`` is (T, Q) of one context."""
    differences = (m[1:] - m[0]).T
    if differences.shape[1] == 0 or np.isnan(differences).all():
        return {"reason": "no temperature to compare with the lowest"}
    p = sign_flip_p(differences, weights=grid.weights, alternative="less", **settings.flips)
    found = descent_start(p, alpha=settings.alpha)
    tested = [i for i in range(len(p)) if not np.isnan(p[i])]
    shown = tested[-1] if found is None else found
    drop = mean_intervals(differences[:, [shown]], weights=grid.weights, **settings.bootstrap)[0]
    before = [i for i in tested if found is None or i < found]
    row = {**spread(drop, "drop"), "p": number(p[shown]), "n": drop.n}
    row["last_level"] = float(grid.temperatures[before[-1] + 1 if before else 0])
    if found is None:
        return {**row, "reason": f"not below at T = {grid.temperatures[shown + 1]:g}"}
    missing = int(np.isnan(p).sum())
    remark = {"reason": f"temperatures without a score: {missing}"} if missing else {}
    return {**row, "onset": float(grid.temperatures[found + 1]), **remark}
