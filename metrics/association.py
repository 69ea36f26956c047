"""Does one quantity of a question foretell another? Correlations and AUROC with intervals."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tcb_bench.metrics.paired_auroc import paired_aurocs
from tcb_bench.metrics.statistics import Interval, percentile_interval, resampled_sums

Floats = NDArray[np.float64]


def spearman(
    x: ArrayLike, y: ArrayLike, *, resamples: int = 2_000, level: float = 0.95, seed: int = 0
) -> Interval:
    """Return Spearman's rank correlation, ranks of ties averaged, with its bootstrap interval.

    Args:
        x: (n,) values; NaN = not available, +inf is a value.
        y: (n,) values of the same questions.
        resamples: bootstrap resamples of questions, ranked anew each.
        level: coverage of the interval.
        seed: >= 0.

    Returns:
        In [-1, 1]; None for fewer than three pairs or where either does not vary.

    Raises:
        ValueError: the lengths differ.

    Cost: O(n log n + B n^2), the latter in one product.
    Checked against: scipy.stats.spearmanr, also of brute-force resamples.
    """
    a, b = _pairs(x, y)
    n = len(a)
    if n < 3 or np.ptp(_ranks_of(a)) == 0 or np.ptp(_ranks_of(b)) == 0:
        return Interval(None, None, None, None, n)
    counts = resampled_sums(np.eye(n), resamples=resamples, seed=seed)
    draws = _correlation(counts, _midranks(a, counts), _midranks(b, counts))
    own = np.ones((1, n))
    value = _correlation(own, _midranks(a, own), _midranks(b, own))[0]
    return percentile_interval(float(value), draws, n=n, level=level)


def pearson(
    x: ArrayLike, y: ArrayLike, *, resamples: int = 2_000, level: float = 0.95, seed: int = 0
) -> Interval:
    """Return Pearson's correlation with its bootstrap interval.

    r = sum_i (x_i - mean x)(y_i - mean y) / sqrt(sum_i (x_i - mean x)^2 sum_i (y_i - mean y)^2)

    A few far values decide it, and then its interval is wide or lopsided: see `half_of_variance`.

    Args:
        x: (n,) values; NaN = not available.
        y: (n,) values of the same questions.
        resamples: bootstrap resamples of questions; those in which either does not vary are left
            out.
        level: coverage of the interval.
        seed: >= 0; the same resamples as `spearman` for the same pairs.

    Returns:
        In [-1, 1]; None for fewer than three pairs, where either does not vary, and where a value
        is infinite.

    Raises:
        ValueError: the lengths differ.

    Cost: O(B n) time and memory.
    Source: BC table 1 (as it stands there, without intervals).
    Checked against: scipy.stats.pearsonr, also of brute-force resamples.
    """
    a, b = _pairs(x, y)
    n = len(a)
    if n < 3 or not np.isfinite([a, b]).all() or a.max() == a.min() or b.max() == b.min():
        return Interval(None, None, None, None, n)
    counts = resampled_sums(np.eye(n), resamples=resamples, seed=seed)
    draws = _product_moment(counts, a, b)
    value = _product_moment(np.ones((1, n)), a, b)[0]
    return percentile_interval(float(value), draws, n=n, level=level)


def half_of_variance(values: ArrayLike) -> int | None:
    """Return the smallest number of values that hold half of the sum of squares about the mean.

    One or two of hundreds mean that a Pearson correlation speaks of these alone.

    Args:
        values: (n,); NaN = not available.

    Returns:
        In [1, n]; None where nothing varies or a value is infinite.

    Checked against: every subset of a small sample.
    """
    given = np.asarray(values, dtype=np.float64)
    given = given[~np.isnan(given)]
    if len(given) < 2 or not np.isfinite(given).all() or given.max() == given.min():
        return None
    scaled = given / np.abs(given).max()  # squares of lengths above 1e154 would overflow
    squares = np.sort((scaled - scaled.mean()) ** 2)[::-1]
    return int(np.searchsorted(np.cumsum(squares), squares.sum() / 2 * (1 - 1e-12))) + 1


def auroc(
    score: ArrayLike,
    event: ArrayLike,
    *,
    resamples: int = 2_000,
    level: float = 0.95,
    seed: int = 0,
) -> Interval:
    """Return P(score of an event > score of a non-event), ties counting half.

    0.5 says nothing, 1 that every event scores above every non-event.

    Args:
        score: (n,) values; NaN = not available, infinities are values.
        event: (n,) bool, or 1, 0 and NaN = not known.
        resamples: bootstrap resamples of questions; those of one kind only are left out.
        level: coverage of the interval.
        seed: >= 0.

    Returns:
        In [0, 1]; None where there is no event or no non-event.

    Raises:
        ValueError: the lengths differ.

    Source: Hanley and McNeil 1982; equal to Mann-Whitney's U / (n_1 n_0).
    Checked against: scipy.stats.mannwhitneyu, also of brute-force resamples.
    """
    a, b = _pairs(score, event)
    return paired_aurocs(a[:, None], b, resamples=resamples, level=level, seed=seed).areas[0]


def _pairs(x: ArrayLike, y: ArrayLike) -> tuple[Floats, Floats]:
    a, b = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    if a.shape != b.shape or a.ndim != 1:
        raise ValueError(f"expected two (n,) arrays of one length; got {a.shape} and {b.shape}")
    both = ~np.isnan(a) & ~np.isnan(b)
    return a[both], b[both]


def _ranks_of(values: Floats) -> NDArray[np.intp]:
    return np.unique(values, return_inverse=True)[1].ravel()


def _midranks(values: Floats, counts: Floats) -> Floats:
    """(B, n) mean rank of each value among the counts[b] copies of all: no sort per resample."""
    group = _ranks_of(values)
    order = np.argsort(group, kind="stable")
    starts = np.searchsorted(group[order], np.arange(int(group.max()) + 1))
    sizes = np.add.reduceat(counts[:, order], starts, axis=1)
    below = np.cumsum(sizes, axis=1) - sizes
    return (below + (sizes + 1) / 2)[:, group]


def _correlation(counts: Floats, a: Floats, b: Floats) -> Floats:
    n = counts.sum(axis=1, keepdims=True)
    middle = (n + 1) / 2
    a, b = a - middle, b - middle
    cov, va, vb = ((counts * p).sum(axis=1) for p in (a * b, a * a, b * b))
    scale: Floats = np.sqrt(np.where(va * vb > 0, va * vb, np.nan))
    found: Floats = cov / scale
    return found


def _product_moment(counts: Floats, a: Floats, b: Floats) -> Floats:
    """(B,) weighted correlations; NaN where a resample holds one value only."""
    da, db = _deviations(counts, a), _deviations(counts, b)
    cov, va, vb = ((counts * p).sum(axis=1) for p in (da * db, da * da, db * db))
    scale: Floats = np.sqrt(va) * np.sqrt(vb)
    found: Floats = cov / np.where(scale > 0, scale, np.nan)
    return found.clip(-1, 1)


def _deviations(counts: Floats, values: Floats) -> Floats:
    """(B, n) distances from the mean of the resample, in units of its range; 0 where not drawn.

    Taken from the resample's own lowest value, so that a far value left out costs the others no
    digits and equal values are exactly 0.
    """
    drawn = counts > 0
    low = np.where(drawn, values, np.inf).min(axis=1, keepdims=True)
    high = np.where(drawn, values, -np.inf).max(axis=1, keepdims=True)
    width = np.where(high > low, high - low, 1.0)
    from_low = np.where(drawn, values - low, 0.0) / width
    means = (counts * from_low).sum(axis=1, keepdims=True) / counts.sum(axis=1, keepdims=True)
    found: Floats = np.where(drawn & (high > low), from_low - means, 0.0)
    return found
