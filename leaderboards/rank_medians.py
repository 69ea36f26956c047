"""Medians of many models over joint resamples of their questions."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Places = NDArray[np.int32]

_WIDTH = 3.5  # of the window around the median, in sqrt(n): seven standard deviations


def median_draws(values: Floats, counts: Floats) -> Floats:
    """The median of each model in each resample.

    Sorted by value, the median of a resample is the question at which the running count passes
    half of what was drawn. That place scatters by sqrt(n) / 2 about n / 2, so only a window there
    is gathered; what lies below it comes from one product for all models. The few resamples that
    leave the window are done again in full.

    Args:
        values: (M, Q), a row per model; NaN = no value.
        counts: (B, Q), how often each question stands in each resample.

    Returns:
        (B, M); NaN where a resample drew none of a model's questions.

    Cost: one product (B, Q) by (Q, M), and O(M B sqrt(Q)).
    Checked against: numpy.median of the repeated values.
    """
    present = ~np.isnan(values)
    orders = np.argsort(values, axis=1, kind="stable")  # NaN come last
    n = present.sum(axis=1)
    first = np.maximum((n / 2 - _WIDTH * np.sqrt(n)).astype(np.int64) - 2, 0)
    last = np.minimum((n / 2 + _WIDTH * np.sqrt(n)).astype(np.int64) + 3, n)
    ranks = np.empty_like(orders)
    np.put_along_axis(ranks, orders, np.arange(values.shape[1])[None, :], axis=1)
    below = counts @ (ranks < first[:, None]).T.astype(np.float64)
    drawn = counts @ present.T.astype(np.float64)
    columns = np.ascontiguousarray(counts.T.astype(np.int32))
    found = np.full((len(counts), len(values)), np.nan)
    for i in np.flatnonzero(n):
        order = orders[i, : n[i]]
        low, high = _middle(columns[order[first[i] : last[i]]], below[:, i], drawn[:, i])
        low, high = first[i] + low, first[i] + high
        beyond = (high >= last[i]) | (low == first[i])
        if beyond.any():
            low[beyond], high[beyond] = _middle(columns[order][:, beyond], 0.0, drawn[beyond, i])
        low, high = np.minimum(low, n[i] - 1), np.minimum(high, n[i] - 1)
        middle = values[i, order[low]] / 2 + values[i, order[high]] / 2
        found[:, i] = np.where(drawn[:, i] > 0, middle, np.nan)
    return found


def shared_medians(values: Floats) -> Floats:
    """(M, M): the median of model i over the questions that j has too; NaN where there are none.

    Args:
        values: (M, Q); NaN = no value.

    Cost: O(M^2 Q) at worst, O(M^2 sqrt(Q)) where few are missing.
    Checked against: numpy.median on each pair.
    """
    present = (~np.isnan(values)).astype(np.float64)
    is_same = bool((present == present[:1]).all())
    found = median_draws(values, present[:1] if is_same else present).T
    return np.array(np.broadcast_to(found, (len(values), len(values))))


def _middle(rows: Places, below: Floats | float, drawn: Floats | Places) -> tuple[Places, Places]:
    """Which of the rows hold the lower and the upper middle of each column's counts.

    Args:
        rows: (K, B) counts of the values, sorted by value.
        below: (B,) counts of smaller values than these.
        drawn: (B,) counts of all values.

    Returns:
        (B,) and (B,) indices, K where the middle lies beyond.
    """
    lower, upper = ((drawn.astype(np.int32) - 1) // 2, drawn.astype(np.int32) // 2)
    running = np.zeros(rows.shape[1], dtype=np.int32)
    running += np.asarray(below, dtype=np.int32)
    low, high = np.zeros_like(running), np.zeros_like(running)
    for row in rows:  # ten times as fast as a cumulative sum over the first axis
        running += row
        low += running <= lower
        high += running <= upper
    return low, high
