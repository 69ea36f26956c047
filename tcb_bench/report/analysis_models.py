"""Which model is ahead at which temperature, and where do models change rank?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from tcb_bench.metrics.statistics import mean_intervals
from tcb_bench.report.analysis_cells import (
    Settings,
    aligned,
    by_model,
    spread,
    spread_columns,
    temperature_column,
)
from tcb_bench.report.analysis_crossings import NOTE as CROSSING_NOTE
from tcb_bench.report.analysis_crossings import Family, crossing_columns, crossing_rows
from tcb_bench.report.grid import Floats, Grid
from tcb_bench.report.table import Column, Row, Table

NOTE = (
    "{metric}, mean over the contexts that every model has at that temperature, on the "
    "questions that every model was asked. rank: by the mean. The range counts the models that "
    "are better for certain, and those that are not worse for certain: a model is ahead of "
    "another where the {level:.0%} interval of their difference (bootstrap of whole questions, "
    "paired) excludes 0, each pair by itself. {temperature}"
)
IGNORED = "Models that ignore temperature enter with what was measured at each."


def ranks_table(grids: Sequence[Grid], settings: Settings) -> Table:
    """One row per temperature and model, best first."""
    temperatures, names, m, weights = _shared(grids, settings.metric)
    note = NOTE.format(metric=settings.metric, level=1 - settings.alpha, temperature=IGNORED)
    columns = [
        temperature_column(grids),
        Column("rank", "rank"),
        Column("rank_range", "rank range"),
        Column("model", "model"),
        *spread_columns("score", "score"),
        Column("n", "n"),
    ]
    rows = [
        row
        for k, temperature in enumerate(temperatures)
        for row in _ranked(temperature, names, m[:, k], weights, settings)
    ]
    return Table("model_ranks", "Rank of the models at each temperature", note, columns, rows)


def model_crossings_table(grids: Sequence[Grid], settings: Settings) -> Table:
    """One row per pair of models."""
    temperatures, names, m, weights = _shared(grids, settings.metric)
    pairs = list(combinations(range(len(names)), 2))
    differences = np.stack([m[i] - m[j] for i, j in pairs])
    family = Family([(names[i], names[j]) for i, j in pairs], differences, weights, temperatures)
    note = CROSSING_NOTE.format(metric=settings.metric, alpha=settings.alpha)
    note += " Scores are means over the contexts that every model has at that temperature, on the "
    note += "questions that every model was asked."
    rows = list(crossing_rows(family, settings))
    title = "Where models change rank as temperature grows"
    return Table("model_crossings", title, note, crossing_columns(grids), rows)


def _shared(grids: Sequence[Grid], metric: str) -> tuple[list[float], list[str], Floats, Floats]:
    """Temperatures, models, (M, T, Q) means over contexts of shared questions, their weights."""
    groups = by_model(grids)
    keys = [[(g.question_type, q) for g in group for q in g.questions] for group in groups]
    common = sorted(set(keys[0]).intersection(*keys[1:]))
    temperatures, _, parts = aligned(grids, metric)
    known = np.all([~np.isnan(m).all(axis=2) for m, _ in parts], axis=0)  # (T, C)
    by_grid = {id(grid): part for grid, part in zip(grids, parts, strict=True)}
    rows, weights = [], np.ones(len(common))
    for group, own in zip(groups, keys, strict=True):
        place = {key: i for i, key in enumerate(own)}
        order = [place[key] for key in common]
        whole = np.concatenate([by_grid[id(grid)][0] for grid in group], axis=2)[:, :, order]
        level = np.full((len(temperatures), len(common)), np.nan)
        for k in np.flatnonzero(known.any(axis=1)):
            level[k] = whole[k, known[k]].mean(axis=0)
        rows.append(level)
        weights = np.concatenate([by_grid[id(grid)][1] for grid in group])[order]
    return temperatures, [group[0].model for group in groups], np.stack(rows), weights


def _ranked(
    temperature: float, names: Sequence[str], m: Floats, weights: Floats, settings: Settings
) -> Iterator[Row]:
    """``m`` is (M, Q) at one temperature."""
    options = {"weights": weights, **settings.bootstrap}
    levels = mean_intervals(m.T, **options)
    known = [i for i, level in enumerate(levels) if level.value is not None]
    ahead = np.zeros((len(names), len(names)), dtype=bool)  # [i, j]: i is ahead of j for certain
    pairs = [(i, j) for i in known for j in known if i != j]
    if pairs:
        gaps = mean_intervals(np.stack([m[i] - m[j] for i, j in pairs], axis=1), **options)
        for (i, j), gap in zip(pairs, gaps, strict=True):
            ahead[i, j] = gap.ci_low is not None and gap.ci_low > 0
    for rank, i in enumerate(sorted(known, key=lambda i: -(levels[i].value or 0.0)), 1):
        best, worst = 1 + int(ahead[:, i].sum()), len(known) - int(ahead[i].sum())
        reach = f"{best}" if best == worst else f"{best}-{worst}"
        row: dict[str, Any] = {"temperature": temperature, "rank": rank, "rank_range": reach}
        yield {**row, "model": names[i], **spread(levels[i], "score"), "n": levels[i].n}
    for i in set(range(len(names))) - set(known):
        row = {"temperature": temperature, "rank": None, "rank_range": None, "model": names[i]}
        reason = "no shared question with a score in every context"
        yield {**row, "score": None, "n": 0, "reason": reason}
