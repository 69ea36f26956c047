"""The front page: all boards at a glance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tcb_bench.leaderboards.boards import Board, BoardColumn, BoardRow
from tcb_bench.leaderboards.render_board import Placed
from tcb_bench.leaderboards.render_numbers import count, decimal, interval, ranks
from tcb_bench.leaderboards.render_page import INDEX, Link, Page, board_page, fill

TOP = 5


def render_index(
    boards: Sequence[Board], placed: Mapping[str, Placed], menu: Sequence[Link]
) -> Page:
    """The front page.

    Args:
        boards: all boards.
        placed: ``org__name/task.json`` -> the entry.
        menu: all boards.
    """
    models = {own.entry.model.id for own in placed.values()}
    counts = f"{plural(len(placed), 'entry')} of {plural(len(models), 'model')}."
    views = [_board(board, placed) for board in boards]
    return fill("template_index.html", INDEX, menu, boards=views, counts=counts)


def plural(number: int, noun: str) -> str:
    """A count with its noun.

    >>> plural(1, "entry"), plural(2, "entry"), plural(3, "board")
    ('1 entry', '2 entries', '3 boards')
    """
    if number == 1:
        return f"1 {noun}"
    return (
        f"{count(number)} {noun.removesuffix('y')}ies"
        if noun.endswith("y")
        else (f"{count(number)} {noun}s")
    )


def _board(board: Board, placed: Mapping[str, Placed]) -> dict[str, Any]:
    entries = sum(len(group.rows) for group in board.groups)
    counts = f"{plural(entries, 'entry')} in {plural(len(board.groups), 'group')}"
    if board.reported:
        counts += f", {len(board.reported)} reported elsewhere"
    largest = max(board.groups, key=lambda group: len(group.rows), default=None)
    first = board.columns[0]
    rows = largest.rows[:TOP] if largest else []
    return {
        "title": board.title,
        "path": board_page(board.name),
        "counts": f"{counts}.",
        "column": first.label,
        "caption": _caption(len(rows), largest.title if largest else "", len(board.groups)),
        "rows": [_row(row, first, placed) for row in rows],
    }


def _caption(n: int, title: str, n_groups: int) -> str:
    where = f"the largest group, {title}" if n_groups > 1 else title
    return f"First {n} of {where}" if n > 1 else where


def _row(row: BoardRow, column: BoardColumn, placed: Mapping[str, Placed]) -> dict[str, str]:
    cell, own = row.cells[column.key], placed[row.entry or ""]
    return {
        "model": row.model,
        "page": own.page,
        "tier": own.tier,
        "rank": ranks(cell.rank_low, cell.rank_high),
        "value": decimal(cell.value, column.digits),
        "interval": interval(cell.ci_low, cell.ci_high, column.digits),
    }
