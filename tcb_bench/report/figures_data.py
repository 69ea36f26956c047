"""The numbers that figures draw, from grids: one value per condition, or one per question."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tcb_bench.metrics import variability
from tcb_bench.report.grid import Floats, Grid

ORIGINAL = "original"
STABILITY = "relative_flip_radius"


@dataclass(frozen=True, slots=True)
class Spread:
    """Per condition, (T, C) each: mean of the score, its run standard deviation, and their ratio.

    NaN where no question has a score, for ``run_std`` and ``cv`` also where none has two runs.
    """

    mean: Floats
    run_std: Floats
    cv: Floats


def question_means(grid: Grid, metric: str) -> Floats:
    """(T, C, Q): each question's mean over its runs that have a score, else NaN."""
    return variability.question_means(grid.scores[metric])


def spread(grid: Grid, metric: str) -> Spread:
    """Mean and run-to-run spread of every condition.

    mean = sum w m / sum w,  run_std = sum w s / sum w,  cv = run_std / mean

    over the questions that have m (mean over runs) or s (standard deviation over runs, ddof 1).
    """
    mean = _weighted(question_means(grid, metric), grid.weights)
    run_std = _weighted(variability.run_deviations(grid.scores[metric]), grid.weights)
    return Spread(mean, run_std, run_std / np.where(mean > 0, mean, np.nan))


def baseline_cv(grid: Grid, metric: str) -> float | None:
    """Mean CV of the original context over its temperatures; None where there is none."""
    if ORIGINAL not in grid.contexts:
        return None
    original = grid.scores[metric][:, list(grid.contexts).index(ORIGINAL)]
    return variability.baseline_cv(original, weights=grid.weights, resamples=1).value


def asked(grid: Grid) -> NDArray[np.bool_]:
    """(T, C) whether any question was asked in a condition, with a score or without."""
    found = np.zeros((len(grid.temperatures), len(grid.contexts)), dtype=bool)
    for values in grid.scores.values():
        found |= ~np.isnan(values).all(axis=(2, 3))
    places = {(temperature, context) for temperature, context, _ in grid.samples}
    for t, temperature in enumerate(grid.temperatures):
        for c, context in enumerate(grid.contexts):
            found[t, c] |= (temperature, context) in places
    return found


def two_temperatures(grid: Grid, metric: str, wanted: Sequence[float]) -> list[float]:
    """The temperatures with scores that are nearest to those wanted, the lower of two as near.

    Where both would be one temperature, the first and the last are taken; one, if there is one.
    """
    means = question_means(grid, metric)
    there = [T for t, T in enumerate(grid.temperatures) if not np.isnan(means[t]).all()]
    nearest = [min(there, key=lambda T: (abs(T - want), T)) for want in wanted if there]
    if len(set(nearest)) == len(wanted):
        return nearest
    return sorted({there[0], there[-1]}) if there else []


@dataclass(frozen=True, slots=True)
class Losses:
    """One point per question: its stability at the lowest temperature (N,), and its loss (N,)."""

    stability: Floats
    loss: Floats


def losses(grid: Grid, metric: str) -> Mapping[str, Losses]:
    """Loss of each question against its score at the lowest temperature in the original context.

    ``temperature``: that score minus the mean over the higher temperatures, original context.
    ``perturbation``: that score minus the mean over the other contexts, lowest temperature.
    Stability is the mean of ``relative_flip_radius`` over the runs that have it. Questions that
    lack one of the three are left out; a kind without any question is not in the result.
    """
    if ORIGINAL not in grid.contexts:
        return {}
    means, plain = question_means(grid, metric), list(grid.contexts).index(ORIGINAL)
    others = {"temperature": means[1:, plain], "perturbation": np.delete(means[0], plain, axis=0)}
    stability = np.array([_stability(grid, question) for question in grid.questions])
    found = {}
    for kind, values in others.items():
        loss = means[0, plain] - variability.question_means(values.T)
        use = ~np.isnan(loss) & ~np.isnan(stability)
        if use.any():
            found[kind] = Losses(stability[use], loss[use])
    return found


def _stability(grid: Grid, question: str) -> float:
    sample = grid.samples.get((grid.temperatures[0], ORIGINAL, question), {})
    values = [(row.get("stability") or {}).get(STABILITY) for row in sample.get("rows", ())]
    present = [value for value in values if value is not None]
    return float(np.mean(present)) if present else float("nan")


def _weighted(values: Floats, weights: Floats) -> Floats:
    """(T, C, Q) to (T, C): the weighted mean over the questions that have a value."""
    has = ~np.isnan(values)
    total = np.where(has, values, 0.0) @ weights
    mass = has @ weights
    return np.asarray(total / np.where(mass > 0, mass, np.nan))
