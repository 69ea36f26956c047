"""One summary per row of interventions, and its change from row 1, with intervals."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tcb_bench.metrics.paired import Alternative, sign_flip_p
from tcb_bench.metrics.shares import share_interval
from tcb_bench.metrics.statistics import Interval, mean_intervals, median_intervals
from tcb_bench.scoring import NOT_FOUND, states
from tcb_bench.studies.interventions_rows import (
    STABLE_BY,
    Sample,
    Settings,
    Threshold,
    Value,
    cases,
    value_of,
)

MEDIANS = (*STABLE_BY, "v_eff", "logit_margin", "p_top1")
MEANS = ("delta_tcb", "v_eff", "logit_margin")
"""Arithmetic means, for the table in the paper's layout only."""
COMPARED: dict[str, Alternative] = {
    "acc": "less",
    "log10_delta_tcb": "greater",
    "log10_flip_radius": "greater",
}
"""What is compared with row 1, and what the paper says of its change."""


def summary(
    samples: Sequence[Sample], at: Threshold, settings: Settings, seed: int
) -> list[dict[str, Any]]:
    """One record per row of the file: every quantity with n and interval, counts, cases."""
    numbers = sorted({sample["row"] for sample in samples})
    return [
        _row([s for s in samples if s["row"] == number], at, settings, seed) for number in numbers
    ]


def _row(samples: Sequence[Sample], at: Threshold, settings: Settings, seed: int) -> dict[str, Any]:
    units = units_of(samples)
    own = [dict(sample) for sample in samples if not sample["is_repeat"]]
    found = {
        "row": samples[0]["row"],
        "description": samples[0]["description"],
        "n": len(units),
        "n_asked": len(samples),
        "n_prompts": len(own),
        "states": states(own),
        "no_number": sum(sample["reason"] == NOT_FOUND for sample in own),
        "acc": accuracy(units, settings, seed),
    }
    for name in MEDIANS:
        found[f"{name}_median"] = _median(units, name, settings, seed)
    for name in (*MEANS, "log10_delta_tcb", "log10_flip_radius"):
        found[f"{name}_mean"] = _mean(units, name, settings, seed)
    acc = found["acc"].value
    correct = None if acc is None else acc >= settings["accurate_at"]
    p_top1, stability = (found[f"{name}_median"].value for name in ("p_top1", at.quantity))
    found |= cases(correct, p_top1, stability, at, settings)
    labels = [s[c] for s in own for c in ("case_accuracy", "case_confidence")]
    found["cases"] = dict(Counter(label for label in labels if label))
    found["reason"] = _reason(units, samples, found)
    return found


def _reason(units: Sequence[Any], samples: Sequence[Sample], row: Mapping[str, Any]) -> str | None:
    """Why a value or interval is missing, in one line."""
    if row["log10_delta_tcb_mean"].n == 0:
        counted = Counter(sample["reason"] or "no value" for sample in samples)
        return "no stability: " + "; ".join(f"{why} ({n})" for why, n in counted.items())
    if len(units) == 1:
        return "every seed has the same prompt at T = 0: one answer, no interval"
    if row["log10_delta_tcb_mean"].n == 1:
        return "one answer with a number: no interval"
    return None


def units_of(samples: Sequence[Sample]) -> list[list[Sample]]:
    """What intervals resample: answers to different prompts; with several items, the items."""
    own = [sample for sample in samples if not sample["is_repeat"]]
    items = list(dict.fromkeys(sample["item"] for sample in own))
    if len(items) == 1:
        return [[sample] for sample in own]
    return [[sample for sample in own if sample["item"] == item] for item in items]


def accuracy(units: Sequence[Sequence[Sample]], settings: Settings, seed: int) -> Interval:
    """The mean of right or wrong: Wilson's interval of single answers, else over items."""
    if any(len(unit) > 1 for unit in units):
        return _mean(units, "acc", settings, seed)
    known = [bool(v) for unit in units if not math.isnan(v := value_of("acc")(unit[0]))]
    return share_interval(known, level=settings["level"])


def _mean(units: Sequence[Sequence[Sample]], name: str, settings: Settings, seed: int) -> Interval:
    values = [_of_unit(unit, name, np.mean) for unit in units]
    return mean_of(values, settings, seed)


def mean_of(values: Sequence[float], settings: Settings, seed: int) -> Interval:
    """The mean of values, NaN left out, with its bootstrap interval."""
    table = np.asarray(values, dtype=np.float64)[:, None]
    options = {"resamples": settings["resamples"], "level": settings["level"]}
    return mean_intervals(table, seed=seed, **options)[0]


def _median(
    units: Sequence[Sequence[Sample]], name: str, settings: Settings, seed: int
) -> Interval:
    values = np.asarray([_of_unit(unit, name, np.median) for unit in units])[:, None]
    options = {"resamples": settings["resamples"], "level": settings["level"]}
    return median_intervals(values, seed=seed, **options)[0]


def _of_unit(unit: Sequence[Sample], name: str, middle: Callable[[Any], Any]) -> float:
    values = [v for sample in unit if not math.isnan(v := value_of(name)(sample))]
    return float(middle(values)) if values else math.nan


def differences(samples: Sequence[Sample], settings: Settings, seed: int) -> list[dict[str, Any]]:
    """Every row against row 1, paired by item and seed (the same order of the same examples)."""
    first = {(s["item"], s["seed"]): s for s in samples if s["row"] == 1}
    found = []
    for number in sorted({s["row"] for s in samples} - {1}):
        pairs = [(first[s["item"], s["seed"]], s) for s in samples if s["row"] == number]
        own = _different(pairs)
        record: dict[str, Any] = {"row": number, "description": pairs[0][1]["description"]}
        for name, alternative in COMPARED.items():
            values = _paired(own, value_of(name))
            record[name] = mean_of(values, settings, seed)
            record[f"{name}_p"] = _p(values, alternative, settings, seed)
        record["pairs"] = len(own)
        rises = [d for d in _per_pair(own, value_of("log10_delta_tcb")) if not math.isnan(d)]
        record["n_delta_rises"], record["n_delta"] = sum(d > 0 for d in rises), len(rises)
        record["reason"] = None
        if record["log10_delta_tcb"].n < 2:
            record["reason"] = f"{len(rises)} pairs with a number in both answers"
        found.append(record)
    return found


def _p(
    values: Sequence[float], alternative: Alternative, settings: Settings, seed: int
) -> float | None:
    """One-sided, exact for few pairs: a bootstrap interval of two values is no test."""
    p = sign_flip_p(
        np.asarray(values)[:, None],
        alternative=alternative,
        resamples=settings["resamples"],
        seed=seed,
    )[0]
    return None if math.isnan(p) else float(p)


def _different(pairs: Sequence[tuple[Sample, Sample]]) -> list[tuple[Sample, Sample]]:
    """The pairs without those of which both answers were seen together before."""
    first: dict[tuple[Any, ...], tuple[Sample, Sample]] = {}
    for a, b in pairs:
        own = [s["prompt"] if s["is_greedy"] else s["id"] for s in (a, b)]
        first.setdefault((a["item"], *own), (a, b))
    return list(first.values())


def _per_pair(pairs: Sequence[tuple[Sample, Sample]], value: Value) -> list[float]:
    return [value(b) - value(a) for a, b in pairs]


def _paired(pairs: Sequence[tuple[Sample, Sample]], value: Value) -> list[float]:
    """A difference per pair; with several items the mean of each item's."""
    changes = _per_pair(pairs, value)
    items = list(dict.fromkeys(a["item"] for a, _ in pairs))
    if len(items) == 1:
        return changes
    of_items = [
        [d for d, (a, _) in zip(changes, pairs, strict=True) if a["item"] == item and d == d]
        for item in items
    ]
    return [float(np.mean(values)) if values else math.nan for values in of_items]
