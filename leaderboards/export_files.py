"""Exported files on disk: made aside, moved into place, nobody else's file overwritten."""

from __future__ import annotations

import contextlib
import json
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from tcb_bench.errors import DataError, StoreError, UsageError
from tcb_bench.leaderboards.entry_files import file_sha256

RECORD = ".tcb-bench-export.json"
"""In every export folder: file -> sha256 as written, so that a later export knows its own."""


def write_files(out: Path, make: Callable[[Path], None], *, force: bool = False) -> list[Path]:
    """Lets ``make`` fill a new folder, then moves its files into ``out``; all or nothing.

    A file that is there already is replaced if an export wrote it and nobody changed it since, or
    with ``force``. Files that are not written again stay.

    Returns:
        the files, sorted.

    Raises:
        UsageError: ``out`` is a file.
        DataError: a file in the way was not written by an export, or was changed since.
        StoreError: ``out`` cannot be written.
    """
    if out.exists() and not out.is_dir():
        raise UsageError(f"--out {out}: is a file; an export is a folder")
    staging: Path | None = None
    try:
        out.mkdir(parents=True, exist_ok=True)
        staging = Path(tempfile.mkdtemp(prefix=".export-", dir=out))
        make(staging)
        return _moved(staging, out, force=force)
    except OSError as error:
        raise StoreError(
            f"{out}: cannot be written: {error.strerror}; name another folder with --out"
        ) from None
    finally:
        if staging is not None:
            shutil.rmtree(staging, ignore_errors=True)
        with contextlib.suppress(OSError):  # an empty folder is none; one with files stays
            out.rmdir()


def _moved(staging: Path, out: Path, *, force: bool) -> list[Path]:
    made = {
        path.relative_to(staging).as_posix(): file_sha256(path)
        for path in sorted(staging.rglob("*"))
        if path.is_file()
    }
    known = _known(out)
    for name, sha256 in made.items():
        target = out / name
        if target.is_dir():
            raise DataError(f"{target}: a folder is in the way; name another folder with --out")
        if target.exists() and not force and file_sha256(target) not in (sha256, known.get(name)):
            raise DataError(
                f"{target}: is there, and no export wrote it as it is; "
                "--force replaces it, --out names another folder"
            )
    for name in made:
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        (staging / name).replace(out / name)
    record = staging / RECORD
    record.write_text(json.dumps({**known, **made}, indent=2, sort_keys=True) + "\n", "utf-8")
    record.replace(out / RECORD)
    return [out / name for name in made]


def _known(out: Path) -> dict[str, str]:
    """What earlier exports wrote; with a damaged record nothing counts as theirs."""
    try:
        found = json.loads((out / RECORD).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
