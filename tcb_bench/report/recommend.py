"""The highest temperature that costs nothing that matters: what a RAG engineer came for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from tcb_bench.metrics.statistics import Interval
from tcb_bench.metrics.variability import question_means
from tcb_bench.report.analysis_cells import (
    FLAT,
    Settings,
    aligned,
    by_model,
    holds,
    identity_columns,
    ignores_temperature,
    pooled_intervals,
    temperature_column,
    with_types,
)
from tcb_bench.report.grid import Floats, Grid
from tcb_bench.report.table import Column, Row, Table

FEW = 20  # questions; with fewer, intervals are not to be leant on
NOTE = (
    "{metric}. For each context: the highest tested temperature whose mean score is not worse than "
    "the model's best by more than {margin:g}. The best is the temperature with the highest mean "
    "in the same context. 'Not worse' means that the lower limit (one-sided {level:.0%}, bootstrap "
    "of whole questions, paired) of the difference to the best is above -{margin:g}. The best is "
    "itself chosen from the data. The ceiling asks something else: how far up from the lowest "
    "temperature nothing is lost. n counts questions; question types weigh alike in 'all'."
)


def recommend(
    grids: Sequence[Grid], *, metric: str = "bertscore_f1", margin: float = 0.01, seed: int = 0
) -> Table:
    """Return the recommended temperature per model, question type and context.

    Args:
        grids: of any number of models and question types.
        metric: name of the score, higher is better.
        margin: how much worse than the best is still good enough, in the score's unit, > 0.
        seed: of the bootstrap.

    Returns:
        Rows with ``recommended`` (None with ``reason`` where nothing is known or the model ignores
        temperature), the best temperature, both scores, their difference and its lower limit.

    Raises:
        UsageError: ``margin`` is not positive; UnknownName: a grid has no such score.
    """
    return recommend_table(grids, Settings(metric=metric, margin=margin, seed=seed))


def recommend_table(grids: Sequence[Grid], settings: Settings) -> Table:
    """The same with all settings."""
    note = NOTE.format(metric=settings.metric, margin=settings.margin, level=1 - settings.alpha)
    columns = [
        *identity_columns(grids),
        Column("context", "context"),
        temperature_column(grids, "recommended", "highest T"),
        Column("score", "score there", 4),
        temperature_column(grids, "best", "best T"),
        Column("best_score", "best score", 4),
        Column("difference", "difference", 4),
        Column("limit", "lower limit", 4),
        Column("n", "n"),
        Column("reason", "remark"),
    ]
    rows = [row for same in by_model(grids) for row in _rows(same, settings)]
    title = f"{grids[0].task}: which temperature to run" if grids else "Which temperature to run"
    return Table("recommend", title, note, columns, rows)


def _rows(grids: Sequence[Grid], settings: Settings) -> Iterator[Row]:
    for label, group in with_types(grids):
        temperatures, contexts, parts = aligned(group, settings.metric)
        flat = any(map(ignores_temperature, group))
        found = _flat(parts, settings) if flat else _choices(temperatures, parts, settings)
        for context, choice in zip(contexts, found, strict=True):
            row: dict[str, Any] = {"model": grids[0].model, "question_type": label}
            row |= {"context": context, "recommended": None, "score": None, "best": None}
            row |= {"best_score": None, "difference": None, "limit": None, "n": 0}
            yield {**row, **choice}


def _flat(parts: Sequence[tuple[Floats, Floats]], settings: Settings) -> list[dict[str, Any]]:
    """Per context, the score of a model that ignores temperature: all its T are repeats."""
    pooled = [(question_means(np.moveaxis(m, 0, -1)).T, w) for m, w in parts]  # (Q, C)
    scores = pooled_intervals(pooled, **settings.one_sided)
    reason = f"{FLAT}: any will do"
    return [{"score": score.value, "n": score.n, "reason": reason} for score in scores]


def _choices(
    temperatures: Sequence[float], parts: Sequence[tuple[Floats, Floats]], settings: Settings
) -> list[dict[str, Any]]:
    """Per context, from each type's (T, C, Q) means and weights."""
    n_t, n_c, _ = parts[0][0].shape
    once = {**settings.one_sided, "resamples": 1}  # the values alone
    flat = pooled_intervals([(m.reshape(n_t * n_c, -1).T, w) for m, w in parts], **once)
    levels = [[flat[t * n_c + c].value for t in range(n_t)] for c in range(n_c)]
    best = [_best(level) or 0 for level in levels]
    losses = [
        (np.stack([m[:, c] - m[best[c], c] for c in range(n_c)]).reshape(n_c * n_t, -1).T, w)
        for m, w in parts
    ]
    found = pooled_intervals(losses, **settings.one_sided)
    return [
        _choice(temperatures, levels[c], found[c * n_t : (c + 1) * n_t], settings.margin)
        for c in range(n_c)
    ]


def _choice(
    temperatures: Sequence[float],
    levels: Sequence[float | None],
    differences: Sequence[Interval],
    margin: float,
) -> dict[str, Any]:
    """The row of one context: ``levels`` at each temperature, ``differences`` to the best."""
    best = _best(levels)
    if best is None:
        return {"reason": "no score in this context"}
    known = [t for t, level in enumerate(levels) if level is not None]
    good = [t for t in known if t == best or holds(differences[t], margin)]
    top = good[-1]
    row = {
        "recommended": temperatures[top],
        "score": levels[top],
        "best": temperatures[best],
        "best_score": levels[best],
        "difference": differences[top].value,
        "limit": differences[top].ci_low,
        "n": differences[top].n,
    }
    worse = [f"{temperatures[t]:g}" for t in known if t < top and t not in good]
    remarks = [f"worse, or not shown not to be, at T = {', '.join(worse)}"] if worse else []
    if top == best == known[-1] and len(known) > 1:
        remarks.append("the best is the highest temperature tested: test higher ones")
    if len(known) < len(temperatures):
        remarks.append(f"temperatures without a score: {len(temperatures) - len(known)}")
    if differences[top].n < FEW:
        remarks.append(f"fewer than {FEW} questions: no advice")
    return {**row, "reason": "; ".join(remarks)} if remarks else row


def _best(levels: Sequence[float | None]) -> int | None:
    """Index of the highest level, the first of equals; None where none is known."""
    known = [(-level, t) for t, level in enumerate(levels) if level is not None]
    return min(known)[1] if known else None
