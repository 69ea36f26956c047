"""A table as data: what analysis returns, and what the terminal, JSON and HTML show alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Column:
    """One column: ``key`` of the rows, ``label`` shown, ``digits`` after the point of a float.

    Where ``is_percent``, rows hold fractions, and three significant digits of a percentage are
    shown.
    """

    key: str
    label: str
    digits: int | None = None
    is_percent: bool = False

    def text(self, value: Any) -> str:
        """A value of this column as a person reads it.

        >>> Column("share", "share", is_percent=True).text(0.01234)
        '1.23 %'
        """
        if self.is_percent and isinstance(value, float):
            percent = 100 * value
            return f"{percent:.0f} %" if percent >= 100 else f"{percent:.3g} %"
        return cell(value, self.digits)


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under one title.

    Attributes:
        name: an identifier, unique in a report (``summary``, ``onset``, ...).
        title: what the table answers, as a heading.
        note: how to read it: the rule, the test, the correction, n; shown below the title.
        columns: in order; a row may hold more keys than are shown.
        rows: key -> number, text, bool, or None (shown as a dash; its reason, where there is one,
            stands in the row under ``reason``).
    """

    name: str
    title: str
    note: str
    columns: Sequence[Column]
    rows: Sequence[Row]


def cell(value: Any, digits: int | None = None) -> str:
    """A value as a person reads it."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.{digits if digits is not None else 3}f}"
    return str(value)
