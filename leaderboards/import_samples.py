"""lm-eval's sample files beside a result: its means computed again, its documents hashed."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tcb_bench.errors import DataError, UsageError
from tcb_bench.results import digest

TOLERANCE = 1e-9


@dataclass(frozen=True, slots=True)
class Documents:
    """The documents of a task: sha256 of the sorted [id, document sha256] pairs."""

    sha256: str


def read_documents(files: Sequence[Path], result: Mapping[str, Any]) -> dict[str, Documents]:
    """Task -> its documents, from sample files whose means agree with the result.

    Raises:
        UsageError: a file that belongs to no task of the result.
        DataError: a file that cannot be read, or numbers that differ.
    """
    found = {}
    for file in files:
        task = _task_of(file, result)
        hashes, values = _read(file)
        _compare(file, task, result, values)
        found[task] = Documents(digest(sorted([own, sha] for own, sha in hashes.items())))
    return found


def _task_of(file: Path, result: Mapping[str, Any]) -> str:
    """The task in a name such as ``samples_gsm8k_2026-01-31T10-00-00.000000.jsonl``."""
    name = file.stem.removeprefix("samples_").rpartition("_")[0]
    if name not in result["results"]:
        raise UsageError(
            f"--samples {file}: of no task of the result; expected samples_<task>_<date>.jsonl"
        )
    return name


def _read(file: Path) -> tuple[dict[str, str], dict[str, list[Any]]]:
    """Document id -> its sha256, and ``metric,filter`` -> values."""
    hashes: dict[str, str] = {}
    values: dict[str, list[Any]] = {}
    try:
        with file.open(encoding="utf-8") as lines:
            for line in lines:
                row = json.loads(line)
                hashes[str(row["doc_id"])] = digest(row["doc"])
                for name in row.get("metrics", []):
                    values.setdefault(f"{name},{row['filter']}", []).append(row.get(name))
    except OSError as error:
        raise DataError(f"{file}: cannot be read: {error.strerror}") from None
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(f"{file}: no sample file of lm-eval: {error!r}") from None
    return hashes, values


def _compare(
    file: Path, task: str, result: Mapping[str, Any], values: Mapping[str, Sequence[Any]]
) -> None:
    """Metrics that lm-eval aggregates by the mean, against the mean of the samples."""
    listed = result["configs"].get(task, {}).get("metric_list") or []
    means = {m["metric"] for m in listed if m.get("aggregation") in (None, "mean")}
    for key, found in values.items():
        stated = result["results"][task].get(key)
        is_mean = key.partition(",")[0] in means
        if not is_mean or not isinstance(stated, int | float) or not all(map(_is_value, found)):
            continue
        mean = statistics.fmean(found)
        if not math.isclose(mean, stated, rel_tol=TOLERANCE, abs_tol=TOLERANCE):
            raise DataError(
                f"{file}: the mean of {key} is {mean:.6g} over its {len(found)} rows, and the "
                f"result says {stated:.6g}; give the samples that were written with it"
            )


def _is_value(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)
