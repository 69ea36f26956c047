"""Stability along one generated text: dips, repetition loops, and whether the first foretell these.

Everything is a function of one number or one token id per generated token, in order.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tcb_bench.metrics.statistics import Interval, mean_intervals

Floats = NDArray[np.float64]

MAD_TO_SIGMA = 1.4826  # 1 / 0.67449: of a normal distribution the MAD is 0.67449 sigma
LEAST = 5  # values; of fewer no spread is estimated


def robust_z(values: ArrayLike, window: int | None = None) -> Floats:
    """How far each value lies from the middle of its surroundings, in robust standard deviations.

    z_t = (x_t - median) / (1.4826 median |x - median|)

    Args:
        values: (T,) one number per token; NaN = not available, infinities are values.
        window: the medians are over the tokens t - window to t + window, cut at the text's ends;
            None = over all tokens.

    Returns:
        (T,), normal data give a standard normal; +-inf for an infinite value. NaN where the value
        is, where fewer than 5 values are near, or where more than half of them are equal (no
        spread).

    Raises:
        ValueError: ``values`` is not (T,), or ``window`` is below 1.

    Cost: O(T) medians of 2 window + 1 values.
    Source: median and MAD, Hampel 1974; BC's figure 4 only shows dips, the rule is ours.
    Checked against: scipy.stats.median_abs_deviation.

    >>> round(float(robust_z([1.0, 2, 3, 4, 5, 6, -20])[-1]), 2)
    -7.76
    """
    x = np.asarray(values, dtype=np.float64)
    if x.ndim != 1 or window is not None and window < 1:
        raise ValueError(
            f"expected (T,) values and window None or >= 1; got {x.shape} and {window}"
        )
    if window is None:
        return _z(x, x)
    near = [x[max(0, t - window) : t + window + 1] for t in range(len(x))]
    found = [_z(x[t : t + 1], part) for t, part in enumerate(near)]
    return np.concatenate(found) if found else x


def _z(x: Floats, near: Floats) -> Floats:
    known = near[~np.isnan(near)]
    if len(known) < LEAST:
        return np.full(len(x), np.nan)
    middle = float(np.median(known))
    spread = MAD_TO_SIGMA * float(np.median(np.abs(known - middle))) if np.isfinite(middle) else 0.0
    if not 0 < spread < np.inf:
        return np.full(len(x), np.nan)
    found: Floats = (x - middle) / spread
    return found


@dataclass(frozen=True, slots=True)
class Loop:
    """A stretch of a text that repeats itself.

    Attributes:
        start: index of its first token.
        period: tokens that are repeated, over and over.
        length: tokens from ``start`` until the repetition breaks or the text ends.
    """

    start: int
    period: int
    length: int

    @property
    def onset(self) -> int:
        """The first token that repeats the one a period before: here the text begins to loop."""
        return self.start + self.period

    @property
    def end(self) -> int:
        """One past its last token."""
        return self.start + self.length


def find_loop(
    tokens: Sequence[int], *, repeats: int = 3, longest: int = 40, least: int = 12
) -> Loop | None:
    """Where a text enters a cycle: the first stretch in which an n-gram stands over and over.

    With period p from 1 to ``longest``, tokens s to s + L - 1 are a loop if each from s + p on
    equals the one p before it, and L >= max(repeats p, least). Of all such (s, p) the smallest s
    counts, then the smallest p; L reaches as far as the equality holds.

    Args:
        tokens: (T,) ids of the generated tokens, the prompt's not among them.
        repeats: how often the n-gram stands there at least, >= 2.
        longest: of the periods looked for, in tokens, >= 1.
        least: tokens of a loop at least, so that "ha, ha, ha" is none.

    Raises:
        ValueError: a setting is out of range.

    Cost: O(T longest).
    Source: ours; BC speaks of "degenerate loops" without a rule.
    Checked against: brute force over all s, p and L.

    >>> find_loop([7, 8, 1, 2, 1, 2, 1, 2], least=6)
    Loop(start=2, period=2, length=6)
    """
    if repeats < 2 or longest < 1 or least < 1:
        raise ValueError(
            "expected repeats >= 2, longest >= 1 and least >= 1; got "
            f"{repeats}, {longest} and {least}"
        )
    ids = np.asarray(tokens)
    found = []
    for period in range(1, min(longest, len(ids) // repeats) + 1):
        needed = max(repeats * period, least) - period
        for start, stop in _runs(ids[period:] == ids[:-period]):
            if stop - start >= needed:
                found.append(Loop(start, period, stop - start + period))
                break
    return min(found, key=lambda loop: (loop.start, loop.period), default=None)


def _runs(flags: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """[start, stop) of every run of True."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], flags, [False]]).astype(np.int8)))
    return [(int(a), int(b)) for a, b in edges.reshape(-1, 2)]


@dataclass(frozen=True, slots=True)
class Contrast:
    """Firsts against the others of their groups.

    Attributes:
        first: mean of the groups' first values.
        others: mean of the means of each group's other values.
        difference: ``first`` less ``others``, its interval over groups; ``n`` counts them.
        p: two-sided permutation p-value, in (0, 1]; None without a group.
    """

    first: float | None
    others: float | None
    difference: Interval
    p: float | None


def first_against_others(
    groups: Sequence[ArrayLike], *, resamples: int = 10_000, level: float = 0.95, seed: int = 0
) -> Contrast:
    """Does the first value of each group differ from the rest of its group more than chance does?

    d = mean over groups of (x_1 - mean of x_2, ..., x_k). Under the null hypothesis the values of a
    group are exchangeable: any of them could have been the first. p is the share of draws of one
    value per group whose |d| reaches the observed one, (1 + hits) / (1 + resamples).

    Args:
        groups: arrays (k_g,) of one unit; NaN = not available. Groups without a first value or
            without another are left out.
        resamples: draws, and resamples of groups for the interval.
        level: coverage of the interval.
        seed: >= 0.

    Cost: O(resamples G).
    Source: Fisher's randomisation test, one stratum per group.
    Checked against: all combinations, enumerated.
    """
    given = [np.asarray(group, dtype=np.float64) for group in groups]
    known = [x[~np.isnan(x)] for x in given if len(x) and not np.isnan(x[0])]
    used = [x for x in known if len(x) > 1]
    if not used:
        return Contrast(None, None, Interval(None, None, None, None, 0), None)
    gaps = [(len(x) * x - x.sum()) / (len(x) - 1) for x in used]  # each against the others
    own = np.array([gap[0] for gap in gaps])
    difference = mean_intervals(own[:, None], resamples=resamples, level=level, seed=seed)[0]
    rng = np.random.default_rng(seed)
    drawn = sum(gap[rng.integers(0, len(gap), resamples)] for gap in gaps) / len(gaps)
    observed = abs(float(own.mean()))
    hits = int((np.abs(drawn) >= observed * (1 - 1e-9) - 1e-12).sum())
    first = float(np.mean([x[0] for x in used]))
    return Contrast(first, first - float(own.mean()), difference, (1 + hits) / (1 + resamples))
