"""Which models of a group differ, and the range of ranks that this leaves to each.

For every pair i, j of M models the difference d of a statistic is tested against 0 on the
questions both have a value for:

    p = 2 P(T > |d| / se),  T of Student's t with n - 1 degrees of freedom, n shared questions

and never less than 2^(1 - k), k questions that tell the two apart: no test by signs can say more
of k questions that all point one way, and a bootstrap of two questions would. se is that of the
paired bootstrap: for means its value is known (`mean_differences`), for all else it is taken from
one joint resampling of questions for all models (`median_differences`, `drawn_differences`). Holm's
correction over all pairs of the column keeps the error of calling any two equal models different
at 5 %. A model's rank then lies between 1 + the models above it and M - the models below it.

Source: Mogstad, Romano, Shaikh and Wilhelm 2024, Review of Economic Studies 91, 476-518 (ranges of
ranks from all pairwise differences); Holm 1979; Efron and Tibshirani 1993, chapter 16.
Checked against: simulations of equal and of different models (tests/test_leaderboards_rank.py).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, stdtr

from tcb_bench.leaderboards.rank_medians import shared_medians
from tcb_bench.metrics.paired import holm

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

LEVEL_95 = 1.959963984540054  # half-width of a 95 % interval in standard errors


@dataclass(frozen=True, slots=True, kw_only=True)
class Differences:
    """All pairs of M models, (M, M) each.

    Attributes:
        value: statistic of model i minus that of j, in the statistic's unit.
        stderr: its standard error, >= 0; NaN where there is none.
        n: questions both have.
        distinct: of these, questions where the two do not have the same value.
    """

    value: Floats
    stderr: Floats
    n: Floats
    distinct: Floats


def mean_differences(values: Floats, weights: Floats | None = None) -> Differences:
    """Differences of means over the questions that each pair shares.

    d = sum w (x_i - x_j) / sum w,  se = sqrt(n / (n - 1) sum w^2 (x_i - x_j - d)^2) / sum w

    Args:
        values: (M, Q), a row per model, a column per question; NaN = no value.
        weights: (Q,) > 0; None = all alike.

    Cost: six products of (M, Q) by (Q, M), and M^2 Q comparisons.
    Checked against: scipy.stats.ttest_rel on each pair.
    """
    mask = (~np.isnan(values)).astype(np.float64)
    counted = np.maximum(mask.sum(axis=0), 1.0)
    level = np.where(mask > 0, values, 0.0).sum(axis=0) / counted
    x = np.where(mask > 0, values - level, 0.0)  # what all models share would cost digits
    w = np.ones(values.shape[1]) if weights is None else weights
    n = mask @ mask.T
    with np.errstate(divide="ignore", invalid="ignore"):
        total = (mask * w) @ mask.T
        sums = (x * w) @ mask.T
        value = (sums - sums.T) / total
        squares = (x**2 * w**2) @ mask.T
        crossed = (x * w) @ (x * w).T
        shifts = (x * w**2) @ mask.T
        spread = squares + squares.T - 2 * crossed - 2 * value * (shifts - shifts.T)
        spread += value**2 * ((mask * w**2) @ mask.T)
        stderr = np.sqrt(np.maximum(spread, 0.0) * n / (n - 1)) / total
    return Differences(value=value, stderr=stderr, n=n, distinct=_distinct(values, n))


def median_differences(values: Floats, draws: Floats) -> Differences:
    """Differences of medians over the questions that each pair shares.

    se is the standard deviation of the pair's difference over the joint resamples, each model on
    all of its own questions; where a pair shares fewer it grows by sqrt(own / shared).

    Args:
        values: (M, Q); NaN = no value.
        draws: (B, M) medians of the resamples (`rank_medians.median_draws`).
    """
    mask = (~np.isnan(values)).astype(np.float64)
    n = mask @ mask.T
    own = mask.sum(axis=1)
    medians = shared_medians(values)
    with np.errstate(divide="ignore", invalid="ignore"):
        fewer = np.sqrt(np.maximum(own[:, None], own[None, :]) / n)
        stderr = _joint_stderr(draws) * fewer
    return Differences(value=medians - medians.T, stderr=stderr, n=n, distinct=_distinct(values, n))


def drawn_differences(values: Floats, draws: Floats, n: Floats) -> Differences:
    """Differences of any statistic of a whole model, with its joint draws.

    Args:
        values: (M,) statistics; NaN = none.
        draws: (B, M) of the same resamples of questions.
        n: (M,) questions behind each.
    """
    fewest = np.minimum(n[:, None], n[None, :])
    differences = values[:, None] - values[None, :]
    return Differences(
        value=differences,
        stderr=_joint_stderr(draws),
        n=fewest,
        distinct=np.where(differences == 0, 0.0, fewest),
    )


def p_values(differences: Differences) -> Floats:
    """(M, M) two-sided p of each pair; 1 where a pair cannot be told apart or not be tested."""
    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.abs(differences.value) / differences.stderr
        p = 2 * stdtr(np.maximum(differences.n - 1, 1.0), -t)
    p = np.maximum(p, 2.0 ** np.minimum(1 - differences.distinct, 0.0))
    p[(differences.n < 2) | np.isnan(p)] = 1.0
    return np.asarray(p, dtype=np.float64)


def interval_p_values(value: Floats, low: Floats, high: Floats) -> Floats:
    """(M, M) p from the models' own 95 % intervals, for models without samples here.

    p = 2 P(Z > 1.96 |d| / (sum of the two half-widths that face each other))

    At 5 % a pair is told apart where its intervals do not overlap. Standard errors add at worst,
    so this holds whatever questions the models share; a missing interval gives 1.
    """
    down, up = value - low, high - value
    gap = value[:, None] - value[None, :]
    facing = np.where(gap > 0, down[:, None] + up[None, :], up[:, None] + down[None, :])
    with np.errstate(divide="ignore", invalid="ignore"):
        p = 2 * ndtr(-LEVEL_95 * np.abs(gap) / facing)
    return np.where(np.isnan(p), 1.0, p)


def above(differences: Floats, p: Floats, *, alpha: float = 0.05) -> Flags:
    """(M, M): whether model i lies above j after Holm's correction over all pairs."""
    upper = np.triu_indices(len(p), 1)
    adjusted = np.ones_like(p)
    adjusted[upper] = holm(p[upper])
    adjusted = np.minimum(adjusted, adjusted.T)
    return np.asarray((adjusted < alpha) & (differences > 0))


def rank_ranges(is_above: Flags, *, higher_is_better: bool) -> tuple[list[int], list[int]]:
    """The first and last rank that each of M models may have, counted from 1.

    >>> three = np.array([[False, False, True], [False, False, True], [False, False, False]])
    >>> rank_ranges(three, higher_is_better=True)
    ([1, 1, 3], [2, 2, 3])
    """
    better = is_above if higher_is_better else is_above.T
    first = 1 + better.sum(axis=0)
    last = len(better) - better.sum(axis=1)
    return [int(rank) for rank in first], [int(rank) for rank in last]


def _joint_stderr(draws: Floats) -> Floats:
    """(M, M) standard deviations of the draws' differences; NaN draws count as their mean."""
    missing = np.isnan(draws)
    if missing.any():
        counted = np.maximum((~missing).sum(axis=0), 1)
        draws = np.where(missing, np.where(missing, 0.0, draws).sum(axis=0) / counted, draws)
    centred = draws - draws.mean(axis=0)
    covariance = centred.T @ centred / max(len(draws) - 1, 1)
    own = np.diag(covariance)
    spread: Floats = np.sqrt(np.maximum(own[:, None] + own[None, :] - 2 * covariance, 0.0))
    return spread


def _distinct(values: Floats, n: Floats) -> Floats:
    """(M, M) shared questions with different values; NaN equals nothing.

    Compared in float32, which is faster and at most finds fewer.
    """
    table = values.astype(np.float32)
    equal = [(table == row).sum(axis=1, dtype=np.int32) for row in table]
    return n - np.array(equal, dtype=np.float64).reshape(n.shape)
