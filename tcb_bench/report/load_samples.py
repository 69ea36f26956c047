"""Sample files, read line by line: scores are kept, texts stay there until they are asked for."""

from __future__ import annotations

import json
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tcb_bench.errors import DataError, reason

HAS_SCORES = frozenset({"scored", "truncated", "empty"})
"""States of a response whose scores count; error, filtered and unscored have none."""

FLAGS = ("refusal", "garbled")
TOKENS = ("prompt_tokens", "completion_tokens")

Place = tuple[Path, int]
"""File and byte offset of a sample's line."""


@dataclass(slots=True)
class CellSamples:
    """What the samples of one condition come to.

    Attributes:
        values: document id -> for each repeat, metric -> value; empty where nothing is scored.
        places: document id -> where its line stands.
        weights: document id -> the sample's weight, 1 where it has none.
        flags: ``refusal`` and ``garbled`` -> how many rows have it; absent where no row was asked.
        usage: tokens of all rows, a reused repeat left out.
    """

    values: dict[str, list[dict[str, float]]] = field(default_factory=dict)
    places: dict[str, Place] = field(default_factory=dict)
    weights: dict[str, float] = field(default_factory=dict)
    flags: dict[str, int] = field(default_factory=dict)
    usage: dict[str, int] = field(default_factory=lambda: dict.fromkeys(TOKENS, 0))


class StoredSamples(Mapping[tuple[float, str, str], Mapping[str, Any]]):
    """Sample rows by (temperature, context, question id); each is read when it is asked for."""

    def __init__(self, places: Mapping[tuple[float, str, str], Place]) -> None:
        self._places = places

    def __getitem__(self, key: tuple[float, str, str]) -> Mapping[str, Any]:
        """The whole sample as it was written."""
        return read_sample(self._places[key])

    def __contains__(self, key: object) -> bool:
        """Whether that question was asked there; reads nothing."""
        return key in self._places

    def __iter__(self) -> Iterator[tuple[float, str, str]]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


def read_sample(place: Place) -> Mapping[str, Any]:
    """The whole sample that stands at a place, as it was written."""
    path, offset = place
    with path.open("rb") as file:
        file.seek(offset)
        sample: Mapping[str, Any] = json.loads(file.readline())
    return sample


def task_of(path: Path) -> str | None:
    """The task whose samples a file holds; None for an empty file or one of lm-eval's own tasks."""
    for _, sample in _lines(path):
        return sample.get("task") if "rows" in sample else None
    return None


def read_samples(path: Path, wanted: Container[str]) -> dict[str, CellSamples]:
    """Condition id -> its samples, for the conditions that are wanted.

    Of a row in a state with scores, ``acc`` and every number under ``scores`` is a value; null and
    text are none.

    Raises:
        DataError: a line is no sample, or a document stands twice in a condition.
    """
    cells: dict[str, CellSamples] = {}
    for offset, sample in _lines(path):
        if sample.get("condition") not in wanted:
            continue
        cell = cells.setdefault(sample["condition"], CellSamples())
        document = str(sample["doc_id"])
        if document in cell.places:
            raise DataError(f"{path.name}: {document!r} stands twice in {sample['condition']!r}")
        cell.places[document] = (path, offset)
        cell.weights[document] = float(sample.get("weight", 1.0))
        try:
            cell.values[document] = [_values(row) for row in sample["rows"]]
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise DataError(
                f"{path.name}: {document!r} in {sample['condition']!r} is damaged: {reason(error)}"
            ) from None
        _count(cell, sample["rows"])
    return cells


def _lines(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """(Byte offset, sample) of each line."""
    offset = 0
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            try:
                sample = json.loads(line)
            except ValueError as error:
                raise DataError(f"{path.name}:{number}: not JSON: {error}") from None
            if not isinstance(sample, dict) or "doc_id" not in sample:
                raise DataError(f"{path.name}:{number}: a sample row was expected")
            yield offset, sample
            offset += len(line)


def _values(row: Mapping[str, Any]) -> dict[str, float]:
    if row["state"] not in HAS_SCORES:
        return {}
    named = {"acc": row.get("acc"), **(row.get("scores") or {})}
    return {name: float(value) for name, value in named.items() if isinstance(value, int | float)}


def _count(cell: CellSamples, rows: list[Mapping[str, Any]]) -> None:
    for row in rows:
        scores = row.get("scores") or {}
        for flag in FLAGS:
            if scores.get(flag) is not None:
                cell.flags[flag] = cell.flags.get(flag, 0) + bool(scores[flag])
        if not row.get("reused_from"):
            for name in TOKENS:
                cell.usage[name] += row.get(name) or 0
