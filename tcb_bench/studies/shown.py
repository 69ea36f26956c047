"""How studies show an interval, and what they call the paper's rows: alike in every table."""

from __future__ import annotations

from typing import Any

from tcb_bench.metrics.statistics import Interval

LEVEL = 0.95
"""Coverage of every interval of a study that has no setting ``level``."""
COVERAGE = f"{100 * LEVEL:g} %"
PAPER_MODEL = "paper, LLaMA-3.1-8B"
"""Marks what the paper prints, of its own model."""


def interval_text(
    interval: Interval, digits: int = 2, *, is_percent: bool = False, is_signed: bool = False
) -> str | None:
    """A value with its interval as one text, which an 80-column terminal holds; None without one.

    >>> interval_text(Interval(0.5, 0.25, 0.75, 0.1, 9))
    '0.50 [0.25, 0.75]'
    >>> interval_text(Interval(0.14, 0.07, 0.26, None, 50), 0, is_percent=True)
    '14 % [7, 26]'
    """
    sign, factor = "+" if is_signed else "", 100 if is_percent else 1
    value, low, high = (
        None if side is None else f"{side * factor:{sign}.{digits}f}"
        for side in (interval.value, interval.ci_low, interval.ci_high)
    )
    if value is None:
        return None
    limits = "" if low is None or high is None else f" [{low}, {high}]"
    return f"{value}{' %' if is_percent else ''}{limits}"


def interval_cells(
    name: str, interval: Interval, digits: int = 2, *, is_percent: bool = False
) -> dict[str, Any]:
    """The interval as keys of a row: value, limits, n, and all of them as one text."""
    return {
        name: interval.value,
        f"{name}_ci_low": interval.ci_low,
        f"{name}_ci_high": interval.ci_high,
        f"{name}_n": interval.n,
        f"{name}_shown": interval_text(interval, digits, is_percent=is_percent),
    }
