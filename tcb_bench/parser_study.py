"""The words of the commands round a study: perturb, references, report, recommend."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from tcb_bench.parser_api import add_api
from tcb_bench.parser_options import add_data, add_resources, add_where

SCORE_HELP = "score to look at (default: bertscore_f1 where there is one)"


def add_study_commands(commands: Any) -> None:
    """Adds them to the parser's commands."""
    _add_perturb(commands.add_parser("perturb", help="see what a perturbation does to a task"))
    _add_references(commands.add_parser("references", help="make reference sentences by a model"))
    _add_report(commands.add_parser("report", help="tables, figures and one HTML file of runs"))
    _add_recommend(commands.add_parser("recommend", help="the highest temperature that is safe"))


def _add_perturb(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--kind",
        required=True,
        metavar="KIND",
        help="a name of `tcb-bench ls perturbations`, as ner or remove:1",
    )
    parser.add_argument("--task", default="hotpotqa_tempperturb", help="default: %(default)s")
    add_data(parser)
    add_resources(parser)


def _add_references(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--model", required=True, help="who writes them, as in `tcb-bench run`")
    parser.add_argument("--model_args", default="", metavar="K=V,...")
    parser.add_argument("--task", default="hotpotqa_tempperturb", help="default: %(default)s")
    parser.add_argument(
        "--apply_chat_template", action="store_true", help="ask through the model's chat template"
    )
    add_data(parser)
    add_where(parser)
    add_api(parser)


def _add_report(parser: argparse.ArgumentParser) -> None:
    _add_runs(parser)
    parser.add_argument(
        "--out", type=Path, metavar="DIR", help="where to write (default: RUN/report)"
    )


def _add_recommend(parser: argparse.ArgumentParser) -> None:
    _add_runs(parser)


def _add_runs(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "runs", type=Path, nargs="+", metavar="RUN", help="run folders, one per model"
    )
    parser.add_argument("--metric", metavar="SCORE", help=SCORE_HELP)
    parser.add_argument(
        "--margin",
        type=float,
        default=0.01,
        help="difference that does not matter, in the score's unit (default: %(default)s)",
    )
    parser.add_argument("--seed", type=int, default=0, help="of the intervals (default: 0)")
