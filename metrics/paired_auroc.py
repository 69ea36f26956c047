"""Several scores as predictors of one event: AUROCs and their differences, on one resampling."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from tcb_bench.metrics.statistics import Interval, percentile_interval, resampled_sums


@dataclass(frozen=True)
class PairedAurocs:
    """AUROCs of Q scores.

    Attributes:
        areas: Q intervals of P(score of an event > score of a non-event), ties counting half.
        differences: Q intervals of that less the first score's; the first is 0 by definition.
        n: rows used, those where every score and the event are known.
        n_events: rows of them with the event.
    """

    areas: list[Interval]
    differences: list[Interval]
    n: int
    n_events: int


def paired_aurocs(
    scores: ArrayLike,
    event: ArrayLike,
    *,
    resamples: int = 2_000,
    level: float = 0.95,
    seed: int = 0,
) -> PairedAurocs:
    """Return the AUROC of every score, and how far it lies from the first one's.

    All scores are compared on the same rows, and every bootstrap resample of rows serves all of
    them, so that an interval of a difference is that of paired data.

    Args:
        scores: (n, Q), Q >= 1; NaN = not available (that row is left out), infinities are values.
        event: (n,) bool, or 1, 0 and NaN = not known.
        resamples: bootstrap resamples of rows; those of one kind only are left out.
        level: coverage of the intervals.
        seed: >= 0.

    Returns:
        ``PairedAurocs``; all values are None where there is no event or no non-event.

    Raises:
        ValueError: the shapes do not fit.

    Cost: O(B Q n_events n_others).
    Source: Hanley and McNeil 1983 for the question; the bootstrap of Efron and Tibshirani 1993.
    Checked against: scipy.stats.mannwhitneyu, also of brute-force resamples.

    >>> paired_aurocs([[1.0, 3.0], [2.0, 2.0], [3.0, 1.0]], [0, 1, 1]).areas[1].value
    0.0
    """
    table, happened = np.asarray(scores, dtype=np.float64), np.asarray(event, dtype=np.float64)
    if table.ndim != 2 or table.shape[1] < 1 or happened.shape != table.shape[:1]:
        raise ValueError(
            f"expected scores (n, Q >= 1) and event (n,); got {table.shape} and {happened.shape}"
        )
    known = ~np.isnan(table).any(axis=1) & ~np.isnan(happened)
    table, is_event = table[known], happened[known] > 0
    n, n_events = len(table), int(is_event.sum())
    if not 0 < n_events < n:
        unknown = [Interval(None, None, None, None, n)] * table.shape[1]
        return PairedAurocs(unknown, unknown, n, n_events)
    counts = np.vstack([np.ones(n), resampled_sums(np.eye(n), resamples=resamples, seed=seed)])
    of_events, of_others = counts[:, is_event], counts[:, ~is_event]
    pairs = of_events.sum(axis=1) * of_others.sum(axis=1)
    draws = np.empty((len(counts), table.shape[1]))
    for q, column in enumerate(table.T):
        a, b = column[is_event, None], column[~is_event]
        wins = (a > b) + (a == b) / 2
        u = ((of_events @ wins) * of_others).sum(axis=1)
        draws[:, q] = u / np.where(pairs > 0, pairs, np.nan)
    gaps = draws - draws[:, :1]

    def intervals(values: np.ndarray) -> list[Interval]:
        return [
            percentile_interval(float(column[0]), column[1:], n=n, level=level)
            for column in values.T
        ]

    return PairedAurocs(intervals(draws), intervals(gaps), n, n_events)
