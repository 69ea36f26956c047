"""What every analysis shares: its settings, a grid's cells, and how intervals stand in a row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np

from tcb_bench.errors import UnknownName, UsageError
from tcb_bench.metrics.statistics import (
    Interval,
    mean_intervals,
    percentile_interval,
    resampled_means,
)
from tcb_bench.metrics.variability import question_means
from tcb_bench.report.grid import Floats, Grid
from tcb_bench.report.table import Column

ORIGINAL = "original"
FLAT = "the model ignores temperature"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How an analysis is done; the same for all tables of a report."""

    metric: str = "bertscore_f1"  # name of the score in Grid.scores, higher is better
    margin: float = 0.01  # in the score's unit: what counts as no difference
    alpha: float = 0.05  # error rate of tests; intervals cover 1 - alpha
    seed: int = 0
    resamples: int = 10_000  # of bootstraps and of random sign patterns

    def __post_init__(self) -> None:
        """Refuses what no analysis can be done with."""
        if not self.margin > 0:
            raise UsageError(f"the margin must be > 0, in units of the score; got {self.margin}")
        if not 0 < self.alpha < 0.5 or self.resamples < 1:
            raise UsageError(
                f"alpha must be in (0, 0.5) and resamples >= 1; got {self.alpha}, {self.resamples}"
            )

    @property
    def bootstrap(self) -> dict[str, Any]:
        """Keyword arguments of the functions of tcb_bench.metrics.statistics."""
        return {"resamples": self.resamples, "level": 1 - self.alpha, "seed": self.seed}

    @property
    def one_sided(self) -> dict[str, Any]:
        """The same for intervals whose lower limit alone is read, at 1 - alpha."""
        return {**self.bootstrap, "level": 1 - 2 * self.alpha}

    @property
    def flips(self) -> dict[str, Any]:
        """Keyword arguments of the permutation tests."""
        return {"resamples": self.resamples, "seed": self.seed}


def means(grid: Grid, metric: str) -> Floats:
    """(T, C, Q) means over runs, NaN where there is no score.

    Raises:
        UnknownName: the grid has no such score.
    """
    if metric not in grid.scores:
        raise UnknownName("score", metric, grid.scores)
    return question_means(grid.scores[metric])


def aligned(
    grids: Sequence[Grid], metric: str
) -> tuple[list[float], list[str], list[tuple[Floats, Floats]]]:
    """Temperatures and contexts of any of the grids, and each grid's means over both with weights.

    Returns:
        rising temperatures; contexts in order of appearance; per grid (T, C, Q) means, NaN where
        it lacks the condition, and (Q,) weights.
    """
    temperatures = sorted({float(t) for grid in grids for t in grid.temperatures})
    contexts = list(dict.fromkeys(context for grid in grids for context in grid.contexts))
    parts = []
    for grid in grids:
        table = np.full((len(temperatures), len(contexts), len(grid.questions)), np.nan)
        rows = [temperatures.index(float(t)) for t in grid.temperatures]
        places = [contexts.index(context) for context in grid.contexts]
        table[np.ix_(rows, places)] = means(grid, metric)
        parts.append((table, grid.weights))
    return temperatures, contexts, parts


def pooled_intervals(parts: Sequence[tuple[Floats, Floats]], **options: Any) -> list[Interval]:
    """Means over question types, each type weighing alike, of each column of (Q_k, K) tables.

    One table is its `mean_intervals`. Several are resampled within their type: types are fixed,
    questions are the sample. A column that a type lacks has no value.

    Args:
        parts: per type its table and its (Q_k,) weights.
        **options: resamples, level and seed.
    """
    if len(parts) == 1:
        return mean_intervals(parts[0][0], weights=parts[0][1], **options)
    once = {**options, "resamples": 1}  # the values alone
    single = [mean_intervals(table, weights=w, **once) for table, w in parts]
    seed, resamples = options["seed"], options["resamples"]
    draws = np.mean(
        [
            resampled_means(table, weights=w, resamples=resamples, seed=seed + k)
            for k, (table, w) in enumerate(parts)
        ],
        axis=0,
    )
    pooled = []
    for column, intervals in enumerate(zip(*single, strict=True)):
        values = [interval.value for interval in intervals if interval.value is not None]
        value = float(np.mean(values)) if len(values) == len(parts) else None
        n = sum(interval.n for interval in intervals)
        pooled.append(percentile_interval(value, draws[:, column], n=n, level=options["level"]))
    return pooled


def with_types(grids: Sequence[Grid]) -> list[tuple[str | None, list[Grid]]]:
    """Label and grids of one model: all its question types together, then each alone."""
    single = [(grid.question_type or None, [grid]) for grid in grids]
    return [("all", list(grids)), *single] if len(grids) > 1 else single


def original_index(grid: Grid) -> int | None:
    """Where the unperturbed context stands; None for a grid without one."""
    return list(grid.contexts).index(ORIGINAL) if ORIGINAL in grid.contexts else None


def perturbed(grid: Grid) -> list[tuple[int, str]]:
    """Index and name of every context but the original."""
    return [(i, name) for i, name in enumerate(grid.contexts) if name != ORIGINAL]


def ignores_temperature(grid: Grid) -> bool:
    """Whether the model takes a temperature and does nothing with it."""
    return str(grid.temperature_effective).lower() in ("false", "ignored")


def by_model(grids: Sequence[Grid]) -> list[list[Grid]]:
    """Grids of one model and task together, in the order in which they came."""
    order = {(grid.model, grid.task): place for place, grid in reversed(list(enumerate(grids)))}
    ranked = sorted(grids, key=lambda grid: order[grid.model, grid.task])
    return [list(same) for _, same in groupby(ranked, key=lambda grid: (grid.model, grid.task))]


def identity(grid: Grid) -> dict[str, Any]:
    """The keys by which a row says whose it is."""
    return {"model": grid.model, "question_type": grid.question_type or None}


def identity_columns(grids: Sequence[Grid]) -> list[Column]:
    """Columns of `identity`; the question type only where there is one."""
    columns = [Column("model", "model")]
    if any(grid.question_type for grid in grids):
        columns.append(Column("question_type", "question type"))
    return columns


def temperature_column(grids: Sequence[Grid], key: str = "temperature", label: str = "T") -> Column:
    """A column of temperatures with just the digits that they need."""
    values = {float(t) for grid in grids for t in grid.temperatures}
    digits = next((d for d in range(1, 6) if all(abs(round(t, d) - t) < 1e-9 for t in values)), 6)
    return Column(key, label, digits)


def spread(interval: Interval, prefix: str) -> dict[str, Any]:
    """An interval as keys of a row: ``prefix``, ``prefix_low``, ``prefix_high``."""
    return {
        prefix: interval.value,
        f"{prefix}_low": interval.ci_low,
        f"{prefix}_high": interval.ci_high,
    }


def spread_columns(prefix: str, label: str, digits: int = 4) -> list[Column]:
    """Columns of `spread`."""
    return [
        Column(prefix, label, digits),
        Column(f"{prefix}_low", "from", digits),
        Column(f"{prefix}_high", "to", digits),
    ]


def number(value: float) -> float | None:
    """A float for a row; None for NaN."""
    return None if np.isnan(value) else float(value)


def holds(difference: Interval, margin: float) -> bool:
    """Whether a difference is not worse than ``-margin`` by the lower limit of its interval."""
    return difference.ci_low is not None and difference.ci_low > -margin
