"""The scores of a study as arrays: temperature x context x question x run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Grid:
    """All conditions of one model on one task, for one question type.

    Attributes:
        model: the label of the model; ``task`` of the task.
        question_type: ``bridge``, ``comparison``, or "" for a task without that axis.
        temperatures: rising; ``contexts`` in the YAML's order, ``original`` first.
        questions: document ids, sorted.
        scores: metric -> (T, C, Q, R) floats; NaN where there is no score (not asked, an error,
            unscored). T temperatures, C contexts, Q questions, R runs.
        weights: (Q,) weight of each question, mean 1 (1 everywhere unless a cell was short).
        temperature_effective: true, false, "remapped" or "unknown".
        samples: (temperature, context, question id) -> the sample row, for texts.
    """

    model: str
    task: str
    question_type: str
    temperatures: Sequence[float]
    contexts: Sequence[str]
    questions: Sequence[str]
    scores: Mapping[str, Floats]
    weights: Floats
    temperature_effective: Any = True
    samples: Mapping[tuple[float, str, str], Mapping[str, Any]] = field(default_factory=dict)
