"""What a figure of a page is made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup


@dataclass(frozen=True, slots=True)
class Numbers:
    """A table as text; ``names`` are the columns that hold no numbers, by their index."""

    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    names: Sequence[int] = (0,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """Panels with one caption and one legend.

    Attributes:
        title: what it shows; ``caption`` says how to read it.
        panels: (heading, drawing) pairs; a heading may be "".
        legend: (swatch, label) pairs.
        numbers: the same as a table; None where another table of the page holds them.
    """

    title: str
    caption: str
    panels: Sequence[tuple[str, Markup]]
    legend: Sequence[tuple[Markup, str]] = ()
    numbers: Numbers | None = None
