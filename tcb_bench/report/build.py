"""A report from run folders: figures as files, and everything else in one HTML file."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from tcb_bench.errors import TcbBenchError, UnknownName, UsageError
from tcb_bench.report.analysis_precision import precision_tables
from tcb_bench.report.grid import Grid
from tcb_bench.report.html import Page, Section, write
from tcb_bench.report.load import Study, load
from tcb_bench.report.load_grids import has_grid
from tcb_bench.report.overview import (
    counts_table,
    metrics_table,
    missing_table,
    perturbation_table,
    run_settings,
    signature_table,
    task_settings,
    usage_table,
)
from tcb_bench.report.studies import studies_page, study_sections
from tcb_bench.report.table import Table

DEFAULTS = ("bertscore_f1", "rougeL", "f1", "acc")
"""The score that a report is about where none is named: the first of these that a task has."""

RECOMMENDATION, LARGEST_GAPS = "recommend", "largest_gaps"
"""Tables of an analysis that have a section of their own."""


def report(
    runs: Sequence[Path],
    out: Path,
    *,
    metric: str | None = None,
    margin: float = 0.01,
    seed: int = 0,
) -> list[Path]:
    """Writes a report of one or more runs; the same runs and arguments give the same bytes.

    Args:
        runs: run folders, or output paths that hold some.
        out: folder for ``report.html`` and ``figures/``; made where it does not exist.
        metric: the score; None = the first of bertscore_f1, rougeL, f1, acc that a task has.
        margin: what counts as no difference, in the score's unit.
        seed: of bootstraps and permutations.

    Returns:
        The files that were written, the HTML first.

    Raises:
        UsageError: no runs, a score that no task has, or the extra ``report`` is not installed.
        DataError: a folder is no run folder or its files are damaged.
        TcbBenchError: ``out`` cannot be written.
    """
    for package in ("matplotlib", "jinja2"):
        if importlib.util.find_spec(package) is None:
            raise UsageError(f"a report needs {package}: pip install 'tcb-bench[report]'")
    studies = study_sections(runs)
    study = load(runs, may_lack_results=bool(studies))
    _check_metric(study.grids, metric)
    figures = out / "figures"
    try:
        figures.mkdir(parents=True, exist_ok=True)
        sections: list[Section] = []
        for grids in by_task(study.grids):
            sections += _task_sections(grids, metric, (margin, seed), figures)
        page = _page(study, sections, studies) if study.runs else studies_page(studies)
        html = write(page, out / "report.html")
    except OSError as error:
        raise TcbBenchError(f"{out}: the report cannot be written: {error.strerror}") from None
    pictures = [picture for section in sections for picture in section.figures]
    return [html, *(path for picture in pictures for path in (picture.png, picture.svg))]


def recommendation(
    runs: Sequence[Path], *, metric: str | None = None, margin: float = 0.01, seed: int = 0
) -> list[Table]:
    """The recommended temperatures of some runs, a table per task.

    Raises:
        UsageError: no task of the runs sweeps the temperature, or has such a score.
        DataError: as ``report``.
    """
    from tcb_bench.report.recommend import recommend

    study = load(runs)
    _check_metric(study.grids, metric)
    tables = []
    for grids in by_task(study.grids):
        score = choose_metric(grids, metric)
        if score is not None:
            tables.append(recommend(grids, metric=score, margin=margin, seed=seed))
    if not tables:
        raise UsageError("no task of these runs has scores over temperatures or contexts")
    return tables


def by_task(grids: Sequence[Grid]) -> list[list[Grid]]:
    """Grids of one task together, tasks in the order in which they come."""
    tasks: dict[str, list[Grid]] = {}
    for grid in grids:
        tasks.setdefault(grid.task, []).append(grid)
    return list(tasks.values())


def scores_present(grids: Sequence[Grid]) -> list[str]:
    """Names of the scores for which any of the grids has a value."""
    names = dict.fromkeys(name for grid in grids for name in grid.scores)
    return [
        name
        for name in names
        if any(name in g.scores and not np.isnan(g.scores[name]).all() for g in grids)
    ]


def choose_metric(grids: Sequence[Grid], metric: str | None) -> str | None:
    """The named score where a task has it, else its default; None where it has none of them."""
    present = scores_present(grids)
    wanted = (metric, *DEFAULTS) if metric else DEFAULTS
    return next((name for name in wanted if name in present), None)


def _check_metric(grids: Sequence[Grid], metric: str | None) -> None:
    present = scores_present(grids)
    if metric is not None and grids and metric not in present:
        raise UnknownName("score", metric, present, f"scores here: {', '.join(present)}")


def _task_sections(
    grids: Sequence[Grid], metric: str | None, settings: tuple[float, int], folder: Path
) -> list[Section]:
    """Recommendation, figures, analysis and largest gaps of one task."""
    from tcb_bench.report.analysis import analyse
    from tcb_bench.report.figures import draw

    task, (margin, seed) = grids[0].task, settings
    score = choose_metric(grids, metric)
    if score is None:
        return [Section(title=task, note="No response has a score, so there is nothing to show.")]
    asked = f" {metric!r} was asked for, but this task has no such score." if metric else ""
    note = (
        f"Score: {score}{', the default' if metric is None else ''}; margin {margin:g}; "
        f"seed {seed}.{asked if metric != score else ''}"
    )
    tables = analyse(grids, metric=score, margin=margin, seed=seed)

    def part(title: str, shown: Sequence[Table]) -> list[Section]:
        return [Section(title=f"{task}: {title}", note=note, tables=shown)] if shown else []

    own = (RECOMMENDATION, LARGEST_GAPS)
    return [
        *part("recommended temperature", [t for t in tables if t.name == RECOMMENDATION]),
        Section(title=f"{task}: figures", note=note, figures=draw(grids, score, folder)),
        *part("analysis", [t for t in tables if t.name not in own]),
        *part("largest gaps", [t for t in tables if t.name == LARGEST_GAPS]),
    ]


def _page(study: Study, sections: Sequence[Section], studies: Sequence[Section]) -> Page:
    """What was run, then what ``tcb-bench study`` found on the same models, then the settings."""

    def section(title: str, *tables: Table | None) -> list[Section]:
        shown = [table for table in tables if table is not None]
        return [Section(title=title, tables=shown)] if shown else []

    tasks = dict.fromkeys(name for run in study.runs for name in run.tasks)
    models = ", ".join(run.label for run in study.runs)
    parts = [
        *sections,
        *section("Missing conditions", missing_table(study)),
        *section("Scores of tasks without a sweep", metrics_table(study)),
        *section("Precision", *precision_tables(study.runs)),
        *section("Counts of responses", counts_table(study), usage_table(study)),
        *section("Perturbations", perturbation_table(study)),
        *studies,
        Section(
            title="Settings",
            note="Every setting that can change a number. Values that are not set are left out.",
            tables=[signature_table(study)],
            settings=[*run_settings(study), *task_settings(study)],
        ),
    ]
    return Page(
        title=f"Report: {', '.join(list(tasks)[:3])}{' and more' if len(tasks) > 3 else ''}",
        lead=f"{_how_many(study)}: {models}. {_extent(study)}{_named(studies)}",
        notices=study.notices,
        sections=parts,
    )


def _how_many(study: Study) -> str:
    """Models, or runs where one model was run more than once."""
    runs = len(study.runs)
    models = len({run.top.get("model_name") for run in study.runs})
    named = f"{models} model{'' if models == 1 else 's'}"
    return named if models == runs else f"{runs} runs of {named}"


def _named(studies: Sequence[Section]) -> str:
    """The studies of a page, for its first sentences."""
    titles = "; ".join(section.title for section in studies)
    return f" Below the run: {titles}." if titles else ""


def _extent(study: Study) -> str:
    """How much of the full grid is there."""
    if not study.grids:
        return (
            "No task was run over temperatures or contexts, so there are no figures and none of "
            "the analyses that need such a sweep."
        )
    swept = [task for run in study.runs for task in run.tasks.values() if has_grid(task)]
    found = sum(len(task.cells) for task in swept)
    if not study.missing:
        return f"{found} conditions were run."
    total = found + len(study.missing)
    return f"{found} conditions were run, of {total} that at least one model was asked."
