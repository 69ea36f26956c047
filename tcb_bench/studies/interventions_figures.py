"""Figures of interventions: accuracy against stability, and log10 delta_tcb per row."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tcb_bench.metrics.statistics import Interval
from tcb_bench.report.figures_style import (
    COLOURS,
    GREY,
    Picture,
    canvas,
    mark_empty,
    save,
    say_in,
)
from tcb_bench.studies.interventions_tables import Facts
from tcb_bench.studies.shown import PAPER_MODEL

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, slots=True)
class Drawing:
    """Draws the figures of ``facts`` into a folder, where matplotlib is installed."""

    facts: Facts

    def __call__(self, folder: Path) -> list[Picture]:
        """Writes both figures."""
        return [_quadrants(self.facts, folder), _bars(self.facts, folder)]


def _quadrants(facts: Facts, folder: Path) -> Picture:
    at = facts.threshold
    figure, panels = canvas(1, 1, panel=(5.4, 3.4))
    axes = panels[0, 0]
    key = f"{at.quantity}_median"
    shown = [r for r in facts.rows if r[key].value and r["acc"].value is not None]
    for record in shown:
        _point(axes, record, record[key], spread_at=_sidestep(record, shown, key))
    if not shown:
        mark_empty(axes, "no answer has a number")
    axes.set_ylim(-0.12, 1.12)
    axes.axhline(facts.settings["accurate_at"], color=GREY, linestyle="--", linewidth=0.9)
    if at.value and shown:
        axes.axvline(math.log10(at.value), color=GREY, linestyle="--", linewidth=0.9)
    for text, x, y in (
        ("accurate, unstable", 0.01, 0.97),
        ("accurate, stable", 0.99, 0.97),
        ("inaccurate, unstable", 0.01, 0.03),
        ("inaccurate, stable", 0.99, 0.03),
    ):
        sides = {"ha": "left" if x < 0.5 else "right", "va": "top" if y > 0.5 else "bottom"}
        say_in(axes, text, at=(x, y), color=GREY, **sides)
    axes.set_xlabel(f"log10 of the median {at.quantity}")
    axes.set_ylabel("accuracy")
    caption = (
        "One point per row, its number beside it, with intervals. Dashed: accurate from "
        f"{facts.settings['accurate_at']:g} on; stable from "
        f"{'an unknown value' if at.value is None else f'{at.value:.4g}'} on ({at.origin}). "
        "Points of equal accuracy are moved a little up or down to be seen."
    )
    texts = ("Accuracy against stability, by intervention", caption)
    return save(figure, folder, "interventions_quadrants", texts)


def _sidestep(record: Any, shown: list[Any], key: str) -> float:
    """A small step up or down for rows of one accuracy, in order of stability."""
    alike = sorted(
        (r for r in shown if r["acc"].value == record["acc"].value), key=lambda r: r[key].value
    )
    return 0.025 * ((alike.index(record) % 3) - 1) if len(alike) > 1 else 0.0


def _point(axes: Axes, record: Any, stability: Interval, *, spread_at: float) -> None:
    x, y = math.log10(stability.value or math.nan), record["acc"].value + spread_at
    colour = COLOURS[(record["row"] - 1) % len(COLOURS)]
    axes.plot([x], [y], "o", color=colour, markersize=5)
    if stability.ci_low and stability.ci_high:
        limits = [math.log10(stability.ci_low), math.log10(stability.ci_high)]
        axes.plot(limits, [y, y], color=colour, linewidth=0.9)
    if record["acc"].ci_low is not None:
        limits = [record["acc"].ci_low, record["acc"].ci_high]
        axes.plot([x, x], limits, color=colour, linewidth=0.6, alpha=0.6)
    axes.annotate(str(record["row"]), (x, y), xytext=(4, 4), textcoords="offset points")


def _bars(facts: Facts, folder: Path) -> Picture:
    figure, panels = canvas(1, 1, panel=(max(4.6, 0.6 * len(facts.rows)), 3.0))
    axes = panels[0, 0]
    for record, intervention in zip(facts.rows, facts.interventions.rows, strict=True):
        found = record["log10_delta_tcb_mean"]
        if found.value is None:
            axes.annotate("no value", (record["row"], 0), ha="center", va="bottom", color=GREY)
        else:
            axes.bar(record["row"], found.value, color=COLOURS[0], width=0.6)
        if found.ci_low is not None:
            limits = [found.ci_low, found.ci_high]
            axes.plot([record["row"]] * 2, limits, color=COLOURS[4], linewidth=1.2)
        if paper := intervention.paper.get("delta_tcb"):
            label = {"label": PAPER_MODEL} if record["row"] == 1 else {}
            style = {"marker": "D", "markersize": 5, "color": COLOURS[1], "fillstyle": "none"}
            axes.plot(record["row"] + 0.22, math.log10(paper), linestyle="", **style, **label)
    axes.axhline(0, color=GREY, linewidth=0.8)
    axes.set_xticks([record["row"] for record in facts.rows])
    axes.set_xlabel("row")
    axes.set_ylabel("log10 delta_tcb, mean")
    if facts.interventions.rows[0].paper:
        axes.legend(loc="best")
    level = f"{facts.settings['level']:.0%}"
    caption = (
        f"Bars: mean over n answers, line: {level} bootstrap interval (none where n = 1). "
        "Row numbers as in the table. The paper's values are of another model, whose lengths have "
        "another scale: compare how rows differ, not heights."
    )
    texts = ("log10 delta_tcb of each row", caption)
    return save(figure, folder, "interventions_delta", texts)
