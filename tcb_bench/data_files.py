"""Reading JSONL and CSV exactly as written, with errors that name the file and the place."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

from tcb_bench.errors import DataError


def read_text(path: Path) -> str:
    """The file as text; a byte-order mark is dropped. Raises DataError where it is not UTF-8."""
    try:
        return path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(
            f"{path}: byte {error.start} is not UTF-8; save the file as UTF-8"
        ) from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}") from None


def read_jsonl(path: Path) -> list[dict[str, Any]]:
    r"""One JSON object per line, split at \n only (U+2028 may stand inside a string)."""
    rows = []
    for number, line in enumerate(read_text(path).split("\n"), start=1):
        if line.strip():
            try:
                rows.append(json.loads(line))
            except ValueError as error:
                raise DataError(f"{path}:{number}: not JSON: {error}") from None
    return rows


def read_csv(path: Path, columns: list[str] | None = None) -> list[dict[str, Any]]:
    """Rows by column name, every cell text as it is ("None" and "NA" too).

    Without ``columns`` the first row names them.
    """
    lines = list(csv.reader(io.StringIO(read_text(path), newline="")))  # cells may hold newlines
    header, body = (columns, lines) if columns else (lines[0] if lines else [], lines[1:])
    for number, cells in enumerate(body):
        if len(cells) != len(header):
            raise DataError(
                f"{path} row {number}: {len(cells)} cells, "
                f"expected {len(header)} ({', '.join(header)})"
            )
    return [dict(zip(header, cells, strict=True)) for cells in body]
