"""Level and spread of repeated answers: mean, run_std, question_std, CV, area under a sweep.

m_q and s_q are mean and standard deviation (ddof 1) of question q over its runs. Every interval is
a percentile bootstrap clustered by question: a resampled question brings all its runs along.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tcb_bench.metrics.statistics import (
    Interval,
    mean_intervals,
    means_with_draws,
    percentile_interval,
    resampled_means,
)

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class ConditionSummary:
    """One condition: ``mean`` of m_q, ``run_std`` of s_q, and what they say together.

    Attributes:
        mean: of m_q over questions, in the score's unit.
        run_std: mean of s_q; its ``n`` counts the questions with at least two runs.
        question_std: standard deviation (ddof 1) of m_q; None for fewer than two questions.
        cv: run_std / mean, without unit; None where either is not known or the mean is not > 0.
        n: questions with at least one score.
        n_runs: scores of all questions together.
    """

    mean: Interval
    run_std: Interval
    question_std: float | None
    cv: Interval
    n: int
    n_runs: int


def question_means(scores: ArrayLike) -> Floats:
    """Return m_q: means over the last axis (runs), NaN left out; NaN where no run has a score.

    Args:
        scores: (..., R) finite, or NaN = no score.

    Returns:
        (...) means.
    """
    table = np.asarray(scores, dtype=np.float64)
    present = ~np.isnan(table)
    total = np.where(present, table, 0.0).sum(axis=-1)
    n = present.sum(axis=-1)
    return np.where(n > 0, total / np.maximum(n, 1), np.nan)


def run_deviations(scores: ArrayLike) -> Floats:
    """Return s_q: standard deviations (ddof 1) over the last axis; NaN for fewer than two runs.

    Args:
        scores: (..., R) finite, or NaN = no score.

    Returns:
        (...) standard deviations, >= 0.
    """
    table = np.asarray(scores, dtype=np.float64)
    n = (~np.isnan(table)).sum(axis=-1)
    deviations = np.nan_to_num(table - question_means(table)[..., None])
    variance = (deviations**2).sum(axis=-1) / np.maximum(n - 1, 1)
    return np.where(n > 1, np.sqrt(variance), np.nan)


def summary(
    scores: ArrayLike,
    *,
    weights: ArrayLike | None = None,
    resamples: int = 10_000,
    level: float = 0.95,
    seed: int = 0,
) -> ConditionSummary:
    """Return mean, run_std, question_std and CV of one condition.

    mean = <m_q>,  run_std = <s_q>,  CV = run_std / mean,  <x> = sum w x / sum w over questions

    Args:
        scores: (Q, R), a row per question, a column per run; NaN = no score.
        weights: (Q,) > 0; None = all alike.
        resamples: bootstrap resamples of questions, >= 1.
        level: coverage of the intervals, in (0, 1).
        seed: >= 0.

    Returns:
        The summary; a condition without a score has None throughout and n = 0.

    Raises:
        ValueError: another shape, an infinity, or an option out of range.

    Source: TP (TempPerturb-Eval) section 5; definitions of run_std and question_std by ddof 1.
    Checked against: numpy.std over runs, hand computation, brute-force resampling.
    """
    table = _runs(scores, ndim=2)[None]
    return summaries(table, weights=weights, resamples=resamples, level=level, seed=seed)[0]


def summaries(
    scores: ArrayLike,
    *,
    weights: ArrayLike | None = None,
    resamples: int = 10_000,
    level: float = 0.95,
    seed: int = 0,
) -> list[ConditionSummary]:
    """Return the `summary` of each of K conditions with the same questions, resampled together.

    Args:
        scores: (K, Q, R); NaN = no score. All else as `summary`.
        weights: (Q,) > 0; None = all alike.
        resamples: bootstrap resamples of questions, the same for all conditions.
        level: coverage of the intervals.
        seed: >= 0.

    Returns:
        K summaries, each the same as if its condition were alone.
    """
    table = _runs(scores, ndim=3)
    m, s = question_means(table), run_deviations(table)
    columns, k = np.concatenate([m, s]).T, len(table)
    found, draws = means_with_draws(
        columns, weights=weights, resamples=resamples, level=level, seed=seed
    )
    return [
        ConditionSummary(
            mean=found[i],
            run_std=found[k + i],
            question_std=_weighted_deviation(m[i], weights),
            cv=_ratio_interval(found[k + i], found[i], draws[:, [i, k + i]], level),
            n=found[i].n,
            n_runs=int((~np.isnan(table[i])).sum()),
        )
        for i in range(k)
    ]


def baseline_cv(
    scores: ArrayLike,
    *,
    weights: ArrayLike | None = None,
    resamples: int = 10_000,
    level: float = 0.95,
    seed: int = 0,
) -> Interval:
    """Return the mean CV of the original context over its temperatures (TP's dotted line).

    Args:
        scores: (T, Q, R) of the original context; temperatures without a CV are left out.
        weights: (Q,) > 0; None = all alike.
        resamples: bootstrap resamples of questions, joint for all temperatures.
        level: coverage of the interval.
        seed: >= 0.

    Returns:
        The interval; ``n`` counts the questions with a score at any temperature.

    Raises:
        ValueError: another shape, or as `summary`.
    """
    table = _runs(scores, ndim=3)
    m, s = question_means(table), run_deviations(table)
    columns = np.concatenate([s, m]).T
    found = mean_intervals(columns, weights=weights, resamples=1, level=level, seed=seed)
    values = np.array([[np.nan if f.value is None else f.value for f in found]])
    draws = resampled_means(columns, weights=weights, resamples=resamples, seed=seed)
    value, resampled = (_mean_ratio(rows, len(table)) for rows in (values, draws))
    n = int((~np.isnan(m)).any(axis=0).sum())
    return percentile_interval(float(value[0]), resampled, n=n, level=level)


def area_under_curve(
    temperatures: ArrayLike,
    scores: ArrayLike,
    *,
    weights: ArrayLike | None = None,
    resamples: int = 10_000,
    level: float = 0.95,
    seed: int = 0,
) -> Interval:
    """Return the mean height of the curve of means over temperature, by trapezoids.

    area = sum_t (x_t + x_{t+1}) / 2 (T_{t+1} - T_t) / (T_last - T_first);  x for one temperature

    Args:
        temperatures: (T,) rising.
        scores: (T, Q, R); NaN = no score.
        weights: (Q,) > 0; None = all alike.
        resamples: bootstrap resamples of questions, joint for all temperatures.
        level: coverage of the interval.
        seed: >= 0.

    Returns:
        In the score's unit; ``n`` counts the questions with a score at any temperature. Value None
        where a temperature has no score: the height there is not known.

    Raises:
        ValueError: ``temperatures`` do not rise or do not fit ``scores``; or as `summary`.

    Checked against: numpy.trapezoid.
    """
    points, table = np.asarray(temperatures, dtype=np.float64), _runs(scores, ndim=3)
    if points.shape != table.shape[:1] or len(points) == 0 or (np.diff(points) <= 0).any():
        raise ValueError(
            f"temperatures must rise, one per row of scores {table.shape}; got {points.tolist()}"
        )
    columns = question_means(table).T
    means = mean_intervals(columns, weights=weights, resamples=1, level=level, seed=seed)
    heights = np.array([[np.nan if m.value is None else m.value for m in means]])
    draws = resampled_means(columns, weights=weights, resamples=resamples, seed=seed)
    value, resampled = (_height(points, rows) for rows in (heights, draws))
    n = int((~np.isnan(columns)).any(axis=1).sum())
    return percentile_interval(float(value[0]), resampled, n=n, level=level)


def _runs(scores: ArrayLike, *, ndim: int) -> Floats:
    table = np.asarray(scores, dtype=np.float64)
    if table.ndim != ndim:
        shape = {2: "(Q, R)", 3: "(T, Q, R)"}[ndim]
        raise ValueError(f"expected scores of shape {shape}; got {table.shape}")
    return table


def _weighted_deviation(m: Floats, weights: ArrayLike | None) -> float | None:
    present = ~np.isnan(m)
    n = int(present.sum())
    if n < 2:
        return None
    w = np.ones(len(m)) if weights is None else np.asarray(weights, dtype=np.float64)
    w, m = w[present] / w[present].sum(), m[present]
    return float(np.sqrt(w @ (m - w @ m) ** 2 * n / (n - 1)))


def _ratio_interval(run_std: Interval, mean: Interval, draws: Floats, level: float) -> Interval:
    if run_std.value is None or mean.value is None or mean.value <= 0:
        return Interval(None, None, None, None, run_std.n)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = draws[:, 1] / np.where(draws[:, 0] > 0, draws[:, 0], np.nan)
    return percentile_interval(run_std.value / mean.value, ratios, n=run_std.n, level=level)


def _mean_ratio(rows: Floats, n_temperatures: int) -> Floats:
    """Mean over temperatures of s / m, in each row of [s_1 .. s_T, m_1 .. m_T]."""
    s, m = rows[:, :n_temperatures], rows[:, n_temperatures:]
    return question_means(s / np.where(m > 0, m, np.nan))


def _height(points: Floats, rows: Floats) -> Floats:
    if len(points) == 1:
        return rows[:, 0]
    areas: Floats = (rows[:, 1:] + rows[:, :-1]) / 2 * np.diff(points)
    total: Floats = areas.sum(axis=1)
    return total / float(points[-1] - points[0])
