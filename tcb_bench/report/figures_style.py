"""How figures look, and how they are written: the same bytes for the same numbers."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

# Okabe and Ito's colours, told apart with any colour vision; yellow is too light for a thin line.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#000000", "#E69F00", "#56B4E9")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
LINES = ("-", "--", "-.", (0, (5, 1, 1, 1, 1, 1)))
GREY = "#767676"
PANEL = (2.35, 2.3)
SETTINGS = {
    "font.family": "DejaVu Sans",  # comes with matplotlib: the same letters everywhere
    "font.size": 9,
    "axes.titlesize": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e4e4e4",
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "lines.linewidth": 1.4,
    "lines.markersize": 3.6,
    "legend.frameon": False,
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
    "svg.hashsalt": "tcb-bench",  # ids inside the SVG would be random otherwise
    "svg.fonttype": "path",
    "text.parse_math": False,  # a "$" in a model's name is a dollar
}


@dataclass(frozen=True, slots=True)
class Picture:
    """A figure on disk.

    Attributes:
        name: file name without its ending; ``title`` and ``caption`` stand beside it.
        png, svg: where it was written.
        width: in CSS pixels, of the SVG.
    """

    name: str
    title: str
    caption: str
    png: Path
    svg: Path
    width: int


def canvas(
    rows: int, columns: int, *, panel: tuple[float, float] = PANEL, share_x: bool = True
) -> tuple[Figure, Any]:
    """A figure with (rows, columns) panels of a size in inches, on one y axis and, if shared, x."""
    from matplotlib.figure import Figure

    size = (max(5.0, panel[0] * columns + 0.7), panel[1] * rows + 0.9)
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False, sharex=share_x, sharey=True)
    return figure, axes


def look(index: int, *, with_line: bool = True) -> dict[str, Any]:
    """Colour, marker and line of the index-th context."""
    style: dict[str, Any] = {
        "color": COLOURS[index % len(COLOURS)],
        "marker": MARKERS[index % len(MARKERS)],
    }
    if with_line:
        style["linestyle"] = LINES[(index // len(COLOURS)) % len(LINES)]
    return style


def short(label: str, width: int = 26) -> str:
    """A model's label in lines that fit above a panel; broken after a slash where it has one."""
    spaced = label.replace("/", "/ ")
    lines = [line.replace("/ ", "/") for line in textwrap.wrap(spaced, width)]
    return "\n".join(lines[:3]) or label


def say_in(axes: Axes, text: str, *, at: tuple[float, float], **more: Any) -> None:
    """Small text at a place of a panel, (0, 0) its lower left, with a white rim."""
    box = {"facecolor": "white", "edgecolor": "none", "alpha": 0.75, "pad": 1.0}
    look = {"fontsize": 7.5, "color": "#444444", "bbox": box, **more}
    axes.text(*at, text, transform=axes.transAxes, **look)


def mark_empty(axes: Axes, text: str = "not run") -> None:
    """A panel without data says so."""
    say_in(axes, text, at=(0.5, 0.5), ha="center", va="center", color=GREY, style="italic")


def plain_ticks(axis: Axis, minor: Any = "") -> None:
    """Plain numbers on a logarithmic axis, where powers would be formulas: these are switched off.

    ``minor``: a formatter of the ticks between; a function (value, place) -> text, or ``""``.
    """
    axis.set_major_formatter("{x:g}")
    axis.set_minor_formatter(minor)


def save(figure: Figure, folder: Path, name: str, texts: Sequence[str]) -> Picture:
    """Writes NAME.png (150 dpi) and NAME.svg, without a date or a program's version in them.

    Args:
        figure: what to write.
        folder: where; it exists.
        name: of the files.
        texts: title and caption.
    """
    png, svg = folder / f"{name}.png", folder / f"{name}.svg"
    figure.savefig(png, dpi=150, metadata={"Software": None})
    figure.set_layout_engine("none")  # the layout stands; finding it again takes a second
    figure.savefig(svg, metadata={"Date": None, "Creator": None})
    title, caption = texts
    return Picture(name, title, caption, png, svg, round(figure.get_figwidth() * 96))
