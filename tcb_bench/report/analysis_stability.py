"""The bridge between the papers: does stability at the lowest T foretell what T and noise cost?"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean
from typing import Any

import numpy as np

from tcb_bench.metrics.association import auroc, spearman
from tcb_bench.metrics.variability import question_means
from tcb_bench.report.analysis_cells import (
    FLAT,
    ORIGINAL,
    Settings,
    identity,
    identity_columns,
    ignores_temperature,
    means,
    original_index,
    spread,
    spread_columns,
)
from tcb_bench.report.grid import Floats, Grid
from tcb_bench.report.table import Column, Row, Table

QUANTITIES = (*("relative_flip_radius", "log10_relative_flip_radius", "log10_delta_tcb", "p_top1"),)
"""Of the first token the length itself, over the answer the mean of its logarithm."""
PLACES = {"stability": "first answer token", "stability_mean": "mean over the answer"}
LEAST = 20  # events, and non-events: fewer say nothing about a ranking
MOST = 2_000  # resamples; ranks are taken anew in each
NOTE = (
    "Loss of a question: its mean {metric} in the original context at the lowest temperature minus "
    "its mean over the higher temperatures (temperature), over the perturbed contexts at the "
    "lowest temperature (perturbation), or over both together. Stability is that of the "
    "answer to the original context at the lowest temperature. Spearman: below 0, firmer answers "
    "lose less. "
    "AUROC: chance that a question that lost more than {margin:g} had been less stable than one "
    "that did not; 0.5 says nothing. {level:.0%} intervals by bootstrap of questions, each row by "
    "itself; no value for fewer than {least} questions of either kind."
)


def stability_predicts_loss(grids: Sequence[Grid], settings: Settings) -> Table:
    """Rows per grid, stability quantity and kind of loss; one with a reason where nothing is."""
    note = NOTE.format(
        metric=settings.metric, margin=settings.margin, level=1 - settings.alpha, least=LEAST
    )
    columns = [
        *identity_columns(grids),
        Column("quantity", "stability"),
        Column("place", "at"),
        Column("loss", "loss under"),
        *spread_columns("spearman", "Spearman", 3),
        *spread_columns("auroc", "AUROC", 3),
        Column("n_events", "events"),
        Column("n", "n"),
        Column("reason", "remark"),
    ]
    rows = [row for grid in grids for row in _rows(grid, settings)]
    title = "Does stability at the lowest temperature predict the loss?"
    return Table("stability_predicts_loss", title, note, columns, rows)


def _rows(grid: Grid, settings: Settings) -> Iterator[Row]:
    whose = identity(grid)
    nothing: dict[str, Any] = dict.fromkeys(("quantity", "place", "loss", "spearman", "auroc"))
    nothing |= {"n_events": 0, "n": 0}
    original = original_index(grid)
    if original is None:
        yield {**whose, **nothing, "reason": "no original context"}
        return
    predictors = _predictors(grid)
    if not predictors:
        yield {**whose, **nothing, "reason": "the run stored no stability of these answers"}
        return
    losses = _losses(means(grid, settings.metric), original)
    for (quantity, place), stability in predictors.items():
        for kind, loss in losses.items():
            row = {**whose, **nothing, "quantity": quantity, "place": place, "loss": kind}
            if kind != "perturbation" and ignores_temperature(grid):
                yield {**row, "reason": FLAT}
            else:
                yield {**row, **_association(stability, loss, settings)}


def _predictors(grid: Grid) -> dict[tuple[str, str], Floats]:
    """(quantity, place) -> (Q,) stability in the original context at the lowest temperature."""
    lowest = grid.temperatures[0]
    samples = [grid.samples.get((lowest, ORIGINAL, question), {}) for question in grid.questions]
    found = {}
    for key, place in PLACES.items():
        for quantity in QUANTITIES:
            values = np.array([_stability(sample, key, quantity) for sample in samples])
            if not np.isnan(values).all():
                found[quantity, place] = values
    return found


def _stability(sample: Mapping[str, Any], key: str, quantity: str) -> float:
    """Mean over the repeats that have the quantity; NaN where none has."""
    values = [(row.get(key) or {}).get(quantity) for row in sample.get("rows", ())]
    known = [float(value) for value in values if value is not None]
    return fmean(known) if known else math.nan


def _losses(m: Floats, original: int) -> dict[str, Floats]:
    """Kind of loss -> (Q,), from (T, C, Q) means."""
    start = m[0, original]
    others = np.delete(m, original, axis=1)
    parts = {
        "temperature": m[1:, original],
        "perturbation": others[0],
        "both": others[1:].reshape(-1, m.shape[2]),
    }
    return {kind: start - question_means(part.T) for kind, part in parts.items() if len(part)}


def _association(stability: Floats, loss: Floats, settings: Settings) -> dict[str, Any]:
    known = ~np.isnan(stability) & ~np.isnan(loss)
    stability, loss = stability[known], loss[known]
    event = loss > settings.margin
    counts = {"n_events": int(event.sum()), "n": len(loss)}
    if len(loss) < LEAST:
        return {**counts, "reason": f"fewer than {LEAST} questions with stability and loss"}
    options = {**settings.bootstrap, "resamples": min(settings.resamples, MOST)}
    row = {**counts, **spread(spearman(stability, loss, **options), "spearman")}
    if min(counts["n_events"], len(loss) - counts["n_events"]) < LEAST:
        kind = "losses" if counts["n_events"] < LEAST else "questions without a loss"
        return {**row, "reason": f"fewer than {LEAST} {kind} above {settings.margin:g}"}
    return {**row, **spread(auroc(-stability, event, **options), "auroc")}
