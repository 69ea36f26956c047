"""Score and coefficient of variation against temperature: TP's figures 2 and 3."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tcb_bench.report.figures_data import asked, baseline_cv, spread
from tcb_bench.report.figures_style import (
    GREY,
    Picture,
    canvas,
    look,
    mark_empty,
    save,
    say_in,
    short,
)
from tcb_bench.report.grid import Floats, Grid

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TYPE_ORDER = ("comparison", "bridge")
"""Rows as TP has them; other question types follow."""

TOP_LEFT: dict[str, Any] = {"at": (0.03, 0.97), "ha": "left", "va": "top"}
BOTTOM_LEFT: dict[str, Any] = {"at": (0.03, 0.03), "ha": "left", "va": "bottom"}


def score_lines(grids: Sequence[Grid], metric: str, folder: Path, prefix: str) -> Picture:
    """TP's figure 2: mean score against temperature, shaded by the run standard deviation."""

    def draw(axes: Axes, grid: Grid) -> None:
        values = spread(grid, metric)
        for c, context in enumerate(grid.contexts):
            _line(axes, grid, c, values.mean[:, c], values.run_std[:, c], label=context)
        if _missing(grid, metric):
            say_in(axes, _missing(grid, metric), **BOTTOM_LEFT)

    caption = (
        "Rows: question types; columns: models. Lines: mean over questions; shaded (for a single "
        "temperature: bars): plus and minus the run standard deviation, the mean over questions of "
        "the standard deviation over runs. A gap is a condition without a score. "
        "As figure 2 of TempPerturb-Eval."
    )
    texts = (f"Score against temperature ({metric})", caption)
    return _panels(grids, metric, draw, f"{metric} (mean)", (folder, f"{prefix}_fig2_score", texts))


def cv_lines(grids: Sequence[Grid], metric: str, folder: Path, prefix: str) -> Picture:
    """TP's figure 3: coefficient of variation against temperature, with the model's baseline."""

    def draw(axes: Axes, grid: Grid) -> None:
        values = spread(grid, metric).cv
        for c, context in enumerate(grid.contexts):
            _line(axes, grid, c, values[:, c], None, label=context)
        baseline = baseline_cv(grid, metric)
        if baseline is not None:
            axes.axhline(baseline, color=GREY, linestyle=":", linewidth=1.2, zorder=1)
        text = "no baseline" if baseline is None else f"baseline CV {baseline:.4f}"
        say_in(axes, f"{text}\n{_missing(grid, metric)}".strip(), **TOP_LEFT)

    caption = (
        "CV = run standard deviation / mean score of a condition, no unit. Dotted: the baseline, "
        "the mean CV of the original context over all temperatures, written in each panel's top "
        "left. A gap is a condition without a score in two runs of a question. As figure 3 of "
        "TempPerturb-Eval."
    )
    texts = (f"Output variability against temperature (CV of {metric})", caption)
    return _panels(grids, metric, draw, "CV (std / mean)", (folder, f"{prefix}_fig3_cv", texts))


def types_of(grids: Sequence[Grid]) -> list[str]:
    """Question types in the order of the figures' rows."""
    present = dict.fromkeys(grid.question_type for grid in grids)
    return [name for name in dict.fromkeys([*TYPE_ORDER, *sorted(present)]) if name in present]


def count_of(grid: Grid, metric: str) -> str:
    """N as it stands above a panel: questions with any score, and runs."""
    scores = grid.scores[metric]
    questions = int((~np.isnan(scores)).any(axis=(0, 1, 3)).sum())
    runs = scores.shape[-1]
    return f"n = {questions} questions x {runs} run{'' if runs == 1 else 's'}"


def context_handles(contexts: Sequence[str]) -> list[Any]:
    """Legend entries of all contexts, also of those a panel lacks."""
    from matplotlib.lines import Line2D

    return [Line2D([], [], label=name, **look(c)) for c, name in enumerate(contexts)]


def _panels(
    grids: Sequence[Grid], metric: str, draw: Any, unit: str, target: tuple[Path, str, Any]
) -> Picture:
    """A panel for each question type (rows) and model (columns)."""
    models = list(dict.fromkeys(grid.model for grid in grids))
    types = types_of(grids)
    by_place = {(grid.question_type, grid.model): grid for grid in grids}
    figure, panels = canvas(len(types), len(models))
    for row, kind in enumerate(types):
        for column, model in enumerate(models):
            axes = panels[row, column]
            grid = by_place.get((kind, model))
            if row == 0:
                axes.set_title(short(model), pad=16)
            if grid is None:
                mark_empty(axes)
            else:
                say_in(axes, _subtitle(grid, metric), at=(0, 1.02), ha="left", va="bottom")
                draw(axes, grid)
            if column == 0:
                axes.set_ylabel(f"{kind}\n{unit}" if kind else unit)
            if row == len(types) - 1:
                axes.set_xlabel("temperature T")
    _ticks(panels, grids[0].temperatures)
    contexts = grids[0].contexts
    figure.legend(
        handles=context_handles(contexts), loc="outside lower center", ncols=min(4, len(contexts))
    )
    return save(figure, *target)


def _subtitle(grid: Grid, metric: str) -> str:
    ignored = ", T is ignored" if grid.temperature_effective is False else ""
    return f"{count_of(grid, metric)}{ignored}"


def _line(
    axes: Axes, grid: Grid, index: int, values: Floats, band: Floats | None, *, label: str
) -> None:
    """One context: a line with a band; with a single temperature, a point with a bar."""
    temperatures = np.asarray(grid.temperatures, dtype=float)
    style = look(index)
    if len(temperatures) == 1:
        at = temperatures + 0.03 * (index - (len(grid.contexts) - 1) / 2)
        axes.errorbar(at, values, yerr=band, capsize=2, label=label, **style)
        return
    axes.plot(temperatures, values, label=label, **style)
    if band is not None:
        low, high = values - band, values + band
        axes.fill_between(temperatures, low, high, color=style["color"], alpha=0.16, linewidth=0)


def _missing(grid: Grid, metric: str) -> str:
    """How many conditions were not run, and how many were run and have no score; "" for none."""
    was_asked = asked(grid)
    has_score = ~np.isnan(spread(grid, metric).mean)
    counts: Mapping[str, int] = {
        "not run": int((~was_asked).sum()),
        "no score": int((was_asked & ~has_score).sum()),
    }
    return "\n".join(f"{name}: {n} of {was_asked.size}" for name, n in counts.items() if n)


def _ticks(panels: Any, temperatures: Sequence[float]) -> None:
    """Ticks at temperatures that were asked, at most six of them."""
    step = -(-len(temperatures) // 6)
    shown = list(temperatures[::step])
    panels[0, 0].set_xticks(shown, [str(value) for value in shown])
    if len(temperatures) == 1:
        panels[0, 0].set_xlim(temperatures[0] - 0.25, temperatures[0] + 0.25)
