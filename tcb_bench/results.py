"""Entries of a result, its signature and hashes, and its files: strict JSON, written atomically."""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import platform
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

from tcb_bench.aggregate import (
    Document,
    accuracy_macro,
    aggregate,
    as_record,
    flatten,
    higher_is_better,
    spreads,
)
from tcb_bench.errors import StoreError
from tcb_bench.metrics import METRIC_VERSION
from tcb_bench.metrics.answers import EXTRACTION_VERSION
from tcb_bench.metrics.statistics import Interval
from tcb_bench.records import ResultFile
from tcb_bench.sample_records import Sample
from tcb_bench.scoring import states
from tcb_bench.usage import fingerprints, unsupported, usage
from tcb_bench.version import __version__

SCHEMA_VERSION = 1
PACKAGES = (
    "tcb-bench",
    "lm_eval",
    "torch",
    "transformers",
    "tokenizers",
    "datasets",
    "numpy",
    "gguf",
    "bert-score",
    "rouge-score",
    "spacy",
    "nltk",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskResult:
    """One task (or group) with everything its numbers are made of.

    Attributes:
        name: the task's or group's name; ``version`` is the YAML's.
        cells: condition id -> samples; a task without a sweep has the one id "".
        axes: condition id -> axis values.
        signature_parts: every setting that can change a number, in order.
        config: the YAML as it was understood; ``n_shot`` the examples in each prompt.
        temperature_effective: true, false, remapped or unknown, of this model.
        facts: what stands in the ``tcb_bench`` block as it is: data, epsilon, weight_radius, ...
        members: for a group, the names of its tasks with their samples (``acc_macro``).
        request_sha256: condition id -> hash of what the task asks any model.
    """

    name: str
    version: Any
    cells: Mapping[str, Sequence[Document]]
    axes: Mapping[str, Mapping[str, Any]]
    signature_parts: Mapping[str, Any]
    config: Mapping[str, Any]
    n_shot: int
    temperature_effective: Any
    facts: Mapping[str, Any]
    members: Mapping[str, Sequence[Document]] = field(default_factory=dict)
    request_sha256: Mapping[str, str] = field(default_factory=dict)

    @property
    def documents(self) -> list[Document]:
        """All samples, each question once: the rows of all its conditions together.

        Conditions ask the same questions, so a question, not a sample, is what intervals resample.
        """
        if len(self.cells) == 1:
            return list(next(iter(self.cells.values())))
        rows: dict[tuple[str, str], list[Any]] = {}
        weights: dict[tuple[str, str], float] = {}
        for samples in self.cells.values():
            for sample in samples:
                own = (sample["task"], sample["doc_id"])
                rows.setdefault(own, []).extend(sample["rows"])
                weights[own] = sample.get("weight", 1.0)
        return [{"rows": found, "weight": weights[own]} for own, found in rows.items()]


Metrics = dict[str, dict[str, Interval]]
"""Filter (``none``: all documents, ``completed``: finished texts only) -> name -> interval."""


def task_metrics(task: TaskResult, seed: int) -> tuple[Metrics, dict[str, Metrics]]:
    """The task's aggregates over all conditions, and those of each condition; nothing twice."""
    overall = _metrics(task.documents, task.members.values(), seed)
    if len(task.cells) == 1:
        cells = dict.fromkeys(task.cells, overall)
    else:
        cells = {cell: _metrics(docs, (), seed) for cell, docs in task.cells.items()}
    return overall, {cell: _with_spreads(m, task.cells[cell], seed) for cell, m in cells.items()}


def _with_spreads(metrics: Metrics, documents: Sequence[Document], seed: int) -> Metrics:
    found: Metrics = {}
    for name, own in metrics.items():
        if name == "completed" and own is metrics["none"]:  # every text was finished
            found[name] = found["none"]
            continue
        found[name] = own | spreads(documents, completed=name == "completed", seed=seed)
    return found


def _metrics(
    documents: Sequence[Document], members: Iterable[Sequence[Document]], seed: int
) -> Metrics:
    is_all_completed = all(row["state"] == "scored" for doc in documents for row in doc["rows"])
    members = list(members)
    found: Metrics = {}
    for name, completed in (("none", False), ("completed", True)):
        if completed and is_all_completed:
            found[name] = found["none"]
            continue
        found[name] = aggregate(documents, completed=completed, seed=seed)
        if members:
            found[name]["acc_macro"] = accuracy_macro(members, completed=completed, seed=seed)
    return found


def lm_eval_entry(task: TaskResult, metrics: Metrics) -> dict[str, Any]:
    """``results[task]``: aggregates over all its conditions, under ``name,filter`` keys."""
    entry: dict[str, Any] = {"alias": task.name, "sample_len": len(task.documents)}
    for name, found in metrics.items():
        entry |= flatten(found, name)
    return entry


def block_entry(task: TaskResult, cells: Mapping[str, Metrics]) -> dict[str, Any]:
    """``tcb_bench.tasks[task]``: signature, data, counts, and each condition with its metrics."""
    return {
        **task.facts,
        "signature": signature(task.signature_parts),
        "signature_parts": signature_values(task.signature_parts),
        "counts": states([row for doc in task.documents for row in doc["rows"]]),
        "usage": usage(task.documents),
        **({"system_fingerprints": own} if (own := fingerprints(task.documents)) else {}),
        "conditions": {cell: _condition(task, cell, found) for cell, found in cells.items()},
    }


def _condition(task: TaskResult, cell: str, metrics: Metrics) -> dict[str, Any]:
    def records(name: str) -> dict[str, Any]:
        return {key: as_record(interval) for key, interval in metrics[name].items()}

    return {
        "axes": dict(task.axes.get(cell, {})),
        "temperature_effective": task.temperature_effective,
        "counts": states([row for doc in task.cells[cell] for row in doc["rows"]]),
        **unsupported(task.cells[cell]),
        "prompts_sha256": digest([[d.get("doc_id"), d.get("prompt")] for d in task.cells[cell]]),
        "request_sha256": task.request_sha256.get(cell),
        **_changes(task.cells[cell]),
        "metrics": records("none"),
        "metrics_completed": records("completed"),
    }


def _changes(documents: Sequence[Document]) -> dict[str, Any]:
    """How many documents have which flag of a perturbation, and the sums of its counts.

    ``text_flags`` counts answers that BERTScore found empty or longer than its encoder reads.
    """
    found: dict[str, Counter[str]] = {}
    for note in (n for d in documents for n in d.get("perturbation", {}).values()):
        found.setdefault("flags", Counter()).update(note["flags"])
        found.setdefault("counts", Counter()).update(note["counts"])
    noted = Counter(f for d in documents for row in d["rows"] for f in row.get("score_flags", ()))
    changes = {"perturbation": {key: dict(c) for key, c in found.items()}} if found else {}
    return changes | ({"text_flags": dict(noted)} if noted else {})


def signature(parts: Mapping[str, Any]) -> str:
    """One line with every setting that can change the number, in a fixed order."""
    return "|".join(f"{name}:{value}" for name, value in signature_values(parts).items())


def signature_values(parts: Mapping[str, Any]) -> dict[str, str]:
    """The settings of a signature, ours at the end; what is not known is left out."""
    own = {"metric": f"delta{METRIC_VERSION}.extract{EXTRACTION_VERSION}", "tcb-bench": __version__}
    return {name: str(value) for name, value in {**parts, **own}.items() if value is not None}


def digest(value: object) -> str:
    """sha256 of a value's canonical JSON: of a document, or of a list of them."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def environment() -> dict[str, str]:
    """Versions of everything that computes, and the platform; no host or user name."""
    found = {
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}",
    }
    for package in PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found


def directions(entry: Mapping[str, Any]) -> dict[str, bool | None]:
    """``higher_is_better`` of the names that an entry of ``results`` has."""
    names = [key.removesuffix("_n,none") for key in entry if key.endswith("_n,none")]
    return {name: higher_is_better(name) for name in names}


def stamp(seconds: float) -> str:
    """A time for file names, as lm-eval writes it (colons would not do on every system)."""
    whole = time.strftime("%Y-%m-%dT%H-%M-%S", time.localtime(seconds))
    return f"{whole}.{int(seconds % 1 * 1e6):06d}"


def write_result(path: Path, record: Mapping[str, Any]) -> None:
    """A result file, checked against its own definition (`records.ResultFile`) first."""
    checked = ResultFile.model_validate(strict(record))
    write_json(path, checked.model_dump(mode="json", by_alias=True, exclude_unset=True))


def write_samples(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Sample rows: those of our tasks are checked, those of lm-eval's own are as they are."""
    write_jsonl(path, (_checked_sample(row) if "rows" in row else row for row in rows))


def _checked_sample(row: Mapping[str, Any]) -> dict[str, Any]:
    return Sample.model_validate(strict(row)).model_dump(mode="json", exclude_unset=True)


def write_json(path: Path, value: object) -> None:
    """Strict JSON (no NaN, no Infinity), written beside and then moved into place."""
    _replace(path, json.dumps(strict(value), indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def write_jsonl(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """One strict JSON object per line, in one atomic step."""
    lines = (json.dumps(strict(row), ensure_ascii=False, allow_nan=False) for row in rows)
    _replace(path, "".join(f"{line}\n" for line in lines))


def strict(value: Any) -> Any:
    """The value as JSON types: NaN and Infinity are null, what JSON does not know is its text."""
    if isinstance(value, Mapping):
        return {str(key): strict(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [strict(item) for item in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if isinstance(value, str | int | None) else str(value)


def _replace(path: Path, text: str) -> None:
    part = path.with_name(f"{path.name}.part")
    try:
        with part.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)
        raise StoreError(
            f"{path}: cannot be written: {error.strerror}; the responses are safe in the store: "
            "put that right, and give the same command again"
        ) from None
