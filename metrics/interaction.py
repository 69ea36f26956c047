"""Does a perturbation hurt more at another temperature? Contrasts, max-t tests, crossings."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tcb_bench.metrics.paired import sign_patterns, weighted_differences

Floats = NDArray[np.float64]

_MAX_CELLS = 2**20  # of one block of labels: 8 MiB
_TIE = 1e-9


@dataclass(frozen=True, slots=True)
class MaxT:
    """A family of tests judged by its largest statistic.

    Attributes:
        p: (K,) familywise p-value of each test; NaN where it has fewer than two pairs.
        global_p: of the hypothesis that all tests are null, the smallest of ``p``; NaN without one.
    """

    p: Floats
    global_p: float


@dataclass(frozen=True, slots=True)
class Crossing:
    """Two temperatures, by index, at which a difference has opposite signs; ``p`` of both."""

    low: int
    high: int
    p: float


def interaction_contrasts(means: ArrayLike, *, original: int = 0, lowest: int = 0) -> Floats:
    """Return per-question interaction contrasts of each condition against two references.

    contrast = (m[t, c] - m[t, original]) - (m[lowest, c] - m[lowest, original])

    Args:
        means: (T, C, Q) of m_q; NaN = no score.
        original: index of the unperturbed context.
        lowest: index of the reference temperature.

    Returns:
        (T - 1, C - 1, Q): below 0 where the perturbation costs more at t; NaN where any of the four
        is missing.

    Raises:
        ValueError: ``means`` has another number of axes.
    """
    m = np.asarray(means, dtype=np.float64)
    if m.ndim != 3:
        raise ValueError(f"means must be (T, C, Q); got shape {m.shape}")
    effect = np.delete(m - m[:, [original]], original, axis=1)
    return np.delete(effect - effect[[lowest]], lowest, axis=0)


def max_t_sign_flip(
    contrasts: ArrayLike,
    *,
    weights: ArrayLike | None = None,
    resamples: int = 10_000,
    seed: int = 0,
) -> MaxT:
    """Test all contrasts against 0 together, by sign flips of whole questions.

    z_k = |sum_q w_q d_qk| / sqrt(sum_q (w_q d_qk)^2)
    p_k = share of sign patterns with max_j z_j >= z_k

    A pattern gives all contrasts of a question the same sign, so their dependence (they share the
    original and the lowest temperature) is kept, and the familywise error is exact. z is a monotone
    form of Student's t whose denominator does not change under flips.

    Args:
        contrasts: (Q, K), a row per question; NaN = missing.
        weights: (Q,) > 0; None = all alike.
        resamples: number of random sign patterns (all 2^Q of them where that is fewer).
        seed: >= 0.

    Returns:
        Familywise p-values. A contrast that is 0 for every question has p = 1.

    Raises:
        ValueError: another shape, an infinity, or wrong weights.

    Source: Westfall and Young 1993, Resampling-Based Multiple Testing, section 2.3 (single step).
    Checked against: enumeration of all patterns.
    """
    table = np.asarray(contrasts, dtype=np.float64)
    values = weighted_differences(table, weights)
    tested = (~np.isnan(table)).sum(axis=0) >= 2
    scale = np.sqrt((values**2).sum(axis=0))
    unit = values / np.where(scale > 0, scale, 1.0)
    observed = np.abs(unit.sum(axis=0))
    count, patterns = np.zeros(len(observed)), 0
    for signs in sign_patterns(len(unit), resamples, seed):
        largest = np.abs(signs @ unit)[:, tested].max(axis=1, initial=0.0)
        count += (largest[:, None] >= observed - _TIE).sum(axis=0)
        patterns += len(signs)
    return _family(count / patterns, tested)


def two_sample_max_t(
    first: ArrayLike,
    second: ArrayLike,
    *,
    weights: tuple[ArrayLike, ArrayLike] | None = None,
    resamples: int = 10_000,
    seed: int = 0,
) -> MaxT:
    """Test whether two groups of questions have equal means in each column, all columns together.

    t_k = (mean_1 - mean_2) / sqrt(v_1 + v_2), v = n / (n - 1) sum w^2 (x - mean)^2 / (sum w)^2
    (Welch's t for equal weights); p_k = share of relabellings with max_j |t_j| >= |t_k|

    Questions are relabelled as a whole. The studentised form keeps the level (for many questions)
    where the groups differ in spread or size.

    Args:
        first: (Q1, K), NaN = missing.
        second: (Q2, K).
        weights: (Q1,) and (Q2,) > 0; None = all alike.
        resamples: number of random relabellings.
        seed: >= 0.

    Returns:
        Familywise p-values; NaN where a group has fewer than two values.

    Raises:
        ValueError: the columns differ in number, or as `max_t_sign_flip`.

    Source: Janssen 1997, Statistics and Probability Letters 36, 9-21 (studentised permutation).
    Checked against: scipy.stats.permutation_test of Welch's t.
    """
    a, b = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[1]:
        raise ValueError(f"groups must be (Q1, K) and (Q2, K); got {a.shape} and {b.shape}")
    w1, w2 = weights or (np.ones(len(a)), np.ones(len(b)))
    present = ~np.isnan(np.concatenate([a, b]))
    tested = (present[: len(a)].sum(axis=0) >= 2) & (present[len(a) :].sum(axis=0) >= 2)
    w = np.where(present, np.concatenate([np.asarray(w1), np.asarray(w2)])[:, None], 0.0)
    x = np.where(present, np.concatenate([a, b]), 0.0)
    x = np.where(present, x - x.sum(axis=0) / np.maximum(present.sum(axis=0), 1), 0.0)
    moments = np.concatenate([w, w * x, w**2, w**2 * x, (w * x) ** 2, present], axis=1)
    count, patterns = np.zeros(a.shape[1]), 0
    observed = None
    for labels in _labels(len(a), len(b), resamples, seed):
        t = np.abs(_welch(labels @ moments, moments.sum(axis=0), a.shape[1]))
        observed = t[0] if observed is None else observed
        largest = t[:, tested].max(axis=1, initial=0.0)
        count += (largest[:, None] >= observed * (1 - _TIE)).sum(axis=0)
        patterns += len(labels)
    return _family(count / patterns, tested)


def crossing(means: ArrayLike, p_adjusted: ArrayLike) -> Crossing | None:
    """Return the best supported change of sign of a difference between two temperatures.

    Both signs must hold, so the p-value is the larger of the two (intersection-union); with
    p-values adjusted over all temperatures no further correction is due.

    Args:
        means: (T,) mean differences in the order of rising temperature; NaN = not known.
        p_adjusted: (T,) two-sided, adjusted.

    Returns:
        The pair with the smallest p (the earliest of equals), or None where no two signs differ.
        It stands at the level alpha where its ``p`` is below alpha.

    Source: Gail and Simon 1985, Biometrics 41, 361-372 (qualitative interaction); Berger 1982.

    >>> crossing([-0.02, 0.001, 0.03], [0.01, 0.8, 0.04])
    Crossing(low=0, high=2, p=0.04)
    """
    m, p = np.asarray(means, dtype=np.float64), np.asarray(p_adjusted, dtype=np.float64)
    pairs = [
        Crossing(low, high, float(max(p[low], p[high])))
        for low in range(len(m))
        for high in range(low + 1, len(m))
        if m[low] * m[high] < 0
    ]
    return min(pairs, key=lambda pair: pair.p, default=None)


def _family(p: Floats, tested: NDArray[np.bool_]) -> MaxT:
    p = np.where(tested, p, np.nan)
    return MaxT(p, float(p[tested].min()) if tested.any() else float("nan"))


def _labels(n_first: int, n_second: int, resamples: int, seed: int) -> Iterator[Floats]:
    """Blocks of (b, Q) 0/1 with ``n_first`` ones a row; the first row is the data's own."""
    own = np.concatenate([np.ones(n_first), np.zeros(n_second)])
    yield own[None, :]
    rng = np.random.default_rng(seed)
    step = max(1, _MAX_CELLS // max(len(own), 1))
    for first in range(0, resamples, step):
        size = min(step, resamples - first)
        yield rng.permuted(np.tile(own, (size, 1)), axis=1)


def _welch(ones: Floats, total: Floats, k: int) -> Floats:
    """(b, K) statistics from the moments of the first group (b, 6 K) and of all (6 K,)."""
    parts = []
    for sums in (ones, total - ones):
        w, wx, w2, w2x, w2x2, n = (sums[:, i * k : (i + 1) * k] for i in range(6))
        with np.errstate(divide="ignore", invalid="ignore"):
            mean = wx / w
            spread = np.maximum(w2x2 - 2 * mean * w2x + mean**2 * w2, 0.0)
            parts.append((mean, spread / w**2 * n / (n - 1)))
    (m1, v1), (m2, v2) = parts
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.nan_to_num((m1 - m2) / np.sqrt(v1 + v2))  # 0 / 0: two equal constants
