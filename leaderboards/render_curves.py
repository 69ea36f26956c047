"""Curves with interval bands."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from tcb_bench.leaderboards.render_figures import Figure
from tcb_bench.leaderboards.render_numbers import significant
from tcb_bench.leaderboards.render_svg import (
    N_LOOKS,
    Axis,
    drawing,
    frame,
    horizontal,
    mark,
    pixel,
    swatch,
    vertical,
)
from tcb_bench.leaderboards.render_sweep import Curve, Panel, Point, Sweep


def curves(name: str, sweep: Sweep, title: str, note: str) -> Figure | None:
    """The curves of a sweep on one pair of axes; None where it has no number.

    Args:
        name: unique on its page.
        sweep: what to draw; of more than ``N_LOOKS`` lines the first are drawn, and it says so.
        title: of the figure.
        note: what limits how it can be read; "" for nothing.
    """
    labels = list(dict.fromkeys(c.label for panel in sweep.panels for c in panel.curves))
    drawn = labels[:N_LOOKS]
    points = [
        p for panel in sweep.panels for c in panel.curves if c.label in drawn for p in c.points
    ]
    heights = [v for p in points for v in (p.value, p.ci_low, p.ci_high) if v is not None]
    if not heights:
        return None
    x = horizontal([point.x for point in points], sweep.x.replace("_", " "))
    y = vertical(heights, sweep.metric)
    more = f" {len(labels) - N_LOOKS} more lines are in the table." if len(labels) > N_LOOKS else ""
    return Figure(
        title=title,
        caption=f"Bands are 95 % intervals over questions. Numbers: see Conditions.{more} {note}",
        panels=[
            (panel.label, _panel(f"{name}-{i}", panel, drawn, (x, y)))
            for i, panel in enumerate(sweep.panels)
        ],
        legend=[(swatch(look), label) for look, label in enumerate(drawn)],
    )


def _panel(name: str, panel: Panel, labels: Sequence[str], axes: tuple[Axis, Axis]) -> Markup:
    x, y = axes
    bands, lines = [], []
    for curve in panel.curves:
        if curve.label in labels:
            look = labels.index(curve.label)
            bands += [_band(part, look, axes) for part in _parts(curve)]
            lines.append(_line(curve, look, axes))
    title = f"{y.label} over {x.label}" + (f", {panel.label}" if panel.label else "")
    described = [_described(curve) for curve in panel.curves if curve.label in labels]
    return drawing(name, title, "; ".join(described), [*frame(x, y), *bands, *lines])


def _parts(curve: Curve) -> list[list[Point]]:
    """Runs of points that have a value: a band and a line break where there is none."""
    parts: list[list[Point]] = [[]]
    for point in curve.points:
        if point.value is None:
            parts.append([])
        else:
            parts[-1].append(point)
    return [part for part in parts if part]


def _band(points: Sequence[Point], look: int, axes: tuple[Axis, Axis]) -> str:
    x, y = axes
    there = [p for p in points if p.ci_low is not None and p.ci_high is not None]
    if len(there) < 2:
        return ""
    upper = [f"{pixel(x.scale.at(p.x))} {pixel(y.scale.at(p.ci_high or 0.0))}" for p in there]
    lower = [f"{pixel(x.scale.at(p.x))} {pixel(y.scale.at(p.ci_low or 0.0))}" for p in there]
    return f'<path class="band s{look}" d="M{"L".join([*upper, *reversed(lower)])}z"/>'


def _line(curve: Curve, look: int, axes: tuple[Axis, Axis]) -> str:
    x, y = axes
    lines, marks = [], []
    for part in _parts(curve):
        places = [(x.scale.at(p.x), y.scale.at(p.value or 0.0)) for p in part]
        lines.append("M" + "L".join(f"{pixel(a)} {pixel(b)}" for a, b in places))
        marks += [mark(look, a, b) for a, b in places]
    path = f'<path class="line" d="{"".join(lines)}"/><path class="mark" d="{"".join(marks)}"/>'
    return f'<g class="s{look}">{path}</g>'


def _described(curve: Curve) -> str:
    there = [point for point in curve.points if point.value is not None]
    if not there:
        return f"{curve.label}: no value"
    first, last = there[0], there[-1]
    return (
        f"{curve.label}: {significant(first.value, 3)} at {significant(first.x)}, "
        f"{significant(last.value, 3)} at {significant(last.x)}"
    )
