"""The numbers of an entry's sample rows as arrays: what boards and pages are drawn from."""

from __future__ import annotations

import gzip
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic_core import from_json

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
        values: name -> (N,): ``acc``, ``STABILITY``, ``log10_relative_delta`` and ``SCORES``; NaN
            where there is none.
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
    """The columns of a sample file that `leaderboard check` has passed."""
    places: list[tuple[str, str]] = []
    rows: list[tuple[float, ...]] = []
    states: list[str] = []
    with gzip.open(path, "rb") as file:
        for line in file:
            sample = from_json(line)
            own = (f"{sample['task']}/{sample['doc_id']}", sample["condition"])
            weight = sample.get("weight") or 1.0
            for row in sample["rows"]:
                places.append(own)
                states.append(row["state"])
                rows.append((row["repeat"], weight, *_numbers(row)))
    table = np.array(rows, dtype=np.float64).reshape(len(rows), 3 + len(STABILITY) + len(SCORES))
    names = ("acc", *STABILITY, *SCORES)
    values = {name: table[:, 2 + i] for i, name in enumerate(names)}
    with np.errstate(divide="ignore", invalid="ignore"):
        values["log10_relative_delta"] = values["log10_delta_tcb"] - np.log10(values["h_norm"])
    questions = sorted({question for question, _ in places})
    conditions = list(dict.fromkeys(condition for _, condition in places))
    at_question = {name: i for i, name in enumerate(questions)}
    at_condition = {name: i for i, name in enumerate(conditions)}
    return Columns(
        questions=questions,
        question=np.array([at_question[q] for q, _ in places], dtype=np.int64),
        conditions=conditions,
        condition=np.array([at_condition[c] for _, c in places], dtype=np.int64),
        repeat=table[:, 0].astype(np.int64),
        state=states,
        weight=table[:, 1],
        values=values,
    )


def _numbers(row: Mapping[str, Any]) -> list[float]:
    found = [row.get("acc")]
    found += map(row["stability"].get, STABILITY)
    found += map((row.get("scores") or {}).get, SCORES)
    return [np.nan if value is None else value for value in found]
