"""Figures of ``dynamics``: one text as in BC's figure 4, and all loops laid over each other."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tcb_bench.metrics.statistics import resampled_means
from tcb_bench.report.figures_style import COLOURS, GREY, Picture, save
from tcb_bench.studies.dynamics_texts import Case
from tcb_bench.studies.dynamics_windows import Floats, aligned
from tcb_bench.studies.shown import COVERAGE, LEVEL
from tcb_bench.trace_figure import CAPTION, draw_trace
from tcb_bench.trace_text import TracedText

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TOGETHER = (
    "Stability around the beginning of a loop",
    "Mean over the looping texts of log10 delta_tcb (above) and of P(2nd) (below) at each distance "
    f"from the first token that repeats (dotted); shaded: {COVERAGE} bootstrap interval over "
    "texts; grey figures: texts that reach so far.",
)


def draw_all(
    folder: Path, example: Case | None, texts: Sequence[TracedText], reach: int, seed: int
) -> list[Picture]:
    """The figures that there is something for."""
    pictures = []
    if example is not None and example.text is not None:
        title = f"One text: {example.prompt.kind} {example.prompt.id}"
        pictures.append(draw_trace(example.text, folder, "dynamics_text", (title, CAPTION)))
    if any(text.loop is not None for text in texts):
        pictures.append(_draw_aligned(folder, texts, reach, seed))
    return pictures


def _draw_aligned(folder: Path, texts: Sequence[TracedText], reach: int, seed: int) -> Picture:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 4.2), layout="constrained")
    upper, lower = figure.subplots(2, 1, sharex=True)
    _curve(upper, aligned(texts, reach, lambda t: _finite(t.log10_delta)), COLOURS[0], seed)
    _curve(lower, aligned(texts, reach, lambda t: t.columns["p_top2"]), COLOURS[1], seed)
    upper.set_ylabel("log10 delta_tcb")
    lower.set_ylabel("P(2nd)")
    lower.set_xlabel("tokens from the loop's beginning")
    return save(figure, folder, "dynamics_loops", TOGETHER)


def _finite(values: Floats) -> Floats:
    return np.where(np.isfinite(values), values, np.nan)


def _curve(axes: Axes, values: Floats, color: str, seed: int) -> None:
    """Mean of each column of (texts, 2 reach + 1), its band, and n at the ends and the middle."""
    reach = values.shape[1] // 2
    places = np.arange(-reach, reach + 1)
    counts = (~np.isnan(values)).sum(0)
    draws = resampled_means(values, resamples=2000, seed=seed)
    mean = np.where(counts > 0, np.nansum(values, 0) / np.maximum(counts, 1), np.nan)
    has_band = counts > 1
    low, high = np.full(len(places), np.nan), np.full(len(places), np.nan)
    if has_band.any():
        limits = np.nanquantile(draws[:, has_band], [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0)
        low[has_band], high[has_band] = limits
    axes.fill_between(places, low, high, color=color, alpha=0.2, lw=0)
    axes.plot(places, mean, color=color)
    axes.axvline(0, color=GREY, linestyle=":")
    more: dict[str, Any] = {"fontsize": 7, "color": GREY, "ha": "center", "va": "bottom"}
    for place in (-reach, -reach // 2, 0, reach // 2, reach):
        axes.text(
            place, 1.0, f"n = {counts[place + reach]}", **more, transform=axes.get_xaxis_transform()
        )
