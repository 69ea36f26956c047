"""The page that compares models: aggregates of all boards in one block of JSON, nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tcb_bench.leaderboards.boards import Board, BoardRow, Cell
from tcb_bench.leaderboards.columns import Floats
from tcb_bench.leaderboards.entry import Entry
from tcb_bench.leaderboards.render_board import Placed, hint, row_detail
from tcb_bench.leaderboards.render_histogram import histogram
from tcb_bench.leaderboards.render_page import COMPARE, Link, Page, embedded, fill, rounded
from tcb_bench.leaderboards.render_sweep import quality, sweep

MOST_POINTS = 200  # of an entry's curves; a larger sweep stands on the entry's page alone
LONGEST = 90  # characters of a group's title
BIN = 0.25  # of log10 relative_delta
FURTHEST = 12.0  # of log10 relative_delta; what lies beyond is in the outermost bin

Plots = dict[str, Any]
"""What can be drawn of an entry: ``curves`` and ``bins``, either may be missing."""


def plots(entry: Entry, log10_delta: Floats | None) -> Plots:
    """Curves of the score, and the distribution of log10 relative_delta as shares.

    Args:
        entry: the entry.
        log10_delta: (N,) log10 relative_delta of its responses; None without sample rows.

    Returns:
        ``curves``: {score, x, lines: {label: [[x, value, low, high], ...]}};
        ``bins``: {first, shares}: bin i reaches from (first + i) ``BIN`` on.
    """
    found: Plots = {}
    score = quality(entry.conditions)
    swept = sweep(entry.conditions, score) if score else None
    if swept:
        lines = {
            " · ".join(part for part in (panel.label, curve.label) if part): [
                [rounded(v) for v in (p.x, p.value, p.ci_low, p.ci_high)] for p in curve.points
            ]
            for panel in swept.panels
            for curve in panel.curves
        }
        if sum(map(len, lines.values())) <= MOST_POINTS:
            found["curves"] = {"score": swept.metric, "x": swept.x, "lines": lines}
    bins = (
        histogram(log10_delta.clip(-FURTHEST, FURTHEST), BIN) if log10_delta is not None else None
    )
    if bins:
        total = sum(bins.counts)
        found["bins"] = {
            "first": bins.first,
            "shares": [float(f"{n / total:.3g}") for n in bins.counts],
        }
    return found


def render_compare(
    boards: Sequence[Board],
    placed: Mapping[str, Placed],
    drawn: Mapping[str, Plots],
    menu: Sequence[Link],
) -> Page:
    """The page that compares.

    Args:
        boards: all boards.
        placed: ``org__name/task.json`` -> the entry.
        drawn: the same -> `plots`.
        menu: all boards.
    """
    data = {
        "bin": BIN,
        "boards": [
            {
                "name": board.name,
                "title": board.title,
                "columns": [
                    {"label": c.label, "hint": hint(c), "digits": c.digits} for c in board.columns
                ],
                "groups": [
                    {
                        "key": group.key,
                        "title": _short(group.title),
                        "rows": [_row(row, board, placed, drawn) for row in group.rows],
                    }
                    for group in board.groups
                ],
            }
            for board in boards
            if board.groups
        ],
    }
    return fill("template_compare.html", COMPARE, menu, data=embedded(data))


def _short(title: str) -> str:
    """A title that fits into a list of choices."""
    return title if len(title) <= LONGEST else f"{title[: LONGEST - 1]}…"


def _row(
    row: BoardRow, board: Board, placed: Mapping[str, Placed], drawn: Mapping[str, Plots]
) -> dict[str, Any]:
    key = row.entry or ""
    own = placed[key]
    return {
        "id": own.page.split("/")[1],
        "model": row.model,
        "page": own.page,
        "tier": own.tier,
        "detail": row_detail(row) + (" · partial" if own.entry.is_partial else ""),
        "cells": [_cell(row.cells[column.key]) for column in board.columns],
        **drawn.get(key, {}),
    }


def _cell(cell: Cell) -> list[Any]:
    numbers = [rounded(v) for v in (cell.value, cell.ci_low, cell.ci_high)]
    return [*numbers, cell.n, cell.rank_low, cell.rank_high, cell.reason or ""]
