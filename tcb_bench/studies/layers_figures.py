"""Figures of the study ``layers``: sensitivity over depth."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tcb_bench.metrics.statistics import Interval
from tcb_bench.report.figures_style import Picture, canvas, look, save
from tcb_bench.studies.layers_tables import Floats, Series
from tcb_bench.studies.shown import COVERAGE

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TEXTS = {
    "norm": (
        "Sensitivity of the prediction over depth",
        "log10 ‖J‖, J = derivative of the next-token distribution by the residual stream after "
        "each block (0: before the first), and at the normed state (N)",
    ),
    "relative": (
        "Relative sensitivity over depth",
        "log10 of ‖J‖ times the length of the state: how far the distribution moves for a change "
        "in proportion to the state",
    ),
}


def draw_depth(folder: Path, series: Sequence[Series]) -> list[Picture]:
    """One picture per quantity, one line per kind of perturbation."""
    pictures = []
    for key, (title, caption) in TEXTS.items():
        figure, axes = canvas(1, 1, panel=(6.0, 2.9))
        panel = axes[0, 0]
        for index, one in enumerate(series):
            intervals = one.norm_intervals if key == "norm" else one.relative_intervals
            _line(panel, intervals, look(index), f"perturbed: {one.title}")
        n = len(series[0].norm_intervals)
        ticks = [*range(0, n - 1, max(1, (n - 2) // 10))]
        panel.set_xticks([*ticks, n], [*map(str, ticks), "N"])
        panel.set_xlabel("after block")
        panel.set_ylabel("log10 ‖J‖" if key == "norm" else "log10 (‖J‖ ‖x‖)")
        panel.legend()
        caption += f". Medians of {len(series[0].norm)} prompts and their {COVERAGE} interval."
        pictures.append(save(figure, folder, f"layers_{key}", (title, caption)))
    return pictures


def _line(panel: Axes, intervals: Sequence[Interval], style: dict[str, Any], label: str) -> None:
    """The blocks as a line with its band; the normed state apart, no block lies between."""
    low, middle, high = (_column(intervals, name) for name in ("ci_low", "value", "ci_high"))
    n = len(intervals)
    depth = np.arange(n - 1)
    panel.fill_between(depth, low[:-1], high[:-1], color=style["color"], alpha=0.2, lw=0)
    panel.plot(depth, middle[:-1], label=label, **style)
    panel.plot([n, n], [low[-1], high[-1]], color=style["color"], alpha=0.4)
    panel.plot([n], middle[-1:], **{**style, "linestyle": "none"})


def _column(intervals: Sequence[Interval], name: str) -> Floats:
    values = [getattr(interval, name) for interval in intervals]
    return np.array([math.nan if value is None else value for value in values])
