"""Accuracy and confidence against stability: every response in one of four quadrants, twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup

from tcb_bench.leaderboards.columns import Codes, Columns, Floats
from tcb_bench.leaderboards.render_figures import Figure, Numbers
from tcb_bench.leaderboards.render_numbers import count, significant
from tcb_bench.leaderboards.render_svg import (
    LEFT,
    RIGHT,
    TOP,
    WIDTH,
    Axis,
    Scale,
    drawing,
    frame,
    mark,
    pixel,
    swatch,
    text,
    vertical,
)
from tcb_bench.metrics.robustness import CASES, CONSISTENT_CASES, ConflictCase, conflict_case

MOST_MARKS = 600
CONFIDENT_AT = 0.5
CORNERS = {
    "accuracy": (
        *("inaccurate_but_stable", "consistent_accurate_stable"),
        *("consistent_inaccurate_unstable", "accurate_but_unstable"),
    ),
    "confidence": (
        *("uncertain_but_stable", "consistent_confident_stable"),
        *("consistent_uncertain_unstable", "confident_but_unstable"),
    ),
}
"""Case in each quadrant: upper left, upper right, lower left, lower right."""
LOOKS = (1, 0)  # of wrong and right answers
UNKNOWN_LOOK = 7


@dataclass(frozen=True, slots=True)
class _Points:
    """Responses that have a relative_flip_radius; ``height`` is what the y axis shows."""

    height: Floats
    right: Floats
    p_top1: Floats
    cases: Sequence[ConflictCase]
    limit: float
    label: str


def conflicts(name: str, columns: Columns) -> Figure | None:
    """The four cases of accuracy and the four of confidence against stability, with counts.

    A response is stable from the threshold that stands in its row, which is the median of its task
    in this run. Where the tasks of a group have several, radii are shown as multiples of it.

    Returns:
        None where no response has a relative_flip_radius.
    """
    points = _points(columns)
    if points is None:
        return None
    positive = points.height[points.height > 0]
    ends = [float(positive.min()), float(positive.max())] if len(positive) else [0.1]
    y = vertical([*ends, points.limit], points.label, is_log=True)
    counts = Counter(label for case in points.cases for label in case if label)
    chosen = np.unique(np.linspace(0, len(points.height) - 1, MOST_MARKS).astype(np.int64))
    return Figure(
        title="Accuracy and confidence against stability",
        caption=_caption(points, len(chosen)),
        panels=[
            ("Right or wrong", _accuracy(f"{name}-a", points, chosen, counts, y)),
            ("Probability of the top token", _confidence(f"{name}-c", points, chosen, counts, y)),
        ],
        legend=[(swatch(LOOKS[1]), "right"), (swatch(LOOKS[0]), "wrong")],
        numbers=_numbers(points, counts),
    )


def _points(columns: Columns) -> _Points | None:
    radius, limit = columns.values["relative_flip_radius"], columns.values["stable_at"]
    known = np.isfinite(radius) & np.isfinite(limit)
    if not known.any():
        return None
    radius, limit = radius[known], limit[known]
    right, p_top1 = columns.values["acc"][known], columns.values["p_top1"][known]
    cases = [
        conflict_case(
            correct=None if np.isnan(a) else bool(a),
            p_top1=None if np.isnan(p) else float(p),
            stability=float(r),
            stable_at=float(at),
            confident_at=CONFIDENT_AT,
        )
        for a, p, r, at in zip(right, p_top1, radius, limit, strict=True)
    ]
    if len(np.unique(limit)) == 1 and limit[0] > 0:
        return _Points(radius, right, p_top1, cases, float(limit[0]), "relative_flip_radius")
    ratio = radius / np.where(limit > 0, limit, np.nan)
    ratio = np.where(np.isnan(ratio), 1.0, ratio)  # threshold 0: all are at or above it
    return _Points(ratio, right, p_top1, cases, 1.0, "relative_flip_radius / threshold")


def _caption(points: _Points, n_marks: int) -> str:
    n = len(points.height)
    fewer = f", of which {count(n_marks)} evenly spread ones are drawn" if n_marks < n else ""
    threshold = (
        f"at {significant(points.limit)}, the median of this run"
        if points.label == "relative_flip_radius"
        else "at 1: each task of the group has the median of its own answers as threshold"
    )
    return (
        f"Each mark is one of {count(n)} responses{fewer}. The horizontal line is the threshold of "
        f"stability, {threshold}; the vertical line of confidence is at {CONFIDENT_AT}. Accurate "
        "but unstable answers are right and would change soonest."
    )


def _accuracy(name: str, points: _Points, chosen: Codes, counts: Counter[str], y: Axis) -> Markup:
    scale = Scale(0.0, 2.0, LEFT, WIDTH - RIGHT)
    spread = 0.5 + 0.8 * ((np.arange(len(chosen)) * 0.6180339887) % 1.0 - 0.5)
    where = [
        (scale.at(float(bool(points.right[i])) + float(s)), int(i))
        for i, s in zip(chosen, spread, strict=True)
        if not np.isnan(points.right[i])
    ]
    x = Axis(scale, (), "wrong  |  right")
    return _panel(name, points, where, (x, y, scale.at(1.0)), ("accuracy", counts))


def _confidence(name: str, points: _Points, chosen: Codes, counts: Counter[str], y: Axis) -> Markup:
    scale = Scale(0.0, 1.0, LEFT, WIDTH - RIGHT)
    where = [
        (scale.at(float(points.p_top1[i])), int(i))
        for i in chosen
        if not np.isnan(points.p_top1[i])
    ]
    x = Axis(scale, (0, 0.25, 0.5, 0.75, 1), "p_top1")
    return _panel(name, points, where, (x, y, scale.at(CONFIDENT_AT)), ("confidence", counts))


def _panel(
    name: str,
    points: _Points,
    where: Sequence[tuple[float, int]],
    axes: tuple[Axis, Axis, float],
    what: tuple[str, Counter[str]],
) -> Markup:
    (x, y, middle), (axis, counts) = axes, what
    paths: dict[int, list[str]] = {}
    for place, i in where:
        right = points.right[i]
        look = UNKNOWN_LOOK if np.isnan(right) else LOOKS[int(bool(right))]
        paths.setdefault(look, []).append(mark(look, place, y.scale.at(points.height[i]), 2.2))
    marks = [
        f'<path class="mark thin s{look}" d="{"".join(found)}"/>' for look, found in paths.items()
    ]
    limit, bottom = y.scale.at(points.limit), y.scale.start
    lines = f"M{LEFT} {pixel(limit)}H{WIDTH - RIGHT}M{pixel(middle)} {TOP}V{pixel(bottom)}"
    corners = [
        part
        for i, case in enumerate(CORNERS[axis])
        for part in _corner(case, counts[case], (i % 2 == 1, i // 2 == 1), bottom)
    ]
    described = ", ".join(f"{counts[case]} {_words(case)}" for case in CORNERS[axis])
    return drawing(
        name,
        f"{axis.capitalize()} against stability",
        f"Responses in each quadrant: {described}.",
        [*frame(x, y), *marks, f'<path class="threshold" d="{lines}"/>', *corners],
    )


def _corner(case: str, n: int, at: tuple[bool, bool], bottom: float) -> list[str]:
    """Count and name of a quadrant in its outer corner."""
    is_right, is_low = at
    x, anchor = (WIDTH - RIGHT - 4, "end") if is_right else (LEFT + 4, "start")
    y = bottom - 18 if is_low else TOP + 10
    return [
        text(x, y, count(n), anchor, "corner many"),
        text(x, y + 12, _words(case).removeprefix("consistent: "), anchor, "corner"),
    ]


def _words(case: str) -> str:
    return case.replace("consistent_", "consistent: ").replace("_", " ")


def _numbers(points: _Points, counts: Counter[str]) -> Numbers:
    rows = []
    for axis in ("accuracy", "confidence"):
        known = sum(1 for case in points.cases if getattr(case, axis) is not None)
        for case in (*CASES, *CONSISTENT_CASES):
            if case in CORNERS[axis]:
                share = f"{counts[case] / known:.3f}" if known else "\u2013"
                kind = "no conflict" if case in CONSISTENT_CASES else "conflict"
                rows.append((axis, case, kind, count(counts[case]), share))
    return Numbers(("axis", "case", "kind", "responses", "share"), rows, (0, 1, 2))
