"""From sample rows to numbers that carry their n and their interval."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from tcb_bench.metrics import METRICS
from tcb_bench.metrics.statistics import (
    Interval,
    mean_intervals,
    median_intervals,
    stratified_mean_interval,
)
from tcb_bench.metrics.variability import summary

MEDIANS = (
    *("delta_tcb", "log10_delta_tcb", "flip_radius", "relative_delta", "relative_flip_radius"),
    *("v_eff", "logit_margin", "p_top1", "p_top2", "nll", "entropy", "h_norm"),
    *("choice_margin", "choice_flip_radius"),
)
LOG10_MEANS = ("delta_tcb", "flip_radius", "relative_delta", "relative_flip_radius")
MEANS = ("v_eff", "logit_margin", "p_top1", "p_top2", "nll", "entropy", "answer_mass")
SHARES = ("acc", "greedy_is_choice")
ALWAYS = ("acc",)
TEXT_SCORES = (
    *("bertscore_f1", "bertscore_precision", "bertscore_recall", "rouge1", "rouge2", "rougeL"),
    *("em", "f1", "yes_no", "refusal", "garbled"),
)
"""Scores of free answers, as they stand in a row's ``scores``."""
SPREADS = ("run_std", "question_std", "cv")
SPREAD_OF = ("bertscore_f1", "rougeL", "f1")
"""Scores whose spread over runs and questions is reported for each condition."""


def higher_is_better(name: str) -> bool | None:
    """Direction of an aggregate: that of its quantity (`delta_tcb` for `log10_delta_tcb_mean`)."""
    if name.endswith(tuple(f"_{spread}" for spread in SPREADS)):
        return None if name.endswith("_question_std") else False
    stem = name.removesuffix("_median").removesuffix("_mean")
    metric = METRICS.get(stem) or METRICS[stem.removeprefix("log10_")]
    return metric.higher_is_better


Document = Mapping[str, Any]
"""A sample: ``rows`` holds one scored row per repeat."""


def aggregate(documents: Sequence[Document], *, completed: bool, seed: int) -> dict[str, Interval]:
    """All aggregates of a task, a group or a condition.

    A document's value is the mean (for medians the median) over its repeats that have one;
    intervals resample documents, and n counts them.

    Medians and the mean of log10 are what stability is reported by (one huge delta decides an
    arithmetic mean). A log10 of 0 (an exact tie) has no value and is missing from that n.

    Args:
        documents: the samples.
        completed: leave out rows that are not ``scored`` (truncated and empty texts).
        seed: of the bootstrap.

    Returns:
        name -> Interval; names that no row has a value for are left out, but ``acc`` always stands.
    """
    rows = [
        [row for row in doc["rows"] if not completed or row["state"] == "scored"]
        for doc in documents
    ]
    means = _table(rows, [*_shares(), *_means(), *_logs(), *_texts()])
    medians = _table(
        rows, [(f"{name}_median", _length(name)) for name in MEDIANS], statistics.median
    )
    own = [doc.get("weight", 1.0) for doc in documents]
    weights = own if len(set(own)) > 1 else None
    found = dict(zip(means[0], mean_intervals(means[1], weights=weights, seed=seed), strict=True))
    found |= dict(zip(medians[0], median_intervals(medians[1], seed=seed), strict=True))
    return {name: interval for name, interval in found.items() if interval.n or name in ALWAYS}


def spreads(documents: Sequence[Document], *, completed: bool, seed: int) -> dict[str, Interval]:
    """``<score>_run_std``, ``_question_std`` and ``_cv`` of one condition, by ``variability``.

    Args:
        documents: the samples of the condition.
        completed: leave out rows that are not ``scored``.
        seed: of the bootstrap.

    Returns:
        name -> Interval, for scores that some question has in two runs.
    """
    found: dict[str, Interval] = {}
    weights = [doc.get("weight", 1.0) for doc in documents]
    for name in SPREAD_OF:
        table = _runs(documents, name, completed)
        if not (np.isfinite(table).sum(axis=1) > 1).any():
            continue
        made = summary(table, weights=weights, seed=seed)
        across = Interval(made.question_std, None, None, None, made.n)
        parts = (made.run_std, across, made.cv)
        found |= {f"{name}_{s}": part for s, part in zip(SPREADS, parts, strict=True)}
    return found


def _runs(documents: Sequence[Document], name: str, completed: bool) -> Any:
    """(questions, runs) of one score; NaN where there is none."""
    width = max((len(doc["rows"]) for doc in documents), default=1)
    table = np.full((len(documents), width), np.nan)
    for i, doc in enumerate(documents):
        for row in doc["rows"]:
            value = row.get("scores", {}).get(name)
            if value is not None and not (completed and row["state"] != "scored"):
                table[i, row["repeat"]] = value
    return table


def accuracy_macro(groups: Iterable[Sequence[Document]], *, completed: bool, seed: int) -> Interval:
    """``acc_macro`` of a group: each task weighs alike; the error is over its questions."""
    tables = [
        _table(
            [[r for r in doc["rows"] if not completed or r["state"] == "scored"] for doc in docs],
            _shares()[:1],
        )[1]
        for docs in groups
    ]
    return stratified_mean_interval([table[:, 0] for table in tables], seed=seed)


def flatten(metrics: Mapping[str, Interval], filter_name: str) -> dict[str, float | int | None]:
    """lm-eval's keys: ``name,filter``, with _stderr, _ci_low, _ci_high and _n beside each."""
    flat: dict[str, float | int | None] = {}
    for name, interval in metrics.items():
        record = as_record(interval)
        flat[f"{name},{filter_name}"] = record["value"]
        for part in ("stderr", "ci_low", "ci_high", "n"):
            flat[f"{name}_{part},{filter_name}"] = record[part]
    return flat


def as_record(interval: Interval) -> dict[str, Any]:
    """An interval as JSON types; what is not finite is null."""
    return {
        key: value if value is None or math.isfinite(value) else None
        for key, value in asdict(interval).items()
    }


def _shares() -> list[tuple[str, Any]]:
    return [(name, lambda row, name=name: row.get(name)) for name in SHARES]


def _means() -> list[tuple[str, Any]]:
    return [(f"{name}_mean", _plain(name)) for name in MEANS]


def _logs() -> list[tuple[str, Any]]:
    return [(f"log10_{name}_mean", _log10(name)) for name in LOG10_MEANS]


def _texts() -> list[tuple[str, Any]]:
    return [(name, lambda row, name=name: row.get("scores", {}).get(name)) for name in TEXT_SCORES]


def _plain(name: str) -> Any:
    return lambda row: row["stability"].get(name)


def _length(name: str) -> Any:
    """A quantity for medians: a delta too large for a float64 is +inf there, not missing."""

    def value(row: Mapping[str, Any]) -> float | None:
        values = row["stability"]
        is_beyond = name in ("delta_tcb", "relative_delta") and values.get(name) is None
        if is_beyond and values.get("log10_delta_tcb") is not None and values.get("h_norm"):
            return math.inf
        return values.get(name)  # type: ignore[no-any-return]

    return value


def _log10(name: str) -> Any:
    """log10 of a quantity; delta's own logarithm is used, which is finite where delta overflows."""

    def log10(row: Mapping[str, Any]) -> float | None:
        values = row["stability"]
        if name in ("delta_tcb", "relative_delta") and values.get("log10_delta_tcb") is not None:
            scale = values.get("h_norm") if name == "relative_delta" else 1.0
            return values["log10_delta_tcb"] - math.log10(scale) if scale else None
        value = values.get(name)
        return math.log10(value) if value else None

    return log10


def _table(
    rows: Sequence[Sequence[Mapping[str, Any]]],
    columns: Sequence[tuple[str, Any]],
    combine: Callable[[list[float]], float] = statistics.fmean,
) -> tuple[list[str], Any]:
    """(names, (documents, columns)): a document's repeats combined, NaN where it has none."""
    table = np.full((len(rows), len(columns)), np.nan)
    for i, repeats in enumerate(rows):
        for j, (_, read) in enumerate(columns):
            values = [value for row in repeats if (value := read(row)) is not None]
            if values:
                table[i, j] = combine(values)
    return [name for name, _ in columns], table
