"""The words of `submit`, `leaderboard` and `export`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

ENTRIES = Path("leaderboards/entries")
SITE = Path("leaderboards/site")


def add_board_commands(commands: Any) -> None:
    """Adds `submit`, `leaderboard check | build | serve` and `export`."""
    _add_submit(
        commands.add_parser("submit", help="a leaderboard entry from a run", allow_abbrev=False)
    )
    board = commands.add_parser("leaderboard", help="check entries, build and serve the page")
    names = board.add_subparsers(
        dest="board", required=True, metavar="COMMAND", parser_class=type(board)
    )
    _add_check(names.add_parser("check", help="everything an entry says, computed again"))
    _add_build(names.add_parser("build", help="the static site"))
    _add_serve(names.add_parser("serve", help="look at the site on this machine"))
    _add_export(commands.add_parser("export", help="a run in another format", allow_abbrev=False))


def _add_submit(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", type=Path, metavar="RUN", help="run folder, e.g. runs/demo")


def _add_check(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("entries", nargs="*", type=Path, metavar="ENTRY")


def _add_build(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--entries", type=Path, default=ENTRIES, metavar="DIR")
    parser.add_argument("--out", type=Path, default=SITE, metavar="DIR")


def _add_serve(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--site", type=Path, default=SITE, metavar="DIR")


def _add_export(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", type=Path, metavar="RUN", help="run folder, e.g. runs/demo")
