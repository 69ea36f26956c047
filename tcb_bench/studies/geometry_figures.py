"""The figures of ``geometry``: ratios against v_eff, and the sweeps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tcb_bench.report.figures_style import (
    GREY,
    Picture,
    canvas,
    look,
    mark_empty,
    plain_ticks,
    save,
)
from tcb_bench.studies.geometry_plan import OVERALL, SWEEPS, Plan, Point
from tcb_bench.studies.geometry_tables import ratio

if TYPE_CHECKING:
    from matplotlib.axes import Axes

RASTER_FROM = 400  # points of a panel, above which an SVG holds them as an image
HIGHEST = 1e6  # ratios above it are drawn there
DODGE = 1.03  # factor between the lines of a sweep along x, so that bars do not hide each other


def pictures(
    points: Sequence[Point], swept: Sequence[Mapping[str, Any]], plan: Plan, folder: Path
) -> list[Picture]:
    """Writes every figure into ``folder``."""
    found = [_scatter(points, plan, folder)]
    if swept:
        found += [_sweep(swept, plan, folder, kind) for kind in KINDS]
    return found


def _scatter(points: Sequence[Point], plan: Plan, folder: Path) -> Picture:
    names = list(dict.fromkeys(point.data for point in points)) or [""]
    figure, panels = canvas(1, len(names), panel=(3.4, 2.9))
    for axes, data in zip(panels[0], names, strict=True):
        own = [point for point in points if point.data == data]
        axes.set_title(f"{data}, n = {len(own)}")
        axes.set_xlabel("v_eff")
        if not own:
            mark_empty(axes, "no prompt has a value")
            continue
        _ratios_in(axes, own, plan)
    panels[0, 0].set_ylabel("delta(moved) / delta(orig)")
    handles, labels = panels[0, 0].get_legend_handles_labels()
    if handles:
        figure.legend(handles, labels, loc="outside lower center", ncols=2)
    caption = (
        "Two points per prompt. The hypothesis asks cluster to lie above 1 and disperse below it. "
        "Dotted: borders of the categories."
    )
    title = "How delta_tcb changes when the competitors are moved"
    return save(figure, folder, "geometry_ratios", (title, caption))


def _ratios_in(axes: Axes, points: Sequence[Point], plan: Plan) -> None:
    v_eff = [point.v_eff for point in points]
    main, k = plan.main, plan.settings["competitors"]
    labels = (
        f"cluster: K = {k}, alpha = {plan.settings['alpha']:g}",
        f"disperse: K = {k}, beta = {plan.settings['beta']:g}",
    )
    for index, (move, label) in enumerate(zip((main.cluster, main.disperse), labels, strict=True)):
        axes.scatter(
            v_eff,
            [min(ratio(point, move), HIGHEST) for point in points],
            s=11,
            alpha=0.6,
            linewidth=0,
            label=label,
            rasterized=len(points) > RASTER_FROM,
            **look(index, with_line=False),
        )
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.axhline(1, color=GREY, linewidth=0.9)
    for border in plan.settings["bins"]:
        axes.axvline(border, color=GREY, linewidth=0.9, linestyle=":")
    for axis in (axes.xaxis, axes.yaxis):
        plain_ticks(axis, _twos_and_fives)


def _twos_and_fives(value: float, _: int) -> str:
    """Which minor ticks of a logarithmic axis get their number: 2 and 5, and 0.5 and so on."""
    lead = value / 10 ** np.floor(np.log10(value))
    return f"{value:g}" if np.isclose(lead, 2) or np.isclose(lead, 5) else ""


KINDS = {
    "held": ("share of prompts", "Share of prompts where the inequality holds"),
    "ratio": ("median of delta(moved) / delta", "How far delta_tcb moves"),
}


def _sweep(swept: Sequence[Mapping[str, Any]], plan: Plan, folder: Path, kind: str) -> Picture:
    settings = list(dict.fromkeys(row["setting"] for row in swept))
    figure, panels = canvas(1, len(settings), panel=(2.6, 2.6), share_x=False)
    y_label, title = KINDS[kind]
    for axes, setting in zip(panels[0], settings, strict=True):
        own = [row for row in swept if row["setting"] == setting]
        for index, category in enumerate(plan.categories):
            line = [row for row in own if row["category"] == category and row["n"]]
            if line:
                _line(axes, line, kind, index)
        _axes(axes, own, kind, setting)
    panels[0, 0].set_ylabel(y_label)
    handles, labels = panels[0, 0].get_legend_handles_labels()
    if handles:
        figure.legend(handles, labels, loc="outside lower center", ncols=2)
    usual = {name: plan.settings[setting] for setting, name in SWEEPS.items()}
    others = ", ".join(f"{name} = {value:g}" for name, value in usual.items())
    above = "" if kind == "held" else "Above 1 cluster, below 1 disperse. "
    caption = (
        f"One setting at a time, the others at {others}. {above}Bars: intervals. Every prompt once."
    )
    return save(figure, folder, f"geometry_sweeps_{kind}", (title, caption))


def _line(axes: Axes, rows: Sequence[Mapping[str, Any]], kind: str, index: int) -> None:
    """One category: one line of shares, or one of each ratio."""
    category = rows[0]["category"]
    label = f"{category if category == OVERALL else f'v_eff {category}'}, n = {rows[0]['n']}"
    for key in ("held",) if kind == "held" else ("cluster_ratio", "disperse_ratio"):
        table = [[row[key], row[f"{key}_ci_low"], row[f"{key}_ci_high"]] for row in rows]
        mid, low, high = np.array(table, dtype=float).clip(max=HIGHEST).T
        bars = np.nan_to_num([mid - low, high - mid]).clip(min=0)
        axes.errorbar(
            [row["value"] * DODGE ** (index - 1.5) for row in rows],
            mid,
            yerr=bars,
            capsize=2,
            elinewidth=0.8,
            label=None if key == "disperse_ratio" else label,
            **look(index),
        )


def _axes(axes: Axes, rows: Sequence[Mapping[str, Any]], kind: str, setting: str) -> None:
    axes.set_xlabel(setting)
    values = sorted({row["value"] for row in rows})
    axes.set_xscale("log")
    axes.set_xticks(values, [f"{value:g}" for value in values])
    axes.set_xticks([], minor=True)
    if kind == "held":
        axes.set_ylim(-0.03, 1.03)
        return
    axes.set_yscale("log")
    axes.axhline(1, color=GREY, linewidth=0.9)
    plain_ticks(axes.yaxis, _twos_and_fives)
