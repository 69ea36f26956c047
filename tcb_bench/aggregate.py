"""From sample rows to numbers that carry their n and their interval."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
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
from tcb_bench.metrics.variability import summaries
from tcb_bench.row_tables import (
    MEAN_NAMES,
    MEDIAN_NAMES,
    document_means,
    document_medians,
    values_for_means,
    values_for_medians,
)

ALWAYS = ("acc",)
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
    means = document_means(rows, values_for_means)
    medians = document_medians(rows, values_for_medians)
    own = [doc.get("weight", 1.0) for doc in documents]
    weights = own if len(set(own)) > 1 else None
    intervals = mean_intervals(means, weights=weights, seed=seed)
    found = dict(zip(MEAN_NAMES, intervals, strict=True))
    found |= dict(zip(MEDIAN_NAMES, median_intervals(medians, seed=seed), strict=True))
    return {name: interval for name, interval in found.items() if interval.n or name in ALWAYS}


def document_values(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """What a document puts into each aggregate: the mean, for medians the median, of its rows."""
    means = document_means([rows], values_for_means)[0]
    medians = document_medians([rows], values_for_medians)[0]
    pairs = [*zip(MEAN_NAMES, means, strict=True), *zip(MEDIAN_NAMES, medians, strict=True)]
    return {name: float(value) for name, value in pairs if not math.isnan(value)}


def spreads(documents: Sequence[Document], *, completed: bool, seed: int) -> dict[str, Interval]:
    """``<score>_run_std``, ``_question_std`` and ``_cv`` of one condition, by ``variability``.

    Args:
        documents: the samples of the condition.
        completed: leave out rows that are not ``scored``.
        seed: of the bootstrap.

    Returns:
        name -> Interval, for scores that some question has in two runs.
    """
    tables = {name: _runs(documents, name, completed) for name in SPREAD_OF}
    kept = [name for name, runs in tables.items() if (np.isfinite(runs).sum(axis=1) > 1).any()]
    if not kept:
        return {}
    weights = [doc.get("weight", 1.0) for doc in documents]
    found: dict[str, Interval] = {}
    made = summaries([tables[name] for name in kept], weights=weights, seed=seed)
    for name, one in zip(kept, made, strict=True):
        across = Interval(one.question_std, None, None, None, one.n)
        parts = (one.run_std, across, one.cv)
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
        document_means(
            [[r for r in doc["rows"] if not completed or r["state"] == "scored"] for doc in docs],
            lambda row: [row.get("acc")],
        )
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
