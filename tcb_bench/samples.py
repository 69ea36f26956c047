"""Sample rows: each document with its scored repeats and the keys of the stored responses."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from tcb_bench.data import ID_COLUMN
from tcb_bench.metrics.robustness import conflict_case
from tcb_bench.rag import ELSEWHERE, EVIDENCE, POOL
from tcb_bench.responses import Generation, Response
from tcb_bench.results import digest
from tcb_bench.store import Manifest, Store
from tcb_bench.task_select import STRATUM, WEIGHT

Sample = dict[str, Any]
SLACK = 1e-4
"""Rows of one prompt differ by 1e-5 between batches; where they are the median, all are stable."""
OWN_COLUMNS = (EVIDENCE, POOL, ELSEWHERE, STRATUM, WEIGHT)
"""Columns made here that a sample row does not repeat: its prompt shows what was shown."""


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
    doc_sha256 = digest(doc)
    rows = []
    first = keys.get((name, document, 0, 0))
    request = store.request(first) if first else None
    for repeat, (row, response) in enumerate(
        zip(example["tcb_rows"], example["resps"][0], strict=True)
    ):
        key = keys.get((name, document, 0, repeat))  # None: killed before it was planned
        extra = _text_of(response)
        tokens = {"prompt_tokens": getattr(response, "prompt_tokens", None)}
        rows.append(
            {
                "repeat": repeat,
                "key": key,
                **row,
                **tokens,
                **extra,
                **_call_of(response),
                "reused_from": store.reused_from(key) if key else None,
            }
        )
    return {
        "doc_id": document,
        "task": task.base_name,
        "condition": task.condition.id,
        "doc_sha256": doc_sha256,
        "doc": {key: value for key, value in doc.items() if key not in OWN_COLUMNS},
        "target": example["target"],
        "prompt": request["arguments"][0] if request else None,
        "acc": example["acc"],
        **_beside(task, {**doc, ID_COLUMN: document}),
        "rows": rows,
    }


def _text_of(response: Response) -> dict[str, Any]:
    """The whole text of a generation, and how much of it is reasoning where some is."""
    if not isinstance(response, Generation):
        return {}
    start = response.answer_start
    return {"text": response.text} | ({"reasoning_chars": start} if start else {})


def _call_of(response: Response) -> dict[str, Any]:
    """What an API said beside its answer, and its bill; reasoning stays in the store."""
    call = dict(getattr(response, "call", {}))
    call.pop("reasoning", None)
    usage, prompt_tokens = call.pop("usage", {}), call.pop("prompt_tokens", None)
    if not call:
        return {}
    is_billed = {"prompt_tokens", "completion_tokens"} <= usage.keys()
    bill = {"usage": usage} if is_billed else {}
    return {"call": call, "prompt_tokens": prompt_tokens, **bill}


def _beside(task: Any, doc: Mapping[str, Any]) -> dict[str, Any]:
    """What a RAG task or a sweep over perturbations has besides: reference, stratum, changes."""
    found: dict[str, Any] = {}
    reference = task.documents.references.texts.get(doc[ID_COLUMN])
    if reference is not None:
        found["reference"] = reference
    if STRATUM in doc:
        found |= {"stratum": doc[STRATUM], "weight": doc[WEIGHT]}
    _, notes = task.documents.perturber.document(doc, task.condition.axes)
    if notes:
        found["perturbation"] = {axis: dict(note) for axis, note in notes.items()}
    return found


def label_conflicts(samples: Mapping[str, Sequence[Sample]]) -> None:
    """Each row's case of accuracy and confidence against stability.

    Stable means at or above the task's own median relative_flip_radius, less ``SLACK``: the cases
    compare the answers of one run with each other, since no length is stable in itself.
    """
    for documents in samples.values():
        rows = [row for doc in documents for row in doc["rows"]]
        radii = [
            r for row in rows if (r := row["stability"].get("relative_flip_radius")) is not None
        ]
        stable_at = statistics.median(radii) * (1 - SLACK) if radii else 0.0
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
