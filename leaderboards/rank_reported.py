"""Numbers that the papers print, as rows beside the boards: reported, not reproduced here."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Literal

import yaml
from pydantic import Field

from tcb_bench.leaderboards.boards import BoardRow, Cell
from tcb_bench.records import Record

REASON = "reported, not reproduced here: other questions and prompts, never ranked"


class Paper(Record):
    """Where numbers were printed."""

    title: str
    arxiv: str = Field(pattern=r"^\d{4}\.\d{5}$")


class ReportedRow(Record):
    """A row of a paper's table, or what its text says of a model.

    ``cells`` holds only numbers that mean what the board's column of that name means; all others
    are ``facts``, as printed.
    """

    boards: list[str]
    paper: str
    place: str
    model: str
    cells: dict[str, float]
    facts: dict[str, str]
    caveat: str


class ReportedFile(Record):
    """All rows, and the papers they name."""

    reported_version: Literal[1]
    papers: dict[str, Paper]
    rows: list[ReportedRow]


@cache
def reported() -> ReportedFile:
    """The rows of leaderboards/reported.yaml."""
    text = files("tcb_bench.leaderboards").joinpath("reported.yaml").read_text(encoding="utf-8")
    return ReportedFile.model_validate(yaml.safe_load(text))


def reported_rows(board: str) -> list[BoardRow]:
    """The papers' rows that belong beside a board, in the papers' order."""
    found = reported()
    return [_row(row, found.papers) for row in found.rows if board in row.boards]


def _row(row: ReportedRow, papers: Mapping[str, Paper]) -> BoardRow:
    paper = papers[row.paper]
    cells = {
        key: Cell(value=value, ci_low=None, ci_high=None, n=None, reason=REASON)
        for key, value in row.cells.items()
    }
    return BoardRow(
        model=row.model,
        tier="reported",
        entry=None,
        facts={**row.facts, "caveat": row.caveat},
        cells=cells,
        source=f"{paper.title}, arXiv:{paper.arxiv}, {row.place}",
    )
