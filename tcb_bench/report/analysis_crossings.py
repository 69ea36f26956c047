"""Which perturbation, or which model, is worse at low temperature and better at high?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from tcb_bench.metrics.interaction import crossing
from tcb_bench.metrics.paired import holm, sign_flip_p
from tcb_bench.metrics.statistics import Interval, mean_intervals
from tcb_bench.report.analysis_cells import (
    FLAT,
    Settings,
    identity,
    identity_columns,
    ignores_temperature,
    means,
    number,
    perturbed,
    temperature_column,
)
from tcb_bench.report.grid import Floats, Grid
from tcb_bench.report.table import Column, Row, Table

NOTE = (
    "{metric}. Difference: A minus B, paired over questions; below 0, A is worse. Of the pairs of "
    "temperatures at which the mean difference has opposite signs the best supported is shown. p: "
    "the larger of the two sign-flip tests', each corrected by Holm over all pairs and "
    "temperatures of the family; below {alpha:g} both orders hold: the change of rank stands."
)


@dataclass(frozen=True, slots=True)
class Family:
    """Pairs compared at the same temperatures, whose tests are corrected together."""

    names: Sequence[tuple[str, str]]
    differences: Floats  # (P, T, Q) of the P pairs, A minus B; NaN = no pair of scores
    weights: Floats  # (Q,)
    temperatures: Sequence[float]


def crossing_columns(grids: Sequence[Grid]) -> list[Column]:
    """Columns of the rows of `crossing_rows`."""
    return [
        Column("a", "A"),
        Column("b", "B"),
        temperature_column(grids, "low", "low T"),
        Column("low_difference", "A - B there", 4),
        temperature_column(grids, "high", "high T"),
        Column("high_difference", "A - B there", 4),
        Column("p", "p (both, Holm)", 4),
        Column("verdict", "verdict"),
        Column("n", "n"),
    ]


def crossings_table(grids: Sequence[Grid], settings: Settings) -> Table:
    """One row per model, question type and pair of perturbations."""
    note = NOTE.format(metric=settings.metric, alpha=settings.alpha)
    columns = [*identity_columns(grids), *crossing_columns(grids)]
    rows = [row for grid in grids for row in _rows(grid, settings)]
    title = "Where perturbations change rank as temperature grows"
    return Table("perturbation_crossings", title, note, columns, rows)


def crossing_rows(family: Family, settings: Settings) -> Iterator[Row]:
    """One row per pair of a family."""
    pairs, n_temperatures, _ = family.differences.shape
    table = family.differences.reshape(pairs * n_temperatures, -1).T
    shape = (pairs, n_temperatures)
    p = holm(sign_flip_p(table, weights=family.weights, **settings.flips)).reshape(shape)
    found = mean_intervals(table, weights=family.weights, **settings.bootstrap)
    for index, (a, b) in enumerate(family.names):
        here = found[index * n_temperatures : (index + 1) * n_temperatures]
        yield {"a": a, "b": b, **_crossing(here, p[index], family.temperatures, settings)}


def _crossing(
    found: Sequence[Interval], p: Floats, temperatures: Sequence[float], settings: Settings
) -> dict[str, Any]:
    values = np.array([np.nan if f.value is None else f.value for f in found])
    n = max((f.n for f in found), default=0)
    pair = crossing(values, p)
    row: dict[str, Any] = dict.fromkeys(("low", "low_difference", "high", "high_difference", "p"))
    if n == 0:
        return {**row, "verdict": None, "n": 0, "reason": "no pair of scores"}
    if pair is None:
        return {**row, "verdict": "same order at every T", "n": n}
    stands = pair.p < settings.alpha
    return {
        "low": float(temperatures[pair.low]),
        "low_difference": number(values[pair.low]),
        "high": float(temperatures[pair.high]),
        "high_difference": number(values[pair.high]),
        "p": number(pair.p),
        "verdict": "changes rank" if stands else "order changes, not shown",
        "n": min(found[pair.low].n, found[pair.high].n),
    }


def _rows(grid: Grid, settings: Settings) -> Iterator[Row]:
    pairs = list(combinations(perturbed(grid), 2))
    if not pairs:
        return
    whose = identity(grid)
    m = means(grid, settings.metric)
    names = [(a, b) for (_, a), (_, b) in pairs]
    if ignores_temperature(grid):
        for a, b in names:
            yield {**whose, "a": a, "b": b, "verdict": None, "p": None, "n": 0, "reason": FLAT}
        return
    differences = np.stack([m[:, i] - m[:, j] for (i, _), (j, _) in pairs])
    family = Family(names, differences, grid.weights, [float(t) for t in grid.temperatures])
    for row in crossing_rows(family, settings):
        yield {**whose, **row}
