"""Does temperature amplify a perturbation? Interaction of context and temperature."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from tcb_bench.metrics.interaction import interaction_contrasts, max_t_sign_flip
from tcb_bench.metrics.statistics import mean_intervals
from tcb_bench.report.analysis_cells import (
    FLAT,
    Settings,
    identity,
    identity_columns,
    ignores_temperature,
    means,
    number,
    original_index,
    perturbed,
    spread,
    spread_columns,
    temperature_column,
)
from tcb_bench.report.grid import Grid
from tcb_bench.report.table import Column, Row, Table

ANY = "(any)"
NOTE = (
    "{metric}. Contrast of each question: (context - original) at T minus (context - original) at "
    "the lowest temperature; below 0, the perturbation costs more at T. p: max-t sign-flip test of "
    "all contrasts of the model and question type together, so it holds for the whole family; the "
    "row '(any)' has the p of no interaction anywhere. Stands where p < {alpha:g}. Intervals "
    "({level:.0%}) are of each contrast alone."
)


def interaction_table(grids: Sequence[Grid], settings: Settings) -> Table:
    """One row per grid for the whole, then one per temperature and perturbed context."""
    note = NOTE.format(metric=settings.metric, alpha=settings.alpha, level=1 - settings.alpha)
    columns = [
        *identity_columns(grids),
        temperature_column(grids),
        Column("context", "context"),
        *spread_columns("contrast", "contrast"),
        Column("p", "p (family)", 4),
        Column("stands", "stands"),
        Column("n", "n"),
    ]
    rows = [row for grid in grids for row in _rows(grid, settings)]
    title = "Interaction of context and temperature"
    return Table("interaction", title, note, columns, rows)


def _rows(grid: Grid, settings: Settings) -> Iterator[Row]:
    original, others = original_index(grid), perturbed(grid)
    if original is None or not others or len(grid.temperatures) < 2:
        return
    m = means(grid, settings.metric)
    whole = {**identity(grid), "temperature": None, "context": ANY, "contrast": None}
    if ignores_temperature(grid):
        yield {**whole, "p": None, "stands": None, "n": 0, "reason": FLAT}
        return
    contrasts = interaction_contrasts(m, original=original)
    table = contrasts.reshape(-1, m.shape[2]).T
    test = max_t_sign_flip(table, weights=grid.weights, **settings.flips)
    n = int((~np.isnan(table)).any(axis=1).sum())
    yield {**whole, **_judged(test.global_p, settings.alpha), "n": n}
    found = mean_intervals(table, weights=grid.weights, **settings.bootstrap)
    keys = [(t, context) for t in grid.temperatures[1:] for _, context in others]
    for k, (temperature, context) in enumerate(keys):
        row = {**identity(grid), "temperature": float(temperature), "context": context}
        row |= {**spread(found[k], "contrast"), "n": found[k].n}
        yield {**row, **_judged(float(test.p[k]), settings.alpha)}


def _judged(p: float, alpha: float) -> Row:
    if np.isnan(p):
        return {"p": None, "stands": None, "reason": "fewer than two questions in all four cells"}
    return {"p": number(p), "stands": bool(p < alpha)}
