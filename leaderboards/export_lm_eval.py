"""A run in lm-eval 0.4.13's own layout: ``<model>/results_<date>.json`` and samples beside it.

What lm-eval's readers would stumble on in a result file of ours is put their way: a standard error
that is not there is the text "N/A"; a number that is not there is left out; intervals and n, which
they would take for metrics, stand apart; conditions are tasks of their own, ``task@condition``, and
the swept task is their group; only tasks with samples have a config.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tcb_bench.leaderboards.export_lm_eval_samples import file_name, hashed, write_samples
from tcb_bench.leaderboards.export_numbers import Number, is_swept, numbers
from tcb_bench.leaderboards.export_options import ExportOptions
from tcb_bench.leaderboards.export_source import Source
from tcb_bench.results import write_jsonl

NO_STDERR = "N/A"
OWN_KEYS = ("stability_at",)  # generation arguments that only our engines know


def write(sources: Sequence[Source], folder: Path, options: ExportOptions) -> list[str]:
    """One results file per source with its sample files; returns notes.

    Raises:
        DataError: samples cannot be read.
    """
    notes = []
    for source in sources:
        home = folder / file_name(source.model)
        home.mkdir(parents=True, exist_ok=True)
        hashes = write_samples(source, home) if options.has_samples else {}
        # in one line: the loader of `datasets` fails on indented files of more than 320 KiB
        write_jsonl(home / f"results_{source.stamp}.json", [lm_eval_result(source, hashes)])
        if source.stock and options.has_samples:
            notes.append(
                f"no samples of {', '.join(source.stock)}: of lm-eval's own tasks a run keeps "
                "neither prompts nor responses"
            )
    return notes


def entry_name(task: str, condition: str) -> str:
    """How a condition is called among lm-eval's tasks."""
    return f"{task}@{condition}" if condition else task


def lm_eval_result(source: Source, task_hashes: Mapping[str, str]) -> dict[str, Any]:
    """The result as lm-eval's tracker writes it, with our own block at the end."""
    result = source.result
    names = {name: _numbers(source, name) for name in (*source.tasks, *source.stock)}
    entries = {
        entry_name(task, condition): _entry(source, task, condition, found)
        for task, cells in names.items()
        for condition, found in cells.items()
    }
    groups = [
        entry_name(task, condition)
        for task in source.tasks
        for condition in names[task]
        if source.members(task) or (not condition and is_swept(source, task))
    ]
    for name in groups:
        entries[name]["sample_count"] = _sample_count(names, name)
    return {
        "results": entries,
        **({"groups": {name: entries[name] for name in groups}} if groups else {}),
        "group_subtasks": _subtasks(source, names),
        **_per_task(source, names),
        **_of_run(source),
        "task_hashes": dict(task_hashes),
        "tcb_bench_intervals": {
            entry_name(task, condition): _intervals(found)
            for task, cells in names.items()
            for condition, found in cells.items()
        },
        "tcb_bench": result.tcb_bench.model_dump(mode="json", exclude_unset=True),
    }


Cells = Mapping[str, Sequence[Number]]
"""Condition -> its numbers; the whole task is the condition with the empty id."""


def _numbers(source: Source, task: str) -> Cells:
    found: dict[str, list[Number]] = {}
    for number in numbers(source, task):
        found.setdefault(number.condition, []).append(number)
    return found


def _entry(source: Source, task: str, condition: str, found: Sequence[Number]) -> dict[str, Any]:
    name = entry_name(task, condition)
    entry: dict[str, Any] = {"name": name, "alias": name}
    entry["sample_len"] = documents(source, task, condition)
    for number in found:
        if number.value is not None:
            stderr = NO_STDERR if number.stderr is None else number.stderr
            entry[f"{number.name},{number.filter}"] = number.value
            entry[f"{number.name}_stderr,{number.filter}"] = stderr
    return entry


def documents(source: Source, task: str, condition: str) -> int:
    """Documents of a task or of one of its conditions: responses by repeats."""
    if not condition:
        return int(source.result.results[task]["sample_len"])
    counts = source.record(task).conditions[condition].counts
    n_responses: int = sum(counts.model_dump().values())
    return n_responses // int(source.config(task).get("repeats") or 1)


def _sample_count(names: Mapping[str, Cells], name: str) -> dict[str, int | None]:
    task, _, condition = name.partition("@")
    return {f"{n.name},{n.filter}": n.n for n in names[task][condition] if n.value is not None}


def _intervals(found: Sequence[Number]) -> dict[str, dict[str, Any]]:
    return {
        f"{n.name},{n.filter}": {"ci_low": n.ci_low, "ci_high": n.ci_high, "n": n.n} for n in found
    }


def _subtasks(source: Source, names: Mapping[str, Cells]) -> dict[str, list[str]]:
    """Group -> its tasks that are there; swept task -> its conditions."""
    found: dict[str, list[str]] = {}
    for task in source.tasks:
        if members := [name for name in source.members(task) if name in source.tasks]:
            found[task] = members
        elif is_swept(source, task):
            found[task] = [entry_name(task, c) for c in names[task] if c]
    theirs = (source.result.model_extra or {}).get("group_subtasks") or {}
    return found | {
        task: [name for name in theirs[task] if name in names]
        for task in source.stock
        if task in theirs
    }


def _per_task(source: Source, names: Mapping[str, Cells]) -> dict[str, dict[str, Any]]:
    """lm-eval's tables with one entry per task; ``configs`` and ``n-samples`` have no groups."""
    result = source.result
    tables: dict[str, dict[str, Any]] = {
        key: {} for key in ("configs", "versions", "n-shot", "higher_is_better", "n-samples")
    }
    for task, cells in names.items():
        for condition, found in cells.items():
            name = entry_name(task, condition)
            tables["versions"][name] = result.versions.get(task)
            tables["n-shot"][name] = result.n_shot.get(task)
            tables["higher_is_better"][name] = {n.name: n.higher_is_better for n in found}
            config = _config(source, task, condition)
            if config is None:
                continue
            tables["configs"][name] = config
            original = result.n_samples.get(task, {}).get("original")
            effective = documents(source, task, condition)
            tables["n-samples"][name] = {"original": original, "effective": effective}
    return tables


def _config(source: Source, task: str, condition: str) -> dict[str, Any] | None:
    """The config of what has samples; None for groups and for a swept task as a whole."""
    if task in source.stock:
        return source.result.configs.get(task)
    is_whole = not condition and is_swept(source, task)
    return None if source.members(task) or is_whole else task_config(source, task, condition)


def task_config(source: Source, task: str, condition: str) -> dict[str, Any]:
    """A task's config as lm-eval would have it: choices are scored, the rest is generated."""
    config = dict(source.config(task))
    axes = source.record(task).conditions[condition].axes
    given = dict(config.pop("generation_kwargs", None) or {})
    sent = {k: axes.get(k, v) for k, v in given.items() if k not in OWN_KEYS}
    is_choice = is_multiple_choice(config)
    config["task"] = entry_name(task, condition)
    config["output_type"] = "multiple_choice" if is_choice else "generate_until"
    if not is_choice:
        config["generation_kwargs"] = sent
    if condition:
        config["metadata"] = {**(config.get("metadata") or {}), "condition": dict(axes)}
    return config


def is_multiple_choice(config: Mapping[str, Any]) -> bool:
    """Whether a task reads the probabilities of given answers instead of a text."""
    own = config.get("tcb") or {}
    return own.get("request") == "next_token" and config.get("doc_to_choice") is not None


def _of_run(source: Source) -> dict[str, Any]:
    """lm-eval's keys that say how the run was made."""
    result, model = source.result, source.model
    extra = result.model_extra or {}
    info = result.tcb_bench.model
    instruction, template = extra.get("system_instruction"), extra.get("chat_template")
    known = ("fewshot_as_multiturn", "max_length", "transformers_version", "lm_eval_version")
    return {
        "config": {
            **result.config,
            "model": info.get("backend"),
            "model_args": _model_args(source),
        },
        "git_hash": None,
        "date": result.date,
        "pretty_env_info": "\n".join(f"{k}: {v}" for k, v in result.tcb_bench.environment.items()),
        "upper_git_hash": None,
        **{key: extra.get(key) for key in known},
        "model_source": info.get("backend"),
        "model_name": model,
        "model_name_sanitized": file_name(model),
        "system_instruction": instruction,
        "system_instruction_sha": hashed(instruction) if instruction else None,
        "chat_template": template,
        "chat_template_sha": hashed(template) if template else None,
        "total_evaluation_time_seconds": str(result.tcb_bench.wall_time_s),
    }


def _model_args(source: Source) -> str:
    """The model's name where lm-eval looks for it, then what else was given."""
    key = (
        "pretrained" if source.result.tcb_bench.model.get("backend") in ("hf", "vllm") else "model"
    )
    given = str(source.result.config.get("model_args") or "").split(",")
    rest = [
        part for part in given if part and part.partition("=")[0] not in ("pretrained", "model")
    ]
    return ",".join([f"{key}={source.model}", *rest])
