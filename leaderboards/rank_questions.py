"""Boards of means and medians over questions: cells with ranges of ranks."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from tcb_bench.leaderboards.boards import Cell
from tcb_bench.leaderboards.columns import Columns
from tcb_bench.leaderboards.comparable import is_known
from tcb_bench.leaderboards.entry import Entry, EntryMetric
from tcb_bench.leaderboards.rank_measures import Measure
from tcb_bench.leaderboards.rank_medians import median_draws
from tcb_bench.leaderboards.rank_pairs import Differences, mean_differences, median_differences
from tcb_bench.leaderboards.rank_ranges import ranked
from tcb_bench.metrics.statistics import Interval, median_intervals, resampled_sums

Floats = NDArray[np.float64]

RESAMPLES = 2_000


def per_question(columns: Columns, sample: str, *, is_median: bool) -> Floats:
    """(Q,) value of each question: over its responses in all conditions; NaN where none has one."""
    values = columns.values[sample]
    found = np.full(len(columns.questions), np.nan)
    present = ~np.isnan(values)
    question, values = columns.question[present], values[present]
    n = np.bincount(question, minlength=len(found))
    if is_median and (n > 1).any():
        order = np.lexsort((values, question))
        ordered, first = values[order], np.concatenate([[0], np.cumsum(n)[:-1]])
        low, high = first + (n - 1) // 2, first + n // 2
        own = np.flatnonzero(n)
        found[own] = ordered[low[own]] / 2 + ordered[high[own]] / 2
        return found
    sums = np.bincount(question, weights=values, minlength=len(found))
    found[n > 0] = sums[n > 0] / n[n > 0]
    return found


def question_weights(columns: Columns) -> Floats:
    """(Q,) weight of each question in means."""
    weights = np.ones(len(columns.questions))
    weights[columns.question] = columns.weight
    return weights


class QuestionTable:
    """The models of one group over the questions of any of them: (M, Q) per measure."""

    def __init__(self, measures: Sequence[Measure]) -> None:
        """Empty; `add` the models in the order of their rows."""
        self.samples = {m.sample: m.statistic == "median" for m in measures if m.sample}
        self.shared: list[str] = []  # one list in memory for all models that agree
        self.questions: list[list[str]] = []
        self.values: list[dict[str, Floats]] = []
        self.weights: dict[str, float] = {}

    def add(self, columns: Columns | None) -> None:
        """One model; None where its samples are not here."""
        if columns is None:
            self.questions.append([])
            self.values.append({})
            return
        names = self.shared if columns.questions == self.shared else columns.questions
        if names is not self.shared:
            self.weights |= dict(zip(names, question_weights(columns).tolist(), strict=True))
        self.shared = self.shared or names
        self.questions.append(names)
        self.values.append(
            {
                name: per_question(columns, name, is_median=is_median)
                for name, is_median in self.samples.items()
            }
        )

    def everything(self) -> list[str]:
        """All questions, sorted."""
        return sorted(set().union(*{id(names): names for names in self.questions}.values()))

    def table(self, sample: str) -> Floats:
        """(M, Q) of one measure; NaN = no value."""
        everything = self.everything()
        at = {name: i for i, name in enumerate(everything)}
        found = np.full((len(self.values), len(everything)), np.nan)
        for i, (names, values) in enumerate(zip(self.questions, self.values, strict=True)):
            if sample in values:
                same = len(names) == len(everything)
                found[i, slice(None) if same else [at[name] for name in names]] = values[sample]
        return found


def question_cells(
    entries: Sequence[Entry], table: QuestionTable, measures: Sequence[Measure], *, seed: int
) -> list[dict[str, Cell]]:
    """For each model its cells, by column key.

    Values and intervals are the entry's own aggregates where it has them. Ranks come from the
    samples: means by `mean_differences`, medians by joint resamples of the questions.
    """
    everything = table.everything()
    counts = np.zeros((0, 0))
    if everything and any(m.statistic == "median" for m in measures):
        counts = resampled_sums(np.eye(len(everything)), resamples=RESAMPLES, seed=seed)
    rows: list[dict[str, Cell]] = [{} for _ in entries]
    for measure in measures:
        values = _values(entries, table, measure)
        cells = [_cell(e, measure, values[i], seed) for i, e in enumerate(entries)]
        weights = _weights(everything, table.weights, measure)
        pairs = _differences(values, weights, counts, measure)
        for row, cell in zip(rows, ranked(cells, pairs, measure.column), strict=True):
            row[measure.column.key] = cell
    return rows


def _values(entries: Sequence[Entry], table: QuestionTable, measure: Measure) -> Floats:
    """(M, Q), relative_delta of all models at epsilon 1; (M, 0) where samples do not hold it."""
    if measure.sample is None:
        return np.full((len(entries), 0), np.nan)
    values = table.table(measure.sample)
    if measure.sample == "log10_relative_delta":
        values -= np.log10([[entry.epsilon or 1.0] for entry in entries])
    return values


def _differences(
    values: Floats, weights: Floats, counts: Floats, measure: Measure
) -> Differences | None:
    if len(values) < 2 or values.shape[1] == 0:
        return None
    if measure.statistic == "median":
        return median_differences(values, median_draws(values, counts))
    return mean_differences(values, weights)


def _weights(everything: Sequence[str], weights: Mapping[str, float], measure: Measure) -> Floats:
    """(Q,) weights in means; for ``macro`` 1 / the questions of the same subject."""
    if measure.statistic != "macro":
        return np.array([weights[name] for name in everything])
    subjects = [name.partition("/")[0] for name in everything]
    sizes = {subject: subjects.count(subject) for subject in dict.fromkeys(subjects)}
    return np.array([1 / sizes[subject] for subject in subjects])


def _cell(entry: Entry, measure: Measure, values: Floats, seed: int) -> Cell:
    metric: Interval | EntryMetric | None
    if measure.sample == "log10_relative_delta":
        metric = _log10_relative_delta(entry, values, seed)
    else:
        metric = next((m for m in entry.metrics if m.name == measure.metric), None)
    if metric is not None and metric.value is not None:
        return Cell(
            value=metric.value,
            ci_low=metric.ci_low,
            ci_high=metric.ci_high,
            n=metric.n,
            reason=None if is_known(entry) else "not ranked: what the model was asked is not known",
        )
    reason = "no value in this entry"
    if measure.is_stability and entry.weight_radius is None:
        reason = f"needs hidden states, which the back end {entry.model.backend} does not give"
    return Cell(value=None, ci_low=None, ci_high=None, n=0, reason=reason)


def _log10_relative_delta(entry: Entry, values: Floats, seed: int) -> Interval | EntryMetric | None:
    """At epsilon 1, as ``values`` are; else from the entry's own median (equal for odd n)."""
    if not np.isnan(values).all():
        return median_intervals(values[:, None], seed=seed)[0]
    shift = math.log10(entry.epsilon or 1.0)
    metric = next((m for m in entry.metrics if m.name == "relative_delta_median"), None)
    if metric is None or not metric.value:
        return None
    logs = [
        math.log10(x) - shift if x else None for x in (metric.value, metric.ci_low, metric.ci_high)
    ]
    return Interval(logs[0], logs[1], logs[2], None, metric.n)
