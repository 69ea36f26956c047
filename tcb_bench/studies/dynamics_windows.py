"""Do dips precede loops? Windows before a loop against the same text and against other texts.

A window's marks are made anew from the tokens before its end alone: in a loop delta_tcb is high,
and a median over both would make a dip of everything that comes before. So it is for windows that
no loop follows, each as if one began at its end: else the two could not be compared. For the same
reason a control in the same text needs as many tokens before it as z looks back: the first windows
of a text would be measured against themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tcb_bench.metrics.dynamics import Contrast, first_against_others, robust_z
from tcb_bench.studies.dynamics_texts import Case
from tcb_bench.studies.shown import LEVEL
from tcb_bench.trace_text import TracedText

Floats = NDArray[np.float64]
Measure = Callable[[Floats], Floats]
"""From (k, width) z-scores to (k,) values, one per window."""


@dataclass(frozen=True, kw_only=True)
class Design:
    """The settings of the comparison: window of z, width of the windows, permutations, seed."""

    window: int | None
    width: int
    resamples: int
    seed: int

    @property
    def left(self) -> int:
        """Tokens that a control needs before it; where z looks back to the beginning, one width."""
        return self.width if self.window is None else self.window


@dataclass(frozen=True, kw_only=True)
class Found:
    """One measure against one control: loops left out, and control windows of the others."""

    measure: str
    control: str
    contrast: Contrast
    n_left_out: int
    n_windows: int


def texts_of(cases: Sequence[Case]) -> list[TracedText]:
    """The texts that are there."""
    return [case.text for case in cases if case.text is not None]


def usable(texts: Sequence[TracedText], width: int) -> list[TracedText]:
    """Looping texts with at least two windows' tokens before the loop's beginning."""
    return [t for t in texts if t.loop is not None and t.loop.onset >= 2 * width]


def contrasts(
    texts: Sequence[TracedText], thresholds: Sequence[float], design: Design
) -> list[Found]:
    """Every measure against windows of the same text, and of other texts at the same positions."""
    looping = [t for t in texts if t.loop is not None]
    subjects = usable(texts, design.width)
    own = [_back(t, t.loop.onset, design) for t in subjects if t.loop is not None]
    others = [_at_risk(subject, texts, design) for subject in subjects]
    found = []
    for name, measure in _measures(thresholds).items():
        within = [measure(windows) for windows in own]
        across = [
            np.concatenate([measure(windows[:1]), measure(rest)])
            for windows, rest in zip(own, others, strict=True)
        ]
        for control, groups in (("same text", within), ("other texts", across)):
            contrast = first_against_others(
                groups, resamples=design.resamples, level=LEVEL, seed=design.seed
            )
            found.append(
                Found(
                    measure=name,
                    control=control,
                    contrast=contrast,
                    n_left_out=len(looping) - contrast.difference.n,
                    n_windows=_controls(groups),
                )
            )
    return found


def _controls(groups: Sequence[Floats]) -> int:
    """Control windows that are compared: those of groups whose first value is known."""
    return sum(int((~np.isnan(x[1:])).sum()) for x in groups if len(x) and not np.isnan(x[0]))


def z_window(text: TracedText, end: int, design: Design) -> Floats:
    """(width,) z-scores of log10 delta_tcb just before ``end``, none of them seeing beyond it."""
    z: Floats = robust_z(text.log10_delta[:end], design.window)
    return z[end - design.width :]


def _back(text: TracedText, end: int, design: Design) -> Floats:
    """(k, width) the window at ``end``, and the disjoint ones before it that see far enough."""
    least = design.width + design.left
    ends = [end, *range(end - design.width, least - 1, -design.width)]
    return np.array([z_window(text, at, design) for at in ends]).reshape(-1, design.width)


def _at_risk(subject: TracedText, texts: Sequence[TracedText], design: Design) -> Floats:
    """(m, width) the same positions of the texts that reach them and do not loop by then."""
    assert subject.loop is not None
    end = subject.loop.onset
    rows = [
        z_window(text, end, design)
        for text in texts
        if len(text) >= end and (text.loop is None or text.loop.onset >= end + design.width)
    ]
    return np.array(rows).reshape(-1, design.width)


def _measures(thresholds: Sequence[float]) -> dict[str, Measure]:
    """Name -> value of a window; NaN where no token of it has a z-score."""

    def share(threshold: float) -> Measure:
        return lambda z: _mean(np.where(np.isnan(z), np.nan, z <= -threshold))

    found: dict[str, Measure] = {f"dips (z <= -{t:g})": share(t) for t in thresholds}
    return found | {
        "lowest z": lambda z: _mean(np.where(np.isnan(z), np.inf, z).min(1, keepdims=True)),
        "mean z": lambda z: _mean(np.where(np.isfinite(z), z, np.nan)),
    }


def _mean(values: Floats) -> Floats:
    """(k,) means of the finite entries of (k, w); NaN where there is none."""
    known = np.isfinite(values)
    count = known.sum(1)
    total: Floats = np.where(known, values, 0.0).sum(1)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def aligned(texts: Sequence[TracedText], reach: int, value: Callable[[TracedText], Any]) -> Floats:
    """(texts, 2 reach + 1) values around each loop's beginning, NaN beyond a text's ends."""
    rows = []
    for text in texts:
        if text.loop is not None:
            padded = np.full(len(text) + 2 * reach, np.nan)
            padded[reach : reach + len(text)] = value(text)
            rows.append(padded[text.loop.onset : text.loop.onset + 2 * reach + 1])
    return np.array(rows).reshape(-1, 2 * reach + 1)
