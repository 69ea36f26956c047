"""Studies of run folders as sections of a report: what ``tcb-bench study`` wrote, read again."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tcb_bench.errors import DataError, TcbBenchError
from tcb_bench.report.figures_style import Picture
from tcb_bench.report.html import Page, Section, Settings, write
from tcb_bench.report.table import Column, Table

PATTERNS = ("study.json", "studies/*/study.json", "*/studies/*/study.json")
"""Where a study's file may lie under a folder: its own, a run's, an output path's."""


def study_sections(folders: Sequence[Path]) -> list[Section]:
    """A section per study found in the folders, in order of model and study.

    Raises:
        DataError: a file is not as `tcb-bench study` wrote it.
    """
    paths = [path for folder in folders for pattern in PATTERNS for path in folder.glob(pattern)]
    unique = {path.resolve(): path for path in sorted(paths)}
    return [_section(path) for path in unique.values()]


def studies_page(sections: Sequence[Section]) -> Page:
    """A page of studies alone."""
    named = ", ".join(section.title for section in sections)
    return Page(title=f"Report: {named}", lead="", notices=[], sections=sections)


def write_study_page(folder: Path) -> Path:
    """``study.html`` beside a study's ``study.json``: the same section, alone.

    Raises:
        TcbBenchError: it cannot be written.
    """
    try:
        return write(studies_page(study_sections([folder])), folder / "study.html")
    except OSError as error:
        raise TcbBenchError(f"{folder}: the page cannot be written: {error.strerror}") from None


def _section(path: Path) -> Section:
    try:
        record: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        tables = [_table(table) for table in record["tables"]]
        figures = [_picture(figure, path.parent) for figure in record["figures"]]
        title = f"Study {path.parent.name}: {record['model']['name']}"
        settings = [(k, json.dumps(v, ensure_ascii=False)) for k, v in record["settings"].items()]
        return Section(
            title=title,
            note=" ".join(record["notes"]),
            figures=figures,
            tables=tables,
            settings=[Settings(f"{title}: settings", [*_origin(path, record), *settings])],
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DataError(
            f"{path}: not a file of `tcb-bench study` ({type(error).__name__}: {error}); "
            "move it away, or run the study again"
        ) from None


def _origin(path: Path, record: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The signature, and where the figures' files lie: a report holds them, but not as files."""
    folder = f"studies/{path.parent.name}/figures in the folder of {record['model']['name']}"
    return [("signature", record["signature"]), ("figures", folder)]


def _table(record: Mapping[str, Any]) -> Table:
    columns = [Column(**column) for column in record["columns"]]
    return Table(**{**record, "columns": columns})


def _picture(record: Mapping[str, Any], folder: Path) -> Picture:
    files = {name: folder / record[name] for name in ("png", "svg")}
    for file in files.values():
        if not file.is_file():
            raise DataError(f"{file}: the study's figure is missing; run the study again")
    return Picture(**{**record, **files})
