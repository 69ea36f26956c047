"""From answers of interventions to sample rows: scores, the threshold of stable, conflict cases."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tcb_bench.errors import UnknownName, UsageError
from tcb_bench.metrics.robustness import conflict_case
from tcb_bench.responses import Response
from tcb_bench.scoring import score
from tcb_bench.studies.interventions_file import Interventions
from tcb_bench.studies.interventions_prompts import Asked

STABLE_BY = ("relative_flip_radius", "flip_radius", "relative_delta", "delta_tcb")
"""Quantities that may say what stable is."""

Sample = Mapping[str, Any]
Settings = Mapping[str, Any]
Value = Callable[[Sample], float]


@dataclass(frozen=True, slots=True)
class Threshold:
    """From where on an answer is called stable: ``value`` of ``quantity``, and how it was found."""

    quantity: str
    value: float | None
    origin: str


def check_settings(settings: Settings) -> None:
    """Refuses values that no study could use, before a model answers.

    Raises:
        UsageError: a number out of its range.
        UnknownName: a quantity or reference that is not known.
    """
    for name, known in (("stable_by", STABLE_BY), ("stable_over", ("rows", "baseline"))):
        if settings[name] not in known:
            raise UnknownName(f"{name}", settings[name], known, f"give one of {', '.join(known)}")
    for name, low in (("seeds", 1), ("resamples", 1)):
        if settings[name] < low:
            raise UsageError(f"setting {name}={settings[name]}: give {low} or more")
    for name in ("stable_quantile", "confident_at", "accurate_at"):
        if not 0 <= settings[name] <= 1:
            raise UsageError(f"setting {name}={settings[name]}: give a number from 0 to 1")
    if not 0 < settings["level"] < 1:
        raise UsageError(f"setting level={settings['level']}: give a number between 0 and 1")
    at = settings["stable_at"]
    if at is not None and (isinstance(at, bool) or not isinstance(at, int | float) or at < 0):
        raise UsageError(f"setting stable_at={at!r}: give a number of 0 or more, or null")


def scored(
    asked: Sequence[Asked], responses: Sequence[Response], task: Any, interventions: Interventions
) -> list[dict[str, Any]]:
    """A sample row per request, nothing left out.

    ``is_repeat`` marks a request with the prompt and sampling seed of an earlier one of its row:
    it has that one's answer, and does not count in n.
    """
    rows, seen = [], set()
    for one, response in zip(asked, responses, strict=True):
        same = (one.row, one.item, one.prompt)
        is_greedy = not one.arguments[1]["temperature"]
        intervention = interventions.rows[one.row - 1]
        rows.append(
            {
                "id": one.id,
                "row": one.row,
                "description": intervention.description,
                "item": one.item,
                "seed": one.seed,
                "examples": list(one.order),
                "is_greedy": is_greedy,
                "is_repeat": is_greedy and same in seen,
                "prompt": one.prompt,
                "text": getattr(response, "text", None),
                **score(response, task.target(one.doc), task.spec),
            }
        )
        seen.add(same)
    return rows


def threshold(samples: Sequence[Sample], settings: Settings) -> Threshold:
    """The value of the setting ``stable_at``, else the quantile that the settings ask for."""
    name = settings["stable_by"]
    if settings["stable_at"] is not None:
        return Threshold(name, float(settings["stable_at"]), "given as stable_at")
    is_all = settings["stable_over"] == "rows"
    used = [s for s in samples if not s["is_repeat"] and (is_all or s["row"] == 1)]
    values = [v for s in used if not math.isnan(v := value_of(name)(s))]
    share = settings["stable_quantile"]
    of = "all rows" if is_all else "row 1"
    origin = f"the {share:g} quantile over {len(values)} answers of {of}"
    return Threshold(name, float(np.quantile(values, share)) if values else None, origin)


def value_of(name: str) -> Value:
    """Reads one quantity of a sample; NaN where it has none (its reason stands in the sample)."""

    def read(sample: Sample) -> float:
        if name == "acc":
            found = sample["acc"]
        elif name == "log10_flip_radius":
            radius = sample["stability"].get("flip_radius")
            found = math.log10(radius) if radius else None
        else:
            found = sample["stability"].get(name)
        return math.nan if found is None else float(found)

    return read


def with_cases(
    samples: Iterable[Sample], at: Threshold, settings: Settings
) -> list[dict[str, Any]]:
    """The samples with the conflict case of each answer on both axes; None where unknown."""
    found = []
    for sample in samples:
        acc = sample["acc"]
        stability, p_top1 = (sample["stability"].get(k) for k in (at.quantity, "p_top1"))
        labels = cases(None if acc is None else bool(acc), p_top1, stability, at, settings)
        found.append({**sample, **labels})
    return found


def cases(
    correct: bool | None,
    p_top1: float | None,
    stability: float | None,
    at: Threshold,
    settings: Settings,
) -> dict[str, str | None]:
    """``case_accuracy`` and ``case_confidence`` of an answer or a row; None where unknown."""
    found = conflict_case(
        correct=correct,
        p_top1=p_top1,
        stability=None if at.value is None else stability,
        stable_at=at.value or 0.0,
        confident_at=settings["confident_at"],
    )
    return {"case_accuracy": found.accuracy, "case_confidence": found.confidence}
