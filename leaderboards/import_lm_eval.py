"""Result files of lm-eval as entries with what they hold: aggregates, and nothing made up.

What such a file does not say (conditions, states, tokens, quantities of stability) is null or
empty in the entry. Intervals are the normal approximation from lm-eval's standard error, and say
so.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tcb_bench.errors import DataError, UnknownName, UsageError
from tcb_bench.leaderboards.entry import (
    ENTRY_VERSION,
    Entry,
    ModelRecord,
    SamplesRecord,
    TaskName,
)
from tcb_bench.leaderboards.entry_files import Loaded, entry_path, write_entry
from tcb_bench.leaderboards.import_samples import Documents, read_documents
from tcb_bench.leaderboards.import_values import data_of, lm_eval_metrics, members_of, signature_of
from tcb_bench.leaderboards.submit import Submission
from tcb_bench.leaderboards.submit_private import check_entry
from tcb_bench.leaderboards.submit_publish import Build
from tcb_bench.leaderboards.submit_results import parsed

NO_SAMPLES = SamplesRecord(file=None, url=None, sha256=None, rows=0, responses=0)


@dataclass(frozen=True, slots=True)
class Imported:
    """A result file of lm-eval, and the tasks or groups of it that become entries."""

    path: Path
    result: Mapping[str, Any]
    tasks: Sequence[str]


def read_lm_eval(path: Path, wanted: Sequence[str] = ()) -> Imported:
    """A result file of lm-eval.

    Args:
        path: ``results_*.json`` as lm-eval's EvaluationTracker writes it.
        wanted: tasks or groups; empty = all with a number that are no members of a group.

    Raises:
        DataError: it cannot be read or is no such file.
        UnknownName: a task that is not in it.
    """
    result = parsed(path)
    if "tcb_bench" in result:
        raise DataError(f"{path}: a result of tcb-bench; submit its run folder instead")
    lost = [
        key for key in ("results", "configs", "versions", "config", "date") if key not in result
    ]
    if lost or not isinstance(result["results"], dict) or not result["results"]:
        raise DataError(
            f"{path}: no result file of lm-eval: {', '.join(lost) or 'results'} missing"
        )
    for name in wanted:
        if name not in result["results"]:
            known = result["results"]
            raise UnknownName("task of this result", name, known, f"it has {', '.join(known)}")
    return Imported(path, result, list(wanted) or _heads(result))


def _heads(result: Mapping[str, Any]) -> list[str]:
    """Tasks and groups that have numbers and are in no group that has some."""
    groups = {g: m for g, m in result.get("group_subtasks", {}).items() if g in result["results"]}
    with_numbers = [name for name in result["results"] if lm_eval_metrics(result, name)]
    inside = {member for group, own in groups.items() if group in with_numbers for member in own}
    return [name for name in with_numbers if name not in inside]


def build_of_lm_eval(
    imported: Imported, submission: Submission, sample_files: Sequence[Path] = ()
) -> Build:
    """What makes the entries of an imported result under a folder.

    Args:
        imported: the result.
        submission: its ``model_id`` is needed: a result of lm-eval may name a folder.
        sample_files: lm-eval's own sample files: means are computed again from them, and the
            documents hashed.

    Raises:
        UsageError: no model id, or a sample file of no task of the result.
        DataError: samples that do not give the result's numbers.
    """
    if submission.model_id is None:
        raise UsageError("--from-lm-eval needs --model-id ORG/NAME: lm-eval may name a folder")
    documents = read_documents(sample_files, imported.result)

    def build(root: Path) -> list[Loaded]:
        made = []
        for task in imported.tasks:
            entry = entry_of(imported, task, submission, documents)
            path = entry_path(root, entry)
            check_entry(entry, task)
            path.parent.mkdir(parents=True, exist_ok=True)
            write_entry(path, entry)
            made.append(Loaded(path, entry))
        return made

    return build


def entry_of(
    imported: Imported, task: str, submission: Submission, documents: Mapping[str, Documents]
) -> Entry:
    """One task or group of the result as an entry."""
    result = imported.result
    metrics = lm_eval_metrics(result, task)
    if not metrics:
        raise DataError(f"{imported.path}: {task} has no number; name one of its tasks with --task")
    model = _model(result, submission.model_id or "")
    parts = signature_of(result, task, model)
    shots = {result.get("n-shot", {}).get(name) for name in members_of(result, task)}
    version = result["versions"].get(task)
    return Entry(
        entry_version=ENTRY_VERSION,
        origin="lm-eval",
        model=model,
        task=TaskName(name=task, version="unknown" if version is None else version),
        data=data_of(result, task, documents),
        limit=result["config"].get("limit"),
        seed=None,
        n_shot=shots.pop() if len(shots) == 1 else None,
        metrics=metrics,
        metrics_completed=[],
        counts=None,
        conditions=[],
        reference=None,
        sampling_defaults=None,
        epsilon=None,
        weight_radius=None,
        signature="|".join(f"{name}:{value}" for name, value in parts.items()),
        signature_parts=parts,
        usage=None,
        environment=_environment(result),
        is_partial=False,
        missing=[],
        samples=NO_SAMPLES,
        tier="self-reported",
        submitted_by=submission.submitted_by,
        date=time.strftime("%Y-%m-%d", time.gmtime(float(result["date"]))),
        links=list(submission.links),
    )


def _model(result: Mapping[str, Any], model_id: str) -> ModelRecord:
    config = result["config"]
    backend = str(config.get("model") or "unknown")
    dtype = config.get("model_dtype")
    return ModelRecord(
        id=model_id,
        revision=config.get("model_sha") or config.get("model_revision"),
        dtype=str(dtype).removeprefix("torch.") if dtype else None,
        quantisation=None,
        backend=backend,
        backend_version=result.get("transformers_version") if backend.startswith("hf") else None,
        n_parameters=config.get("model_num_parameters"),
    )


def _environment(result: Mapping[str, Any]) -> dict[str, str]:
    """Versions that the file states; of its report on the machine nothing."""
    names = {"lm_eval": "lm_eval_version", "transformers": "transformers_version"}
    return {name: str(result[key]) for name, key in names.items() if result.get(key)}
