"""Tables, figures and settings as one HTML file that needs nothing else."""

from __future__ import annotations

import base64
import hashlib
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Real
from pathlib import Path
from typing import Any

from tcb_bench.report.figures_style import Picture
from tcb_bench.report.table import Column, Row, Table

HERE = Path(__file__).parent
SHORT, LONG = 24, 60  # characters: up to SHORT on one line, above LONG in a box of its own


@dataclass(frozen=True, slots=True)
class Settings:
    """A list of named values behind a line that opens it."""

    title: str
    entries: Sequence[tuple[str, str]]
    is_open: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A part of the page: its figures, its tables, its settings, in this order."""

    title: str
    note: str = ""
    figures: Sequence[Picture] = ()
    tables: Sequence[Table] = ()
    settings: Sequence[Settings] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """What a report says. ``lead`` is its first sentence, ``notices`` limit how it can be read."""

    title: str
    lead: str
    notices: Sequence[str]
    sections: Sequence[Section]


@dataclass(slots=True)
class _Ids:
    """Anchors of headings: readable, and each once."""

    taken: set[str] = field(default_factory=set)

    def of(self, text: str) -> str:
        stem = re.sub(r"[^a-z0-9_]+", "-", text.lower()).strip("-") or "part"
        number, name = 1, stem
        while name in self.taken:
            number += 1
            name = f"{stem}-{number}"
        self.taken.add(name)
        return name


def render(page: Page) -> str:
    """The page as HTML: style, script and figures inside, all text escaped, no clock."""
    ids = _Ids({"contents"})
    return fill(
        "template.html",
        styles=["report.css"],
        script="report.js",
        page={
            "title": page.title,
            "lead": page.lead,
            "notices": page.notices,
            "sections": [_section(section, ids) for section in page.sections],
        },
    )


def fill(template: str, *, styles: Sequence[str], script: str, **values: Any) -> str:
    """A template of this folder with its style and script inside, everything else escaped.

    A Content-Security-Policy lets only the page's own script run (by its hash) and nothing be
    fetched, so a model's answer is inert even where escaping should fail.
    """
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        loader=FileSystemLoader(HERE),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    code = (HERE / script).read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()
    style = "".join((HERE / name).read_text(encoding="utf-8") for name in styles)
    return environment.get_template(template).render(
        **values,
        style=Markup(style),  # noqa: S704 - our file
        script=Markup(code),  # noqa: S704 - our file
        script_hash=f"sha256-{digest}",
    )


def write(page: Page, path: Path) -> Path:
    """Renders into a file; half a surrogate pair, which UTF-8 cannot hold, becomes "?"."""
    path.write_bytes(render(page).encode("utf-8", "replace"))
    return path


def _section(section: Section, ids: _Ids) -> dict[str, Any]:
    return {
        "id": ids.of(section.title),
        "title": section.title,
        "note": section.note,
        "figures": [_figure(picture, ids) for picture in section.figures],
        "tables": [_table(table, f"{section.title}-{table.name}", ids) for table in section.tables],
        "settings": section.settings,
    }


def _figure(picture: Picture, ids: _Ids) -> dict[str, Any]:
    data = base64.b64encode(picture.svg.read_bytes()).decode()
    return {
        "id": ids.of(picture.name),
        "title": picture.title,
        "caption": picture.caption,
        "data": f"data:image/svg+xml;base64,{data}",
        "width": picture.width,
        "files": f"{picture.png.name}, {picture.svg.name}",
    }


def _table(table: Table, name: str, ids: _Ids) -> dict[str, Any]:
    """The table as labels and cells; reasons of missing values get a column where it has none."""
    columns = list(table.columns)
    has_reasons = any(row.get("reason") for row in table.rows)
    if has_reasons and all(column.key != "reason" for column in columns):
        columns.append(Column("reason", "why missing"))
    numeric = {column.key for column in columns if _is_numeric(column, table.rows)}
    return {
        "id": ids.of(name),
        "title": table.title,
        "note": table.note,
        "heads": [{"label": c.label, "is_number": c.key in numeric} for c in columns],
        "rows": [
            [_cell(row.get(c.key), c, c.key in numeric) for c in columns] for row in table.rows
        ],
    }


def _is_numeric(column: Column, rows: Sequence[Row]) -> bool:
    present = [row[column.key] for row in rows if row.get(column.key) is not None]
    return bool(present) and all(
        isinstance(value, Real) and not isinstance(value, bool) for value in present
    )


def _cell(value: Any, column: Column, is_number: bool) -> dict[str, Any]:
    """Text, what it sorts by ("" = last), and how it is laid out."""
    if isinstance(value, Mapping | list | tuple):
        raise TypeError(f"column {column.key!r}: a cell is a number or text, got {value!r:.80}")
    shown = None if isinstance(value, float) and math.isnan(value) else value
    text = column.text(shown)
    layout = "short" if len(text) <= SHORT else "long" if len(text) > LONG else "text"
    number = (
        f"{float(shown)!r}".replace("inf", "Infinity") if is_number and shown is not None else ""
    )
    sort = number if is_number else "" if shown is None else text[:LONG]
    return {"text": text, "sort": sort, "kind": "number" if is_number else layout}
