"""The files of the site: written beside it, then moved into place; pages that are gone go."""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path

from tcb_bench.errors import DataError
from tcb_bench.leaderboards.render_page import Page

MANIFEST = "site.json"
_NAME = r"[A-Za-z0-9][A-Za-z0-9._+-]*"
OURS = re.compile(rf"(index|compare|boards/{_NAME}|entries/{_NAME}/{_NAME})\.html")


def write_site(pages: Iterable[Page], out: Path) -> int:
    """Writes the pages, and removes those of an earlier build that are no more; returns how many.

    All pages are written into a folder beside the site first: where one fails, the old site stays
    as it is. Each file is then replaced in one step. Files that no build has written are kept.

    Args:
        pages: made one at a time.
        out: folder of the site; made where it does not exist.

    Raises:
        DataError: a file that no build has written is in the way, or the folder cannot be written.
    """
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        staging = Path(tempfile.mkdtemp(prefix=f".{out.name}-", dir=out.parent))
    except OSError as error:
        raise DataError(f"{out}: the site cannot be written: {error.strerror}") from None
    try:
        names = sorted(_stage(page, staging) for page in pages)
        _swap(names, staging, out)
    except OSError as error:
        raise DataError(f"{out}: the site cannot be written: {error.strerror}") from None
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    return len(names)


def written_before(out: Path) -> list[str]:
    """What an earlier build has written into a folder, by its manifest; nothing without one.

    Raises:
        DataError: the manifest is not what a build writes.
    """
    path = out / MANIFEST
    if not path.exists():
        return []
    try:
        names = json.loads(path.read_text(encoding="utf-8"))["files"]
        if all(OURS.fullmatch(name) for name in names):
            return list(names)
    except (OSError, ValueError, TypeError, KeyError):
        pass
    raise DataError(f"{path}: not a list of a site's pages; remove it or name another --out")


def _stage(page: Page, staging: Path) -> str:
    if not OURS.fullmatch(page.path):
        raise DataError(f"{page.path!r}: no name of a page")
    path = staging / page.path
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(page.html.encode("utf-8", "replace"))  # half a surrogate pair becomes "?"
    return page.path


def _swap(names: list[str], staging: Path, out: Path) -> None:
    """The new pages in place of the old ones; the manifest knows of both until all is done."""
    before = written_before(out)
    foreign = [name for name in names if name not in before and (out / name).exists()]
    if foreign:
        raise DataError(
            f"{out / foreign[0]}: is there and no build has written it; remove it or name another "
            "--out"
        )
    out.mkdir(exist_ok=True)
    _write_manifest(out, sorted({*before, *names}))
    for name in names:
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        (staging / name).replace(out / name)
    for name in sorted(set(before) - set(names)):
        (out / name).unlink(missing_ok=True)
        folder = (out / name).parent
        if folder != out and not any(folder.iterdir()):
            folder.rmdir()
    _write_manifest(out, names)


def _write_manifest(out: Path, names: list[str]) -> None:
    part = out / f"{MANIFEST}.part"
    part.write_text(json.dumps({"files": names}, indent=1) + "\n", encoding="utf-8")
    part.replace(out / MANIFEST)
