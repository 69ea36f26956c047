"""``tcb-bench submit`` once parsed: entries of a run or of an lm-eval result, and what is shown."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

from tcb_bench.errors import DataError, UsageError
from tcb_bench.leaderboards.entry_files import Loaded
from tcb_bench.leaderboards.submit import Submission
from tcb_bench.leaderboards.submit_publish import Build, Published, build_of, publish
from tcb_bench.leaderboards.submit_results import find_tasks
from tcb_bench.leaderboards.submit_text import (
    description,
    interval_text,
    main_metrics,
    next_steps,
    number_text,
)

if TYPE_CHECKING:
    from tcb_bench.leaderboards.checks import Problem


def submit(arguments: argparse.Namespace) -> int:
    """Makes, checks and moves the entries; prints them, the next steps and a description."""
    if (arguments.run is None) == (arguments.from_lm_eval is None):
        raise UsageError("give the folder of a run, or --from-lm-eval FILE: one of the two")
    submission = Submission(
        model_id=arguments.model_id,
        submitted_by=arguments.submitted_by,
        links=tuple(arguments.link),
        samples_url=arguments.samples_url,
        quantisation=arguments.quantisation,
        is_partial_ok=arguments.partial,
    )
    names = [name.strip() for name in (arguments.task or "").split(",") if name.strip()]
    made = publish(
        _build(arguments, names, submission),
        arguments.out,
        check=_problems,
        replaces=arguments.replace,
        samples_url=submission.samples_url,
        uploads=arguments.run,
    )
    _show(made, arguments)
    return 0


def _build(arguments: argparse.Namespace, names: Sequence[str], submission: Submission) -> Build:
    if arguments.from_lm_eval is None:
        if arguments.samples:
            raise UsageError("--samples belongs to --from-lm-eval; a run has its own")
        return build_of(find_tasks(arguments.run, names, arguments.result), submission)
    from tcb_bench.leaderboards.import_lm_eval import build_of_lm_eval, read_lm_eval

    for option in ("result", "samples_url"):
        if getattr(arguments, option):
            name = option.replace("_", "-")
            raise UsageError(f"--{name} belongs to a run of tcb-bench; leave it out")
    imported = read_lm_eval(arguments.from_lm_eval, names)
    return build_of_lm_eval(imported, submission, arguments.samples)


def _problems(made: Sequence[Loaded]) -> Sequence[Problem]:
    """Every check that needs no data set: numbers, bounds, names, and the tasks' own files."""
    from tcb_bench.known_tasks import known_tasks
    from tcb_bench.leaderboards.checks import problems

    return problems(made, known_tasks=known_tasks())


def _show(made: Published, arguments: argparse.Namespace) -> None:
    console = Console(highlight=False, markup=False)
    text = description([loaded.entry for loaded in made.entries])
    if arguments.description is not None:
        try:
            arguments.description.write_text(text, encoding="utf-8")
        except OSError as error:
            raise DataError(
                f"{arguments.description}: cannot be written: {error.strerror}; entries are made"
            ) from None
    for loaded in made.entries:
        console.print(f"entry    {loaded.path}", soft_wrap=True)
        if loaded.samples is not None:
            console.print(f"samples  {loaded.samples}", soft_wrap=True)
    for path in made.to_upload:
        console.print(f"samples  {path}  (upload it)", soft_wrap=True)
    console.print(_table(made.entries))
    console.print("\nNext:\n", style="bold")
    console.print(next_steps(made.entries, made.to_upload, arguments.description), soft_wrap=True)
    console.print("\nDescription of the pull request:\n", style="bold")
    console.print(text, soft_wrap=True, end="")


def _table(entries: Sequence[Loaded]) -> Table:
    model = entries[0].entry.model.id
    table = Table(title=Text(model), title_justify="left", title_style="bold")
    table.add_column("", overflow="fold")
    for column in ("value", "95 % interval", "n"):
        table.add_column(column, justify="right", no_wrap=True)
    for loaded in entries:
        table.add_row(Text(loaded.entry.task.name, style="bold"))
        for label, metric in main_metrics(loaded.entry):
            cells = (number_text(metric.value), interval_text(metric), str(metric.n))
            table.add_row(Text(f"  {label}"), *cells)
        table.add_section()
    return table
