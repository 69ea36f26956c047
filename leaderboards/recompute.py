"""An entry's numbers again, from its sample rows alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tcb_bench.aggregate import SPREADS, as_record, higher_is_better
from tcb_bench.leaderboards.entry import EntryMetric
from tcb_bench.metrics import METRICS
from tcb_bench.metrics.statistics import Interval
from tcb_bench.results import TaskResult, task_metrics

Document = Mapping[str, Any]


def recomputed(
    cells: Mapping[str, Sequence[Document]], *, is_group: bool, seed: int
) -> tuple[dict[str, list[EntryMetric]], dict[str, dict[str, list[EntryMetric]]]]:
    """Metrics over all conditions, and of each: ``metrics`` and ``metrics_completed`` -> list.

    Args:
        cells: condition id -> samples with their rows, as dicts.
        is_group: whether the mean over tasks (``acc_macro``) belongs to it.
        seed: of the bootstrap.
    """
    task = TaskResult(
        name="",
        version=None,
        cells=cells,
        axes={},
        signature_parts={},
        config={},
        n_shot=0,
        temperature_effective="unknown",
        facts={},
        members=by_task(cells) if is_group else {},
    )
    overall, conditions = task_metrics(task, seed)
    return named(overall), {cell: named(found) for cell, found in conditions.items()}


def by_task(cells: Mapping[str, Sequence[Document]]) -> dict[str, list[Document]]:
    """Task of a group -> its questions, the rows of all conditions of one together."""
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for samples in cells.values():
        for sample in samples:
            questions = found.setdefault(sample["task"], {})
            own = questions.setdefault(sample["doc_id"], {"rows": []})
            own["rows"] += sample["rows"]
    return {task: list(questions.values()) for task, questions in found.items()}


def named(metrics: Mapping[str, Mapping[str, Interval]]) -> dict[str, list[EntryMetric]]:
    """``metrics`` and ``metrics_completed`` as an entry has them."""
    return {
        key: [
            entry_metric(name, as_record(interval)) for name, interval in metrics[filter_].items()
        ]
        for key, filter_ in (("metrics", "none"), ("metrics_completed", "completed"))
    }


def entry_metric(name: str, record: Mapping[str, Any]) -> EntryMetric:
    """A result's metric with its direction and unit.

    >>> entry_metric("acc", dict(value=0.5, ci_low=0.4, ci_high=0.6, stderr=0.1, n=9)).unit
    'share'
    """
    return EntryMetric(
        name=name, higher_is_better=higher_is_better(name), unit=unit_of(name), **record
    )


def unit_of(name: str) -> str:
    """The unit of an aggregate: that of its quantity, or ``log10 of`` it."""
    stem = name.removesuffix("_median").removesuffix("_mean")
    for spread in SPREADS:
        stem = stem.removesuffix(f"_{spread}")
    if name.endswith("_cv"):
        return "1"
    if stem in METRICS:
        return METRICS[stem].unit
    return f"log10 of {METRICS[stem.removeprefix('log10_')].unit}"
