"""Do question types lose differently as temperature rises?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tcb_bench.metrics.interaction import two_sample_max_t
from tcb_bench.metrics.statistics import (
    Interval,
    mean_intervals,
    percentile_interval,
    resampled_means,
)
from tcb_bench.report.analysis_cells import (
    FLAT,
    Settings,
    aligned,
    by_model,
    ignores_temperature,
    number,
    spread,
    spread_columns,
    temperature_column,
)
from tcb_bench.report.grid import Floats, Grid
from tcb_bench.report.table import Column, Row, Table

NOTE = (
    "{metric}, mean over the contexts that both types have at both temperatures. change: mean "
    "of m at T minus m at the lowest temperature, per question; the row without T is the least- "
    "squares slope per unit of T over the contexts that are there at every temperature. "
    "difference: change of the first type minus that of the second, below 0 where the first "
    "loses more. The types have different questions, so p is a two-sample permutation test "
    "(Welch's t, questions relabelled), its largest statistic taken over all rows of the pair: "
    "it holds for them together. {level:.0%} intervals by bootstrap within each type."
)


def types_table(grids: Sequence[Grid], settings: Settings) -> Table:
    """Rows per model and pair of question types: the slope, then the change to each temperature."""
    note = NOTE.format(metric=settings.metric, level=1 - settings.alpha)
    columns = [
        Column("model", "model"),
        Column("types", "types"),
        temperature_column(grids),
        Column("first", "change, first", 4),
        Column("second", "change, second", 4),
        *spread_columns("difference", "difference"),
        Column("p", "p (family)", 4),
        Column("n_first", "n first"),
        Column("n_second", "n second"),
    ]
    rows = [
        row
        for same in by_model(grids)
        for pair in combinations(same, 2)
        for row in _rows(pair, settings)
    ]
    return Table("type_by_temperature", "Question type and temperature", note, columns, rows)


def _rows(pair: tuple[Grid, Grid], settings: Settings) -> Iterator[Row]:
    first, second = pair
    names = f"{first.question_type} - {second.question_type}"
    row: dict[str, Any] = {"model": first.model, "types": names, "temperature": None}
    if any(map(ignores_temperature, pair)):
        nothing = dict.fromkeys(("first", "second", "difference", "p"))
        yield {**row, **nothing, "n_first": 0, "n_second": 0, "reason": FLAT}
        return
    temperatures, _, parts = aligned(pair, settings.metric)
    if len(temperatures) < 2:
        return
    known = np.all([~np.isnan(m).all(axis=2) for m, _ in parts], axis=0)  # (T, C)
    a, b = (_changes(m, known, temperatures) for m, _ in parts)
    weights = (parts[0][1], parts[1][1])
    test = two_sample_max_t(a, b, weights=weights, **settings.flips)
    found = _differences(a, b, weights, settings)
    for k, temperature in enumerate([None, *temperatures[1:]]):
        one, two, difference = found[k]
        row |= {"temperature": temperature, "first": one.value, "second": two.value}
        row |= {"n_first": one.n, "n_second": two.n, "p": number(test.p[k])}
        reason = {} if difference.value is not None else {"reason": "no pair of conditions"}
        yield {**row, **spread(difference, "difference"), **reason}


def _changes(m: Floats, known: NDArray[np.bool_], temperatures: Sequence[float]) -> Floats:
    """(Q, T): the slope over T, then the change to each higher temperature, from (T, C, Q) means.

    ``known`` (T, C): the conditions that both types have.
    """
    t = np.asarray(temperatures, dtype=np.float64) - np.mean(temperatures)
    slope = t @ _over_contexts(m, np.asarray(known.all(axis=0))) / (t @ t)
    changes = [
        _over_contexts(m[k] - m[0], known[0] & known[k]) for k in range(1, len(temperatures))
    ]
    return np.column_stack([slope, *changes])


def _over_contexts(m: Floats, chosen: NDArray[np.bool_]) -> Floats:
    """Mean over the chosen contexts (the last axis but one); NaN where one of them is missing."""
    part = m[..., chosen, :]
    return part.mean(axis=-2) if chosen.any() else np.full_like(m[..., 0, :], np.nan)


def _differences(
    a: Floats, b: Floats, weights: tuple[Floats, Floats], settings: Settings
) -> list[tuple[Interval, Interval, Interval]]:
    options, level = settings.flips, 1 - settings.alpha
    one, two = (
        mean_intervals(table, weights=w, level=level, **options)
        for table, w in zip((a, b), weights, strict=True)
    )
    draws = resampled_means(a, weights=weights[0], **options)
    options = {**options, "seed": settings.seed + 1}  # other questions, so other draws
    draws = draws - resampled_means(b, weights=weights[1], **options)
    found = []
    for k, (x, y) in enumerate(zip(one, two, strict=True)):
        value = None if x.value is None or y.value is None else x.value - y.value
        n = min(x.n, y.n)
        found.append((x, y, percentile_interval(value, draws[:, k], n=n, level=level)))
    return found
