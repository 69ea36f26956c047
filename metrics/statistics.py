"""Means and medians with standard errors and bootstrap intervals: vectorised, seeded, exact in n.

Every interval is a percentile bootstrap interval over questions: of B sorted resamples it leaves
floor(B (1 - level) / 2) outside at either end (Efron and Tibshirani 1993, section 13.3).
NaN in the data means "not available": it is left out, never a 0, and shows in the interval's n.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tcb_bench.metrics.resampling import median_ranks, resampled_sums

__all__ = [
    "Interval",
    "mean_intervals",
    "means_with_draws",
    "median_intervals",
    "percentile_interval",
    "resampled_means",
    "resampled_sums",
    "stratified_mean_interval",
]

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Interval:
    """A statistic of ``n`` values, its interval and its standard error, all in the values' unit.

    None where there is no meaning: everything for n = 0, interval and standard error for n = 1.
    """

    value: float | None
    ci_low: float | None
    ci_high: float | None
    stderr: float | None
    n: int


def mean_intervals(
    values: ArrayLike,
    *,
    weights: ArrayLike | None = None,
    resamples: int = 10_000,
    level: float = 0.95,
    seed: int = 0,
) -> list[Interval]:
    """Return the mean of each column, with rows resampled jointly for all columns.

    mean = sum w x / sum w;  stderr = sqrt(n / (n - 1) sum w^2 (x - mean)^2) / sum w

    For equal weights that is the classical sd(ddof=1) / sqrt(n). The mean of a resample divides by
    the weight it drew; resamples that drew none of a sparse column are left out there.

    Args:
        values: (n, Q), a row per question, a column per quantity; finite, or NaN = not available.
        weights: (n,) > 0, of the rows; None = all alike.
        resamples: number B of bootstrap resamples, >= 1.
        level: coverage of the interval, in (0, 1).
        seed: >= 0. The same rows are drawn for a column whatever stands in the others.

    Returns:
        Q intervals; the ``n`` of each counts the available cells of its column.

    Raises:
        ValueError: another shape, an infinity, a weight that is not positive, or ``resamples`` or
            ``level`` out of range.

    Cost: O(B n Q) in matrix products; beyond the inputs some 25 MiB and O(B Q). The draws of the
    last few (n, B, seed) are kept, at most 48 MiB, and not made again.
    Checked against: scipy.stats.bootstrap(method="percentile"); quantiles of the binomial.
    """
    found, _ = means_with_draws(
        values, weights=weights, resamples=resamples, level=level, seed=seed
    )
    return found


def means_with_draws(
    values: ArrayLike,
    *,
    weights: ArrayLike | None = None,
    resamples: int = 10_000,
    level: float = 0.95,
    seed: int = 0,
) -> tuple[list[Interval], Floats]:
    """Return `mean_intervals` and the `resampled_means` they are made of, drawn once."""
    table = _checked(values, ndim=2, resamples=resamples, level=level)
    w = _shares(table, weights)
    n = (w > 0).sum(axis=0)
    means = _means(table, w)
    draws = resampled_means(table, weights=weights, resamples=resamples, seed=seed)
    squares = (w**2 * np.where(w > 0, table - means, 0.0) ** 2).sum(axis=0)
    with np.errstate(invalid="ignore"):  # 0 / 0 in a column without a value
        stderr = np.sqrt(squares * n / np.maximum(n - 1, 1)) / w.sum(axis=0)
    columns = range(table.shape[1])
    found = [_interval(means[q], draws[:, q], stderr[q], int(n[q]), level) for q in columns]
    return found, draws


def resampled_means(
    values: ArrayLike, *, weights: ArrayLike | None = None, resamples: int = 10_000, seed: int = 0
) -> Floats:
    """Return the (B, Q) means of each bootstrap resample of rows, those of `mean_intervals`.

    One row of the result is one resample, joint for all columns: any function of the means (a
    ratio, an area, a rank) takes its interval from its values over the B rows. Tables of the same
    number of rows and seed draw the same rows, so that differences between them are paired.

    Args:
        values: (n, Q), finite, or NaN = not available.
        weights: (n,) > 0, of the rows; None = all alike.
        resamples: number B, >= 1.
        seed: >= 0.

    Returns:
        (B, Q); NaN where a resample drew no available cell of a column.

    Raises:
        ValueError: as `mean_intervals`.
    """
    table = _checked(values, ndim=2, resamples=resamples, level=0.5)
    w = _shares(table, weights)
    means = _means(table, w)
    centred = np.where(w > 0, table - means, 0.0)  # so that a constant keeps its value exactly
    uneven = (w != w[:1]).any(axis=0)  # elsewhere each resample draws the same weight
    sums = resampled_sums(np.hstack([w * centred, w[:, uneven]]), resamples=resamples, seed=seed)
    drawn = np.tile(w.sum(axis=0), (resamples, 1))
    drawn[:, uneven] = sums[:, table.shape[1] :]
    with np.errstate(invalid="ignore"):  # 0 / 0 where a resample drew no available cell
        draws = means + sums[:, : table.shape[1]] / drawn
    low, high = (np.where(w > 0, table, fill) for fill in (np.inf, -np.inf))
    clipped: Floats = draws.clip(low.min(0, initial=np.inf), high.max(0, initial=-np.inf))
    return clipped  # rounding leaves no -1e-17


def percentile_interval(
    value: float | None, draws: ArrayLike, *, n: int, level: float = 0.95
) -> Interval:
    """Return the interval of a statistic from its (B,) bootstrap values, NaN among them left out.

    stderr is their standard deviation (ddof 1). Without a value, or where every draw is NaN, there
    is no interval; n < 2 has none either.
    """
    present = np.asarray(draws, dtype=np.float64)
    present = present[~np.isnan(present)]
    if value is None or not np.isfinite(value):
        return Interval(None, None, None, None, n)
    if len(present) == 0:
        return Interval(float(value), None, None, None, n)
    return _interval(value, present, _standard_deviation(present), n, level)


def median_intervals(
    values: ArrayLike, *, resamples: int = 10_000, level: float = 0.95, seed: int = 0
) -> list[Interval]:
    """Return the median of each column; stderr is the standard deviation of its resampled medians.

    The median of a resample is drawn directly. It stands at rank floor(n U) of the sorted column,
    U being the k-th smallest of n uniforms, k = (n + 1) // 2: Beta(k, n - k + 1). For even n it is
    the mean of two, the next larger uniform being U + (1 - U) Beta(1, n - k). This is the exact
    distribution of the bootstrap median. Columns are resampled singly.

    Args:
        values: (n, Q) as in `mean_intervals`; +inf is a value too (an overflown length).
        resamples: number B of bootstrap resamples, >= 1.
        level: coverage of the interval, in (0, 1).
        seed: >= 0; a column's result depends on it and on the column alone.

    Returns:
        Q intervals; value and limits may be +inf, stderr is None where a resampled median is.

    Raises:
        ValueError: another shape, -inf, or ``resamples`` or ``level`` out of range.

    Cost: O(Q (n log n + B log B)).
    Source: David and Nagaraja 2003, Order Statistics, sections 2.1 and 2.5.
    Checked against: medians of brute-force resamples; scipy.stats.bootstrap.
    """
    table = _checked(values, ndim=2, resamples=resamples, level=level)
    if np.isneginf(table).any():
        raise ValueError("values must be finite, +inf or NaN to have a median here; got -inf")
    intervals = []
    for column in table.T:
        ordered = np.sort(column[~np.isnan(column)])
        n = len(ordered)
        if n == 0:
            intervals.append(Interval(None, None, None, None, 0))
            continue
        low, high = median_ranks(n, resamples, seed)
        halves = ordered / 2  # the sum of two large lengths would overflow
        value = halves[(n - 1) // 2] + halves[n // 2]
        draws = halves[low] + halves[high]
        intervals.append(_interval(value, draws, _standard_deviation(draws), n, level))
    return intervals


def stratified_mean_interval(
    groups: Sequence[ArrayLike], *, resamples: int = 10_000, level: float = 0.95, seed: int = 0
) -> Interval:
    """Return the mean of the group means, each group weighing alike (a macro mean).

    stderr = sqrt(sum_g sd_g^2 / n_g) / G; the bootstrap resamples within each group. The groups are
    fixed and only the questions are a sample: another MMLU would have other questions on the same
    subjects. That one subject is harder than another is therefore no sampling error, and neither
    the spread between the group means nor a resampling of groups enters.

    Args:
        groups: G arrays (n_g,), finite, or NaN = not available.
        resamples: number of bootstrap resamples, >= 1.
        level: coverage of the interval, in (0, 1).
        seed: >= 0.

    Returns:
        ``n`` counts the available values of all groups. All else is None if a group has none (the
        macro mean is then unknown) or there is no group; interval and stderr if a group has one.

    Raises:
        ValueError: another shape, an infinity, or ``resamples`` or ``level`` out of range.

    Source: Cochran 1977, Sampling Techniques, section 5.3, with equal stratum weights.
    """
    arrays = [_checked(group, ndim=1, resamples=resamples, level=level) for group in groups]
    if any(np.isinf(array).any() for array in arrays):
        raise ValueError("groups must be finite or NaN to have a mean; got an infinity")
    present = [array[~np.isnan(array)] for array in arrays]
    sizes = [len(group) for group in present]
    if min(sizes, default=0) == 0:
        return Interval(None, None, None, None, sum(sizes))
    value = float(np.mean([group.mean() for group in present]))
    if min(sizes) < 2:
        return Interval(value, None, None, None, sum(sizes))
    rng = np.random.default_rng(seed)
    shifts = np.zeros(resamples)
    for group in present:
        centred = (group - group.mean())[:, None]
        shifts += resampled_sums(centred, resamples=resamples, seed=rng)[:, 0] / len(group)
    variance = sum(group.var(ddof=1) / len(group) for group in present)
    stderr = float(np.sqrt(variance)) / len(present)
    low, high = (np.mean([f(group) for group in present]) for f in (np.min, np.max))
    draws = (value + shifts / len(present)).clip(low, high)  # rounding leaves no -1e-17
    return _interval(value, draws, stderr, sum(sizes), level)


def _checked(values: ArrayLike, *, ndim: int, resamples: int, level: float) -> Floats:
    table = np.asarray(values, dtype=np.float64)
    if table.ndim != ndim:
        raise ValueError(f"expected {('(n,)', '(n, Q)')[ndim - 1]} values; got shape {table.shape}")
    if resamples < 1 or not 0 < level < 1:
        raise ValueError(f"resamples must be >= 1 and level in (0, 1); got {resamples} and {level}")
    return table


def _shares(table: Floats, weights: ArrayLike | None) -> Floats:
    """(n, Q) weights, 0 where the table has no value."""
    if np.isinf(table).any():
        raise ValueError("values must be finite or NaN to have a mean; got an infinity")
    w = np.ones(len(table)) if weights is None else np.asarray(weights, dtype=np.float64)
    if w.shape != (len(table),) or not (np.isfinite(w) & (w > 0)).all():
        raise ValueError(f"weights must be {len(table)} finite numbers > 0; got {w.shape} {w[:3]}")
    return np.where(np.isnan(table), 0.0, w[:, None])


def _means(table: Floats, w: Floats) -> Floats:
    total = w.sum(axis=0)
    sums: Floats = np.where(w > 0, w * table, 0.0).sum(axis=0)
    return sums / np.where(total > 0, total, 1.0)


def _standard_deviation(draws: Floats) -> float:
    if len(draws) < 2 or not np.isfinite(draws).all():
        return float("nan")
    scale = float(np.abs(draws).max()) or 1.0  # squares of lengths above 1e154 would overflow
    return scale * float(np.std(draws / scale, ddof=1))


def _interval(value: float, draws: Floats, stderr: float, n: int, level: float) -> Interval:
    if n < 2:
        return Interval(float(value) if n else None, None, None, None, n)
    present = draws[~np.isnan(draws)]
    outside = int(len(present) * (1 - level) / 2 + 1e-9)
    ordered = np.partition(present, (outside, len(present) - 1 - outside))
    low, high = float(ordered[outside]), float(ordered[-1 - outside])
    return Interval(float(value), low, high, float(stderr) if np.isfinite(stderr) else None, n)
