"""The columns of boards whose numbers are means and medians over questions, and where from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from tcb_bench.aggregate import higher_is_better
from tcb_bench.leaderboards.boards import BoardColumn
from tcb_bench.leaderboards.columns import SCORES
from tcb_bench.leaderboards.entry import Entry
from tcb_bench.leaderboards.recompute import unit_of
from tcb_bench.metrics import METRICS

Statistic = Literal["mean", "median", "macro"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """A column, and how it comes from an entry.

    Attributes:
        column: what the board shows.
        sample: name in `Columns.values`; None where samples do not hold it.
        statistic: over questions; ``macro`` is the mean of the subjects' means.
        metric: the entry's own aggregate; None where it has none of that name.
        is_stability: whether it needs hidden states.
    """

    column: BoardColumn
    sample: str | None
    statistic: Statistic
    metric: str | None
    is_stability: bool = False


ACC = Measure(
    column=BoardColumn(
        key="acc",
        label="Accuracy",
        unit="share",
        higher_is_better=True,
        digits=3,
        meaning="share of right answers, every question alike",
    ),
    sample="acc",
    statistic="mean",
    metric="acc",
)
ACC_MACRO = Measure(
    column=BoardColumn(
        key="acc_macro",
        label="Accuracy, macro",
        unit="share",
        higher_is_better=True,
        digits=3,
        meaning="mean of the subjects' accuracies, every subject alike",
    ),
    sample="acc",
    statistic="macro",
    metric="acc_macro",
)
FLIP_RADIUS = Measure(
    column=BoardColumn(
        key="relative_flip_radius",
        label="Flip radius / |h|, median",
        unit="1",
        higher_is_better=True,
        digits=4,
        meaning="median over questions of the exact distance from the hidden state to the nearest "
        "one with another top token, divided by the state's norm",
    ),
    sample="relative_flip_radius",
    statistic="median",
    metric="relative_flip_radius_median",
    is_stability=True,
)
RELATIVE_DELTA = Measure(
    column=BoardColumn(
        key="log10_relative_delta",
        label="log10 delta_tcb / |h|, median",
        unit="log10 of 1",
        higher_is_better=True,
        digits=2,
        meaning="median over questions of log10 of delta_tcb divided by the hidden state's norm, "
        "at epsilon 1 (delta_tcb is linear in epsilon; other values are brought to 1)",
    ),
    sample="log10_relative_delta",
    statistic="median",
    metric=None,
    is_stability=True,
)
ANSWER_MASS = Measure(
    column=BoardColumn(
        key="answer_mass",
        label="Answer mass",
        unit="probability",
        higher_is_better=True,
        digits=3,
        meaning="mean probability that the next token is one of the given answers",
    ),
    sample="answer_mass",
    statistic="mean",
    metric="answer_mass_mean",
    is_stability=True,
)


def measures_of(task: str, entries: Sequence[Entry]) -> list[Measure]:
    """The columns of a task's board: first what sorts it."""
    if task.startswith("mmlu_tcb"):
        macro = [ACC_MACRO] if any(_has(entry, "acc_macro") for entry in entries) else []
        return [ACC, *macro, FLIP_RADIUS, RELATIVE_DELTA, ANSWER_MASS]
    if task.startswith("gsm8k_tcb"):
        return [ACC, FLIP_RADIUS, RELATIVE_DELTA]
    return [first_score(entries), FLIP_RADIUS, RELATIVE_DELTA]


def first_score(entries: Sequence[Entry]) -> Measure:
    """``acc`` where some entry has it, else the first score of free answers, else any metric."""
    if any(_has(entry, "acc") for entry in entries):
        return ACC
    names = [m.name for entry in entries for m in entry.metrics if m.value is not None]
    known = [name for name in SCORES if name in names]
    name = next(iter([*known, *names]), "acc")
    return ACC if name == "acc" else _measure(name, entries)


def _measure(name: str, entries: Sequence[Entry]) -> Measure:
    found = next(m for entry in entries for m in entry.metrics if m.name == name)
    is_known = name in METRICS
    column = BoardColumn(
        key=name,
        label=name,
        unit=unit_of(name) if is_known else found.unit,
        higher_is_better=higher_is_better(name) if is_known else found.higher_is_better,
        digits=3,
        meaning=METRICS[name].meaning if is_known else "as the entry names it",
    )
    sample = name if name in SCORES else None
    return Measure(column=column, sample=sample, statistic="mean", metric=name)


def _has(entry: Entry, name: str) -> bool:
    return any(m.name == name and m.value is not None for m in entry.metrics)
