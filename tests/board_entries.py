"""Entries made for tests and benchmarks: random numbers of a small softmax head, so all bounds hold.

Documents depend on the task and the seed alone, so entries of several models share them; numbers
depend on the model too. Aggregates come from `recompute.recomputed`, as a run's come from the same
code: a made entry is as consistent as a real one, and says nothing about any model.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from board_rows import Head, base_row, text_row

from tcb_bench.leaderboards.entry import Entry, EntrySample
from tcb_bench.leaderboards.entry_files import entry_path, folder_name, write_entry, write_samples
from tcb_bench.leaderboards.recompute import recomputed
from tcb_bench.results import digest
from tcb_bench.samples import label_conflicts
from tcb_bench.scoring import states
from tcb_bench.selection import draw, stable_hash
from tcb_bench.task_files import catalogue

SUBJECTS = {
    "abstract_algebra": 100,
    "formal_logic": 126,
    "moral_scenarios": 895,
    "philosophy": 311,
    "professional_law": 1534,
}
"""Subjects of the paper and their test questions."""
STRATA = [f"type={kind},n_facts={n}" for kind in ("bridge", "comparison") for n in (2, 3, 4)]
CONTEXTS = ("original", "replace_half", "remove_half", "ner")
WHOLE = 11 * len(CONTEXTS) * 2  # conditions of the whole sweep
SETS: dict[str, dict[str, Any]] = {
    "mmlu_tcb": {
        "id": "cais/mmlu",
        "config": None,
        "split": "test",
        "revision": "c30699e8356da336a370243923dbaf21066bb9fe",
    },
    "gsm8k_tcb": {
        "id": "openai/gsm8k",
        "config": "main",
        "split": "test",
        "revision": "740312add88f781978c0658806c59bc2815b9866",
    },
    "hotpotqa_tempperturb": {
        "id": "hotpotqa/hotpot_qa",
        "config": "fullwiki",
        "split": "train",
        "revision": "1908d6afbbead072334abe2965f91bd2709910ab",
    },
}


def make_entry(
    folder: Path,
    model_id: str,
    task: str,
    n_documents: int,
    seed: int = 0,
    *,
    n_temperatures: int = 11,
) -> Path:
    """One entry and its samples under ``folder``; returns the path of the entry.

    Args:
        folder: the folder of all entries.
        model_id: organisation/name.
        task: ``mmlu_tcb`` (a group of five subjects), ``gsm8k_tcb`` or ``hotpotqa_tempperturb``.
        n_documents: questions: about that many of MMLU; of HotpotQA a multiple of 6 (strata).
        seed: of the draw.
        n_temperatures: of the sweep from 0.0 in steps of 0.2, for HotpotQA; 8 conditions each.
    """
    samples = list(_samples(model_id, task, n_documents, seed, n_temperatures))
    label_conflicts(_by_task(samples))
    home = folder / folder_name(model_id)
    home.mkdir(parents=True, exist_ok=True)
    file = home / f"{task}.samples.jsonl.gz"
    written = write_samples(file, (EntrySample.model_validate(sample) for sample in samples))
    keys = ("sha256", "rows", "responses")
    record = _entry(model_id, task, n_documents, seed, samples) | {
        "samples": {"file": file.name, **dict(zip(keys, written, strict=True))}
    }
    entry = Entry.model_validate(record)
    path = entry_path(folder, entry)
    write_entry(path, entry)
    return path


def limit_of(task: str, n_documents: int) -> int:
    """The ``--limit`` that gives so many questions: per subject, per task, per stratum."""
    if task == "gsm8k_tcb":
        return n_documents
    if task == "hotpotqa_tempperturb":
        return n_documents // len(STRATA)
    sizes = SUBJECTS.values()
    limits = range(1, max(sizes) + 1)
    return next(k for k in limits if sum(min(k, size) for size in sizes) >= n_documents)


def _documents(task: str, n_documents: int, seed: int) -> dict[str, list[str]]:
    """Task, subject's task or stratum -> ids of the draw."""
    limit = limit_of(task, n_documents)
    if task == "gsm8k_tcb":
        lists = {task: [f"test/{row}" for row in range(1319)]}
    elif task == "mmlu_tcb":
        lists = {
            f"mmlu_tcb_{subject}": [f"{subject}/test/{row}" for row in range(size)]
            for subject, size in SUBJECTS.items()
        }
    else:
        lists = {name: [digest([name, row])[:24] for row in range(400)] for name in STRATA}
    return {name: [ids[i] for i in draw(ids, limit, seed)] for name, ids in lists.items()}


def _samples(
    model_id: str, task: str, n_documents: int, seed: int, n_temperatures: int
) -> Iterator[dict[str, Any]]:
    head = Head(stable_hash(model_id) % 2**32)
    documents = _documents(task, n_documents, seed)
    if task == "hotpotqa_tempperturb":
        for i in range(n_temperatures):
            for context in CONTEXTS:
                for kind in ("bridge", "comparison"):
                    yield from _texts(head, documents, i / 5, context, kind)
        return
    for name, ids in documents.items():
        for doc_id, points in zip(ids, head.points(len(ids), name), strict=True):
            row = base_row(head, points, doc_id, is_choice=task == "mmlu_tcb")
            yield {**_document(doc_id, name, ""), "perturbation": {}, "rows": [row]}


def _texts(
    head: Head, documents: Mapping[str, Sequence[str]], temperature: float, context: str, kind: str
) -> Iterator[dict[str, Any]]:
    condition = f"temperature={temperature},context={context},question_type={kind}"
    change = {"kind": context, "flags": [], "counts": {}, "is_pseudo_relevant": None}
    change |= {"token_overlap": 1.0, "embedding_similarity": None}
    for stratum, ids in documents.items():
        if not stratum.startswith(f"type={kind}"):
            continue
        found = head.points(3 * len(ids), f"{condition}/{stratum}")
        for i, doc_id in enumerate(ids):
            rows = [
                text_row(head, point, doc_id, temperature=temperature, context=context)
                for point in found[3 * i : 3 * i + 3]
            ]
            rows = [dict(rows[0]) for _ in rows] if temperature == 0 else rows
            yield {
                **_document(doc_id, "hotpotqa_tempperturb", condition),
                "stratum": stratum,
                "weight": 1.0,
                "perturbation": {"context": change},
                "rows": [{**row, "repeat": k} for k, row in enumerate(rows)],
            }


def _document(doc_id: str, task: str, condition: str) -> dict[str, Any]:
    sha256 = digest([task, doc_id])
    return {"doc_id": doc_id, "task": task, "condition": condition, "doc_sha256": sha256}


def _by_task(samples: Sequence[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for sample in samples:
        found.setdefault(sample["task"], []).append(sample)
    return found


def _entry(
    model_id: str, task: str, n_documents: int, seed: int, samples: Sequence[dict[str, Any]]
) -> dict[str, Any]:
    cells: dict[str, list[dict[str, Any]]] = {}
    for sample in samples:
        cells.setdefault(sample["condition"], []).append(sample)
    overall, conditions = recomputed(cells, is_group=task == "mmlu_tcb", seed=seed)
    data = _data(task, n_documents, seed, samples)
    head = Head(stable_hash(model_id) % 2**32)
    missing = _missing() if task == "mmlu_tcb" else []
    if task == "hotpotqa_tempperturb" and len(cells) < WHOLE:
        missing = [f"conditions: {WHOLE - len(cells)}"]
    facts = _facts(model_id, task, data, limit_of(task, n_documents), seed)
    rows = [row for sample in samples for row in sample["rows"]]
    once = [r for s in samples for r in s["rows"][: 1 if "=0.0" in s["condition"] else None]]
    tokens = ("prompt_tokens", "completion_tokens")
    return {
        **facts,
        "data": data,
        "n_shot": 5 if task == "gsm8k_tcb" else 0,
        **overall,
        "counts": states(rows),
        "conditions": [
            _condition(task, cell, cells[cell], found) for cell, found in conditions.items()
        ],
        "weight_radius": head.radius,
        "usage": {name: sum(row.get(name) or 0 for row in once) for name in tokens},
        "environment": {"python": "3.11", "tcb-bench": "0.1.0"},
        "is_partial": bool(missing),
        "missing": missing,
        "tier": "self-reported",
        "submitted_by": "tests",
        "date": "2026-01-31",
        "links": [],
    }


def _facts(
    model_id: str, task: str, data: Mapping[str, Any], limit: int, seed: int
) -> dict[str, Any]:
    is_text = task == "hotpotqa_tempperturb"
    mark = f"hub@{data['revision'][:12]}" + (f"#{data['sha256'][:8]}" if is_text else "")
    reference = {"kind": "sentence", "generator": "task", "sha256": digest(task)}
    parts = {"task": task, "v": 1, "model": model_id, "rev": "1" * 40}
    parts |= {"backend": "hf", "dtype": "float32", "data": mark}
    parts |= {"shots": 5 if task == "gsm8k_tcb" else 0, "chat": "no"}
    parts |= {"sampling": "model" if is_text else "neutral", "gen": digest(task)[:6]}
    parts |= {"limit": f"{limit:g}", "seed": seed, "eps": "1"}
    if is_text:
        parts |= {"ref": f"sentence@task:{digest(task)[:8]}", "bert": "made", "text": "made"}
    parts |= {"metric": "delta1.extract1", "tcb-bench": "0.1.0"}
    values = {name: str(value) for name, value in parts.items()}
    return {
        "entry_version": 1,
        "model": {
            **{"id": model_id, "revision": "1" * 40, "dtype": "float32", "quantisation": None},
            **{"backend": "hf", "backend_version": "5.0.0", "n_parameters": 10**9},
        },
        "task": {"name": task, "version": 1},
        "limit": limit,
        "seed": seed,
        "reference": {**reference, "without_answer": []} if is_text else None,
        "bert_score": "made" if is_text else None,
        "text_scores": "made" if is_text else None,
        "sampling_defaults": "model" if is_text else "neutral",
        "epsilon": 1.0,
        "signature": "|".join(f"{name}:{value}" for name, value in values.items()),
        "signature_parts": values,
    }


def _data(
    task: str, n_documents: int, seed: int, samples: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    pairs: dict[str, dict[str, str]] = {}
    for sample in samples:
        pairs.setdefault(sample["task"], {})[sample["doc_id"]] = sample["doc_sha256"]
    hashes = {name: digest(sorted([k, v] for k, v in own.items())) for name, own in pairs.items()}
    data: dict[str, Any] = {**SETS[task], "source": "hub"}
    if task == "gsm8k_tcb":
        return data | {"sha256": hashes[task], "available": 1319}
    if task == "mmlu_tcb":
        members = {
            f"mmlu_tcb_{subject}": {"available": size, "sha256": hashes[f"mmlu_tcb_{subject}"]}
            for subject, size in SUBJECTS.items()
        }
        total = digest([member["sha256"] for member in members.values()])
        return data | {"sha256": total, "available": sum(SUBJECTS.values()), "members": members}
    drawn = _documents(task, n_documents, seed)
    strata = {name: {"taken": len(ids), "there": 400} for name, ids in drawn.items()}
    ids = [one for own in drawn.values() for one in own]
    data |= {"sha256": hashes[task], "available": 100 * len(STRATA)}
    return data | {"strata": strata, "left_out": {}, "ids": ids}


@functools.cache
def _missing() -> list[str]:
    """Tasks of the group that a made entry does not have."""
    group = catalogue()["mmlu_tcb"].members
    return [name for name in group if name.removeprefix("mmlu_tcb_") not in SUBJECTS]


def _condition(
    task: str, cell: str, samples: Sequence[Mapping[str, Any]], metrics: Mapping[str, Any]
) -> dict[str, Any]:
    axes: dict[str, Any] = dict(part.split("=") for part in cell.split(",") if part)
    if axes:
        axes["temperature"] = float(axes["temperature"])
    rows = [row for sample in samples for row in sample["rows"]]
    flags = sum(len(row.get("score_flags", ())) for row in rows)
    changes = {"perturbation": {"flags": {}, "counts": {}}} if axes else {}
    return {
        "id": cell,
        "axes": axes,
        "temperature_effective": "true",
        "counts": states(rows),
        "prompts_sha256": digest([[s["doc_id"], cell] for s in samples]),
        "request_sha256": digest([task, cell]),
        **changes,
        **({"text_flags": {"empty_candidate": flags}} if flags else {}),
        **metrics,
    }
