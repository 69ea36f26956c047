"""At each temperature: does a perturbed context differ from the original, or is it as good?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from tcb_bench.metrics.paired import holm, sign_flip_p, verdict
from tcb_bench.metrics.statistics import mean_intervals
from tcb_bench.report.analysis_cells import (
    Settings,
    identity,
    identity_columns,
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

NOTE = (
    "{metric}, context minus original, paired over questions. p: two-sided sign-flip permutation "
    "test of the mean difference of m, corrected by Holm over all contexts and temperatures of the "
    "model and question type. Verdict: worse or better where p < {alpha:g}; equivalent where the "
    "{inner:.0%} interval of the difference lies within +-{margin:g} (two one-sided tests at "
    "{alpha:.0%} each, not corrected); undecided where neither is shown. The interval shown is "
    "the {outer:.0%} one."
)


def contexts_table(grids: Sequence[Grid], settings: Settings) -> Table:
    """One row per temperature and perturbed context."""
    note = NOTE.format(
        metric=settings.metric,
        alpha=settings.alpha,
        margin=settings.margin,
        inner=1 - 2 * settings.alpha,
        outer=1 - settings.alpha,
    )
    columns = [
        *identity_columns(grids),
        temperature_column(grids),
        Column("context", "context"),
        *spread_columns("difference", "difference"),
        Column("p_holm", "p (Holm)", 4),
        Column("verdict", "verdict"),
        Column("n", "n"),
    ]
    rows = [row for grid in grids for row in _rows(grid, settings)]
    return Table("context_vs_original", "Each context against the original", note, columns, rows)


def _rows(grid: Grid, settings: Settings) -> Iterator[Row]:
    original, others = original_index(grid), perturbed(grid)
    if original is None or not others:
        return
    m = means(grid, settings.metric)
    differences = m[:, [place for place, _ in others]] - m[:, [original]]  # (T, C - 1, Q)
    table = differences.reshape(-1, m.shape[2]).T
    p = sign_flip_p(table, weights=grid.weights, **settings.flips)
    adjusted = holm(p)
    outer = mean_intervals(table, weights=grid.weights, **settings.bootstrap)
    inner = mean_intervals(table, weights=grid.weights, **settings.one_sided)
    keys = [(t, context) for t in grid.temperatures for _, context in others]
    for k, (temperature, context) in enumerate(keys):
        row = {
            **identity(grid),
            "temperature": float(temperature),
            "context": context,
            **spread(outer[k], "difference"),
            "inner_low": inner[k].ci_low,
            "inner_high": inner[k].ci_high,
            "p": number(p[k]),
            "p_holm": number(adjusted[k]),
            "n": outer[k].n,
        }
        if np.isnan(p[k]):
            yield {**row, "verdict": None, "reason": "no pair of scores"}
        else:
            options = {"margin": settings.margin, "alpha": settings.alpha}
            yield {**row, "verdict": verdict(inner[k], float(adjusted[k]), **options)}
