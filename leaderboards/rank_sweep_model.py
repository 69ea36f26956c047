"""The numbers of one model's curves over temperature, with the draws of their resamples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tcb_bench.leaderboards.columns import Columns
from tcb_bench.leaderboards.entry import Entry
from tcb_bench.leaderboards.rank_curves import (
    Sweep,
    areas,
    condition_tables,
    cvs,
    drops,
    heights,
    onsets,
    sweep_of,
)
from tcb_bench.leaderboards.rank_facts import ignores_temperature
from tcb_bench.leaderboards.rank_questions import RESAMPLES, question_weights
from tcb_bench.metrics.statistics import percentile_interval, resampled_means
from tcb_bench.metrics.variability import question_means

Floats = NDArray[np.float64]


@dataclass(slots=True, kw_only=True)
class Curves:
    """One model of a group: its numbers, their joint draws, and what they were made of.

    Attributes:
        values: column key -> value; NaN = none.
        low: column key -> lower end of the interval; NaN = none.
        high: the upper end.
        draws: column key -> (B,); empty without samples here.
        n: questions with a score.
        facts: which context is worst, and which falls first.
    """

    values: dict[str, float] = field(default_factory=dict)
    low: dict[str, float] = field(default_factory=dict)
    high: dict[str, float] = field(default_factory=dict)
    draws: dict[str, Floats] = field(default_factory=dict)
    n: int = 0
    facts: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelTable:
    """m and s (C, Q) of one model; None without samples here."""

    questions: Sequence[str]
    weights: Floats
    means: Floats
    deviations: Floats


def model_table(columns: Columns | None, entry: Entry, score: str) -> ModelTable | None:
    """What a board keeps of a model's samples."""
    if columns is None or sweep_of(entry.conditions) is None:
        return None
    means, deviations = condition_tables(columns, entry, score)
    return ModelTable(
        questions=columns.questions,
        weights=question_weights(columns),
        means=means,
        deviations=deviations,
    )


def curves_of(entry: Entry, table: ModelTable, everything: Sequence[str], seed: int) -> Curves:
    """The numbers of a model with samples, from resamples of all questions of its group.

    Args:
        entry: the entry, of a sweep over temperature.
        table: its m and s.
        everything: the questions of all models of the group, sorted.
        seed: the same for all of them.
    """
    sweep = sweep_of(entry.conditions)
    if sweep is None:
        return Curves()
    both, weights = _aligned(table, everything)
    present = ~np.isnan(both)
    shares = np.where(present, weights[:, None], 0.0)
    with np.errstate(invalid="ignore"):  # 0 / 0 in a condition without a score
        exact = (np.where(present, both, 0.0) * shares).sum(axis=0) / shares.sum(axis=0)
    found = _numbers(exact[None], sweep)
    draws = _numbers(resampled_means(both, weights=weights, resamples=RESAMPLES, seed=seed), sweep)
    means = both[:, : len(table.means)]
    curves = Curves(n=int((~np.isnan(means)).any(axis=1).sum()))
    worst = _worst(found, sweep)
    if worst is not None:
        curves.facts["worst context"] = worst
        for numbers in (found, draws):
            numbers["worst_context"] = numbers[f"area_{worst}"]
    for key, value in found.items():
        interval = percentile_interval(float(value[0]), draws[key], n=curves.n)
        curves.values[key] = float(value[0])
        curves.low[key] = np.nan if interval.ci_low is None else interval.ci_low
        curves.high[key] = np.nan if interval.ci_high is None else interval.ci_high
        curves.draws[key] = draws[key]
    if not ignores_temperature(entry):
        _add_onset(curves, means.T, sweep, weights, seed)
    return curves


def _aligned(table: ModelTable, everything: Sequence[str]) -> tuple[Floats, Floats]:
    """(Q, 2 C) m and s and (Q,) weights, a row per question of the group; NaN = none."""
    at = {name: i for i, name in enumerate(everything)}
    own = [at[name] for name in table.questions]
    both = np.full((len(everything), 2 * len(table.means)), np.nan)
    both[own] = np.concatenate([table.means, table.deviations]).T
    weights = np.ones(len(everything))
    weights[own] = table.weights
    return both, weights


def _numbers(rows: Floats, sweep: Sweep) -> dict[str, Floats]:
    """Column key -> (B,) from (B, 2 C) means of m and s."""
    means, deviations = np.split(rows, 2, axis=1)
    levels = heights(means, sweep)
    own = areas(levels, sweep.temperatures)
    return {
        "area": own.mean(axis=1),
        **{f"area_{c}": own[:, k] for k, c in enumerate(sweep.contexts)},
        "drop": drops(levels),
        "cv": cvs(means, deviations),
    }


def _worst(found: Mapping[str, Floats], sweep: Sweep) -> str | None:
    """The context of the smallest area; it is then held fixed in all resamples."""
    own = {c: found[f"area_{c}"][0] for c in sweep.contexts}
    if len(own) < 2 or np.isnan(list(own.values())).any():
        return None
    return min(own, key=lambda c: float(own[c]))


def _add_onset(curves: Curves, means: Floats, sweep: Sweep, weights: Floats, seed: int) -> None:
    found = onsets(means, sweep, weights=weights, resamples=RESAMPLES, seed=seed)
    falling = {context: t for context, t in found.items() if t is not None}
    curves.values["onset"] = min(falling.values(), default=np.nan)
    if falling:
        first = min(falling, key=lambda context: falling[context])
        named = ", ".join(f"{c or 'all'} at {t:g}" for c, t in falling.items())
        curves.facts |= {"falls first": first or "the only context", "falls": named}
    else:
        curves.facts["falls"] = f"no context, up to {sweep.temperatures[-1]:g}"


def curves_from_conditions(entry: Entry, score: str) -> Curves:
    """The numbers of a model without samples here, from its conditions' own means.

    Every number is linear in the conditions, so that the ends of their intervals bound the ends of
    its own, whatever the questions have in common: these intervals are never too short.
    """
    sweep = sweep_of(entry.conditions)
    if sweep is None:
        return Curves()
    value, low, high = (_parts(entry, score, part) for part in ("value", "ci_low", "ci_high"))
    cv_value, cv_low, cv_high = (
        float(question_means(_parts(entry, f"{score}_cv", part))[0])
        for part in ("value", "ci_low", "ci_high")
    )
    levels, lows, highs = (heights(rows, sweep) for rows in (value, low, high))
    found = Curves(
        values=_linear(levels, levels, sweep) | {"cv": cv_value},
        low=_linear(lows, highs, sweep) | {"cv": cv_low},
        high=_linear(highs, lows, sweep) | {"cv": cv_high},
        n=max(
            (m.n for cell in entry.conditions for m in cell.metrics if m.name == score), default=0
        ),
    )
    worst = _worst({key: np.array([x]) for key, x in found.values.items()}, sweep)
    if worst is not None:
        found.facts["worst context"] = worst
        for numbers in (found.values, found.low, found.high):
            numbers["worst_context"] = numbers[f"area_{worst}"]
    return found


def _parts(entry: Entry, name: str, part: str) -> Floats:
    """(1, C) a part of one metric of all conditions; NaN = none."""
    metrics = [{m.name: m for m in cell.metrics} for cell in entry.conditions]
    return np.array([[getattr(own.get(name), part, None) for own in metrics]], dtype=np.float64)


def _linear(rows: Floats, against: Floats, sweep: Sweep) -> dict[str, float]:
    """Areas of the curves (1, T, K), and the drop from these to the last of ``against``."""
    own = areas(rows, sweep.temperatures)[0]
    return {
        "area": float(own.mean()),
        **{f"area_{context}": float(own[k]) for k, context in enumerate(sweep.contexts)},
        "drop": float((rows[0, 0] - against[0, -1]).mean()),
    }
