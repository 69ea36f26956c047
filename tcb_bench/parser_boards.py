"""The words of `submit`, `leaderboard` and `export`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from tcb_bench.leaderboards.export_options import FORMATS, NOT_STATED, RELATIONSHIPS
from tcb_bench.parser_options import add_include

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
    parser.add_argument(
        "run", type=Path, nargs="?", metavar="RUN", help="run folder, e.g. runs/demo"
    )
    _add_source(parser.add_argument_group("what"))
    _add_said(parser.add_argument_group("what the run does not say"))
    group = parser.add_argument_group("where it goes")
    group.add_argument(
        "--out", type=Path, default=ENTRIES, metavar="DIR", help="(default: %(default)s)"
    )
    group.add_argument("--replace", action="store_true", help="put new entries over old ones")
    group.add_argument(
        "--description", type=Path, metavar="FILE", help="also write the pull request's text there"
    )


def _add_source(group: argparse._ActionsContainer) -> None:
    group.add_argument(
        "--task",
        metavar="NAME,...",
        help="tasks or groups (default: all that are no members of a group)",
    )
    group.add_argument(
        "--result", type=Path, metavar="FILE", help="a result file (default: each task's newest)"
    )
    group.add_argument(
        "--partial", action="store_true", help="also with something missing; marked so"
    )
    group.add_argument(
        "--from-lm-eval", type=Path, metavar="FILE", help="a result file of lm-eval, for RUN"
    )
    group.add_argument(
        "--samples",
        type=Path,
        nargs="+",
        default=[],
        metavar="FILE",
        help="lm-eval's sample files beside it: its means are computed again from them",
    )


def _add_said(group: argparse._ActionsContainer) -> None:
    group.add_argument(
        "--model-id", metavar="ORG/NAME", help="as on the hub (default: the run's own, if it is)"
    )
    group.add_argument(
        "--quantisation",
        metavar="SCHEME",
        help="of weights that were converted before the run, such as gguf:Q4_K_M",
    )
    group.add_argument(
        "--submitted-by", default="anonymous", metavar="NAME", help="name or handle to be shown"
    )
    group.add_argument(
        "--link",
        nargs="+",
        action="extend",
        default=[],
        metavar="URL",
        help="https: model card, paper, full run",
    )
    group.add_argument(
        "--samples-url",
        metavar="URL",
        help="where you will put the sample rows, a file or folder (default: beside the entry)",
    )


def _add_check(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "entry",
        nargs="*",
        type=Path,
        metavar="ENTRY",
        help="files <task>.json, or folders of them (default: all under --entries)",
    )
    _add_entries(parser)
    parser.add_argument(
        "--data",
        metavar="hub|sample|DIR",
        help="compare ids, hashes and right answers with the tasks' own documents too",
    )
    add_include(parser)
    parser.add_argument(
        "--rescore",
        type=Path,
        metavar="RUN",
        help="score the full run behind ENTRY again, and compare every number",
    )
    parser.add_argument(
        "--verified-by",
        metavar="NAME",
        help="with --rescore: write the tier verified into entries without a difference",
    )


def _add_build(parser: argparse.ArgumentParser) -> None:
    _add_entries(parser)
    parser.add_argument(
        "--out",
        type=Path,
        default=SITE,
        metavar="DIR",
        help=f"folder of the site (default: {SITE})",
    )


def _add_entries(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--entries",
        type=Path,
        default=ENTRIES,
        metavar="DIR",
        help=f"folder of the entries (default: {ENTRIES})",
    )


def _add_serve(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--site",
        type=Path,
        default=SITE,
        metavar="DIR",
        help=f"folder of the site; built where there is none (default: {SITE})",
    )
    _add_entries(parser)
    parser.add_argument("--port", type=int, default=0, metavar="N", help="default: a free one")


def _add_export(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", type=Path, metavar="RUN", help="run folder, e.g. runs/demo")
    parser.add_argument(
        "--to", required=True, choices=FORMATS, metavar="FORMAT", help=" | ".join(FORMATS)
    )
    parser.add_argument(
        "--task",
        default="",
        metavar="NAME,...",
        help="tasks or groups (default: all, each from the newest result that has it)",
    )
    parser.add_argument("--result", type=Path, metavar="FILE", help="this result file alone")
    parser.add_argument(
        "--out", type=Path, metavar="DIR", help="folder to write into (default: RUN/export/FORMAT)"
    )
    parser.add_argument(
        "--force", action="store_true", help="replace files there that no export wrote"
    )
    parser.add_argument(
        "--model-id",
        metavar="ORG/NAME",
        help="what the model is called; every-eval-ever and model-index ask for it where the model "
        "is a folder or demo",
    )
    parser.add_argument(
        "--no-samples", dest="has_samples", action="store_false", help="aggregates only"
    )
    parser.add_argument(
        "--texts",
        dest="has_texts",
        action="store_true",
        help="csv, parquet: prompts and answers in full too",
    )
    parser.add_argument(
        "--conditions",
        dest="has_conditions",
        action="store_true",
        help="model-index: the numbers of each condition too",
    )
    parser.add_argument(
        "--organization",
        default=NOT_STATED,
        metavar="NAME",
        help="every-eval-ever: who ran the evaluation (default: %(default)s)",
    )
    parser.add_argument(
        "--relationship",
        choices=RELATIONSHIPS,
        default="other",
        help="every-eval-ever: of who ran it to who made the model (default: %(default)s)",
    )
