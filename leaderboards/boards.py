"""What a leaderboard is made of: columns, cells, rows, groups of comparable rows, boards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class BoardColumn:
    """One number of a board: what it is called, its unit, and which way is better.

    `higher_is_better` is None where neither way is better; such a column is never ranked.
    """

    key: str
    label: str
    unit: str
    higher_is_better: bool | None
    digits: int
    meaning: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One number with its interval, the questions behind it, and its range of ranks.

    Ranks count from 1 and are None where the cell is not ranked. `reason` says why `value` is
    None, or why a value that is there is not ranked.
    """

    value: float | None
    ci_low: float | None
    ci_high: float | None
    n: int | None
    rank_low: int | None = None
    rank_high: int | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BoardRow:
    """One model on a board: its tier (verified, self-reported, reported, imported) and cells.

    `entry` is the entry's path below entries/ and None for reported rows, which have a `source`.
    """

    model: str
    tier: str
    entry: str | None
    facts: Mapping[str, str]
    cells: Mapping[str, Cell]
    source: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BoardGroup:
    """Rows that can be compared: what all of them share is in `settings`.

    `key` is a short stable hash of what must agree. Rows are sorted by the first column, the
    best first, ties by model name.
    """

    key: str
    title: str
    settings: Mapping[str, str]
    rows: Sequence[BoardRow]


@dataclass(frozen=True, slots=True, kw_only=True)
class Board:
    """One leaderboard: its columns, its groups, the papers' own numbers beside them.

    `conflicts` says in words why the groups are apart.
    """

    name: str
    title: str
    note: str
    columns: Sequence[BoardColumn]
    groups: Sequence[BoardGroup]
    reported: Sequence[BoardRow]
    conflicts: Sequence[str]
