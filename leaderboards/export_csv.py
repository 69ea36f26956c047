"""A run as two csv files: ``metrics.csv`` and ``samples.csv``.

UTF-8, comma, a header, lines end in a newline. Null is an empty cell, a number is written so that
it reads back as the same float64, a list is JSON, a flag ``true`` or ``false``. A text that a
spreadsheet could take for a formula (it begins with = + - @, their wide forms, a tab or a line end)
gets an apostrophe in front, and so does a text that begins with one: strip one to read it back.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from tcb_bench.leaderboards.export_options import ExportOptions
from tcb_bench.leaderboards.export_source import Source
from tcb_bench.leaderboards.export_tables import (
    Column,
    Row,
    metric_columns,
    metric_rows,
    sample_columns,
    sample_rows,
)

FORMULA = re.compile("[=+\\-@\t\r\n'\uff1d\uff0b\uff0d\uff20]")
PLAIN_NUMBER = re.compile(r"[+-]?\d+(?:[.,]\d+)*(?:[eE][+-]?\d+)?")


def write(sources: Sequence[Source], folder: Path, options: ExportOptions) -> list[str]:
    """Both tables, row by row."""
    _write(folder / "metrics.csv", metric_columns(sources), metric_rows(sources))
    if options.has_samples:
        columns = sample_columns(sources, has_texts=options.has_texts)
        _write(folder / "samples.csv", columns, sample_rows(sources, has_texts=options.has_texts))
    return []


def _write(path: Path, columns: Sequence[Column], rows: Iterable[Row]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow([inert(column.name) for column in columns])
        for row in rows:
            table.writerow([cell(row[column.name]) for column in columns])


def cell(value: Any) -> str:
    """A value as the text of its cell.

    >>> [cell(v) for v in (None, True, 0.1, -2.5, [0.5], "ner", "=1+1")]
    ['', 'true', '0.1', '-2.5', '[0.5]', 'ner', "'=1+1"]
    """
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return repr(value)
    return inert(value) if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def inert(text: str) -> str:
    """A text that no spreadsheet takes for a formula; a number, such as an answer of -5, is none.

    >>> inert("-5"), inert("-5+cmd"), inert("@a"), inert("'a")
    ('-5', "'-5+cmd", "'@a", "''a")
    """
    is_inert = not FORMULA.match(text) or PLAIN_NUMBER.fullmatch(text) is not None
    return text if is_inert else f"'{text}"
