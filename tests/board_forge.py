"""Forging entries: what a liar with our own tools can do, everything else made consistent again."""

from __future__ import annotations

import gzip
import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tcb_bench.leaderboards.entry_files import folder_name
from tcb_bench.leaderboards.recompute import recomputed
from tcb_bench.results import digest
from tcb_bench.samples import label_conflicts
from tcb_bench.scoring import states

Samples = list[dict[str, Any]]


def read(path: Path) -> tuple[dict[str, Any], Samples]:
    """An entry and its samples as plain JSON."""
    entry = json.loads(path.read_text(encoding="utf-8"))
    with gzip.open(path.with_name(entry["samples"]["file"]), "rt", encoding="utf-8") as file:
        return entry, [json.loads(line) for line in file]


def write(path: Path, entry: dict[str, Any], samples: Samples | None = None) -> Path:
    """Writes both back; the hash and the counts of lines are those of the file."""
    if samples is not None:
        file = path.with_name(entry["samples"]["file"])
        text = "".join(json.dumps(sample) + "\n" for sample in samples)
        file.write_bytes(gzip.compress(text.encode(), mtime=0))
        entry["samples"]["sha256"] = hashlib.sha256(file.read_bytes()).hexdigest()
        entry["samples"]["rows"] = len(samples)
        entry["samples"]["responses"] = sum(len(sample["rows"]) for sample in samples)
    path.write_text(json.dumps(entry), encoding="utf-8")
    return path


def consistent(entry: dict[str, Any], samples: Samples) -> None:
    """Labels, counts, usage, hashes and every aggregate made again from forged samples."""
    by_task: dict[str, Samples] = {}
    cells: dict[str, Samples] = {}
    for sample in samples:
        by_task.setdefault(sample["task"], []).append(sample)
        cells.setdefault(sample["condition"], []).append(sample)
    label_conflicts(by_task)
    is_group = "members" in entry["data"]
    plain = {
        cell: [s | {"weight": s.get("weight") or 1.0} for s in own] for cell, own in cells.items()
    }
    overall, conditions = recomputed(plain, is_group=is_group, seed=entry["seed"])
    entry |= _dumped(overall)
    rows = [row for sample in samples for row in sample["rows"]]
    entry["counts"] = states(rows)
    for name in entry["usage"]:
        entry["usage"][name] = sum(row.get(name) or 0 for row in rows)
    for condition in entry["conditions"]:
        own = [row for sample in cells[condition["id"]] for row in sample["rows"]]
        condition |= _dumped(conditions[condition["id"]])
        condition["counts"] = states(own)
    _hash_data(entry, by_task)


def _dumped(metrics: Any) -> dict[str, Any]:
    return {
        key: [m.model_dump(mode="json", exclude_unset=True) for m in own]
        for key, own in metrics.items()
    }


def _hash_data(entry: dict[str, Any], by_task: dict[str, Samples]) -> None:
    hashes = {
        task: digest(sorted([k, v] for k, v in {s["doc_id"]: s["doc_sha256"] for s in own}.items()))
        for task, own in by_task.items()
    }
    data = entry["data"]
    if "members" in data:
        for task, member in data["members"].items():
            member["sha256"] = hashes[task]
        data["sha256"] = digest([member["sha256"] for member in data["members"].values()])
    else:
        data["sha256"] = hashes[entry["task"]["name"]]


def forged(
    path: Path,
    folder: Path,
    *,
    samples: Callable[[Samples], Samples] | None = None,
    entry: Callable[[dict[str, Any]], None] | None = None,
    model_id: str | None = None,
) -> Path:
    """A copy of an entry under ``folder``, changed, and all else made to agree with the change.

    Args:
        path: an honest entry.
        folder: of the forged one.
        samples: returns the forged samples; aggregates, counts and hashes then follow.
        entry: changes the entry after that.
        model_id: its new model.
    """
    record, rows = read(path)
    name = model_id or record["model"]["id"]
    record["model"]["id"] = record["signature_parts"]["model"] = name
    target = folder / folder_name(name) / path.name
    target.parent.mkdir(parents=True)
    if samples is None:
        there = record["samples"]["file"]
        shutil.copyfile(path.with_name(there), target.with_name(there))
    else:
        rows = samples(rows)
        consistent(record, rows)
    if entry is not None:
        entry(record)
    parts = record["signature_parts"]
    record["signature"] = "|".join(f"{key}:{value}" for key, value in parts.items())
    return write(target, record, None if samples is None else rows)
