"""From a run folder to entries: numbers and settings, no text, no secret, no local path."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tcb_bench.errors import DataError, UsageError
from tcb_bench.leaderboards.entry import (
    ENTRY_VERSION,
    Entry,
    EntryCondition,
    ModelRecord,
    SamplesRecord,
    TaskName,
)
from tcb_bench.leaderboards.entry_files import (
    entry_path,
    folder_name,
    write_entry,
    write_samples,
)
from tcb_bench.leaderboards.recompute import entry_metric
from tcb_bench.leaderboards.submit_missing import missing_of
from tcb_bench.leaderboards.submit_names import bounding_radius, public_facts, public_model
from tcb_bench.leaderboards.submit_private import check_entry, check_links, checked_samples
from tcb_bench.leaderboards.submit_results import read_result
from tcb_bench.leaderboards.submit_samples import entry_samples
from tcb_bench.records import ResultFile, TaskRecord

SHOWN = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """What a submitter says beside the run.

    Attributes:
        model_id: organisation/name; None = the run's own name.
        submitted_by: a name or handle to stand in the entry.
        links: https addresses.
        samples_url: where the sample rows will lie, if not beside the entry: the file's address,
            or that of a folder.
        quantisation: scheme of the weights' file, where the run read weights converted from it and
            so cannot say; None = what the run says.
        is_partial_ok: whether a run with something missing may be submitted, marked so.
    """

    model_id: str | None = None
    submitted_by: str = "anonymous"
    links: tuple[str, ...] = ()
    samples_url: str | None = None
    quantisation: str | None = None
    is_partial_ok: bool = False

    def __post_init__(self) -> None:
        """Refuses addresses that are not public ones, and names that are none."""
        check_links(self.links, "--link")
        check_links([self.samples_url] if self.samples_url else [], "--samples-url")
        if not self.submitted_by.strip() or "@" in self.submitted_by.strip("@"):
            raise UsageError("--submitted-by: expected a name or handle, and no e-mail address")


def write_entry_of(
    result_path: Path, task: str, root: Path, submission: Submission
) -> tuple[Path, Entry]:
    """One task or group of a result file as an entry under ``root``, its samples beside it.

    Raises:
        UsageError: something is missing and ``is_partial_ok`` is not set, or the model has no
            public name.
        DataError: the files cannot be read, or something private would be published.
    """
    result = read_result(result_path)
    record = result.tcb_bench.tasks[task]
    model = public_model(result.tcb_bench.model, submission.model_id, submission.quantisation)
    missing = missing_of(result, task)
    if missing and not submission.is_partial_ok:
        raise UsageError(_refusal(task, missing))
    folder = root / folder_name(model.id)
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{task}.samples.jsonl.gz"
    members = list(record.data.members) if record.data.members else [task]
    rows = checked_samples(entry_samples(result_path, result, members), task)
    sha256, lines, responses = write_samples(file, rows)
    samples = SamplesRecord(file=file.name, sha256=sha256, rows=lines, responses=responses)
    entry = Entry(
        **_of_record(record, model),
        **_of_result(result, task),
        weight_radius=bounding_radius(result.tcb_bench.model, record.weight_radius),
        samples=samples,
        is_partial=bool(missing),
        missing=missing,
        tier="self-reported",
        submitted_by=submission.submitted_by,
        links=list(submission.links),
    )
    check_entry(entry, task)
    path = entry_path(root, entry)
    write_entry(path, entry)
    return path, entry


def _refusal(task: str, missing: list[str]) -> str:
    more = f" and {len(missing) - SHOWN} more" if len(missing) > SHOWN else ""
    return (
        f"{task}: not complete: missing {', '.join(missing[:SHOWN])}{more}; "
        "finish the run, submit others with --task, or this as it is, marked so, with --partial"
    )


def _of_record(record: TaskRecord, model: ModelRecord) -> dict[str, Any]:
    """What the entry takes from the task's part of the result."""
    same = (
        *("limit", "seed", "counts", "text_scores", "sampling_defaults", "epsilon"),
        "usage",
    )
    return {
        "model": model,
        **{name: getattr(record, name) for name in same},
        **public_facts(record, model),
        "conditions": [_condition(cell, record) for cell in record.conditions],
    }


def _of_result(result: ResultFile, task: str) -> dict[str, Any]:
    """What it takes from the tables over all tasks, and from the run."""
    return {
        "entry_version": ENTRY_VERSION,
        "origin": "tcb-bench",
        "task": TaskName(name=task, version=result.versions[task]),
        "n_shot": result.n_shot[task],
        **_overall(result, task),
        "environment": result.tcb_bench.environment,
        "date": time.strftime("%Y-%m-%d", time.gmtime(result.date)),
    }


def _condition(cell: str, record: TaskRecord) -> EntryCondition:
    found = record.conditions[cell]
    if found.request_sha256 is None:
        raise DataError("the result was written by an older version: `tcb-bench score RUN` first")
    kept = found.model_dump(exclude={"metrics", "metrics_completed"}, exclude_unset=True)
    metrics: dict[str, Any] = {
        key: [entry_metric(name, m.model_dump()) for name, m in getattr(found, key).items()]
        for key in ("metrics", "metrics_completed")
    }
    return EntryCondition(id=cell, **kept, **metrics)


def _overall(result: ResultFile, task: str) -> dict[str, Any]:
    """The aggregates over all conditions, from lm-eval's flat keys."""
    flat = result.results[task]
    parts = ("ci_low", "ci_high", "stderr", "n")
    found: dict[str, Any] = {}
    for key, filter_ in (("metrics", "none"), ("metrics_completed", "completed")):
        names = [k.removesuffix(f"_n,{filter_}") for k in flat if k.endswith(f"_n,{filter_}")]
        found[key] = [
            entry_metric(
                name,
                {"value": flat[f"{name},{filter_}"]}
                | {part: flat[f"{name}_{part},{filter_}"] for part in parts},
            )
            for name in names
        ]
    return found
