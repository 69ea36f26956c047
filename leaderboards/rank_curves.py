"""Quality against temperature: area, worst context, drop, run-to-run CV and onset of a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tcb_bench.leaderboards.columns import Columns
from tcb_bench.leaderboards.entry import Entry, EntryCondition
from tcb_bench.metrics.paired import descent_start, sign_flip_p
from tcb_bench.metrics.variability import question_means, run_deviations

Floats = NDArray[np.float64]
Places = NDArray[np.int64]

ALPHA = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """The conditions of a task by temperature and context; all else (question types) beside.

    Attributes:
        temperatures: (T,) rising, at least two.
        contexts: (K) names, in the order of the conditions; one empty name without such an axis.
        cells: (T, K, P) indices into the entry's conditions, P of one temperature and context.
    """

    temperatures: Floats
    contexts: list[str]
    cells: Places


def sweep_of(conditions: Sequence[EntryCondition]) -> Sweep | None:
    """The sweep; None without two temperatures, or where a combination is missing."""
    places: dict[tuple[float, str], list[int]] = {}
    for i, cell in enumerate(conditions):
        temperature = cell.axes.get("temperature")
        if not isinstance(temperature, int | float):
            return None
        own = (float(temperature), str(cell.axes.get("context") or ""))
        places.setdefault(own, []).append(i)
    temperatures = sorted({temperature for temperature, _ in places})
    contexts = list(dict.fromkeys(context for _, context in places))
    sizes = {len(own) for own in places.values()}
    if len(temperatures) < 2 or len(sizes) != 1:
        return None
    if len(places) != len(temperatures) * len(contexts):
        return None
    cells = [[places[t, context] for context in contexts] for t in temperatures]
    return Sweep(temperatures=np.array(temperatures), contexts=contexts, cells=np.array(cells))


def condition_tables(columns: Columns, entry: Entry, score: str) -> tuple[Floats, Floats]:
    """Return m and s, (C, Q) each: mean and standard deviation over its runs of each question.

    Conditions in the order of the entry, questions in that of ``columns``; NaN = no score.
    """
    at = {cell.id: i for i, cell in enumerate(entry.conditions)}
    condition = np.array([at.get(name, -1) for name in columns.conditions])[columns.condition]
    _, run = np.unique(columns.repeat, return_inverse=True)
    shape = (len(entry.conditions), len(columns.questions), int(run.max(initial=0)) + 1)
    table = np.full(shape, np.nan)
    known = condition >= 0
    table[condition[known], columns.question[known], run[known]] = columns.values[score][known]
    return question_means(table), run_deviations(table)


def heights(means: Floats, sweep: Sweep) -> Floats:
    """(B, T, K) quality from (B, C) means: of the conditions of a temperature and context alike."""
    found: Floats = means[:, sweep.cells].mean(axis=-1)
    return found


def areas(levels: Floats, temperatures: Floats) -> Floats:
    """(B, K) mean height of the curves (B, T, K) over temperature, by trapezoids.

    area = sum_t (x_t + x_{t+1}) / 2 (T_{t+1} - T_t) / (T_last - T_first)
    """
    steps = np.diff(temperatures)
    found: Floats = np.einsum("btk,t->bk", (levels[:, 1:] + levels[:, :-1]) / 2, steps)
    return found / float(temperatures[-1] - temperatures[0])


def drops(levels: Floats) -> Floats:
    """(B,) quality at the lowest minus at the highest temperature, the mean over contexts."""
    found: Floats = (levels[:, 0] - levels[:, -1]).mean(axis=-1)
    return found


def cvs(means: Floats, deviations: Floats) -> Floats:
    """(B,) mean of s / m over the conditions (B, C) that have both, m > 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.where(means > 0, deviations / means, np.nan)
    return question_means(ratios)


def onsets(
    means: Floats, sweep: Sweep, *, weights: Floats, resamples: int, seed: int
) -> Mapping[str, float | None]:
    """Context -> lowest temperature from which on it is below its own level at the lowest one.

    One-sided sign-flip tests of each temperature against the lowest, paired over questions, from
    the highest temperature downwards, stopping at the first that is not significant. Each context
    is tested at 5 % / contexts, so the error of all together is 5 %. None: it never falls.

    Args:
        means: (C, Q) m of each condition and question; NaN = no score.
        sweep: where the conditions lie.
        weights: (Q,) of the questions.
        resamples: random sign patterns.
        seed: of these.

    Source: `metrics.paired.descent_start`.
    """
    table = question_means(np.moveaxis(means[sweep.cells], 2, -1))  # (T, K, Q)
    found: dict[str, float | None] = {}
    for k, context in enumerate(sweep.contexts):
        differences = (table[1:, k] - table[0, k]).T
        p = sign_flip_p(
            differences, weights=weights, alternative="less", resamples=resamples, seed=seed
        )
        start = descent_start(p, alpha=ALPHA / len(sweep.contexts))
        found[context] = None if start is None else float(sweep.temperatures[start + 1])
    return found
