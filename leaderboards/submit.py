"""From a run folder to entries: numbers and settings, no text, no secret, no local path."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tcb_bench.errors import DataError
from tcb_bench.leaderboards.entry import (
    ENTRY_VERSION,
    Entry,
    EntryCondition,
    EntrySample,
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
from tcb_bench.records import ResultFile, TaskRecord
from tcb_bench.sample_records import ScoreRow


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """What a submitter says beside the run.

    Attributes:
        model_id: organisation/name; None = the run's own name.
        submitted_by: a name or handle to stand in the entry.
        links: https addresses.
        samples_url: where the sample rows will lie, if not beside the entry.
        is_partial_ok: whether a run with something missing may be submitted, marked so.
    """

    model_id: str | None = None
    submitted_by: str
    links: tuple[str, ...] = ()
    samples_url: str | None = None
    is_partial_ok: bool = False


def write_entry_of(
    result_path: Path, task: str, root: Path, submission: Submission
) -> tuple[Path, Entry]:
    """One task of a result file as an entry under ``root``, with its samples beside it."""
    result = read_result(result_path)
    record = result.tcb_bench.tasks[task]
    model = _model(result, submission)
    folder = root / folder_name(model.id)
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{task}.samples.jsonl.gz"
    members = list(record.data.members) if record.data.members else [task]
    sha256, lines, responses = write_samples(file, entry_samples(result_path, members))
    samples = SamplesRecord(file=file.name, sha256=sha256, rows=lines, responses=responses)
    entry = _entry(result, task, record, model, samples, submission)
    path = entry_path(root, entry)
    write_entry(path, entry)
    return path, entry


def read_result(path: Path) -> ResultFile:
    """A result file of this version."""
    return ResultFile.model_validate_json(path.read_bytes())


def sample_paths(result_path: Path, tasks: list[str]) -> list[Path]:
    """The sample files that were written with a result."""
    stamp = result_path.stem.removeprefix("results_")
    return [result_path.with_name(f"samples_{task}_{stamp}.jsonl") for task in tasks]


def entry_samples(result_path: Path, tasks: list[str]) -> Iterator[EntrySample]:
    """The run's samples as an entry has them, in the run's order."""
    for path in sample_paths(result_path, tasks):
        with path.open(encoding="utf-8") as file:
            for line in file:
                yield without_text(json.loads(line))


def without_text(sample: Mapping[str, Any]) -> EntrySample:
    """A run's sample row with nothing of the question, the context or the response."""
    own = {key: sample[key] for key in EntrySample.model_fields if key in sample and key != "rows"}
    rows = [
        {key: row[key] for key in ScoreRow.model_fields if key in row} for row in sample["rows"]
    ]
    return EntrySample.model_validate({**own, "rows": rows})


def _model(result: ResultFile, submission: Submission) -> ModelRecord:
    info = result.tcb_bench.model
    backend = info["backend"]
    return ModelRecord(
        id=submission.model_id or str(info["model"]),
        revision=info.get("revision"),
        dtype=info.get("dtype"),
        quantisation=json.dumps(info["quantization"]) if info.get("quantization") else None,
        backend=backend,
        backend_version=info.get("transformers_version"),
        n_parameters=info.get("n_parameters"),
        weights_sha256=info.get("weights_sha256"),
    )


def _entry(
    result: ResultFile,
    task: str,
    record: TaskRecord,
    model: ModelRecord,
    samples: SamplesRecord,
    submission: Submission,
) -> Entry:
    conditions = [_condition(cell, record) for cell in record.conditions]
    overall = _overall(result, task)
    shared = (
        *("data", "limit", "seed", "counts", "reference", "bert_score", "text_scores"),
        *("sampling_defaults", "epsilon", "weight_radius", "signature", "signature_parts"),
        "usage",
    )
    return Entry(
        entry_version=ENTRY_VERSION,
        model=model,
        task=TaskName(name=task, version=result.versions[task]),
        **{name: getattr(record, name) for name in shared},
        n_shot=result.n_shot[task],
        **overall,
        conditions=conditions,
        environment=result.tcb_bench.environment,
        is_partial=result.tcb_bench.is_partial,
        missing=record.missing,
        samples=samples,
        tier="self-reported",
        submitted_by=submission.submitted_by,
        date=time.strftime("%Y-%m-%d", time.gmtime(result.date)),
        links=list(submission.links),
    )


def _condition(cell: str, record: TaskRecord) -> EntryCondition:
    found = record.conditions[cell]
    if found.request_sha256 is None:
        raise DataError("the result was written by an older version: `tcb-bench score RUN` first")
    kept = found.model_dump(exclude={"metrics", "metrics_completed"}, exclude_unset=True)
    metrics = {
        key: [entry_metric(name, m.model_dump()) for name, m in getattr(found, key).items()]
        for key in ("metrics", "metrics_completed")
    }
    return EntryCondition(id=cell, **kept, **metrics)


def _overall(result: ResultFile, task: str) -> dict[str, Any]:
    """The aggregates over all conditions, from lm-eval's flat keys."""
    flat = result.results[task]
    found: dict[str, Any] = {}
    for key, filter_ in (("metrics", "none"), ("metrics_completed", "completed")):
        names = [k.removesuffix(f"_n,{filter_}") for k in flat if k.endswith(f"_n,{filter_}")]
        found[key] = [
            entry_metric(
                name,
                {"value": flat[f"{name},{filter_}"]}
                | {
                    part: flat[f"{name}_{part},{filter_}"]
                    for part in ("ci_low", "ci_high", "stderr", "n")
                },
            )
            for name in names
        ]
    return found
