"""Where an entry stands: its row on a board, for the entry's own page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tcb_bench.leaderboards.boards import Board, BoardRow
from tcb_bench.leaderboards.render_board import hint
from tcb_bench.leaderboards.render_figures import Numbers
from tcb_bench.leaderboards.render_numbers import count, decimal, interval, ranks
from tcb_bench.leaderboards.render_page import COMPARE, board_page


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A board's group in which an entry stands.

    Attributes:
        board: its title; ``group`` is that of the group, ``key`` the group's key.
        path: the board's page.
        compare: address of the comparison with others; "" where it stands alone.
        numbers: the row's cells.
        facts: what the row says beside them.
    """

    board: str
    group: str
    key: str
    path: str
    compare: str
    numbers: Numbers
    facts: Sequence[tuple[str, str]]


def places(boards: Sequence[Board]) -> Mapping[str, Sequence[Place]]:
    """``org__name/task.json`` -> the groups in which that entry stands."""
    found: dict[str, list[Place]] = {}
    for board in boards:
        for group in board.groups:
            for row in group.rows:
                key = row.entry or ""
                address = f"{COMPARE}#group={group.key}&models={key.split('/')[0]}"
                place = Place(
                    board=board.title,
                    group=group.title.partition("; ")[0],
                    key=group.key,
                    path=board_page(board.name),
                    compare=address if len(group.rows) > 1 else "",
                    numbers=_numbers(row, board, len(group.rows)),
                    facts=list(row.facts.items()),
                )
                found.setdefault(key, []).append(place)
    return found


def _numbers(row: BoardRow, board: Board, n_rows: int) -> Numbers:
    rows = []
    for column in board.columns:
        cell = row.cells[column.key]
        rank = ranks(cell.rank_low, cell.rank_high)
        rows.append(
            (
                column.label,
                decimal(cell.value, column.digits),
                interval(cell.ci_low, cell.ci_high, column.digits),
                count(cell.n) if cell.n is not None and cell.value is not None else "",
                f"{rank} of {count(n_rows)}" if rank else "",
                " · ".join(part for part in (hint(column), cell.reason) if part),
            )
        )
    return Numbers(("column", "value", "interval", "n", "rank", "note"), rows, (0, 5))
