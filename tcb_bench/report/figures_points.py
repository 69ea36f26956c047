"""One mark per question: TP's figures 4 and 5 (box plots), and stability against loss."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tcb_bench.report.figures_data import Losses, losses, question_means, two_temperatures
from tcb_bench.report.figures_lines import types_of
from tcb_bench.report.figures_style import (
    Picture,
    canvas,
    look,
    mark_empty,
    plain_ticks,
    save,
    say_in,
    short,
)
from tcb_bench.report.grid import Floats, Grid

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TP_TEMPERATURES = (0.6, 2.0)
WHISKER = 1.5  # interquartile ranges, Tukey's
JITTER = 0.17  # of a box's place, to either side
RASTER_FROM = 200  # points of a panel, above which an SVG holds them as an image


def boxes(grid: Grid, metric: str, folder: Path, name: str) -> Picture:
    """TP's figures 4 and 5 for one model: scores of the questions per context, two temperatures."""
    means = question_means(grid, metric)
    shown = two_temperatures(grid, metric, TP_TEMPERATURES)
    kind = f"{grid.question_type} questions" if grid.question_type else "all questions"
    width = max(3.2, 0.8 * len(grid.contexts))
    figure, panels = canvas(1, max(1, len(shown)), panel=(width, 2.7), share_x=False)
    figure.suptitle(f"{short(grid.model, 60)}, {kind}", fontsize=10)
    for axes, temperature in zip(panels[0], shown, strict=False):
        at = list(grid.temperatures).index(temperature)
        _box_panel(axes, grid, means[at], name=f"{name}/{temperature}")
        axes.set_title(f"T = {temperature}{_nearest(temperature, shown)}")
    if not shown:
        mark_empty(panels[0, 0], "no score")
    panels[0, 0].set_ylabel(f"{metric} (mean over runs)")
    caption = (
        f"{kind.capitalize()}. Box: quartiles and median; whiskers: the farthest question within "
        f"{WHISKER} interquartile ranges of the box. Black: questions (mean over runs), moved "
        "sideways only to be seen; white: questions beyond the whiskers. As "
        "figures 4 and 5 of TempPerturb-Eval."
    )
    return save(figure, folder, name, (f"Distribution of {metric}: {grid.model}, {kind}", caption))


def box_grids(grids: Sequence[Grid]) -> list[Grid]:
    """One grid per model: bridge questions as in TP, else the first type that a model has."""
    chosen: dict[str, Grid] = {}
    for grid in grids:
        if grid.model not in chosen or grid.question_type == "bridge":
            chosen[grid.model] = grid
    return list(chosen.values())


def stability_scatter(
    grids: Sequence[Grid], metric: str, folder: Path, prefix: str
) -> Picture | None:
    """Stability at the lowest temperature against loss; None where no run stored stability."""
    found = {(grid.model, grid.question_type): losses(grid, metric) for grid in grids}
    models = list(dict.fromkeys(model for (model, _), kinds in found.items() if kinds))
    if not models:
        return None
    rows, lowest = ("temperature", "perturbation"), grids[0].temperatures[0]
    figure, panels = canvas(len(rows), len(models))
    for r, row in enumerate(rows):
        for m, model in enumerate(models):
            axes = panels[r, m]
            of_types = {t: found.get((model, t), {}).get(row) for t in types_of(grids)}
            _scatter_panel(axes, of_types)
            if r == 0:
                axes.set_title(short(model))
            if m == 0:
                axes.set_ylabel(f"loss under {row}\n({metric})")
            if r == len(rows) - 1:
                axes.set_xlabel(f"relative_flip_radius at T = {lowest}\n(share of |h|)")
    handles, labels = panels[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4)
    caption = (
        f"One point per question. Loss: its score at T = {lowest}, the lowest, with original "
        "documents, minus its mean score at higher T (under temperature), or minus its mean score "
        f"at T = {lowest} with the other contexts (under perturbation)."
    )
    title = f"Stability at the lowest temperature against loss of {metric}"
    return save(figure, folder, f"{prefix}_stability_loss", (title, caption))


def _nearest(temperature: float, shown: Sequence[float]) -> str:
    """Which of TP's temperatures a panel stands for, where it is another one."""
    if len(shown) < 2 or temperature in TP_TEMPERATURES:
        return ""
    wanted = TP_TEMPERATURES[list(shown).index(temperature)]
    return f" (TP: {wanted})"


def _box_panel(axes: Axes, grid: Grid, values: Floats, *, name: str) -> None:
    """Boxes of (C, Q) values side by side, questions as points; ``name`` seeds their jitter."""
    labels = []
    for c, context in enumerate(grid.contexts):
        column = values[c][~np.isnan(values[c])]
        labels.append(f"{context}\nn = {len(column)}" if len(column) else f"{context}\nno score")
        if len(column):
            _box(axes, c, column, random.Random(f"{name}/{context}"))
    axes.set_xticks(range(len(labels)), labels, fontsize=7.5)
    if max(map(len, grid.contexts)) > 13:
        axes.tick_params("x", labelrotation=25)
    axes.set_xlim(-0.6, len(labels) - 0.4)
    axes.grid(visible=False, axis="x")


def _box(axes: Axes, place: int, column: Floats, rng: random.Random) -> None:
    low, middle, high = np.quantile(column, (0.25, 0.5, 0.75))
    reach = WHISKER * (high - low)
    inside = (column >= low - reach) & (column <= high + reach)
    ends = column[inside]
    stats = {"q1": low, "med": middle, "q3": high, "whislo": ends.min(), "whishi": ends.max()}
    axes.bxp(
        [stats],
        positions=[place],
        widths=0.62,
        showfliers=False,
        patch_artist=True,
        manage_ticks=False,
        boxprops={"facecolor": look(place)["color"], "alpha": 0.45},
        medianprops={"color": "black", "linewidth": 1.6},
    )
    at = np.array([place + rng.uniform(-JITTER, JITTER) for _ in column])
    is_image = len(column) > RASTER_FROM
    for chosen, face, size in ((inside, "black", 5), (~inside, "white", 16)):
        axes.scatter(
            at[chosen],
            column[chosen],
            s=size,
            facecolor=face,
            edgecolor="black",
            linewidth=0.7,
            zorder=3,
            rasterized=is_image,
        )


def _scatter_panel(axes: Axes, of_types: Mapping[str, Losses | None]) -> None:
    from matplotlib.ticker import LogFormatter

    axes.axhline(0, color="#999999", linewidth=0.8)
    axes.set_xscale("log")
    plain_ticks(axes.xaxis, LogFormatter(labelOnlyBase=False, minor_thresholds=(1.5, 0.5)))
    counts = []
    for index, (kind, points) in enumerate(of_types.items()):
        style = look(index, with_line=False)
        is_positive = points.stability > 0 if points else np.array([], dtype=bool)
        x = points.stability[is_positive] if points else []
        y = points.loss[is_positive] if points else []
        axes.scatter(x, y, s=12, alpha=0.6, linewidth=0, label=kind or "questions", **style)
        counts.append(int(is_positive.sum()))
    if not any(counts):
        mark_empty(axes, "no stability stored")
    else:
        say_in(axes, f"n = {sum(counts)}", at=(0.97, 0.97), ha="right", va="top")
