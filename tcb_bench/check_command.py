"""``tcb-bench leaderboard check``: entries checked, problems printed, one exit code."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from tcb_bench.errors import DataError, UsageError
from tcb_bench.known_tasks import TaskDocuments, known_tasks
from tcb_bench.leaderboards import checks
from tcb_bench.leaderboards.checks import Checked, Problem
from tcb_bench.leaderboards.entry_files import Loaded, read_entry
from tcb_bench.leaderboards.untrusted import shown
from tcb_bench.tables import Progress, say

SHOWN = 200  # problems that are printed
ROWS = 40  # entries of which each has a line; of more only those with problems or notes


def check(arguments: argparse.Namespace) -> int:
    """Checks entries, then, where asked, the full run behind them; 0 if nothing is wrong.

    Raises:
        UsageError: options that do not go together.
        DataError: no such folder or file, or ``--data`` cannot be loaded.
    """
    _check_options(arguments)
    include = tuple(arguments.include_path)
    known = known_tasks(include)
    documents = TaskDocuments(arguments.data, include, say) if arguments.data else None
    found: list[Problem] = []
    if arguments.entry:
        paths = _files(arguments.entry)
    else:
        paths, found = checks.folder_problems(arguments.entries)
    with Progress() as progress:
        checked = checks.check_all(
            paths, known_tasks=known, expected=documents, report=progress.report
        )
    found += checks.all_problems(checked)
    _show(checked, found)
    if found or arguments.rescore is None:
        return 1 if found else 0
    return _rescore(arguments, paths)


def _check_options(arguments: argparse.Namespace) -> None:
    if arguments.rescore is not None and not arguments.entry:
        raise UsageError("--rescore RUN: name the entries of that run, ENTRY...")
    if arguments.verified_by is not None and arguments.rescore is None:
        raise UsageError("--verified-by: give the full run with --rescore RUN; only that verifies")


def _files(given: Sequence[Path]) -> list[Path]:
    """Entries by name, folders by what they hold."""
    found: list[Path] = []
    for path in given:
        inside = sorted(path.glob("*.json")) if path.is_dir() else [path]
        if not inside or not path.exists():
            raise DataError(f"{path}: no entry there; expected a file <task>.json, or their folder")
        found += inside
    return found


def _show(checked: Sequence[Checked], found: Sequence[Problem]) -> None:
    console = Console(highlight=False, markup=False, soft_wrap=True)
    for problem in found[:SHOWN]:
        console.print(f"{shown(problem.path, 400)}: {shown(problem.text, 600)}")
    if len(found) > SHOWN:
        console.print(f"and {len(found) - SHOWN} more problems")
    wrong = {problem.path for problem in found}
    rows = [one for one in checked if len(checked) <= ROWS or one.path in wrong or one.note]
    if rows:
        table = Table(box=None, pad_edge=False)
        for name in ("model", "task", "responses", "result"):
            table.add_column(name, justify="right" if name == "responses" else "left")
        for one in rows[:SHOWN]:
            table.add_row(*(Text(shown(cell)) for cell in _row(one, one.path in wrong)))
        console.print(table)
    console.print(f"entries {len(checked)}, with problems {len(wrong)}, problems {len(found)}")


def _row(one: Checked, is_wrong: bool) -> tuple[str, ...]:
    result = "see above" if is_wrong else "in order"
    note = f"{result}; {one.note}" if one.note else result
    return one.model or one.path.parent.name, one.task or one.path.name, str(one.responses), note


def _rescore(arguments: argparse.Namespace, paths: Sequence[Path]) -> int:
    """Each entry against its full run, scored again; the tier is raised where nothing differs."""
    from tcb_bench.rescore_run import rescored, verify

    over = {"data": arguments.data} if arguments.data else None
    is_wrong = False
    for path in paths:
        loaded = Loaded(path, read_entry(path))
        differences = rescored(arguments.rescore, loaded, over=over, say=say)
        is_wrong |= bool(differences)
        console = Console(highlight=False, markup=False, soft_wrap=True)
        for text in differences:
            console.print(f"{shown(path, 400)}: {shown(text, 400)}")
        if not differences:
            done = "the run says the same"
            if arguments.verified_by is not None:
                verify(arguments.rescore, loaded, by=arguments.verified_by)
                done += f"; tier verified by {arguments.verified_by}"
            console.print(f"{shown(path, 400)}: {done}")
    return 1 if is_wrong else 0
