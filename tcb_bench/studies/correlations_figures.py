"""Scatter plots of ``study correlations``: two lengths against v_eff and logit margin."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tcb_bench.report.figures_style import (
    COLOURS,
    MARKERS,
    Picture,
    canvas,
    mark_empty,
    plain_ticks,
    save,
    say_in,
)
from tcb_bench.studies.correlations_points import Floats, Regime

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LENGTHS = ("delta_tcb", "flip_radius")
PANEL = (3.4, 2.7)
HIGHEST = 300.0  # log10 beyond which an axis cannot place a point


def draw(regimes: Sequence[Regime], folder: Path) -> list[Picture]:
    """One figure per regime."""
    return [_figure(regime, folder) for regime in regimes]


def _figure(regime: Regime, folder: Path) -> Picture:
    figure, panels = canvas(2, 2, panel=PANEL, share_x=False)
    figure.suptitle(f"{regime.title}, n = {regime.n}", fontsize=10)
    groups = _groups(regime)
    for r, length in enumerate(LENGTHS):
        for c, axis in enumerate(("v_eff", "logit_margin")):
            label, x = _across(regime, axis)
            _panel(panels[r, c], groups, x, regime.logs(length))
            panels[r, c].set_xlabel(label)
        panels[r, 0].set_ylabel(f"{length} (length in h-space)")
    handles, labels = panels[0, 0].get_legend_handles_labels()
    if handles:
        figure.legend(handles, labels, loc="outside lower center", ncols=4, fontsize=7.5)
    colours = "modification" if regime.is_low else "kind of prompt"
    caption = (
        f"One point per prompt, by {colours}; both axes logarithmic, one vertical axis for both "
        "lengths. Points that a logarithm cannot place are counted in the panel."
    )
    title = f"delta_tcb and flip_radius against v_eff and logit margin: {regime.title}"
    return save(figure, folder, f"correlations_{regime.name}", (title, caption))


def _groups(regime: Regime) -> dict[str, np.ndarray[Any, np.dtype[np.bool_]]]:
    """Label -> which points, by modification in a low regime, else by kind."""
    key = "modification" if regime.is_low else "kind"
    labels = [point.about[key] or "all" for point in regime.points]
    return {name: np.array([one == name for one in labels]) for name in dict.fromkeys(labels)}


def _across(regime: Regime, name: str) -> tuple[str, Floats]:
    """Label and log10 of a horizontal axis; near 1 it is the distance from 1 that spreads v_eff."""
    if name == "v_eff" and regime.is_low:
        with np.errstate(divide="ignore"):
            return "v_eff - 1 (tokens)", np.log10(regime.column(name) - 1)
    return {"v_eff": "v_eff (tokens)", "logit_margin": "logit_margin"}[name], regime.logs(name)


def _panel(axes: Axes, groups: Any, x: Floats, y: Floats) -> None:
    from matplotlib.ticker import LogFormatter, LogLocator

    fits = (np.abs(x) < HIGHEST) & (np.abs(y) < HIGHEST)
    for index, (label, chosen) in enumerate(groups.items()):
        axes.scatter(
            10 ** x[chosen & fits],
            10 ** y[chosen & fits],
            s=13,
            alpha=0.7,
            linewidth=0,
            color=COLOURS[index % len(COLOURS)],
            marker=MARKERS[index // len(COLOURS) % len(MARKERS)],
            label=label,
        )
    if not fits.any():
        mark_empty(axes, "nothing measured")
        return
    axes.set_xscale("log")
    axes.set_yscale("log")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(LogLocator(numticks=6))
        plain_ticks(axis, LogFormatter(labelOnlyBase=False, minor_thresholds=(0.9, 0.5)))
    if not fits.all():
        say_in(axes, f"{int((~fits).sum())} not shown", at=(0.97, 0.97), ha="right", va="top")
