"""The result of a run as one record: lm-eval's keys at the top, our own block beside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tcb_bench.results import (
    SCHEMA_VERSION,
    TaskResult,
    block_entry,
    digest,
    directions,
    environment,
    lm_eval_entry,
    task_metrics,
)
from tcb_bench.store import Manifest

PER_TASK = ("configs", "versions", "n-shot", "higher_is_better", "n-samples")
"""lm-eval's tables with one entry per task, beside ``results``."""


def result_file(
    manifest: Manifest,
    groups: Mapping[str, Sequence[str]],
    missing: Mapping[str, str],
    results: Sequence[TaskResult],
    evaluated: Mapping[str, Any],
) -> dict[str, Any]:
    """Everything a result says, as JSON types.

    Args:
        manifest: the invocation: its settings and its time.
        groups: group -> names of its tasks that are there.
        missing: task -> why it is not there.
        results: our tasks and groups.
        evaluated: what lm-eval returned; of it, only its own tasks' numbers are taken.
    """
    ours = {task.name for task in results} | {name for name in evaluated["results"] if "|" in name}
    stock = [name for name in evaluated["results"] if name not in ours]
    seed = manifest.settings["options"]["seed"]
    metrics = {task.name: task_metrics(task, seed) for task in results}
    entries = {task.name: lm_eval_entry(task, metrics[task.name][0]) for task in results}
    tables = _tables(results, entries)
    for name in stock:
        entries[name] = _without_text(evaluated["results"][name])
        for table in PER_TASK:
            tables[table][name] = evaluated[table].get(name)
    return {
        "results": entries,
        "group_subtasks": dict(groups),
        **tables,
        **_of_run(manifest),
        "tcb_bench": {
            "schema_version": SCHEMA_VERSION,
            "environment": environment(),
            "model": manifest.settings["model_info"],
            "seeds": {"run": seed},
            "wall_time_s": _wall_time(manifest),
            "is_partial": manifest.finished_s is None or bool(missing),
            "missing": dict(missing),
            "tasks": {task.name: block_entry(task, metrics[task.name][1]) for task in results},
        },
    }


def _tables(
    results: Sequence[TaskResult], entries: Mapping[str, Mapping[str, Any]]
) -> dict[str, dict[str, Any]]:
    tables: dict[str, dict[str, Any]] = {table: {} for table in PER_TASK}
    for task in results:
        tables["configs"][task.name] = task.config
        tables["versions"][task.name] = task.version
        tables["n-shot"][task.name] = task.n_shot
        tables["higher_is_better"][task.name] = directions(entries[task.name])
        tables["n-samples"][task.name] = {
            "original": task.facts["data"]["available"],
            "effective": len(task.documents),
        }
    return tables


def _of_run(manifest: Manifest) -> dict[str, Any]:
    """lm-eval's keys that say how the run was made."""
    settings = manifest.settings
    info, options = settings["model_info"], settings["options"]
    versions = environment()
    seeds = ("random_seed", "numpy_seed", "torch_seed", "fewshot_seed")
    return {
        "config": {
            "model": settings["label"],
            "model_args": settings["model_args"],
            "model_num_parameters": info.get("n_parameters"),
            "model_dtype": info.get("dtype"),
            "model_revision": info.get("revision"),
            "batch_size": settings["batch_size"],
            "device": info.get("device"),
            "limit": options["limit"],
            "gen_kwargs": options["gen_kwargs"],
            **dict.fromkeys(seeds, options["seed"]),
        },
        "model_source": info.get("backend"),
        "model_name": settings["label"],
        "system_instruction": settings["system_instruction"],
        "chat_template": settings["chat_template"],
        "chat_template_sha": digest(settings["chat_template"])
        if settings["chat_template"]
        else None,
        "fewshot_as_multiturn": settings["fewshot_as_multiturn"],
        "max_length": info.get("max_length"),
        "transformers_version": versions.get("transformers"),
        "lm_eval_version": versions.get("lm_eval"),
        "total_evaluation_time_seconds": str(_wall_time(manifest)),
    }


def _wall_time(manifest: Manifest) -> float | None:
    if manifest.finished_s is None:
        return None
    return round(manifest.finished_s - manifest.created_s, 3)


def _without_text(entry: Mapping[str, Any]) -> dict[str, Any]:
    """lm-eval writes a standard error it does not have as the text "N/A"; here it is null."""
    return {key: None if value == "N/A" else value for key, value in entry.items()}
