"""Accuracy against stability (the four conflict cases), and accuracy under perturbation."""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tcb_bench.metrics.statistics import (
    Interval,
    mean_intervals,
    percentile_interval,
    resampled_means,
)

Floats = NDArray[np.float64]

CASES = (
    "accurate_but_unstable",
    "inaccurate_but_stable",
    "confident_but_unstable",
    "uncertain_but_stable",
)
CONSISTENT_CASES = (
    "consistent_accurate_stable",
    "consistent_inaccurate_unstable",
    "consistent_confident_stable",
    "consistent_uncertain_unstable",
)


class ConflictCase(NamedTuple):
    """One label an axis, of `CASES` or `CONSISTENT_CASES`; None where an input is unknown."""

    accuracy: str | None
    confidence: str | None


def conflict_case(
    *,
    correct: bool | None,
    p_top1: float | None,
    stability: float | None,
    stable_at: float,
    confident_at: float = 0.5,
) -> ConflictCase:
    """Label a prediction by accuracy against stability and by confidence against stability.

    The paper's four cases lie on these two axes, and one prediction can be in two of them: right,
    sure of itself and unstable is cases 1 and 3. Hence a label for each axis.

    Args:
        correct: whether the answer is right; None = not known.
        p_top1: probability of the top token, in [0, 1]; None = not known.
        stability: any quantity that rises with stability, such as ``relative_flip_radius``; +inf is
            allowed; None = not known, and then neither axis has a label.
        stable_at: stable is ``stability >= stable_at``.
        confident_at: confident is ``p_top1 >= confident_at``.

    Returns:
        The two labels: "but" names a conflict, "consistent" that there is none.

    Raises:
        ValueError: ``p_top1`` is no probability, or ``stability`` or a threshold is NaN.

    Source: Liu et al. 2026, arXiv:2602.10816, section 4.3 and appendix D.1; thresholds are ours.

    >>> conflict_case(correct=True, p_top1=0.95, stability=0.01, stable_at=0.1)
    ConflictCase(accuracy='accurate_but_unstable', confidence='confident_but_unstable')
    """
    if p_top1 is not None and not 0 <= p_top1 <= 1 + 1e-6:  # float32 may round above 1
        raise ValueError(f"p_top1 must be in [0, 1], or None if unknown; got {p_top1}")
    if any(math.isnan(number) for number in (stable_at, confident_at, stability or 0.0)):
        raise ValueError(
            "stability and the thresholds must not be NaN (None = unknown stability); "
            f"got {stability=}, {stable_at=}, {confident_at=}"
        )
    if stability is None:
        return ConflictCase(None, None)
    is_stable = stability >= stable_at
    is_confident = None if p_top1 is None else p_top1 >= confident_at
    return ConflictCase(
        _label(correct, is_stable, ("inaccurate", "accurate")),
        _label(is_confident, is_stable, ("uncertain", "confident")),
    )


def _label(is_good: bool | None, is_stable: bool, words: tuple[str, str]) -> str | None:
    if is_good is None:
        return None
    word, state = words[int(is_good)], ("unstable", "stable")[int(is_stable)]
    return f"consistent_{word}_{state}" if is_good == is_stable else f"{word}_but_{state}"


class Robustness(NamedTuple):
    """How accuracy holds under perturbation: intervals over questions, a share or variance each.

    ``accuracy`` is on the questions as they are, ``perturbed`` the mean over variants, then over
    questions; ``variance`` is AccVar_pert, ``drop`` PDR, ``worst`` Acc_worst.
    """

    accuracy: Interval
    perturbed: Interval
    variance: Interval
    drop: Interval
    worst: Interval


def accuracy_variance(variants: ArrayLike) -> Floats:
    """Return the variance of each question's accuracy over its perturbed variants.

    v_q = (1 / K_q) sum_k (a_qk - mean_k a_qk)^2   (ddof 0); AccVar_pert is their mean over q

    Args:
        variants: (n, K), a row per question, a column per variant: accuracies in [0, 1]; NaN =
            this question has no such variant.

    Returns:
        (n,) in [0, 0.25], 0 = the same under every variant; NaN for a question without a variant.

    Raises:
        ValueError: no (n, K) table, or a value that is no share.

    Source: Liu et al. 2026, arXiv:2602.10816, appendix C.4.2 and table 3.

    >>> accuracy_variance([[1, 0, 1, 0], [1, 1, 1, float("nan")]]).tolist()
    [0.25, 0.0]
    """
    table = _shares(variants, ndim=2)
    centred = table - _row_means(table)[:, None]
    return _row_means(centred**2)


def worst_accuracy(variants: ArrayLike) -> Floats:
    """Return 1 for each question that is right under every variant, else 0.

    w_q = min_k a_qk; Acc_worst is their mean over q. The unperturbed question is no variant.

    Args:
        variants: (n, K) as in `accuracy_variance`.

    Returns:
        (n,); NaN for a question without a variant.

    Raises:
        ValueError: as `accuracy_variance`.

    Source: Liu et al. 2026, arXiv:2602.10816, table 3.

    >>> worst_accuracy([[1, 0], [1, 1]]).tolist()
    [0.0, 1.0]
    """
    table = _shares(variants, ndim=2)
    low = np.where(np.isnan(table), np.inf, table).min(axis=1, initial=np.inf)
    return np.where(np.isinf(low), np.nan, low)


def robustness(
    original: ArrayLike,
    variants: ArrayLike,
    *,
    resamples: int = 2_000,
    level: float = 0.95,
    seed: int = 0,
) -> Robustness:
    """Return accuracy, AccVar_pert, PDR and Acc_worst with bootstrap intervals over questions.

    PDR = (Acc_orig - Acc_pert) / Acc_orig, both over the questions that have both

    Args:
        original: (n,) accuracy of each unperturbed question in [0, 1]; NaN = not available.
        variants: (n, K) as in `accuracy_variance`.
        resamples: bootstrap resamples of questions, >= 1.
        level: coverage of the intervals.
        seed: >= 0; tables of as many questions are resampled alike.

    Returns:
        PDR is at most 1, negative where perturbation helps, and None where Acc_orig is 0 (resamples
        with Acc_orig = 0 are left out of its interval).

    Raises:
        ValueError: the lengths differ, or a value is no share.

    Cost: O(B n).
    Source: Liu et al. 2026, arXiv:2602.10816, appendix C.4.2 and table 3.
    Checked against: hand computation, and brute-force resamples.
    """
    table = _per_question(original, variants)
    plain = mean_intervals(table[:, :4], resamples=resamples, level=level, seed=seed)
    drawn = _drops(resampled_means(table, resamples=resamples, seed=seed))
    n = int((~np.isnan(table[:, 4])).sum())
    drop = percentile_interval(_drop(table), drawn, n=n, level=level)
    return Robustness(plain[0], plain[1], plain[2], drop, plain[3])


def robustness_differences(
    first: tuple[ArrayLike, ArrayLike],
    second: tuple[ArrayLike, ArrayLike],
    *,
    resamples: int = 2_000,
    level: float = 0.95,
    seed: int = 0,
) -> Robustness:
    """Return second minus first of each quantity of `robustness`, paired by question.

    Args:
        first: (original, variants) under one prompt.
        second: the same questions, in the same order, under another.
        resamples: bootstrap resamples; one draws the same questions for both prompts.
        level: coverage of the intervals.
        seed: >= 0.

    Returns:
        Differences, over the questions that have a value on both sides; of PDR over the questions
        with all four accuracies, None where either has Acc_orig = 0.

    Raises:
        ValueError: the lengths differ, or a value is no share.

    Checked against: brute-force resamples of pairs.
    """
    a, b = _per_question(*first), _per_question(*second)
    if len(a) != len(b):
        raise ValueError(f"expected the same questions on both sides; got {len(a)} and {len(b)}")
    plain = mean_intervals((b - a)[:, :4], resamples=resamples, level=level, seed=seed)
    lost = np.isnan(a[:, 4]) | np.isnan(b[:, 4])
    for table in (a, b):
        table[lost, 4:] = np.nan
    values = [_drop(table) for table in (a, b)]
    drawn = [_drops(resampled_means(t, resamples=resamples, seed=seed)) for t in (a, b)]
    value = None if values[0] is None or values[1] is None else values[1] - values[0]
    drop = percentile_interval(value, drawn[1] - drawn[0], n=int((~lost).sum()), level=level)
    return Robustness(plain[0], plain[1], plain[2], drop, plain[3])


def _per_question(original: ArrayLike, variants: ArrayLike) -> Floats:
    """(n, 6): accuracy, mean over variants, variance, worst; then both accuracies where paired."""
    right, table = _shares(original, ndim=1), _shares(variants, ndim=2)
    if len(right) != len(table):
        raise ValueError(f"expected a row of variants per question; got {len(right)}, {len(table)}")
    mean = _row_means(table)
    both = np.column_stack([right, mean])
    both[np.isnan(both).any(axis=1)] = np.nan
    return np.column_stack([right, mean, accuracy_variance(table), worst_accuracy(table), both])


def _drop(table: Floats) -> float | None:
    pairs = table[~np.isnan(table[:, 4]), 4:]
    if len(pairs) == 0 or pairs[:, 0].mean() == 0:
        return None
    return float(1 - pairs[:, 1].mean() / pairs[:, 0].mean())


def _drops(means: Floats) -> Floats:
    base = np.where(means[:, 4] > 0, means[:, 4], np.nan)
    drops: Floats = 1 - means[:, 5] / base
    return drops


def _row_means(table: Floats) -> Floats:
    known = ~np.isnan(table)
    count = known.sum(axis=1)
    sums = np.where(known, table, 0.0).sum(axis=1)
    return np.where(count > 0, sums / np.maximum(count, 1), np.nan)


def _shares(values: ArrayLike, *, ndim: int) -> Floats:
    table = np.asarray(values, dtype=np.float64)
    if table.ndim != ndim:
        raise ValueError(f"expected {('(n,)', '(n, K)')[ndim - 1]} accuracies; got {table.shape}")
    if ((table < 0) | (table > 1)).any():
        raise ValueError("accuracies must be in [0, 1], or NaN where there is none")
    return table
