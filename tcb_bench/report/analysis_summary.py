"""Each condition's level and spread, and each model's baseline."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from tcb_bench.metrics.variability import (
    ConditionSummary,
    area_under_curve,
    baseline_cv,
    summaries,
)
from tcb_bench.report.analysis_cells import (
    FLAT,
    Settings,
    identity,
    identity_columns,
    ignores_temperature,
    original_index,
    spread,
    spread_columns,
    temperature_column,
)
from tcb_bench.report.grid import Floats, Grid
from tcb_bench.report.table import Column, Row, Table

SUMMARY_NOTE = (
    "{metric}. m and s are a question's mean and standard deviation (ddof 1) over its runs. "
    "mean: of m over questions, with its {level:.0%} interval (bootstrap of whole questions); "
    "run_std: mean of s; question_std: standard deviation of m; CV = run_std / mean. "
    "n counts questions, answers counts scored runs."
)
FLAT_NOTE = " Rows without T pool all temperatures of a model that ignores them: its flat line."


def summary_table(grids: Sequence[Grid], settings: Settings) -> Table:
    """One row per condition; missing ones have no number and n 0."""
    note = SUMMARY_NOTE.format(metric=settings.metric, level=1 - settings.alpha)
    if any(map(ignores_temperature, grids)):
        note += FLAT_NOTE
    columns = [
        *identity_columns(grids),
        temperature_column(grids),
        Column("context", "context"),
        *spread_columns("mean", "mean"),
        Column("run_std", "run_std", 4),
        Column("question_std", "question_std", 4),
        Column("cv", "CV", 4),
        Column("n", "n"),
        Column("n_runs", "answers"),
    ]
    rows = [row for grid in grids for row in _rows(grid, settings)]
    return Table("summary", "Score and spread of every condition", note, columns, rows)


def flat_summaries(grid: Grid, settings: Settings) -> dict[str, ConditionSummary]:
    """Context -> summary over all temperatures as if they were further runs of one condition."""
    scores = grid.scores[settings.metric]  # (T, C, Q, R)
    pooled = np.moveaxis(scores, 0, 2).reshape(scores.shape[1], scores.shape[2], -1)
    found = summaries(pooled, weights=grid.weights, **settings.bootstrap)
    return dict(zip(grid.contexts, found, strict=True))


def baseline_table(grids: Sequence[Grid], settings: Settings) -> Table:
    """Baseline CV and mean level of the original context over the temperatures, per model."""
    note = (
        f"{settings.metric} of the original context. Baseline CV: mean of its CV over all "
        "temperatures. Level: area under its curve of means over T (trapezoids) divided by the "
        f"range of T. {1 - settings.alpha:.0%} intervals by bootstrap of whole questions."
    )
    columns = [
        *identity_columns(grids),
        *spread_columns("baseline_cv", "baseline CV"),
        *spread_columns("level", "level"),
        Column("n", "n"),
    ]
    rows = [_baseline_row(grid, settings) for grid in grids]
    return Table("baseline", "Baseline of each model", note, columns, rows)


def _rows(grid: Grid, settings: Settings) -> Iterator[Row]:
    scores: Floats = grid.scores[settings.metric]
    flat = scores.reshape(-1, *scores.shape[2:])
    found = iter(summaries(flat, weights=grid.weights, **settings.bootstrap))
    for temperature in grid.temperatures:
        for context in grid.contexts:
            yield _row(grid, float(temperature), context, next(found))
    if ignores_temperature(grid):
        for context, pooled in flat_summaries(grid, settings).items():
            yield {**_row(grid, None, context, pooled), "reason": f"{FLAT}; all T pooled"}


def _row(grid: Grid, temperature: float | None, context: str, found: ConditionSummary) -> Row:
    row: dict[str, Any] = {
        **identity(grid),
        "temperature": temperature,
        "context": context,
        **spread(found.mean, "mean"),
        **spread(found.run_std, "run_std"),
        "question_std": found.question_std,
        **spread(found.cv, "cv"),
        "n": found.n,
        "n_runs": found.n_runs,
    }
    return row if found.n else {**row, "reason": "no score in this condition"}


def _baseline_row(grid: Grid, settings: Settings) -> Row:
    original = original_index(grid)
    nothing = {"baseline_cv": None, "level": None, "n": 0}
    if original is None:
        return {**identity(grid), **nothing, "reason": "no original context"}
    scores = grid.scores[settings.metric][:, original]
    options = {"weights": grid.weights, **settings.bootstrap}
    level = area_under_curve(np.array(grid.temperatures, dtype=float), scores, **options)
    row = {**spread(baseline_cv(scores, **options), "baseline_cv"), **spread(level, "level")}
    return {**identity(grid), **row, "n": level.n}
