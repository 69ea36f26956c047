"""Paired comparisons over questions: sign-flip tests, Holm's correction, verdicts with a margin.

A sign-flip test asks whether differences d_q are symmetric about 0: under that hypothesis every
question's difference could as well have had the other sign. It is exact for any number of
questions, needs no distribution, keeps zeros (they stay 0 under every flip), and tests the very
mean that is reported, with its weights. One set of flips serves all columns of a table, so that
tests of the same questions keep their dependence.
"""

from collections.abc import Iterator
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tcb_bench.metrics.statistics import Interval

Floats = NDArray[np.float64]
Alternative = Literal["two-sided", "less", "greater"]

_MAX_CELLS = 2**20  # of one block of signs: 8 MiB
_TIE = 1e-9  # relative: sums of the same numbers in another order are the same sum


def sign_flip_p(
    differences: ArrayLike,
    *,
    weights: ArrayLike | None = None,
    alternative: Alternative = "two-sided",
    resamples: int = 10_000,
    seed: int = 0,
) -> Floats:
    """Return the p-value of each column's mean difference against 0.

    statistic = sum_q w_q d_q;  p = share of sign patterns that give one at least as extreme

    With 2^Q <= resamples all patterns are counted (exact); else the data's own pattern and
    ``resamples`` random ones: p = (1 + count) / (1 + resamples), which is valid at any number.

    Args:
        differences: (Q, K), a row per question, a column per test; NaN = no pair.
        weights: (Q,) > 0; None = all alike.
        alternative: "less": the mean is below 0; "greater": above; "two-sided": either.
        resamples: number of random sign patterns, >= 1.
        seed: >= 0.

    Returns:
        (K,) p-values in (0, 1]; NaN for a column without a pair.

    Raises:
        ValueError: another shape, an infinity, or an unknown alternative.

    Source: Fisher 1935, The Design of Experiments, section 21.
    Checked against: enumeration, and scipy.stats.permutation_test.
    """
    table = np.asarray(differences, dtype=np.float64)
    values = weighted_differences(table, weights)
    sign = {"two-sided": 0.0, "less": -1.0, "greater": 1.0}.get(alternative)
    if sign is None:
        raise ValueError(f"alternative must be two-sided, less or greater; got {alternative!r}")
    observed = values.sum(axis=0)
    slack = _TIE * np.abs(values).sum(axis=0)
    count, patterns = np.zeros(values.shape[1]), 0
    for signs in sign_patterns(len(values), resamples, seed):
        flipped = signs @ values
        extreme = (
            np.abs(flipped) >= np.abs(observed) - slack
            if alternative == "two-sided"
            else sign * flipped >= sign * observed - slack
        )
        count += extreme.sum(axis=0)
        patterns += len(signs)
    return np.where(np.isnan(table).all(axis=0), np.nan, count / patterns)


def weighted_differences(differences: ArrayLike, weights: ArrayLike | None) -> Floats:
    """Return (Q, K) w_q d_q with 0 where there is no pair.

    Raises:
        ValueError: ``differences`` is no (Q, K) table, or holds an infinity; ``weights`` is not
            (Q,) positive numbers.
    """
    table = np.asarray(differences, dtype=np.float64)
    if table.ndim != 2 or np.isinf(table).any():
        raise ValueError(f"differences must be finite or NaN, (Q, K); got shape {table.shape}")
    w = np.ones(len(table)) if weights is None else np.asarray(weights, dtype=np.float64)
    if w.shape != (len(table),) or not (np.isfinite(w) & (w > 0)).all():
        raise ValueError(f"weights must be {len(table)} finite numbers > 0; got shape {w.shape}")
    return np.where(np.isnan(table), 0.0, w[:, None] * table)


def sign_patterns(n: int, resamples: int, seed: int) -> Iterator[Floats]:
    """Yield blocks (b, n) of +1 and -1: all 2^n patterns, or the data's own and random ones.

    The first pattern is the data's own (all +1) in either case, so a share of patterns is a
    p-value that is never 0.
    """
    if n < 63 and 2**n <= resamples:
        codes = np.arange(2**n)[:, None] >> np.arange(n)
        yield np.where(codes & 1, -1.0, 1.0)
        return
    yield np.ones((1, n))
    rng = np.random.default_rng(seed)
    step = max(1, _MAX_CELLS // max(n, 1))
    for first in range(0, resamples, step):
        size = (min(step, resamples - first), n)
        yield np.where(rng.integers(0, 2, size=size) == 1, 1.0, -1.0)


def holm(p_values: ArrayLike) -> Floats:
    """Return Holm's adjusted p-values: below alpha, they hold for all tests together.

    adjusted_(i) = max_{j <= i} min(1, (k - j + 1) p_(j)) over the k tests, sorted rising

    Args:
        p_values: of any shape; NaN = no test, which counts for nothing and stays NaN.

    Returns:
        Adjusted values of the same shape, in the same order.

    Source: Holm 1979, Scandinavian Journal of Statistics 6, 65-70.

    >>> holm([0.01, 0.04, 0.03]).tolist()
    [0.03, 0.06, 0.06]
    """
    p = np.asarray(p_values, dtype=np.float64)
    flat = p.ravel()
    adjusted = np.full(flat.shape, np.nan)
    order = np.argsort(flat, kind="stable")[: int((~np.isnan(flat)).sum())]
    factors = np.arange(len(order), 0, -1)
    adjusted[order] = np.maximum.accumulate(np.minimum(1.0, factors * flat[order]))
    return adjusted.reshape(p.shape)


def verdict(difference: Interval, p_adjusted: float, *, margin: float, alpha: float = 0.05) -> str:
    """Return what a paired difference says, given its 90 % interval and its adjusted p-value.

    "worse" or "better" where p_adjusted < alpha, "equivalent within <margin>" where the interval
    lies inside (-margin, margin), both where both hold, else "undecided". Two one-sided tests at
    5 % are that 90 % interval (TOST).

    Args:
        difference: mean difference with its interval at level 1 - 2 alpha.
        p_adjusted: two-sided; NaN = not tested.
        margin: what counts as no difference, in the score's unit, > 0.
        alpha: error rate of the test.

    Source: Schuirmann 1987, J. Pharmacokinetics and Biopharmaceutics 15, 657-680.
    """
    if difference.value is None:
        return "no data"
    within = (
        difference.ci_low is not None
        and difference.ci_high is not None
        and -margin < difference.ci_low
        and difference.ci_high < margin
    )
    if p_adjusted < alpha:
        word = "worse" if difference.value < 0 else "better"
        return f"{word}, but within {margin:g}" if within else word
    return f"equivalent within {margin:g}" if within else "undecided"


def descent_start(p_values: ArrayLike, *, alpha: float = 0.05) -> int | None:
    """Return the first index of the unbroken run of p < alpha that ends at the last test.

    Tests in a fixed order, from the last backwards, each at alpha, stopping at the first that
    fails: all rejected ones hold together at alpha without further correction (fixed sequence).
    NaN (no test) is passed over.

    Args:
        p_values: (K,) in the order of rising temperature.
        alpha: familywise error rate.

    Returns:
        The index of the earliest test in the run; None if the last one already fails.

    Source: Maurer, Hothorn and Lehmacher 1995, closed testing in a fixed order.

    >>> descent_start([0.01, 0.4, 0.02, 0.001])
    2
    """
    found = None
    p = np.asarray(p_values, dtype=np.float64)
    for index in reversed(range(len(p))):
        if np.isnan(p[index]):
            continue
        if p[index] >= alpha:
            break
        found = index
    return found
