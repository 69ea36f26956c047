"""The distribution of log10 relative_delta over an entry's responses."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tcb_bench.leaderboards.columns import Floats
from tcb_bench.leaderboards.render_figures import Figure, Numbers
from tcb_bench.leaderboards.render_numbers import count, decimal
from tcb_bench.leaderboards.render_svg import (
    Axis,
    drawing,
    frame,
    horizontal,
    pixel,
    text,
    vertical,
)

MOST_BINS = 30
LABEL = "log10 relative_delta"


@dataclass(frozen=True, slots=True)
class Histogram:
    """Counts of equal bins; the i-th reaches from ``(first + i) width`` to the next."""

    width: float
    first: int
    counts: list[int]

    @property
    def edges(self) -> list[float]:
        """Ends of the bins, one more than there are bins."""
        return [float(f"{(self.first + i) * self.width:.9g}") for i in range(len(self.counts) + 1)]


def histogram(values: Floats, width: float | None = None) -> Histogram | None:
    """Counts in bins whose ends are multiples of a round width; None without a finite value.

    Args:
        values: (N,) any; what is not finite is left out.
        width: of a bin; None = the smallest of 0.05, 0.1, 0.2, 0.5, 1, ... with at most
            ``MOST_BINS`` bins.

    >>> histogram(np.array([0.1, 0.2, 1.7, np.nan]), 0.5)
    Histogram(width=0.5, first=0, counts=[2, 0, 0, 1])
    """
    known = values[np.isfinite(values)]
    if not len(known):
        return None
    widths = (m * 10.0**k for k in range(-2, 4) for m in ((5,) if k == -2 else (1, 2, 5)))
    own = width or next(w for w in widths if _bins(known, w)[-1] - _bins(known, w)[0] < MOST_BINS)
    first, last = _bins(known, own)
    counts = np.bincount(np.floor(known / own + 1e-9).astype(np.int64) - first, minlength=1)
    return Histogram(own, first, [int(n) for n in counts[: last - first + 1]])


def distribution(name: str, values: Floats) -> Figure | None:
    """The histogram of log10 relative_delta with its median; None without a finite value."""
    found = histogram(values)
    if found is None:
        return None
    known = values[np.isfinite(values)]
    median = float(np.median(known))
    edges = found.edges
    x = horizontal([edges[0], edges[-1]], LABEL)
    y = vertical([0.0, float(max(found.counts))], "responses")
    title = "How large a change of the hidden state the distribution bears"
    missing = len(values) - len(known)
    without = f" {count(missing)} responses have none." if missing else ""
    description = (
        f"{count(len(known))} responses from {decimal(edges[0], 2)} to {decimal(edges[-1], 2)}; "
        f"median {decimal(median, 3)}."
    )
    return Figure(
        title=title,
        caption=f"{LABEL} = log10(delta_tcb / norm of the hidden state), higher is more stable. "
        f"{description}{without}",
        panels=[
            ("", drawing(name, title, description, [*frame(x, y), *_bars(found, x, y, median)]))
        ],
        numbers=Numbers(
            ("from", "to", "responses"),
            [
                (decimal(edges[i], 2), decimal(edges[i + 1], 2), count(n))
                for i, n in enumerate(found.counts)
            ],
        ),
    )


def _bars(found: Histogram, x: Axis, y: Axis, median: float) -> list[str]:
    edges, bottom = found.edges, y.scale.start
    parts = []
    for i, n in enumerate(found.counts):
        if n:
            left, right = x.scale.at(edges[i]), x.scale.at(edges[i + 1])
            top = y.scale.at(n)
            box = f"M{pixel(left + 0.5)} {pixel(bottom)}V{pixel(top)}H{pixel(right - 0.5)}"
            parts.append(f"{box}V{pixel(bottom)}z")
    at = x.scale.at(median)
    side = "end" if at > (x.scale.start + x.scale.end) / 2 else "start"
    return [
        f'<path class="bar s0" d="{"".join(parts)}"/>',
        f'<path class="threshold" d="M{pixel(at)} {pixel(y.scale.end)}V{pixel(bottom)}"/>',
        text(at + (-5 if side == "end" else 5), y.scale.end + 9, "median", side, "note"),
    ]


def _bins(values: Floats, width: float) -> tuple[int, int]:
    return (
        math.floor(float(values.min()) / width + 1e-9),
        math.floor(float(values.max()) / width + 1e-9),
    )
