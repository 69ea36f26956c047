"""What each command does once parsed: one call, one print, one exit code."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from rich.console import Console

from tcb_bench import cli
from tcb_bench.tables import Progress, result_table, say

if TYPE_CHECKING:
    from tcb_bench.run import Outcome

INTERRUPTED = 130


def run(arguments: argparse.Namespace) -> int:
    """``tcb-bench run``: measures, prints the table, says where the files are."""
    config = cli.run_config(arguments)
    from tcb_bench import run as engine

    with Progress() as progress:
        try:
            outcome = engine.run(config, progress.report, say)
        except KeyboardInterrupt:
            progress.stop()
            without = " without --fresh" if config.fresh else ""
            say(
                f"interrupted: {progress.done} of {progress.total} responses are saved; "
                f"the same command{without} continues"
            )
            return INTERRUPTED
    _show(outcome)
    return outcome.exit_code


def score(arguments: argparse.Namespace) -> int:
    """``tcb-bench score``: all metrics again, from the stored responses."""
    from tcb_bench import run as engine

    outcome = engine.score(arguments.run, arguments.manifest)
    _show(outcome)
    return outcome.exit_code


def validate(arguments: argparse.Namespace) -> int:
    """``tcb-bench validate``: one document of a task as the model will see it."""
    from tcb_bench.validate import validate as check

    return check(arguments.task, cli.task_options(arguments), arguments.include_path)


def ls(arguments: argparse.Namespace) -> int:
    """``tcb-bench ls``: what there is."""
    from tcb_bench.listing import listing

    Console(soft_wrap=False).print(
        listing(arguments.what, arguments.search, arguments.include_path)
    )
    return 0


def _show(outcome: Outcome) -> None:
    console = Console(highlight=False)
    for renderable in result_table(outcome.result):
        console.print(renderable)
    console.print(f"result   {outcome.path}", soft_wrap=True)
    for path in outcome.sample_paths[:4]:
        console.print(f"samples  {path}", soft_wrap=True)
    if len(outcome.sample_paths) > 4:
        console.print(f"samples  {len(outcome.sample_paths) - 4} more files beside them")
    if outcome.n_errors:
        console.print(
            f"{outcome.n_errors} responses are errors (counted, not scored); "
            "the same command asks them again"
        )
