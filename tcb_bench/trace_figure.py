"""Stability along one text as a figure, in the layout of BC's figure 4."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tcb_bench.report.figures_style import COLOURS, GREY, Picture, save
from tcb_bench.trace_text import TracedText

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CAPTION = (
    "Above: delta_tcb (epsilon = 1) and the exact flip_radius at every generated token, on one log "
    "scale; triangles are dips. Below: probability of the second-best token. Shaded: the loop. "
    "As figure 4 of Beyond Confidence."
)


def draw_trace(text: TracedText, folder: Path, name: str, texts: Sequence[str]) -> Picture:
    """Writes the figure of one text; ``texts`` are its title and caption."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.2, 3.9), layout="constrained")
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
    places = np.arange(len(text))
    delta, flip = (np.asarray(text.columns[n]) for n in ("delta_tcb", "flip_radius"))
    upper.semilogy(places, _finite(delta), color=COLOURS[0], label="delta_tcb")
    upper.semilogy(places, _finite(flip), color=COLOURS[2], linestyle="--", label="flip_radius")
    dips = np.flatnonzero(text.dips)
    upper.plot(dips, delta[dips], "v", color=COLOURS[1], markersize=5, label="dip")
    upper.yaxis.set_major_formatter(lambda value, _: f"{value:g}")  # no TeX: see SETTINGS
    upper.set_ylabel("length in h-space")
    lower.plot(places, text.columns["p_top2"], color=COLOURS[1])
    lower.set_ylabel("P(2nd)")
    lower.set_ylim(0, 0.5)
    lower.set_xlabel("generated token")
    for axes in (upper, lower):
        _shade_loop(axes, text)
    upper.legend(loc="upper left", ncols=4, fontsize=8)
    return save(figure, folder, name, texts)


def _finite(values: np.ndarray) -> np.ndarray:
    """A log axis has no place for 0 (an exact tie) and inf; the line breaks there."""
    return np.where(np.isfinite(values) & (values > 0), values, np.nan)


def _shade_loop(axes: Axes, text: TracedText) -> None:
    if text.loop is not None:
        label = f"loop of {text.loop.period}"
        axes.axvspan(
            text.loop.onset - 0.5, text.loop.end - 0.5, color=GREY, alpha=0.13, label=label
        )
