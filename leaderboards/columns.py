"""The numbers of an entry's sample rows as arrays: what boards and pages are drawn from."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic_core import from_json

from tcb_bench.errors import DataError
from tcb_bench.leaderboards.entry_files import MAX_LINE, MAX_SAMPLES

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]

STABILITY = (
    *("relative_flip_radius", "flip_radius", "log10_delta_tcb", "h_norm", "p_top1"),
    *("v_eff", "logit_margin", "answer_mass", "choice_flip_radius"),
)
SCORES = ("bertscore_f1", "rougeL", "f1", "em")


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """Every response of an entry, a row each (N rows in all).

    Attributes:
        questions: distinct ``task/doc_id``, sorted; ``question`` (N,) is an index into it.
        conditions: distinct condition ids, in the file's order; ``condition`` (N,) an index.
        repeat: (N,) number of the run.
        state: (N,) of text: scored, truncated, ...
        weight: (N,) of the question in means.
        values: name -> (N,): ``acc``, ``STABILITY``, ``log10_relative_delta``, ``SCORES`` and
            ``stable_at`` (threshold of relative_flip_radius for conflicts); NaN = none.
    """

    questions: list[str]
    question: Codes
    conditions: list[str]
    condition: Codes
    repeat: Codes
    state: list[str]
    weight: Floats
    values: Mapping[str, Floats]


def read_columns(path: Path) -> Columns:
    """The columns of a sample file that `leaderboard check` has passed.

    Raises:
        DataError: it cannot be read, or a row lacks what every sample has.
    """
    places: list[tuple[str, str]] = []
    rows: list[tuple[float | None, ...]] = []
    states: list[str] = []
    try:
        for line in _lines(path):
            sample = from_json(line, cache_strings="keys")
            own = (f"{sample['task']}/{sample['doc_id']}", sample["condition"])
            weight = sample.get("weight") or 1.0
            for row in sample["rows"]:
                places.append(own)
                states.append(row["state"])
                rows.append((row["repeat"], weight, *_numbers(row)))
        table = np.array(rows, dtype=np.float64)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path}: no readable gzip file: {error}") from None
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
        raise DataError(
            f"{path}: not the samples of an entry ({error}); see `tcb-bench leaderboard check`"
        ) from None
    names = ("acc", *STABILITY, *SCORES, "stable_at")
    table = table.reshape(len(rows), 2 + len(names))
    values = {name: table[:, 2 + i] for i, name in enumerate(names)}
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = values["log10_delta_tcb"] - np.log10(values["h_norm"])
    values["log10_relative_delta"] = np.where(np.isfinite(logs), logs, np.nan)
    questions, question = _coded([own for own, _ in places], is_sorted=True)
    conditions, condition = _coded([cell for _, cell in places], is_sorted=False)
    return Columns(
        questions=questions,
        question=question,
        conditions=conditions,
        condition=condition,
        repeat=table[:, 0].astype(np.int64),
        state=states,
        weight=table[:, 1],
        values=values,
    )


def _lines(path: Path) -> Iterator[bytes]:
    total = 0
    with gzip.open(path, "rb") as file:
        while line := file.readline(MAX_LINE + 1):
            total += len(line)
            if len(line) > MAX_LINE or total > MAX_SAMPLES:
                raise DataError(f"{path}: a line or the whole is larger than allowed")
            yield line


def _coded(names: list[str], *, is_sorted: bool) -> tuple[list[str], Codes]:
    """The distinct names, and each name's place among them."""
    distinct = sorted(set(names)) if is_sorted else list(dict.fromkeys(names))
    at = {name: i for i, name in enumerate(distinct)}
    return distinct, np.array([at[name] for name in names], dtype=np.int64)


def _numbers(row: Mapping[str, Any]) -> tuple[float | None, ...]:
    """Numbers of a response; numpy makes NaN of None."""
    return (
        row.get("acc"),
        *map(row["stability"].get, STABILITY),
        *map((row.get("scores") or {}).get, SCORES),
        row["conflict"]["stable_at"],
    )
