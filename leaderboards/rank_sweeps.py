"""Boards of quality over temperature: their columns, and cells with ranges of ranks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tcb_bench.leaderboards.boards import BoardColumn, Cell
from tcb_bench.leaderboards.columns import SCORES
from tcb_bench.leaderboards.entry import Entry
from tcb_bench.leaderboards.rank_curves import sweep_of
from tcb_bench.leaderboards.rank_facts import IGNORES, ignores_temperature
from tcb_bench.leaderboards.rank_pairs import Differences, drawn_differences
from tcb_bench.leaderboards.rank_questions import RESAMPLES
from tcb_bench.leaderboards.rank_ranges import ranked
from tcb_bench.leaderboards.rank_sweep_model import (
    Curves,
    ModelTable,
    curves_from_conditions,
    curves_of,
)

Floats = NDArray[np.float64]

CV = (
    "standard deviation of {score} over the runs of a question, mean over questions, divided by "
    "the mean score; mean over conditions. Runs reused at temperature 0 count as equal"
)
ONSET = (
    "lowest temperature from which on some context is significantly below its own level at the "
    "lowest temperature (5 % over all contexts together); the outcome of a test, so it has no "
    "interval and no rank"
)


def score_of(entries: Sequence[Entry]) -> str | None:
    """The score whose curve a board draws: the first that an entry has in a sweep over T."""
    swept = [entry for entry in entries if sweep_of(entry.conditions) is not None]
    names = {m.name for entry in swept for m in entry.metrics if m.value is not None}
    return next((name for name in (*SCORES, "acc") if name in names), None)


def sweep_columns(entries: Sequence[Entry], score: str) -> list[BoardColumn]:
    """Area, area per context, worst context, drop, CV and onset."""
    sweeps = [sweep for entry in entries if (sweep := sweep_of(entry.conditions))]
    contexts = list(dict.fromkeys(c for sweep in sweeps for c in sweep.contexts if c))
    mean = f"{score}, mean over question types and contexts"
    area = f"area under {mean} against temperature / its range: the mean height of the curve"
    found = [_column("area", "Area", True, area)]
    if len(contexts) > 1:
        worst = "area of the context where it is smallest; the row names it"
        found += [_column(f"area_{c}", f"Area, {c}", True, f"area of {c} alone") for c in contexts]
        found.append(_column("worst_context", "Worst context", True, worst))
    return [
        *found,
        _column("drop", "Drop", False, f"{mean}: at the lowest minus at the highest temperature"),
        _column("cv", "Run-to-run CV", False, CV.format(score=score)),
        replace(_column("onset", "Onset", True, ONSET), unit="temperature", digits=1),
    ]


def _column(key: str, label: str, higher_is_better: bool, meaning: str) -> BoardColumn:
    return BoardColumn(
        key=key, label=label, unit="1", higher_is_better=higher_is_better, digits=3, meaning=meaning
    )


def sweep_cells(
    entries: Sequence[Entry],
    tables: Sequence[ModelTable | None],
    columns: Sequence[BoardColumn],
    *,
    score: str,
    seed: int,
) -> tuple[list[dict[str, Cell]], list[dict[str, str]]]:
    """For each model its cells by column key, and more facts of its row.

    All conditions of a model and all models of the group are resampled by the same questions.
    """
    everything = sorted({name for table in tables if table for name in table.questions})
    curves = [
        curves_from_conditions(entry, score)
        if table is None
        else curves_of(entry, table, everything, seed)
        for entry, table in zip(entries, tables, strict=True)
    ]
    rows: list[dict[str, Cell]] = [{} for _ in entries]
    for column in columns:
        cells = [_cell(e, c, column.key, score) for e, c in zip(entries, curves, strict=True)]
        pairs = _differences(curves, column.key)
        if column.key != "onset":
            cells = ranked(cells, pairs, column)
        for row, cell in zip(rows, cells, strict=True):
            row[column.key] = cell
    return rows, [curve.facts for curve in curves]


def _cell(entry: Entry, curves: Curves, key: str, score: str) -> Cell:
    value, low, high = (part.get(key, np.nan) for part in (curves.values, curves.low, curves.high))
    is_ignored = ignores_temperature(entry)
    if np.isnan(value):
        reason = f"no {score} in every condition of a sweep over temperature"
        if key == "onset" and curves.n:
            falls = curves.facts.get("falls")
            reason = f"falls: {falls}" if falls else "needs samples, which are not here"
        return Cell(
            value=None,
            ci_low=None,
            ci_high=None,
            n=curves.n,
            reason=IGNORES if is_ignored else reason,
        )
    return Cell(
        value=value,
        ci_low=None if np.isnan(low) else low,
        ci_high=None if np.isnan(high) else high,
        n=curves.n,
        reason=IGNORES if is_ignored else None,
    )


def _differences(curves: Sequence[Curves], key: str) -> Differences | None:
    has = [key in curve.draws for curve in curves]
    if sum(has) < 2:
        return None
    draws = [curve.draws.get(key, np.full(RESAMPLES, np.nan)) for curve in curves]
    values = np.array([curve.values.get(key, np.nan) for curve in curves])
    n = np.array([curve.n if here else 0 for curve, here in zip(curves, has, strict=True)], float)
    return drawn_differences(values, np.array(draws).T, n)
