"""Sample rows as lm-eval logs them: a line per document, its repeats together."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TextIO

from tcb_bench.aggregate import document_values
from tcb_bench.leaderboards.export_numbers import without_spread
from tcb_bench.leaderboards.export_source import Source
from tcb_bench.metrics.answers import choice_letter
from tcb_bench.results import strict


def write_samples(source: Source, home: Path) -> dict[str, str]:
    """``samples_<task>_<date>.jsonl`` of every task, of a swept one for each condition.

    Returns:
        task -> lm-eval's hash over its documents, prompts and targets.
    """
    found: dict[str, str] = {}
    for task in source.leaves:
        found |= _write_task(source, task, home)
    return found


def _write_task(source: Source, task: str, home: Path) -> dict[str, str]:
    """A task's rows into one file per condition, in one pass over its samples."""
    hashes: dict[str, list[str]] = {}
    with ExitStack() as stack:
        files: dict[str, TextIO] = {}
        for name, row in lm_eval_rows(source, task):
            if name not in files:
                path = home / f"samples_{file_name(name)}_{source.stamp}.jsonl"
                files[name] = stack.enter_context(path.open("w", encoding="utf-8"))
            files[name].write(json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n")
            hashes.setdefault(name, []).append(
                row["doc_hash"] + row["prompt_hash"] + row["target_hash"]
            )
    return {name: hashed("".join(parts)) for name, parts in hashes.items()}


def lm_eval_rows(source: Source, task: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """The samples of a task, each with the name of the file it belongs to."""
    conditions = source.record(task).conditions
    names = {cell: _of_documents(found.metrics) for cell, found in conditions.items()}
    order: dict[str, int] = {}
    config = source.config(task)
    for sample in source.samples(task):
        cell = sample["condition"]
        number = _doc_id(config, sample["doc_id"], order)
        asked = _arguments(config, sample, conditions[cell].axes)
        row = _row(sample, number, asked, names[cell])
        yield (f"{task}@{cell}" if cell else task), strict(row)


def _of_documents(names: Iterable[str]) -> list[str]:
    """The aggregates that a single document has a value of: no spread, no mean over tasks."""
    return [name for name in names if without_spread(name) == name and name != "acc_macro"]


def _row(
    sample: Mapping[str, Any], number: int, asked: Mapping[str, Any], names: Sequence[str]
) -> dict[str, Any]:
    rows = sample["rows"]
    resps, filtered = _responses(rows)
    values = document_values(rows)
    document = json.dumps(sample["doc"], indent=2, ensure_ascii=False, default=str)
    target = str(sample["target"])
    return {
        "doc_id": number,
        "doc": sample["doc"],
        "target": target,
        "arguments": asked,
        "resps": resps,
        "filtered_resps": filtered,
        "filter": "none",
        "metrics": names,
        "doc_hash": hashed(document),
        "prompt_hash": hashed(sample["prompt"] or ""),
        "target_hash": hashed(target),
        **{name: values.get(name) for name in names},
        "tcb_doc_id": sample["doc_id"],
        "tcb_states": [row["state"] for row in rows],
    }


def _doc_id(config: Mapping[str, Any], name: str, order: dict[str, int]) -> int:
    """lm-eval numbers documents: by their row in the split where the id has it, else in order."""
    template = str((config.get("tcb") or {}).get("doc_id") or "")
    row = name.rpartition("/")[2]
    if template.endswith("{row}") and row.isdecimal():
        return int(row)
    return order.setdefault(name, len(order))


def _arguments(
    config: Mapping[str, Any], sample: Mapping[str, Any], axes: Mapping[str, Any]
) -> dict[str, dict[str, Any]]:
    """What was asked: the prompt with each given answer, or with the sampling parameters."""
    prompt = sample["prompt"] or ""
    n_choices = max((len(row.get("choice_logprobs") or ()) for row in sample["rows"]), default=0)
    if n_choices:
        given = config.get("doc_to_choice")
        is_list = isinstance(given, list) and len(given) == n_choices
        names = given if is_list else [choice_letter(i) for i in range(n_choices)]
        delimiter = config.get("target_delimiter", " ")
        asked = [(prompt, f"{delimiter}{name}") for name in names or ()]
        return {f"gen_args_{i}": {"arg_0": a, "arg_1": b} for i, (a, b) in enumerate(asked)}
    sent = config.get("generation_kwargs") or {}
    own = {key: axes.get(key, value) for key, value in sent.items() if key != "stability_at"}
    return {"gen_args_0": {"arg_0": prompt, "arg_1": own}}


def _responses(rows: Sequence[Mapping[str, Any]]) -> tuple[list[Any], list[Any]]:
    """``resps`` (per request, per repeat) and ``filtered_resps``; every part is a text.

    Of choices: [log-probability, whether it is the most probable token of all]. A response that
    failed is an empty text; its state says so.
    """
    n_choices = max((len(row.get("choice_logprobs") or ()) for row in rows), default=0)
    if not n_choices:
        texts = [str(row.get("text", row.get("greedy_token")) or "") for row in rows]
        return [texts], texts[:1] if len(texts) == 1 else [texts]
    pairs = [[_pair(row, i) for row in rows] for i in range(n_choices)]
    return pairs, [repeats[0] for repeats in pairs]


def _pair(row: Mapping[str, Any], i: int) -> list[str]:
    given = row.get("choice_logprobs") or []
    if i >= len(given) or given[i] is None:
        return ["", "False"]
    logprobs = [-math.inf if value is None else value for value in given]
    is_best = logprobs[i] == max(logprobs) and i == logprobs.index(max(logprobs))
    return [str(logprobs[i]), str(bool(row.get("greedy_is_choice")) and is_best)]


def file_name(name: str) -> str:
    """A model's or task's name as lm-eval makes it fit for a file."""
    return re.sub(r"[\"<>:/|\\?*\[\]]+", "__", name)


def hashed(text: str) -> str:
    """lm-eval's hash of a text."""
    return hashlib.sha256(text.encode()).hexdigest()
