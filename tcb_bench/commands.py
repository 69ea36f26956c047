"""What each command does once parsed: one call, one print, one exit code."""

from __future__ import annotations

import argparse
import importlib.util
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from tcb_bench import cli
from tcb_bench.commands_boards import export as export
from tcb_bench.commands_boards import leaderboard as leaderboard
from tcb_bench.commands_boards import submit as submit
from tcb_bench.config import TaskOptions
from tcb_bench.errors import UsageError
from tcb_bench.parser import build_parser
from tcb_bench.tables import Progress, data_table, result_table, say

if TYPE_CHECKING:
    from tcb_bench.config import RunConfig
    from tcb_bench.run import Outcome
    from tcb_bench.studies.findings import StudyOutcome

INTERRUPTED = 130
NOT_IN_A_TERMINAL = ("best", "difference")  # columns of the recommendation that do not fit


def run(arguments: argparse.Namespace) -> int:
    """``tcb-bench run``: measures, prints the table, says where the files are."""
    if arguments.plan is not None:
        return _run_plan(arguments)
    config = cli.run_config(arguments)
    if arguments.dry_run:
        return _dry_run([(config, "")])
    from tcb_bench import run as engine

    with Progress() as progress:
        try:
            outcome = engine.run(config, progress.report, say)
        except KeyboardInterrupt:
            progress.stop()
            without = " without --fresh" if config.fresh else ""
            saved = f"{progress.done} of {progress.total} responses are saved; "
            say(
                f"interrupted: {saved if progress.total else ''}the same command{without} continues"
            )
            return INTERRUPTED
    _show(outcome)
    return outcome.exit_code


def score(arguments: argparse.Namespace) -> int:
    """``tcb-bench score``: all metrics again, from the stored responses."""
    from tcb_bench import run as engine

    names = ("reference", "references", "bert_score_model", "bert_score_layer")
    over = {k: v for k in names if (v := getattr(arguments, k)) is not None}
    outcome = engine.score(arguments.run, arguments.manifest, over=over, say=say)
    _show(outcome, "the `tcb-bench run` of this folder")
    return outcome.exit_code


def validate(arguments: argparse.Namespace) -> int:
    """``tcb-bench validate``: one document of a task as the model will see it."""
    from tcb_bench.validate import validate as check

    return check(arguments.task, cli.task_options(arguments), arguments.include_path)


def ls(arguments: argparse.Namespace) -> int:
    """``tcb-bench ls``: what there is."""
    from tcb_bench.listing import listing

    if arguments.what == "conditions":
        return _conditions(arguments)
    if arguments.where:
        raise UsageError("--where belongs to `ls conditions TASK`")
    Console(soft_wrap=False).print(
        listing(arguments.what, arguments.search, arguments.include_path)
    )
    return 0


def _conditions(arguments: argparse.Namespace) -> int:
    """One id per line, so that it can be piped."""
    if not arguments.search:
        raise UsageError("name the task: `tcb-bench ls conditions hotpotqa_tempperturb`")
    from tcb_bench.planned import conditions_of

    options = TaskOptions(where=cli.parse_where(arguments.where))
    for condition in conditions_of(arguments.search, options, arguments.include_path):
        print(condition.id)  # noqa: T201
    return 0


def perturb(arguments: argparse.Namespace) -> int:
    """``tcb-bench perturb``: documents before and after, side by side."""
    from tcb_bench.perturb_view import show

    console = Console(highlight=False, markup=False)
    return show(
        console, arguments.kind, arguments.task, cli.task_options(arguments), arguments.include_path
    )


def references(arguments: argparse.Namespace) -> int:
    """``tcb-bench references``: sentences to compare answers with, written by a model."""
    config = cli.run_config(arguments)
    from tcb_bench.references import make_references

    with Progress() as progress:
        try:
            made = make_references(config, progress.report, say)
        except KeyboardInterrupt:
            progress.stop()
            say(f"interrupted: {progress.done} of {progress.total} are saved; run it again")
            return INTERRUPTED
    console = Console(highlight=False, markup=False)
    console.print(f"references  {made.path}  ({made.n}, sha256 {made.sha256[:12]})", soft_wrap=True)
    if made.without_answer:
        shown = ", ".join(made.without_answer[:8])
        console.print(f"{len(made.without_answer)} do not contain their short answer: {shown}")
    if made.failed:
        console.print(f"{len(made.failed)} documents have no sentence; the same command asks again")
    return 3 if made.failed else 0


def report(arguments: argparse.Namespace) -> int:
    """``tcb-bench report``: tables, figures and one HTML file."""
    from tcb_bench.report.build import report as build

    out = arguments.out or arguments.runs[0] / "report"
    paths = build(
        arguments.runs,
        out,
        metric=arguments.metric,
        margin=arguments.margin,
        seed=arguments.seed,
    )
    for path in paths:
        Console(highlight=False, markup=False).print(str(path), soft_wrap=True)
    return 0


def recommend(arguments: argparse.Namespace) -> int:
    """``tcb-bench recommend``: the highest temperature that costs nothing that matters."""
    from tcb_bench.report.build import recommendation

    tables = recommendation(
        arguments.runs, metric=arguments.metric, margin=arguments.margin, seed=arguments.seed
    )
    for table in tables:
        is_one = len({row["model"] for row in table.rows}) == 1
        left_out = (*NOT_IN_A_TERMINAL, *(["model"] if is_one else []))
        for renderable in data_table(table, left_out):
            Console(highlight=False, markup=False).print(renderable)
    return 0


def trace(arguments: argparse.Namespace) -> int:
    """``tcb-bench trace``: one text, token by token."""
    config = cli.trace_config(arguments)
    if arguments.out is not None:
        from tcb_bench.trace_files import make_folder

        make_folder(arguments.out)
    from tcb_bench.trace import trace as trace_text
    from tcb_bench.trace_view import show

    traced = trace_text(config, say)
    console = Console(highlight=False, markup=False)
    show(traced, console, is_whole=arguments.all)
    if arguments.out is not None:
        from tcb_bench.trace_files import write_trace

        for path in write_trace(traced, arguments.out):
            console.print(str(path), soft_wrap=True)
    return 0


def study(arguments: argparse.Namespace) -> int:
    """``tcb-bench study``: an experiment from data to tables, figures and a page."""
    settings = cli.study_settings(arguments)
    if arguments.tasks is None:
        arguments.tasks = ",".join(settings.get("tasks") or ("none",))
    config = cli.run_config(arguments)
    from tcb_bench.studies.run_study import run_study

    with Progress() as progress:
        try:
            outcome = run_study(
                arguments.study,
                config,
                settings,
                tag=arguments.tag,
                report=progress.report,
                say=say,
            )
        except KeyboardInterrupt:
            progress.stop()
            say(f"interrupted: {progress.done} of {progress.total} are saved; run it again")
            return INTERRUPTED
    _show_study(outcome)
    return outcome.exit_code


def _show_study(outcome: StudyOutcome) -> None:
    console = Console(highlight=False, markup=False)
    for table in outcome.findings.tables:
        for renderable in data_table(table):
            console.print(renderable)
    for note in outcome.findings.notes:
        console.print(note)
    console.print(Text(outcome.signature, style="dim"))
    console.print(f"study    {outcome.folder}", soft_wrap=True)
    if importlib.util.find_spec("jinja2") and importlib.util.find_spec("matplotlib"):
        from tcb_bench.report.studies import write_study_page

        console.print(f"page     {write_study_page(outcome.folder)}", soft_wrap=True)
    else:
        say("figures and the page need more: pip install 'tcb-bench[report]'")
    if outcome.n_errors:
        console.print(
            f"{outcome.n_errors} requests have no answer (counted); the same command asks again"
        )


def _run_plan(arguments: argparse.Namespace) -> int:
    given = {k: v for k, v in vars(arguments).items() if k not in ("plan", "dry_run")}
    usual = vars(build_parser().parse_args(["run"]))
    for name, value in given.items():
        if value != usual[name]:
            raise UsageError(f"--{name} beside --plan: write it into the plan, under run:")
    from tcb_bench.plan import check_files, plan_configs, read_plan, run_plan

    plan = read_plan(arguments.plan)
    if arguments.dry_run:
        return _dry_run(plan_configs(plan))
    check_files(plan)
    return run_plan(plan, say)


def _dry_run(configs: Sequence[tuple[RunConfig, str]]) -> int:
    """Counts what runs would ask; each config has the resource that it shares with others."""
    from tcb_bench.dry_run import DryRun
    from tcb_bench.dry_run_table import dry_run_table

    counting = DryRun(say if len(configs) > 1 else lambda line: None)
    console = Console(highlight=False, markup=False)
    for part in dry_run_table([counting.count(*each) for each in configs]):
        console.print(part)
    return 0


def _show(outcome: Outcome, who: str = "the same command") -> None:
    console = Console(highlight=False, markup=False)
    tasks = outcome.result["tcb_bench"]["tasks"].items()
    swept = [name for name, task in tasks if len(task["conditions"]) > 1]
    for renderable in result_table(outcome.result):
        console.print(renderable)
    console.print(f"result   {outcome.path}", soft_wrap=True)
    for path in outcome.sample_paths[:4]:
        console.print(f"samples  {path}", soft_wrap=True)
    if len(outcome.sample_paths) > 4:
        console.print(f"samples  {len(outcome.sample_paths) - 4} more files beside them")
    if swept:
        console.print(
            f"{', '.join(swept)}: the table is over all conditions; "
            f"`tcb-bench report {outcome.path.parent}` shows each",
            soft_wrap=True,
        )
    if outcome.n_errors:
        console.print(
            f"{outcome.n_errors} responses are missing or errors (counted, not scored); "
            f"{who} asks them again"
        )
