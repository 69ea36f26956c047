"""Shares of few independent trials, with intervals that have a width also at 0 and 1."""

import math
from collections.abc import Sequence
from statistics import NormalDist

from tcb_bench.metrics.statistics import Interval


def share_interval(held: Sequence[bool], *, level: float = 0.95) -> Interval:
    """Return the share of true values with Wilson's score interval.

    (k + z^2 / 2 -+ z sqrt(k (n - k) / n + z^2 / 4)) / (n + z^2),  k of n true, z normal

    For few independent trials: also where all or none are true, and every bootstrap resample is
    alike, it has a width (five of five: from 0.57 to 1). stderr = sqrt(p (1 - p) / (n - 1)).

    Args:
        held: (n,) what is so and what is not.
        level: coverage of the interval, in (0, 1).

    Returns:
        In [0, 1].

    Raises:
        ValueError: ``level`` out of range.

    Source: Wilson 1927, J. Am. Stat. Assoc. 22, 209-212.
    Checked against: scipy.stats.binomtest.

    >>> found = share_interval([True] * 5)
    >>> round(found.ci_low, 3), found.ci_high
    (0.566, 1.0)
    """
    if not 0 < level < 1:
        raise ValueError(f"level must be in (0, 1); got {level}")
    n, k = len(held), sum(map(bool, held))
    if n < 2:
        return Interval(k / n if n else None, None, None, None, n)
    z = NormalDist().inv_cdf((1 + level) / 2)
    middle, reach = k + z * z / 2, z * math.sqrt(k * (n - k) / n + z * z / 4)
    low, high = ((middle + sign * reach) / (n + z * z) for sign in (-1, 1))
    stderr = math.sqrt(k * (n - k) / (n - 1)) / n
    return Interval(k / n, low if k else 0.0, high if k < n else 1.0, stderr, n)
