"""Oracles: scipy's binomtest(...).proportion_ci and sem."""

import pytest
from scipy import stats

from tcb_bench.metrics.shares import share_interval
from tcb_bench.metrics.statistics import Interval


@pytest.mark.parametrize(
    ("k", "n", "level"), [(0, 5, 0.95), (3, 5, 0.9), (7, 50, 0.95), (9, 9, 0.99)]
)
def test_share_interval_is_scipys_wilson(k, n, level):
    found = share_interval([True] * k + [False] * (n - k), level=level)
    limits = stats.binomtest(k, n).proportion_ci(level, method="wilson")
    assert (found.ci_low, found.ci_high) == pytest.approx((limits.low, limits.high), abs=1e-9)
    assert (found.value, found.n) == (k / n, n)
    assert found.stderr == pytest.approx(stats.sem([1.0] * k + [0.0] * (n - k)))


def test_a_share_of_none_or_one_has_no_interval():
    assert share_interval([]) == Interval(None, None, None, None, 0)
    assert share_interval([True]) == Interval(1.0, None, None, None, 1)
    with pytest.raises(ValueError, match="level"):
        share_interval([True], level=1.0)
