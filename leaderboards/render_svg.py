"""Small drawings as SVG text: scales, axes, marks. The same numbers give the same bytes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from markupsafe import Markup, escape

from tcb_bench.leaderboards.render_numbers import significant

WIDTH, HEIGHT = 360, 250  # of a panel, in CSS pixels: as wide as a phone
LEFT, RIGHT, TOP, BOTTOM = 58, 10, 12, 40  # margins round the plot
N_LOOKS = 8
"""Looks that tell lines apart: a colour (class ``s0`` to ``s7``) with a shape of its own."""


@dataclass(frozen=True, slots=True)
class Scale:
    """From values to pixels: ``low`` lies at ``start``, ``high`` at ``end``; log10 if asked for."""

    low: float
    high: float
    start: float
    end: float
    is_log: bool = False

    def at(self, value: float) -> float:
        """Pixel of a value; what lies outside is put on the edge."""
        low, high, own = self.low, self.high, value
        if self.is_log:
            low, high, own = math.log10(low), math.log10(high), math.log10(max(value, self.low))
        share = (own - low) / (high - low) if high > low else 0.5
        return self.start + min(max(share, 0.0), 1.0) * (self.end - self.start)


@dataclass(frozen=True, slots=True)
class Axis:
    """A scale with its ticks and its label."""

    scale: Scale
    ticks: Sequence[float]
    label: str


def horizontal(values: Sequence[float], label: str) -> Axis:
    """A linear x axis round the values."""
    ticks = nice_ticks(min(values), max(values))
    low, high = min(ticks[0], *values), max(ticks[-1], *values)
    return Axis(Scale(low, high, LEFT, WIDTH - RIGHT), ticks, label)


def vertical(values: Sequence[float], label: str, *, is_log: bool = False) -> Axis:
    """A y axis round the values, which are positive for a log axis."""
    ticks = decades(min(values), max(values)) if is_log else nice_ticks(min(values), max(values))
    low, high = min(ticks[0], *values), max(ticks[-1], *values)
    return Axis(Scale(low, high, HEIGHT - BOTTOM, TOP, is_log), ticks, label)


def nice_ticks(low: float, high: float, n: int = 5) -> list[float]:
    """About ``n`` round values that enclose ``low`` and ``high``.

    >>> nice_ticks(0.13, 0.58)
    [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]
    """
    if not high > low:
        low, high = low - max(abs(low), 1.0) * 0.05, high + max(abs(high), 1.0) * 0.05
    raw = (high - low) / n
    base = 10.0 ** math.floor(math.log10(raw))
    step = next(base * m for m in (1, 2, 5, 10) if base * m >= raw * 0.999)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [float(f"{i * step:.12g}") for i in range(first, last + 1)]


def decades(low: float, high: float) -> list[float]:
    """Powers of ten that enclose positive values, thinned to at most 8."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    last = max(last, first + 1)
    step = max(1, math.ceil((last - first) / 7))
    return [10.0**i for i in range(first, last + step, step) if i <= 307]


def pixel(value: float) -> str:
    """A coordinate with at most one decimal.

    >>> pixel(12.04), pixel(3.25)
    ('12', '3.2')
    """
    return f"{value:.1f}".removesuffix(".0")


def drawing(name: str, title: str, description: str, parts: Sequence[str]) -> Markup:
    """A panel: its parts, with a title and a description for those who do not see it.

    Args:
        name: unique on its page; ids are made of it.
        title: what it shows.
        description: what can be seen.
        parts: SVG elements, safe already.
    """
    labels = f'aria-labelledby="{escape(name)}-t {escape(name)}-d"'
    head = (
        f'<title id="{escape(name)}-t">{escape(title)}</title>'
        f'<desc id="{escape(name)}-d">{escape(description)}</desc>'
    )
    body = "".join(parts)
    return Markup(  # noqa: S704 - every text in it is escaped
        f'<svg class="plot" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" {labels}>{head}{body}</svg>'
    )


def frame(x: Axis, y: Axis) -> list[str]:
    """Grid, ticks and labels of two axes."""
    bottom, parts = HEIGHT - BOTTOM, []
    for tick in y.ticks:
        row = pixel(y.scale.at(tick))
        parts.append(f'<path class="grid" d="M{LEFT} {row}H{WIDTH - RIGHT}"/>')
        parts.append(text(LEFT - 6, y.scale.at(tick) + 3.5, tick_text(tick, y), "end"))
    for tick in x.ticks:
        parts.append(text(x.scale.at(tick), bottom + 15, tick_text(tick, x), "middle"))
        parts.append(f'<path class="tick" d="M{pixel(x.scale.at(tick))} {bottom}v4"/>')
    parts.append(f'<path class="axis" d="M{LEFT} {bottom}H{WIDTH - RIGHT}"/>')
    parts.append(text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 6, x.label, "middle", "label"))
    middle = (TOP + bottom) / 2
    parts.append(
        f'<text class="label" text-anchor="middle" transform="translate(11 {pixel(middle)}) '
        f'rotate(-90)">{escape(y.label)}</text>'
    )
    return parts


def tick_text(tick: float, axis: Axis) -> str:
    """A tick as short as it can be; far powers of ten on a log axis as such."""
    if axis.scale.is_log and not 1e-3 <= tick <= 1e3:
        return f"1e{round(math.log10(tick))}".replace("-", "\u2212")
    return significant(tick)


def text(x: float, y: float, content: str, anchor: str = "start", kind: str = "") -> str:
    """A line of text; ``kind`` is its class."""
    extra = f' class="{kind}"' if kind else ""
    place = f'x="{pixel(x)}" y="{pixel(y)}"'
    return f'<text{extra} {place} text-anchor="{anchor}">{escape(content)}</text>'


def mark(look: int, x: float, y: float, r: float = 3.2) -> str:
    """Path of a mark; each look has a shape of its own, so that colour is never alone."""
    return f"M{pixel(x)} {pixel(y)}{_shape(look % N_LOOKS, r)}"


@cache
def _shape(look: int, r: float) -> str:
    """Circle, square, triangle, diamond, triangle on its tip, plus, cross, dash round a place."""
    a, d, h, half = pixel(r), pixel(2 * r), pixel(r * 1.15), pixel(r * 2.3)
    return (
        f"m-{a} 0a{a} {a} 0 1 0 {d} 0a{a} {a} 0 1 0-{d} 0",
        f"m-{a}-{a}h{d}v{d}h-{d}z",
        f"m0-{h}l{h} {half}h-{half}z",
        f"m0-{h}l{h} {h}l-{h} {h}l-{h}-{h}z",
        f"m0 {h}l{h}-{half}h-{half}z",
        f"m-{a} 0h{d}m-{a}-{a}v{d}",
        f"m-{a}-{a}l{d} {d}m-{d} 0l{d}-{d}",
        f"m-{a} 0h{d}",
    )[look]


def swatch(look: int) -> Markup:
    """A line with its mark, for a legend."""
    return Markup(  # noqa: S704 - numbers only
        f'<svg class="swatch s{look % N_LOOKS}" viewBox="0 0 28 12" aria-hidden="true">'
        f'<path class="line" d="M1 6H27"/><path class="mark" d="{mark(look, 14, 6)}"/></svg>'
    )
