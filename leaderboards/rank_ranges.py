"""Cells with their ranges of ranks: which are ranked, by what, and why the others are not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tcb_bench.leaderboards.boards import BoardColumn, Cell
from tcb_bench.leaderboards.rank_pairs import (
    Differences,
    above,
    interval_p_values,
    p_values,
    rank_ranges,
)

Floats = NDArray[np.float64]


def ranked(cells: Sequence[Cell], pairs: Differences | None, column: BoardColumn) -> list[Cell]:
    """The cells of one column, with ranks where at least two of them can be ranked.

    A cell without a value, or with a reason, is not ranked; nor is a column without a direction.
    A pair is judged by ``pairs``, and by the two intervals where one model has no samples here.

    Args:
        cells: (M), a row per model.
        pairs: (M, M) differences of the same rows; None where no model has samples here.
        column: what the cells show.
    """
    own = [i for i, cell in enumerate(cells) if cell.value is not None and cell.reason is None]
    if len(own) < 2 or column.higher_is_better is None:
        return list(cells)
    value, low, high = (
        np.array([np.nan if x is None else x for x in (getattr(cells[i], name) for i in own)])
        for name in ("value", "ci_low", "ci_high")
    )
    differences = value[:, None] - value[None, :]
    p = interval_p_values(value, low, high)
    if pairs is not None:
        at = np.ix_(own, own)
        has_samples = np.diag(pairs.n)[own] > 0
        both = has_samples[:, None] & has_samples[None, :]
        p = np.where(both, p_values(pairs)[at], p)
        differences = np.where(both, pairs.value[at], differences)
    ranges = rank_ranges(above(differences, p), higher_is_better=column.higher_is_better)
    found = list(cells)
    for i, first, last in zip(own, *ranges, strict=True):
        found[i] = replace(cells[i], rank_low=first, rank_high=last)
    return found
