"""A board as its page shows it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from tcb_bench.leaderboards.boards import Board, BoardColumn, BoardGroup, BoardRow, Cell
from tcb_bench.leaderboards.entry import Entry
from tcb_bench.leaderboards.render_numbers import count, decimal, interval, ranks, sort_key
from tcb_bench.leaderboards.render_page import Link, Page, board_page, fill
from tcb_bench.leaderboards.render_svg import pixel

BAR_WIDTH, BAR_HEIGHT = 96, 9  # of an interval, in CSS pixels
QUIET = frozenset(
    (
        *("dtype", "quantisation", "backend", "revision", "parameters", "date", "submitted by"),
        *("verified by", "documents", "partial", "sampling", "falls", "falls first"),
    )
)
"""Facts of a row that its entry's page tells; all others stand in the row."""
FILTERS = (("tier", "Tier"), ("dtype", "dtype"), ("backend", "Backend"))


@dataclass(frozen=True, slots=True)
class Placed:
    """An entry of the site: what it says, and its page."""

    entry: Entry
    page: str

    @property
    def tier(self) -> str:
        """verified, self-reported, or imported from another harness."""
        return self.entry.tier if self.entry.origin == "tcb-bench" else "imported"


def render_board(board: Board, placed: Mapping[str, Placed], menu: Sequence[Link]) -> Page:
    """The page of a board.

    Args:
        board: what to show.
        placed: ``org__name/task.json`` -> the entry.
        menu: all boards.
    """
    groups = [_group(group, board.columns, placed) for group in board.groups]
    rows = [row for group in groups for row in group["rows"]]
    view = {
        "title": board.title,
        "note": board.note,
        "columns": [_column(column) for column in board.columns],
        "conflicts": board.conflicts,
        "groups": groups,
        "filters": [
            {"name": name, "label": label, "options": sorted({row[name] for row in rows} - {""})}
            for name, label in FILTERS
        ],
        **_reported(board),
    }
    return fill("template_board.html", board_page(board.name), menu, board=view)


def hint(column: BoardColumn) -> str:
    """Unit and direction of a column.

    >>> acc = dict(key="acc", label="acc", unit="share", digits=3, meaning="")
    >>> hint(BoardColumn(**acc, higher_is_better=True))
    'share, higher is better'
    """
    unit = column.unit.removesuffix(" of 1")
    unit = "" if unit in ("1", "") else f"{unit}, "
    better = {True: "higher is better", False: "lower is better", None: "no direction"}
    return unit + better[column.higher_is_better]


def cell_detail(cell: Cell, digits: int) -> str:
    """Interval and n of a cell."""
    parts = [interval(cell.ci_low, cell.ci_high, digits)]
    if cell.n is not None and cell.value is not None:
        parts.append(f"n {count(cell.n)}")
    return ", ".join(part for part in parts if part)


def row_detail(row: BoardRow) -> str:
    """Weights and back end of a row in one line, then what limits its numbers."""
    facts = row.facts
    parts = [facts[name] for name in ("dtype", "quantisation", "backend") if facts.get(name)]
    parts += [f"{name}: {facts[name]}" for name in facts if name not in QUIET]
    return " · ".join(parts)


def _column(column: BoardColumn) -> dict[str, str]:
    return {
        "key": column.key,
        "label": column.label,
        "hint": hint(column),
        "first": "ascending" if column.higher_is_better is False else "descending",
        "meaning": column.meaning,
    }


def _group(
    group: BoardGroup, columns: Sequence[BoardColumn], placed: Mapping[str, Placed]
) -> dict[str, Any]:
    head, _, more = group.title.partition("; ")  # what sets it apart from the first group follows
    ends = {column.key: _ends([row.cells[column.key] for row in group.rows]) for column in columns}
    return {
        "key": group.key,
        "title": head,
        "more": more,
        "settings": list(group.settings.items()),
        "rows": [_row(row, columns, ends, placed) for row in group.rows],
    }


def _row(
    row: BoardRow,
    columns: Sequence[BoardColumn],
    ends: Mapping[str, tuple[float, float] | None],
    placed: Mapping[str, Placed],
) -> dict[str, Any]:
    own = placed[row.entry or ""]
    return {
        "id": own.page.split("/")[1],
        "model": row.model,
        "page": own.page,
        "tier": own.tier,
        "dtype": own.entry.model.dtype or "",
        "backend": own.entry.model.backend,
        "detail": row_detail(row),
        "is_partial": own.entry.is_partial,
        "cells": [_cell(row.cells[c.key], c.digits, ends[c.key]) for c in columns],
    }


def _cell(cell: Cell, digits: int, ends: tuple[float, float] | None) -> dict[str, Any]:
    return {
        "sort": sort_key(cell.value),
        "value": decimal(cell.value, digits),
        "bar": _bar(cell, ends),
        "rank": ranks(cell.rank_low, cell.rank_high),
        "detail": cell_detail(cell, digits),
        "reason": cell.reason or "",
    }


def _ends(cells: Sequence[Cell]) -> tuple[float, float] | None:
    """Lowest and highest number of a column, for the scale of its bars."""
    numbers = [v for c in cells for v in (c.value, c.ci_low, c.ci_high) if v is not None]
    return (min(numbers), max(numbers)) if numbers else None


def _bar(cell: Cell, ends: tuple[float, float] | None) -> Markup | None:
    """Value and interval on the column's scale; the numbers stand beside it as text."""
    if cell.value is None or ends is None:
        return None
    low, high = ends

    def at(value: float) -> str:
        share = (value - low) / (high - low) if high > low else 0.5
        return pixel(4 + share * (BAR_WIDTH - 8))

    line = ""
    if cell.ci_low is not None and cell.ci_high is not None:
        line = f"M{at(cell.ci_low)} 4.5H{at(cell.ci_high)}"
    return Markup(  # noqa: S704 - numbers only
        f'<svg class="bar" viewBox="0 0 {BAR_WIDTH} {BAR_HEIGHT}" preserveAspectRatio="none" '
        f'aria-hidden="true"><path d="{line}M{at(cell.value)} 1v7"/></svg>'
    )


def _reported(board: Board) -> dict[str, Any]:
    """Rows of papers, with those columns that one of them has a value for."""
    columns = [c for c in board.columns if any(_has_value(row, c.key) for row in board.reported)]
    return {
        "reported_columns": [_column(column) for column in columns],
        "reported": [
            {
                "model": row.model,
                "texts": [_reported_text(row.cells.get(c.key), c.digits) for c in columns],
                "facts": list(row.facts.items()),
                "source": row.source or "",
            }
            for row in board.reported
        ],
    }


def _has_value(row: BoardRow, key: str) -> bool:
    return key in row.cells and row.cells[key].value is not None


def _reported_text(cell: Cell | None, digits: int) -> str:
    if cell is None:
        return decimal(None, digits)
    detail = cell_detail(cell, digits)
    return decimal(cell.value, digits) + (f" ({detail})" if detail else "")
