"""How many questions stay right although their documents were perturbed?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from tcb_bench.metrics.statistics import (
    Interval,
    mean_intervals,
    percentile_interval,
    resampled_means,
)
from tcb_bench.report.analysis_cells import (
    Settings,
    identity,
    identity_columns,
    means,
    original_index,
    perturbed,
    spread,
    spread_columns,
    temperature_column,
)
from tcb_bench.report.grid import Floats, Grid
from tcb_bench.report.table import Column, Row, Table

RIGHT = "acc"
NOTE = (
    "acc of answers at the same temperature, every run of the original against every run of the "
    "context (runs are independent). both: right under both. kept: right under the context given "
    "right under the original. gained: right under the context given wrong under the original "
    "(the model knows it, or guesses). n counts questions; {level:.0%} intervals by bootstrap of "
    "whole questions."
)


def despite_table(grids: Sequence[Grid], settings: Settings) -> Table:
    """One row per temperature and perturbed context of each grid that has ``acc``."""
    columns = [
        *identity_columns(grids),
        temperature_column(grids),
        Column("context", "context"),
        *spread_columns("both", "both", 3),
        *spread_columns("kept", "kept", 3),
        *spread_columns("gained", "gained", 3),
        Column("n", "n"),
    ]
    scored = [grid for grid in grids if RIGHT in grid.scores]
    rows = [row for grid in scored for row in _rows(grid, settings)]
    note = NOTE.format(level=1 - settings.alpha)
    title = "Questions right despite the perturbation"
    return Table("right_despite", title, note, columns, rows)


def _rows(grid: Grid, settings: Settings) -> Iterator[Row]:
    original = original_index(grid)
    if original is None or not perturbed(grid):
        return
    m = means(grid, RIGHT)
    keys = [(t, c) for t in range(len(grid.temperatures)) for c, _ in perturbed(grid)]
    columns = np.concatenate([_parts(m[t, original], m[t, c]) for t, c in keys]).T  # (Q, 4 K)
    found = mean_intervals(columns, weights=grid.weights, **settings.bootstrap)
    draws = resampled_means(columns, weights=grid.weights, **settings.flips)
    for k, (t, c) in enumerate(keys):
        row = {**identity(grid), "temperature": float(grid.temperatures[t])}
        own = slice(4 * k, 4 * k + 4)
        shares = _shares(found[own], draws[:, own], settings)
        yield {**row, "context": grid.contexts[c], **shares}


def _parts(before: Floats, after: Floats) -> Floats:
    """(4, Q) of (Q,) shares of right runs: both right, right before, gained, wrong before."""
    before = np.where(np.isnan(after), np.nan, before)
    return np.stack([before * after, before, (1 - before) * after, 1 - before])


def _shares(found: Sequence[Interval], draws: Floats, settings: Settings) -> dict[str, Any]:
    both, right, gained, wrong = found
    if both.n == 0:
        nothing = {"both": None, "kept": None, "gained": None, "n": 0}
        return {**nothing, "reason": "no pair of answers"}
    kept = _ratio(both, right, draws[:, [0, 1]], settings)
    new = _ratio(gained, wrong, draws[:, [2, 3]], settings)
    row = {**spread(both, "both"), **spread(kept, "kept"), **spread(new, "gained"), "n": both.n}
    if right.value == 0:
        row["reason"] = "no answer is right under the original"
    elif wrong.value == 0:
        row["reason"] = "every answer is right under the original"
    return row


def _ratio(part: Interval, whole: Interval, draws: Floats, settings: Settings) -> Interval:
    if part.value is None or not whole.value:
        return Interval(None, None, None, None, part.n)
    ratios = draws[:, 0] / np.where(draws[:, 1] > 0, draws[:, 1], np.nan)
    level = 1 - settings.alpha
    return percentile_interval(part.value / whole.value, ratios, n=part.n, level=level)
