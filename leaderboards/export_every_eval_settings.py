"""Every Eval Ever's words for where documents came from and how answers were generated."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tcb_bench.leaderboards.export_lm_eval import is_multiple_choice
from tcb_bench.leaderboards.export_source import Source

NAMED = {"temperature": "temperature", "top_p": "top_p", "top_k": "top_k"}
OWN_FIELDS = (*NAMED, "max_gen_toks", "stability_at")


def source_data(source: Source, task: str) -> dict[str, Any]:
    """The documents: of the hub only where they were fetched there."""
    if task in source.stock:
        return {"dataset_name": task, "source_type": "other"}
    data = source.record(task).data
    facts = {"config": data.config, "revision": data.revision, "sha256": data.sha256}
    details = {key: value for key, value in facts.items() if value}
    if data.source == "hub":
        return {
            "dataset_name": data.id,
            "source_type": "hf_dataset",
            "hf_repo": data.id,
            **({"hf_split": data.split} if data.split else {}),
            "samples_number": data.available,
            "additional_details": details,
        }
    where = {
        "sample": f"shipped sample in the form of {data.id}",
        "local": f"local files in the form of {data.id}",
        "file": "the task's own file",
    }[data.source]
    split = {"split": data.split} if data.split else {}
    more = {"source": where, "samples_number": str(data.available), **split}
    return {"dataset_name": data.id, "source_type": "other", "additional_details": more | details}


def generation_config(source: Source, task: str, condition: str) -> dict[str, Any]:
    """``generation_config`` of a condition, or of all conditions together.

    Where they differ in the temperature, all of them together have none: it is null, and the
    values are named beside it. Predictions of a next token are not sampled and have no arguments.
    """
    config = source.config(task)
    if task in source.stock:
        given = config.get("generation_kwargs") or {}
        return {"generation_config": {"generation_args": _arguments(given)}} if given else {}
    record = source.record(task)
    cells = [record.conditions[condition]] if condition in record.conditions else None
    axes = cells[0].axes if cells else _joined([c.axes for c in record.conditions.values()])
    sent = {**(config.get("generation_kwargs") or {}), **axes}
    own = config.get("tcb") or {}
    is_next_token = own.get("request") == "next_token"
    arguments = {} if is_next_token else _arguments(sent)
    if isinstance(text := config.get("doc_to_text"), str):
        arguments["prompt_template"] = f"{config.get('description') or ''}{text}"
    effective = sorted({c.temperature_effective for c in record.conditions.values()})
    details: dict[str, Any] = {
        "request": _request(config),
        "num_fewshot": source.result.n_shot.get(task, 0),
        "repeats": config.get("repeats", 1),
        "sampling_defaults": record.sampling_defaults,
        "temperature_effective": ", ".join(effective),
        **{f"axis.{name}": value for name, value in axes.items()},
    }
    if not is_next_token:
        details |= {k: v for k, v in sent.items() if k not in OWN_FIELDS and k not in axes}
    written = {
        key: value if isinstance(value, str) else json.dumps(value)
        for key, value in details.items()
    }
    return {"generation_config": {"generation_args": arguments, "additional_details": written}}


def _request(config: Mapping[str, Any]) -> str:
    request = str((config.get("tcb") or {}).get("request", "generate"))
    if is_multiple_choice(config):
        return f"{request}: log-probabilities of the given answers, nothing is generated"
    return request


def _joined(axes: list[dict[str, Any]]) -> dict[str, Any]:
    """Axis -> its one value, or all of its values in order."""
    found: dict[str, list[Any]] = {}
    for cell in axes:
        for name, value in cell.items():
            if value not in found.setdefault(name, []):
                found[name].append(value)
    return {name: values[0] if len(values) == 1 else values for name, values in found.items()}


def _arguments(sent: Mapping[str, Any]) -> dict[str, Any]:
    """The named parameters that have one number; several values are null."""
    found = {
        name: _number(sent[ours]) for name, ours in NAMED.items() if sent.get(ours) is not None
    }
    longest = sent.get("max_gen_toks")
    if isinstance(longest, int) and longest >= 1:
        found["max_tokens"] = longest
    return found


def _number(value: Any) -> float | int | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return value if is_number else None
