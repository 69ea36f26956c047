"""The samples that a perturbation hurts most, with their texts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from tcb_bench.report.analysis_cells import (
    Settings,
    identity,
    identity_columns,
    means,
    original_index,
    perturbed,
    temperature_column,
)
from tcb_bench.report.grid import Floats, Grid
from tcb_bench.report.table import Column, Row, Table
from tcb_bench.responses import answer_text

NOTE = (
    "For each model, temperature, question type and context, the question whose mean {metric} over "
    "runs falls most from the original to the perturbed context (TP, section 6.2). Of its runs the "
    "text is shown whose score is nearest to the question's mean."
)


def gaps_table(grids: Sequence[Grid], settings: Settings) -> Table:
    """One row per temperature and perturbed context."""
    columns = [
        *identity_columns(grids),
        temperature_column(grids),
        Column("context", "context"),
        Column("gap", "gap", 4),
        Column("question", "question"),
        Column("reference", "reference"),
        Column("original", "answer, original"),
        Column("perturbed", "answer, perturbed"),
        Column("doc_id", "id"),
    ]
    rows = [row for grid in grids for row in _rows(grid, settings.metric)]
    title = "Samples with the largest gap"
    return Table("largest_gaps", title, NOTE.format(metric=settings.metric), columns, rows)


def _rows(grid: Grid, metric: str) -> Iterator[Row]:
    original = original_index(grid)
    if original is None:
        return
    m = means(grid, metric)
    for k, temperature in enumerate(grid.temperatures):
        for place, context in perturbed(grid):
            row = {**identity(grid), "temperature": float(temperature), "context": context}
            pair = m[k, original], m[k, place]
            yield {**row, **_largest(grid, (float(temperature), context), pair, metric)}


def _largest(
    grid: Grid, condition: tuple[float, str], pair: tuple[Floats, Floats], metric: str
) -> dict[str, Any]:
    temperature, context = condition
    gaps = pair[0] - pair[1]
    if np.isnan(gaps).all():
        return {"gap": None, "n": 0, "reason": "no pair of scores"}
    q = int(np.nanargmax(gaps))
    if gaps[q] <= 0:
        return {"gap": None, "n": int((~np.isnan(gaps)).sum()), "reason": "no question lost"}
    document = grid.questions[q]
    contexts = (grid.contexts[original_index(grid) or 0], context)
    samples = [grid.samples.get((temperature, name, document), {}) for name in contexts]
    texts = [text_near(s, metric, float(x[q])) for s, x in zip(samples, pair, strict=True)]
    doc = samples[0].get("doc", {})
    return {
        "gap": float(gaps[q]),
        "n": int((~np.isnan(gaps)).sum()),
        "doc_id": document,
        "question": doc.get("question"),
        "reference": samples[0].get("reference") or samples[0].get("target"),
        "original": texts[0],
        "perturbed": texts[1],
    }


def text_near(sample: Mapping[str, Any], metric: str, level: float) -> str | None:
    """The answer of the run whose score is nearest to ``level``, the first of equals, or None."""
    scored = [
        (abs(score - level), row["repeat"], text)
        for row in sample.get("rows", ())
        if (text := answer_text(row)) is not None
        and isinstance(score := row.get("scores", {}).get(metric), int | float)
    ]
    return min(scored)[2] if scored else None
