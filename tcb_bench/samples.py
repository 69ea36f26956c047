"""Sample rows: each document with its scored repeats and the keys of the stored responses."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from tcb_bench.data import ID_COLUMN
from tcb_bench.metrics.robustness import conflict_case
from tcb_bench.results import digest
from tcb_bench.store import Manifest, Store

Sample = dict[str, Any]


def samples_by_cell(
    store: Store, manifest: Manifest, ours: Mapping[str, Any], samples: Mapping[str, Any]
) -> dict[str, dict[str, list[Sample]]]:
    """Task -> condition id -> samples with their scored rows and the keys of their responses."""
    keys = store.keys(manifest.id)
    cells: dict[str, dict[str, list[Sample]]] = {}
    for name, task in ours.items():
        documents = [_sample(store, keys, name, task, example) for example in samples[name]]
        cells.setdefault(task.base_name, {})[task.condition.id] = documents
    return cells


def _sample(
    store: Store, keys: Mapping[Any, str], name: str, task: Any, example: Mapping[str, Any]
) -> Sample:
    doc = dict(example["doc"])
    document = doc.pop(ID_COLUMN)
    rows = []
    prompt = None
    for repeat, (row, response) in enumerate(
        zip(example["tcb_rows"], example["resps"][0], strict=True)
    ):
        key = keys.get((name, document, 0, repeat))  # None: killed before it was planned
        request = store.request(key) if key else None
        prompt = request["arguments"][0] if request else None
        text = getattr(response, "text", None)
        extra = {"text": text} if text is not None else {}
        tokens = {"prompt_tokens": getattr(response, "prompt_tokens", None)}
        rows.append(
            {
                "repeat": repeat,
                "key": key,
                **row,
                **tokens,
                **extra,
                "reused_from": store.reused_from(key) if key else None,
            }
        )
    return {
        "doc_id": document,
        "task": task.base_name,
        "condition": task.condition.id,
        "doc_sha256": digest(doc),
        "doc": doc,
        "target": example["target"],
        "prompt": prompt,
        "acc": example["acc"],
        "rows": rows,
    }


def label_conflicts(samples: Mapping[str, Sequence[Sample]]) -> None:
    """Each row's case of accuracy and confidence against stability.

    Stable means at or above the task's own median relative_flip_radius: the cases compare the
    answers of one run with each other, since no length is stable in itself.
    """
    for documents in samples.values():
        rows = [row for doc in documents for row in doc["rows"]]
        radii = [
            r for row in rows if (r := row["stability"].get("relative_flip_radius")) is not None
        ]
        stable_at = statistics.median(radii) if radii else 0.0
        for row in rows:
            values = row["stability"]
            case = conflict_case(
                correct=None if row["acc"] is None else bool(row["acc"]),
                p_top1=values.get("p_top1"),
                stability=values.get("relative_flip_radius"),
                stable_at=stable_at,
            )
            row["conflict"] = {**case._asdict(), "stable_at": stable_at}


def stock_sample(example: Mapping[str, Any]) -> Sample:
    """A sample of one of lm-eval's own tasks, with its metrics as lm-eval computed them."""
    metrics = {name: example[name] for name in example["metrics"]}
    return {
        "doc_id": str(example["doc_id"]),
        "doc": example["doc"],
        "target": example["target"],
        "filter": example["filter"],
        **metrics,
    }
