"""What a report says of its runs beside the scores: counts, tokens, signatures, settings, gaps."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from tcb_bench.report.html import Settings
from tcb_bench.report.load import Study
from tcb_bench.report.load_grids import has_grid
from tcb_bench.report.load_run import Cell, Run, TaskRun
from tcb_bench.report.load_samples import FLAGS, HAS_SCORES, TOKENS
from tcb_bench.report.table import Column, Table

WHO = (Column("model", "model"), Column("task", "task"))
STATES = ("scored", "truncated", "empty", "filtered", "error", "unscored")


def counts_table(study: Study) -> Table:
    """Responses of every condition by state, with refusals and garbled texts."""
    rows = [
        {
            "model": run.label,
            "task": task.name,
            "condition": cell.id or None,
            "responses": sum(cell.counts.values()),
            **cell.counts,
            **{flag: cell.samples.flags.get(flag) if cell.samples else None for flag in FLAGS},
        }
        for run, task, cell in _cells(study)
    ]
    return Table(
        name="counts",
        title="Responses per condition",
        note=(
            f"Each response is in one state. {', '.join(sorted(HAS_SCORES))} have scores and are "
            "in every mean; filtered, error and unscored have none. Refusals and garbled texts are "
            "counted among those with scores; a dash: not looked for."
        ),
        columns=[
            *WHO,
            Column("condition", "condition"),
            Column("responses", "responses"),
            *(Column(name, name) for name in STATES),
            Column("refusal", "refusals"),
            Column("garbled", "garbled"),
        ],
        rows=rows,
    )


def usage_table(study: Study) -> Table:
    """Tokens per model and task."""
    rows = [
        {"model": run.label, "task": task.name, **task.usage}
        for run in study.runs
        for task in run.tasks.values()
    ]
    return Table(
        name="usage",
        title="Tokens",
        note="Of all responses, as the model's back end counts them; a reused repeat counts once.",
        columns=[*WHO, *(Column(name, name.replace("_", " ")) for name in TOKENS)],
        rows=rows,
    )


def perturbation_table(study: Study) -> Table | None:
    """Flags and counts of the perturbed documents; None where nothing was perturbed."""
    found = [(run, task, cell) for run, task, cell in _cells(study) if cell.perturbation]
    names = sorted({name for _, _, cell in found for name in cell.perturbation})
    if not names:
        return None
    rows = [
        {"model": run.label, "task": task.name, "condition": cell.id, **cell.perturbation}
        for run, task, cell in found
    ]
    return Table(
        name="perturbations",
        title="What the perturbations did",
        note=(
            "Per condition: documents with a flag, sums over documents of what was counted, and "
            "answers that BERTScore found empty or cut at its encoder's limit."
        ),
        columns=[
            *WHO,
            Column("condition", "condition"),
            *(Column(name, name.replace("_", " ")) for name in names),
        ],
        rows=rows,
    )


def missing_table(study: Study) -> Table | None:
    """Conditions of the full grid that a model was not asked; None where there is no grid."""
    if not study.grids:
        return None
    return Table(
        name="missing",
        title="Conditions that were not run",
        note=(
            "The full grid is every temperature, context and question type that any of the models "
            "was asked; what a model lacks of it stands here and is left blank elsewhere."
        ),
        columns=[
            Column("task", "task"),
            Column("model", "model"),
            Column("question_type", "question type"),
            Column("temperature", "T", 1),
            Column("context", "context"),
        ],
        rows=study.missing,
    )


def metrics_table(study: Study) -> Table | None:
    """Scores of tasks that are not swept, lm-eval's own among them; None where there are none."""
    rows = [
        {
            "model": run.label,
            "task": task.name,
            "condition": cell.id or None,
            "metric": name,
            **{key: record.get(key) for key in ("value", "ci_low", "ci_high", "n")},
            "completed": (cell.completed.get(name) or {}).get("value"),
        }
        for run, task, cell in _cells(study)
        if not has_grid(task)
        for name, record in cell.metrics.items()
    ]
    rows += [row for run in study.runs for row in _stock_rows(run)]
    if not rows:
        return None
    return Table(
        name="metrics",
        title="Scores",
        note="95 % intervals over questions; 'completed': the same over finished texts only.",
        columns=[
            *WHO,
            Column("condition", "condition"),
            Column("metric", "metric"),
            Column("value", "value", 4),
            Column("ci_low", "from", 4),
            Column("ci_high", "to", 4),
            Column("n", "n"),
            Column("completed", "completed", 4),
        ],
        rows=rows,
    )


def signature_table(study: Study) -> Table:
    """The one line of every task that a leaderboard or a paper quotes."""
    rows = [
        {
            "model": run.label,
            "task": task.name,
            "conditions": len(task.cells),
            "data": _source(task.facts.get("data") or {}),
            "signature": task.signature,
        }
        for run in study.runs
        for task in run.tasks.values()
    ]
    return Table(
        name="signatures",
        title="Signatures",
        note="Two numbers compare where their signatures differ in nothing but the model.",
        columns=[
            *WHO,
            Column("conditions", "conditions"),
            Column("data", "data"),
            Column("signature", "signature"),
        ],
        rows=rows,
    )


def run_settings(study: Study) -> list[Settings]:
    """Model, versions, seeds and options of every run."""
    found = []
    for run in study.runs:
        values = {
            "folder": run.folder,
            **{f"model: {key}": value for key, value in (run.block.get("model") or {}).items()},
            **{f"option: {key}": value for key, value in (run.top.get("config") or {}).items()},
            "system instruction": run.top.get("system_instruction"),
            "chat template (sha256)": run.top.get("chat_template_sha"),
            "seeds": run.block.get("seeds"),
            "environment": run.block.get("environment"),
        }
        found.append(Settings(f"Run: {run.label}", _entries(values)))
    return found


def task_settings(study: Study) -> list[Settings]:
    """Tasks with a grid as their YAML was understood, once each, from the first run that has it."""
    tasks: dict[str, TaskRun] = {}
    for run in study.runs:
        for name, task in run.tasks.items():
            if has_grid(task):
                tasks.setdefault(name, task)
    return [
        Settings(f"Task: {name}", _entries({**_facts(task), **task.config}))
        for name, task in tasks.items()
    ]


def _cells(study: Study) -> Iterator[tuple[Run, TaskRun, Cell]]:
    for run in study.runs:
        for task in run.tasks.values():
            for cell in task.cells.values():
                yield run, task, cell


def _stock_rows(run: Run) -> Iterator[dict[str, Any]]:
    """lm-eval's own tasks: its numbers, its standard errors left to its own files."""
    for task, entry in (run.top.get("results") or {}).items():
        if task in run.tasks:
            continue
        for key, value in entry.items():
            if "," in key and "_stderr" not in key and isinstance(value, int | float):
                row = {"model": run.label, "task": task, "metric": key, "value": float(value)}
                yield {**row, "n": entry.get("sample_len")}


def _facts(task: TaskRun) -> dict[str, Any]:
    """What stands beside a task's conditions; of the documents' ids only how many they are."""
    data = dict(task.facts.get("data") or {})
    if "ids" in data:
        data["ids"] = f"{len(data['ids'])} ids"
    return {**task.facts, "data": data}


def _source(data: Mapping[str, Any]) -> str:
    parts = [data.get(key) for key in ("id", "config", "split", "source")]
    return ", ".join(str(part) for part in parts if part)


def _entries(values: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [
        (key, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
        for key, value in values.items()
        if value not in (None, {}, [], "")
    ]
