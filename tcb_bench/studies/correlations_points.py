"""Measured prompts, the regimes they fall in, and the correlations of one regime."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tcb_bench.metrics.association import half_of_variance, pearson, spearman
from tcb_bench.metrics.statistics import Interval
from tcb_bench.studies.shown import LEVEL

if TYPE_CHECKING:
    from tcb_bench.studies.session import Session

Floats = NDArray[np.float64]

QUANTITIES = ("delta_tcb", "log10_delta_tcb", "flip_radius", "v_eff", "logit_margin")
PAIRS = (
    ("delta_tcb", "v_eff"),
    ("delta_tcb", "logit_margin"),
    ("logit_margin", "v_eff"),
    ("flip_radius", "v_eff"),
    ("flip_radius", "logit_margin"),
    ("delta_tcb", "flip_radius"),
)
"""The three of BC table 1 first, then the same for flip_radius."""

STATISTICS = ("pearson", "pearson_log", "spearman")
FEWEST = 3


@dataclass(frozen=True, slots=True, eq=False)
class Point:
    """One prompt: its document's id, the scored row, its prompt, the values, what it is."""

    id: str
    task: str
    row: Mapping[str, Any]
    prompt: str
    values: Mapping[str, float]
    about: Mapping[str, str]

    @property
    def is_measured(self) -> bool:
        """Whether there are numbers; +inf is one."""
        return not any(math.isnan(value) for value in self.values.values())


@dataclass(frozen=True, slots=True)
class Regime:
    """Prompts that are correlated together.

    Attributes:
        name: the task's, or that with a suffix for a second view of it.
        title: as tables show it.
        asked: all its prompts, measured or not.
        is_low: whether v_eff has an upper limit here.
        is_extra: a second view of a task's prompts, in no figure and no paper's table.
    """

    name: str
    title: str
    asked: tuple[Point, ...]
    is_low: bool
    is_extra: bool = False

    @property
    def points(self) -> tuple[Point, ...]:
        """The prompts with numbers."""
        return tuple(point for point in self.asked if point.is_measured)

    @property
    def n(self) -> int:
        """How many prompts have numbers."""
        return len(self.points)

    def column(self, name: str) -> Floats:
        """(n,) values of one quantity."""
        return np.array([point.values[name] for point in self.points], dtype=np.float64)

    def logs(self, name: str) -> Floats:
        """(n,) log10 of a quantity; -inf where it is 0."""
        if name == "delta_tcb":  # finite also where delta itself overflows
            return self.column("log10_delta_tcb")
        with np.errstate(divide="ignore"):
            return np.log10(self.column(name))

    def half(self, name: str) -> int | None:
        """The fewest prompts that hold half of a quantity's variance."""
        return half_of_variance(self.column(name))


def correlated(regime: Regime, session: Session) -> list[dict[str, Any]]:
    """One row per pair and statistic: value, interval, n, or null with a reason."""
    how = {"resamples": session.settings["resamples"], "level": LEVEL, "seed": session.seed}
    rows = []
    for x, y in PAIRS:
        raw, logs = [(read(x), read(y)) for read in (regime.column, regime.logs)]
        found = {
            "pearson": (pearson(*raw, **how), raw),
            "pearson_log": (pearson(*logs, **how), logs),
            "spearman": (spearman(*logs, **how), logs),  # delta overflows before its log does
        }
        for statistic, (interval, columns) in found.items():
            reason = why_null(interval, (x, y), columns, statistic)
            rows.append(
                {"regime": regime.name, "title": regime.title, "is_extra": regime.is_extra}
                | {"x": x, "y": y, "statistic": statistic}
                | {key: getattr(interval, key) for key in ("value", "ci_low", "ci_high", "n")}
                | {"reason": reason}
            )
    return rows


def why_null(
    interval: Interval, names: Sequence[str], columns: Sequence[Floats], statistic: str
) -> str | None:
    """Why a correlation has no value; None where it has one."""
    if interval.value is not None:
        return None
    if interval.n < FEWEST:
        return f"{interval.n} prompts, at least {FEWEST} are needed"
    for name, column in zip(names, columns, strict=True):
        n_endless = int(np.isposinf(column).sum())
        if n_endless and statistic != "spearman":
            return f"{name} is infinite at {n_endless} prompts"
        if np.isneginf(column).any():
            return f"{name} is 0 at {int(np.isneginf(column).sum())} prompts: no logarithm"
    still = [n for n, c in zip(names, columns, strict=True) if len(np.unique(c)) == 1]
    return f"{' and '.join(still)} does not vary"
