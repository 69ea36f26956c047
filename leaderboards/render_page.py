"""Templates of the site, and what its pages are called."""

from __future__ import annotations

import base64
import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tcb_bench.errors import DataError
from tcb_bench.leaderboards.entry_files import SAFE, Loaded, folder_name

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

HERE = Path(__file__).parent
INDEX, COMPARE = "index.html", "compare.html"


@dataclass(frozen=True, slots=True)
class Page:
    """A file of the site: its path with "/" between the parts, and its text."""

    path: str
    html: str


@dataclass(frozen=True, slots=True)
class Link:
    """A board in the menu of all pages."""

    title: str
    path: str


def board_page(name: str) -> str:
    """The page of a board: ``boards/mmlu_tcb.html``.

    Raises:
        DataError: the name is not made of letters, digits and . _ + -.
    """
    if not SAFE.fullmatch(name):
        raise DataError(f"board name {name!r}: expected letters, digits and . _ + -")
    return f"boards/{name}.html"


def entry_page(loaded: Loaded) -> str:
    """The page of an entry, ``entries/org__name/task.html``, from its validated names alone.

    Raises:
        DataError: a name cannot be a file's, or the entry lies elsewhere than its names say.
    """
    task, folder = loaded.entry.task.name, folder_name(loaded.entry.model.id)
    if not SAFE.fullmatch(task):
        raise DataError(f"{loaded.path}: task name {task!r}: expected letters, digits and . _ + -")
    if (loaded.path.parent.name, loaded.path.name) != (folder, f"{task}.json"):
        raise DataError(
            f"{loaded.path}: holds {loaded.entry.model.id} on {task}, which belongs in "
            f"{folder}/{task}.json"
        )
    return f"entries/{folder}/{task}.html"


def fill(template: str, path: str, menu: Sequence[Link], **values: Any) -> Page:
    """A page from its template, with style and script inside and everything else escaped.

    A Content-Security-Policy lets only the page's own script run (by its hash) and nothing be
    fetched, so a name is inert even where escaping should fail.
    """
    from markupsafe import Markup

    code = _script(("site.js", "compare.js") if path == COMPARE else ("site.js",))
    digest = base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()
    html = (
        _environment()
        .get_template(template)
        .render(
            **values,
            menu=menu,
            here=path,
            root="../" * path.count("/"),
            style=Markup(_text("site.css")),  # noqa: S704 - our file
            script=Markup(code),  # noqa: S704 - our file
            script_hash=f"sha256-{digest}",
        )
    )
    return Page(path, html)


def embedded(data: Mapping[str, Any]) -> Markup:
    """JSON that can stand inside a script element: no "<", ">" or "&" in it.

    Raises:
        ValueError: a number is not finite.
    """
    from markupsafe import Markup

    text = json.dumps(data, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return Markup(text)  # noqa: S704 - escaped above


def rounded(value: float | None) -> float | None:
    """A number as pages embed it: six digits; None for what is not finite."""
    return None if value is None or not math.isfinite(value) else float(f"{value:.6g}")


@cache
def _environment() -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(HERE),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["breakable"] = _breakable
    return environment


def _breakable(text: str) -> Markup:
    """A name that may break after each "_" where a column is narrow."""
    from markupsafe import Markup, escape

    return Markup("_<wbr>").join(escape(part) for part in text.split("_"))


@cache
def _script(names: tuple[str, ...]) -> str:
    return "".join(_text(name) for name in names)


@cache
def _text(name: str) -> str:
    return (HERE / name).read_text(encoding="utf-8")
