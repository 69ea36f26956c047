"""A run in the form of Every Eval Ever 0.3.0: ``data/<task>/<developer>/<model>/<uuid>.json``.

One record per task or group, with one result per number and condition; the responses stand in
``<uuid>_samples.jsonl`` beside it. The same settings on the same model have the same uuid, so a run
that is exported twice is one record, not two.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tcb_bench.errors import DataError
from tcb_bench.leaderboards.entry_files import SAFE, file_sha256
from tcb_bench.leaderboards.export_every_eval_metrics import metric_config, stock_metric_config
from tcb_bench.leaderboards.export_every_eval_samples import write_instances
from tcb_bench.leaderboards.export_every_eval_settings import generation_config, source_data
from tcb_bench.leaderboards.export_numbers import Number, numbers
from tcb_bench.leaderboards.export_options import NOT_STATED, ExportOptions
from tcb_bench.leaderboards.export_source import Source
from tcb_bench.leaderboards.submit_names import LIBRARIES, quantisation
from tcb_bench.results import write_json
from tcb_bench.version import __version__

SCHEMA_VERSION = "0.3.0"
RESAMPLES = 10_000  # of the bootstrap of every interval (metrics/statistics.py)


def write(sources: Sequence[Source], folder: Path, options: ExportOptions) -> list[str]:
    """The record of every task and group that belongs to no other, with its responses.

    Raises:
        DataError: a name that cannot be a folder there, or samples that cannot be read.
    """
    notes = []
    if options.organization == NOT_STATED:
        notes.append("it does not say who ran it: --organization NAME --relationship WHICH")
    for source in sources:
        for task in (*source.heads, *source.stock):
            notes += _write_record(source, task, folder, options)
    if options.has_samples:
        notes.append(
            "the samples hold prompts and answers in full: mind the data sets' licences before you "
            "publish them; --no-samples leaves them out"
        )
    return notes


def _write_record(source: Source, task: str, folder: Path, options: ExportOptions) -> list[str]:
    home = f"data/{_collection(task)}/{model_folder(source.model)}"
    name, notes = record_uuid(source, task), []
    (folder / home).mkdir(parents=True, exist_ok=True)
    record = evaluation_log(source, task, options)
    if options.has_samples and task not in source.stock:
        path = folder / home / f"{name}_samples.jsonl"
        rows, left_out = write_instances(source, task, path, record["evaluation_id"])
        if rows:
            record["detailed_evaluation_results"] = {
                "format": "jsonl",
                "file_path": f"{home}/{path.name}",
                "hash_algorithm": "sha256",
                "checksum": file_sha256(path),
                "total_rows": rows,
                "additional_details": {"responses_without_a_score": str(left_out)},
            }
        else:
            path.unlink()
            notes.append(f"{task}: no response is right or wrong, so it has no samples there")
    write_json(folder / home / f"{name}.json", record)
    return notes


def record_uuid(source: Source, task: str) -> str:
    """A version-4 uuid made from model, task, settings and conditions instead of by chance."""
    parts = [source.model, task]
    if task in source.stock:
        parts.append(source.stamp)
    else:
        parts += [source.record(task).signature, *sorted(source.record(task).conditions)]
    digest = hashlib.sha256("\n".join(parts).encode()).digest()
    return str(uuid.UUID(bytes=digest[:16], version=4))


def model_folder(model_id: str) -> str:
    """``developer/model`` as the format files a model; further parts are joined by ``_``.

    >>> model_folder("org/name"), model_folder("openai/azure/gpt-4o")
    ('org/name', 'openai/azure_gpt-4o')
    """
    developer, *rest = model_id.split("/")
    return f"{developer}/{'_'.join(rest)}"


def _collection(task: str) -> str:
    if not SAFE.fullmatch(task) or task == "data":
        raise DataError(f"task name {task!r}: expected letters, digits and . _ + -, and not 'data'")
    return task


def evaluation_log(source: Source, task: str, options: ExportOptions) -> dict[str, Any]:
    """The record of a task or group, its responses aside."""
    result = source.result
    seconds = str(int(result.date))
    versions = {
        key: value for key, value in result.tcb_bench.environment.items() if key != "tcb-bench"
    }
    return {
        "schema_version": SCHEMA_VERSION,
        "evaluation_id": f"{task}/{source.model}/{seconds}",
        "evaluation_timestamp": seconds,
        "retrieved_timestamp": seconds,
        "source_metadata": {
            "source_name": "tcb-bench",
            "source_type": "evaluation_run",
            "source_organization_name": options.organization,
            "evaluator_relationship": options.relationship,
            "additional_details": _run_details(source, task),
        },
        "eval_library": {
            "name": "tcb-bench",
            "version": result.tcb_bench.environment.get("tcb-bench", __version__),
            "additional_details": versions,
        },
        "model_info": model_info(source),
        "evaluation_results": list(evaluation_results(source, task)),
    }


def _run_details(source: Source, task: str) -> dict[str, str]:
    if task in source.stock:
        return {"kind": "a task of lm-eval's own"}
    record = source.record(task)
    missing = {"missing": ", ".join(record.missing)} if record.missing else {}
    return {
        "signature": record.signature,
        "is_partial": str(source.result.tcb_bench.is_partial).lower(),
        "limit": "all" if record.limit is None else f"{record.limit:g}",
        "seed": str(record.seed),
        **missing,
    }


def model_info(source: Source) -> dict[str, Any]:
    """The model and how it was run; weights that are used here are in somebody's hands."""
    info = source.result.tcb_bench.model
    backend = str(info.get("backend"))
    is_local = backend in LIBRARIES
    details = {
        "deployment_type": "self_deployed" if is_local else "externally_managed",
        "model_availability": "open_weights" if is_local and info.get("revision") else "unknown",
    }
    more = ("revision", "dtype", "n_parameters", "weights_sha256", "temperature_effective")
    details |= {key: str(info[key]) for key in more if info.get(key) is not None}
    if scheme := quantisation(info):
        details["quantisation"] = scheme
    engine = {"hf": "transformers"}.get(backend, backend)
    version = info.get(LIBRARIES.get(backend, "backend_version"))
    run_by: dict[str, Any] = {"inference_platform": backend}
    if is_local:
        run_by = {"inference_engine": {"name": engine, "version": str(version or "unknown")}}
    return {
        "name": source.model,
        "id": source.model,
        "developer": source.model.split("/")[0],
        **run_by,
        "additional_details": details,
    }


def evaluation_results(source: Source, head: str) -> Iterator[dict[str, Any]]:
    """Every number of a task or group and of its tasks; what has no value is left out."""
    names = [head, *(source.members(head) if head in source.tasks else ())]
    for task in names:
        if task not in source.tasks and task not in source.stock:
            continue
        for number in numbers(source, task):
            if number.value is not None and not _is_repeated(source, number):
                yield _evaluation_result(source, number)


def _is_repeated(source: Source, number: Number) -> bool:
    """Whether all texts are finished, so that ``completed`` says the same as ``none`` again."""
    if number.filter != "completed" or number.task in source.stock:
        return False
    record = source.record(number.task)
    cell = record.conditions.get(number.condition)
    counts = cell.counts if cell else record.counts
    return counts.truncated + counts.empty == 0


def result_id(number: Number) -> tuple[str, str]:
    """``evaluation_name`` and ``evaluation_result_id`` of a number, unique in its record."""
    name = f"{number.task}/{number.condition}" if number.condition else number.task
    end = "" if number.filter == "none" else f":{number.filter}"
    return name, f"{name}/{number.name}{end}"


def _evaluation_result(source: Source, number: Number) -> dict[str, Any]:
    name, own_id = result_id(number)
    is_stock = number.task in source.stock
    vocabulary = source.result.tcb_bench.model.get("n_vocab")
    config = (
        stock_metric_config(number)
        if is_stock
        else metric_config(
            number,
            epsilon=source.record(number.task).epsilon,
            vocabulary=vocabulary if isinstance(vocabulary, int) else None,
        )
    )
    return {
        "evaluation_result_id": own_id,
        "evaluation_name": name,
        "source_data": source_data(source, number.task),
        "evaluation_timestamp": str(int(source.result.date)),
        "metric_config": config,
        "score_details": _score_details(source, number),
        **generation_config(source, number.task, number.condition),
    }


def _score_details(source: Source, number: Number) -> dict[str, Any]:
    uncertainty: dict[str, Any] = {}
    details: dict[str, str] = {}
    is_stock = number.task in source.stock
    if number.stderr is not None:
        uncertainty["standard_error"] = {"value": number.stderr}
        if not is_stock:
            is_drawn = number.name.endswith(("_median", "_cv"))
            uncertainty["standard_error"]["method"] = "bootstrap" if is_drawn else "analytic"
    if number.ci_low is not None and number.ci_high is not None:
        uncertainty["confidence_interval"] = {
            "lower": number.ci_low,
            "upper": number.ci_high,
            "confidence_level": 0.95,
            "method": "percentile bootstrap over questions",
        }
        uncertainty["num_bootstrap_samples"] = RESAMPLES
    else:  # an end beyond float64 is null, and the format has no interval that is open
        ends = {"ci_low": number.ci_low, "ci_high": number.ci_high}
        details |= {name: repr(end) for name, end in ends.items() if end is not None}
    if number.n is not None:
        uncertainty["num_samples"] = number.n
    if not is_stock:
        record = source.record(number.task)
        cell = record.conditions.get(number.condition)
        counts = (cell.counts if cell else record.counts).model_dump()
        details |= {f"responses_{state}": str(n) for state, n in counts.items() if n}
    shown = {"details": details} if details else {}
    return {"score": number.value, **shown, "uncertainty": uncertainty}
