"""Every Eval Ever's instance rows: a line per response that is right or wrong, with its texts."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tcb_bench.leaderboards.export_lm_eval import is_multiple_choice
from tcb_bench.leaderboards.export_source import Source
from tcb_bench.leaderboards.submit_samples import answer_kind
from tcb_bench.metrics.answers import EXTRACTION_VERSION, choice_letter

VERSION = "0.3.0"
EXTRACTED = {
    "choice": "argmax over the log-probabilities of the given answers",
    "final_number": f"final number, rule {EXTRACTION_VERSION}",
    "exact": "the whole text",
}


def write_instances(source: Source, task: str, path: Path, evaluation_id: str) -> tuple[int, int]:
    """Writes the responses of a task, or of all tasks of a group, in one pass.

    A response without ``acc`` (an error, or a task where nothing is right or wrong) has no row: the
    format asks for a score, and a failure is not a 0.

    Returns:
        rows written, responses left out.
    """
    written = left_out = 0
    names = [name for name in source.members(task) or [task] if name in source.tasks]
    with path.open("w", encoding="utf-8") as file:
        for name in names:
            for sample in source.samples(name):
                rows = list(_instances(source, name, sample, evaluation_id))
                left_out += len(sample["rows"]) - len(rows)
                written += len(rows)
                file.writelines(
                    json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n" for row in rows
                )
    return written, left_out


def _instances(
    source: Source, task: str, sample: Mapping[str, Any], evaluation_id: str
) -> Iterator[dict[str, Any]]:
    """The rows of a sample; each belongs to the task's or the condition's ``acc``."""
    config = source.config(task)
    condition = sample["condition"]
    name = f"{task}/{condition}" if condition else task
    asked = _input(config, sample)
    joined = "".join([asked["raw"], *asked["reference"]])
    for row in sample["rows"]:
        if row["acc"] is None:
            continue
        yield {
            "schema_version": VERSION,
            "evaluation_id": evaluation_id,
            "model_id": source.model,
            "evaluation_name": name,
            "evaluation_result_id": f"{name}/acc",
            "sample_id": sample["doc_id"],
            "sample_hash": hashlib.sha256(joined.encode()).hexdigest(),
            "interaction_type": "single_turn",
            "input": asked,
            "output": _output(config, row),
            "answer_attribution": _attribution(config, row),
            "evaluation": {"score": row["acc"], "is_correct": row["acc"] == 1.0},
            **_usage(row),
            "metadata": _metadata(sample, row),
        }


def _input(config: Mapping[str, Any], sample: Mapping[str, Any]) -> dict[str, Any]:
    doc, prompt = sample["doc"], sample["prompt"] or ""
    question, choices = doc.get("question"), doc.get("choices")
    target = sample["target"]
    is_letter = is_multiple_choice(config) and isinstance(target, int)
    found: dict[str, Any] = {
        "raw": question if isinstance(question, str) else prompt,
        "formatted": prompt,
        "reference": [choice_letter(target) if is_letter else str(target)],
    }
    if sample.get("reference"):
        found["reference"].append(sample["reference"])
    if isinstance(choices, list):
        found["choices"] = [str(choice) for choice in choices]
    return found


def _output(config: Mapping[str, Any], row: Mapping[str, Any]) -> dict[str, Any]:
    """What the model wrote; of a prediction the answer it gives the most probability."""
    if is_multiple_choice(config):
        return {"raw": [str(row["answer"])]}
    text, start = str(row.get("text") or ""), row.get("reasoning_chars")
    return {"raw": [text], **({"reasoning_trace": [text[:start]]} if start else {})}


def _attribution(config: Mapping[str, Any], row: Mapping[str, Any]) -> list[dict[str, Any]]:
    if row["answer"] is None:
        return []
    return [
        {
            "turn_idx": 0,
            "source": "output.raw",
            "extracted_value": str(row["answer"]),
            "extraction_method": EXTRACTED.get(answer_kind(config), answer_kind(config)),
            "is_terminal": True,
        }
    ]


def _usage(row: Mapping[str, Any]) -> dict[str, Any]:
    """Tokens, where the back end counted the prompt's."""
    sent = row.get("prompt_tokens")
    if sent is None:
        return {}
    wrote = row.get("completion_tokens") or 0
    total = {"input_tokens": sent, "output_tokens": wrote, "total_tokens": sent + wrote}
    return {"token_usage": total}


def _metadata(sample: Mapping[str, Any], row: Mapping[str, Any]) -> dict[str, str]:
    """Everything else as text: where it belongs, its state, quantities and scores."""
    found: dict[str, Any] = {
        "condition": sample["condition"],
        "doc_sha256": sample.get("doc_sha256"),
        "stratum": sample.get("stratum"),
        "weight": sample.get("weight"),
        "repeat": row["repeat"],
        "state": row["state"],
        "finish_reason": row.get("finish_reason"),
        "reused_at_temperature_0": row.get("reused_from") is not None,
        **row["stability"],
        **(row.get("scores") or {}),
    }
    return {
        key: value if isinstance(value, str) else json.dumps(value)
        for key, value in found.items()
        if value is not None
    }
