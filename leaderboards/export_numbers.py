"""The numbers of a result one by one: of a whole task, and of each of its conditions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tcb_bench.aggregate import SPREADS, higher_is_better
from tcb_bench.leaderboards.export_source import Source
from tcb_bench.leaderboards.recompute import unit_of
from tcb_bench.records import ConditionRecord

FILTERS = {"none": "metrics", "completed": "metrics_completed"}
"""Filter -> where a condition has its metrics: over all responses, over finished texts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Number:
    """An aggregate with what it takes to read it; None where it has no value or no meaning.

    Attributes:
        task: task or group; ``condition`` its id, empty for all conditions together.
        filter: ``none`` = all responses that have a score, ``completed`` = finished texts.
        name: such as ``acc`` or ``relative_flip_radius_median``.
        value, ci_low, ci_high, stderr: in ``unit``; the interval covers 95 %.
        n: documents with a value.
    """

    task: str
    condition: str
    filter: str
    name: str
    value: float | None
    ci_low: float | None
    ci_high: float | None
    stderr: float | None
    n: int | None
    unit: str | None
    higher_is_better: bool | None


def without_spread(name: str) -> str:
    """The score whose spread an aggregate is; the name itself where it is none."""
    ends = tuple(f"_{spread}" for spread in SPREADS)
    return next((name.removesuffix(end) for end in ends if name.endswith(end)), name)


def is_swept(source: Source, task: str) -> bool:
    """Whether a task's conditions have ids, so that they are more than the task itself."""
    return set(source.record(task).conditions) != {""}


def numbers(source: Source, task: str) -> Iterator[Number]:
    """All numbers of a task: over all conditions first, then of each condition."""
    if task in source.stock:
        yield from _of_stock(source, task)
        return
    if is_swept(source, task):
        yield from _of_task(source, task)
    for condition in source.record(task).conditions:
        yield from _of_condition(task, condition, source.record(task).conditions[condition])


def _of_condition(task: str, condition: str, record: ConditionRecord) -> Iterator[Number]:
    for name, key in FILTERS.items():
        for metric, found in getattr(record, key).items():
            yield _number(task, condition, name, metric, found.model_dump())


def _of_task(source: Source, task: str) -> Iterator[Number]:
    """From lm-eval's flat keys: ``name,filter``, with _n and the rest beside it."""
    flat = source.result.results[task]
    for name in FILTERS:
        for key in flat:
            if not key.endswith(f"_n,{name}"):
                continue
            metric = key.removesuffix(f"_n,{name}")
            parts = {part: flat[f"{metric}_{part},{name}"] for part in _PARTS}
            yield _number(task, "", name, metric, {"value": flat[f"{metric},{name}"], **parts})


_PARTS = ("ci_low", "ci_high", "stderr", "n")


def _number(
    task: str, condition: str, filter_name: str, name: str, parts: Mapping[str, Any]
) -> Number:
    return Number(
        task=task,
        condition=condition,
        filter=filter_name,
        name=name,
        unit=unit_of(name),
        higher_is_better=higher_is_better(name),
        **parts,
    )


def _of_stock(source: Source, task: str) -> Iterator[Number]:
    """A task of lm-eval's own: what lm-eval computed, whose unit it does not say."""
    flat = source.result.results[task]
    directions = source.result.higher_is_better.get(task) or {}
    for key, value in flat.items():
        metric, comma, filter_name = key.partition(",")
        is_value = comma and not metric.endswith("_stderr")
        if not is_value or isinstance(value, bool) or not isinstance(value, int | float):
            continue
        stderr = flat.get(f"{metric}_stderr,{filter_name}")
        yield Number(
            task=task,
            condition="",
            filter=filter_name,
            name=metric,
            value=float(value),
            ci_low=None,
            ci_high=None,
            stderr=stderr if isinstance(stderr, int | float) else None,
            n=flat.get("sample_len"),
            unit=None,
            higher_is_better=directions.get(metric),
        )
