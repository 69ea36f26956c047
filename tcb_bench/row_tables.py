"""Rows as a table of numbers, and each document's value: its repeats combined."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Row = Mapping[str, Any]
Values = Sequence[float | None]

MEDIANS = (
    *("delta_tcb", "log10_delta_tcb", "flip_radius", "relative_delta", "relative_flip_radius"),
    *("v_eff", "logit_margin", "p_top1", "p_top2", "nll", "entropy", "h_norm"),
    *("choice_margin", "choice_flip_radius", "v_eff_low", "v_eff_high", "top_mass"),
)
LOG10_MEANS = ("delta_tcb", "flip_radius", "relative_delta", "relative_flip_radius")
MEANS = ("v_eff", "logit_margin", "p_top1", "p_top2", "nll", "entropy", "answer_mass")
SHARES = ("acc", "greedy_is_choice")
TEXT_SCORES = (
    *("bertscore_f1", "bertscore_precision", "bertscore_recall", "rouge1", "rouge2", "rougeL"),
    *("em", "f1", "yes_no", "refusal", "garbled"),
)
"""Scores of free answers, as they stand in a row's ``scores``."""

MEAN_NAMES = (
    *SHARES,
    *(f"{name}_mean" for name in MEANS),
    *(f"log10_{name}_mean" for name in LOG10_MEANS),
    *TEXT_SCORES,
)
MEDIAN_NAMES = tuple(f"{name}_median" for name in MEDIANS)


def values_for_means(row: Row) -> Values:
    """What enters the means of ``MEAN_NAMES``; delta's own logarithm where delta overflows."""
    stability, scores = row["stability"], row.get("scores") or {}
    log10_delta = stability.get("log10_delta_tcb")
    if log10_delta is None:
        logs = [_log10(stability.get(name)) for name in LOG10_MEANS]
    else:
        scale = stability.get("h_norm")
        logs = [
            log10_delta,
            _log10(stability.get("flip_radius")),
            log10_delta - math.log10(scale) if scale else None,
            _log10(stability.get("relative_flip_radius")),
        ]
    return [
        *map(row.get, SHARES),
        *map(stability.get, MEANS),
        *logs,
        *map(scores.get, TEXT_SCORES),
    ]


def values_for_medians(row: Row) -> Values:
    """What enters the medians: a delta too large for a float64 is +inf there, not missing."""
    stability = row["stability"]
    values = dict(zip(MEDIANS, map(stability.get, MEDIANS), strict=True))
    if stability.get("log10_delta_tcb") is not None and stability.get("h_norm"):
        for name in ("delta_tcb", "relative_delta"):
            if values[name] is None:
                values[name] = math.inf
    return list(values.values())


def _log10(value: float | None) -> float | None:
    return math.log10(value) if value else None


def document_means(documents: Sequence[Sequence[Row]], read: Callable[[Row], Values]) -> Floats:
    """(D, Q) means over each document's rows; NaN where none has a value.

    Computed as the first value plus the mean difference from it: equal repeats keep theirs exactly.
    """
    table = _padded(documents, read)
    present = ~np.isnan(table)
    n = present.sum(axis=1)
    first = np.take_along_axis(table, present.argmax(axis=1)[:, None], axis=1)
    with np.errstate(invalid="ignore"):
        more = np.where(present, table - first, 0.0).sum(axis=1) / np.maximum(n, 1)
    start = first[:, 0]
    found: Floats = np.where(np.isinf(start), start, start + more)
    return found


def document_medians(documents: Sequence[Sequence[Row]], read: Callable[[Row], Values]) -> Floats:
    """(D, Q) medians over each document's rows; NaN where none has a value."""
    table = np.sort(_padded(documents, read), axis=1)  # NaN comes last
    n = (~np.isnan(table)).sum(axis=1)
    low, high = (
        np.take_along_axis(table, np.maximum(rank, 0)[:, None], axis=1)[:, 0]
        for rank in ((n - 1) // 2, n // 2)
    )
    found: Floats = np.where(n % 2 == 1, low, (low + high) / 2)
    return found


def _padded(documents: Sequence[Sequence[Row]], read: Callable[[Row], Values]) -> Floats:
    """(D, K, Q): a document's rows, as many as the longest has; NaN where there is nothing."""
    rows = np.array([read(row) for rows in documents for row in rows], dtype=np.float64)
    lengths = np.array([len(rows) for rows in documents], dtype=np.int64)
    width = max(1, int(lengths.max(initial=0)))
    n_columns = rows.shape[1] if rows.ndim == 2 else len(read({"stability": {}}))
    table = np.full((len(documents), width, n_columns), np.nan)
    if len(rows):
        at = np.repeat(np.arange(len(documents)), lengths)
        place = np.arange(len(rows)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        table[at, place] = rows
    return table
