"""The static site: from entries to pages that need nothing else. No clock, no network."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tcb_bench.errors import DataError, UsageError
from tcb_bench.leaderboards.boards import Board
from tcb_bench.leaderboards.columns import Columns, read_columns
from tcb_bench.leaderboards.entry_files import Loaded, file_sha256, load_entries
from tcb_bench.leaderboards.rank import boards as ranked
from tcb_bench.leaderboards.render_board import Placed, render_board
from tcb_bench.leaderboards.render_compare import Plots, plots, render_compare
from tcb_bench.leaderboards.render_entry import render_entry
from tcb_bench.leaderboards.render_files import write_site
from tcb_bench.leaderboards.render_index import render_index
from tcb_bench.leaderboards.render_page import Link, Page, board_page, entry_page
from tcb_bench.leaderboards.render_place import places

Report = Callable[[int, int], None]
"""Called with how many pages of entries are done, and of how many."""


@dataclass(frozen=True, slots=True)
class Built:
    """What a build wrote."""

    boards: int
    entries: int
    pages: int


def build(entries: Path, out: Path, report: Report | None = None) -> Built:
    """Writes the site of all entries; the same entries give the same bytes.

    Args:
        entries: folder of ``org__name/task.json`` with their sample files.
        out: folder of the site.
        report: told of the progress.

    Returns:
        How many boards, entries and pages there are.

    Raises:
        UsageError: the extra ``report`` (jinja2) is not installed.
        DataError: there is no entry, or one cannot be read or lies where it does not belong; an
            earlier site stays as it is.
    """
    if importlib.util.find_spec("jinja2") is None:
        raise UsageError("the site needs jinja2: pip install 'tcb-bench[report]'")
    loaded = load_entries(entries)
    if not loaded:
        raise DataError(
            f"{entries}: no entry there (org__name/task.json); `tcb-bench submit` makes one"
        )
    for one in loaded:
        _check_samples(one)
    found = ranked(loaded)
    pages = write_site(site(loaded, found, report), out)
    return Built(len(found), len(loaded), pages)


def site(
    loaded: Sequence[Loaded], boards: Sequence[Board], report: Report | None = None
) -> Iterator[Page]:
    """All pages, one at a time.

    Args:
        loaded: the entries, whose files are where they belong.
        boards: the boards made of them.
        report: told of the progress.
    """
    menu = [Link(board.title, board_page(board.name)) for board in boards]
    placed = {_key(one): Placed(one.entry, entry_page(one)) for one in loaded}
    _refuse_twins(list(placed))
    standing = places(boards)
    drawn: dict[str, Plots] = {}
    for done, one in enumerate(loaded):
        if report:
            report(done, len(loaded))
        key = _key(one)
        columns = _columns(one)
        delta = None if columns is None else columns.values["log10_relative_delta"]
        drawn[key] = plots(one.entry, delta)
        yield render_entry(one.entry, columns, placed[key].page, standing.get(key, []), menu)
    if report:
        report(len(loaded), len(loaded))
    for board in boards:
        yield render_board(board, placed, menu)
    yield render_compare(boards, placed, drawn, menu)
    yield render_index(boards, placed, menu)


def _key(loaded: Loaded) -> str:
    return f"{loaded.path.parent.name}/{loaded.path.name}"


def _refuse_twins(keys: Sequence[str]) -> None:
    """Two entries whose names differ by case alone are one file on some systems."""
    seen: dict[str, str] = {}
    for key in keys:
        other = seen.setdefault(key.casefold(), key)
        if other != key:
            raise DataError(f"{key} and {other}: names that differ by case alone; rename one")


def _check_samples(loaded: Loaded) -> None:
    """The sample file of an entry is the one it was made with."""
    path = loaded.samples
    if path is None:
        return
    try:
        found = file_sha256(path)
    except OSError as error:
        raise DataError(f"{path}: samples of {loaded.path}: {error.strerror}") from None
    if found != loaded.entry.samples.sha256:
        raise DataError(
            f"{path}: not the samples that {loaded.path} names (sha256 {found[:12]}...)"
        )


def _columns(loaded: Loaded) -> Columns | None:
    return None if loaded.samples is None else read_columns(loaded.samples)
