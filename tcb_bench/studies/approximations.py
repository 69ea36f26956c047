"""``--approximations``: the paper's simpler forms of delta_tcb against the exact value."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from tcb_bench.metrics.approximations import approximations, mean_square_of
from tcb_bench.metrics.delta_tcb import token_stability
from tcb_bench.metrics.statistics import Interval, median_intervals, percentile_interval
from tcb_bench.report.analysis_cells import spread
from tcb_bench.report.table import Column, Row, Table
from tcb_bench.responses import Failure
from tcb_bench.studies.session import Measure, Session
from tcb_bench.studies.shown import COVERAGE, LEVEL, interval_cells

WHAT = "approximations/1"
FORMS = ("refined", "diffuse", "peaked")
REGIMES: dict[str, Callable[[float], bool]] = {
    "< 2": lambda v: v < 2,
    "2-20": lambda v: 2 <= v < 20,
    "20-100": lambda v: 20 <= v <= 100,
    "> 100": lambda v: v > 100,
    "all": lambda v: True,
}
RESAMPLES = 10_000
NOTE = (
    "log10 ratio: log10 of the form over the exact delta_tcb at the same state; 0.3 is a factor of "
    "2. Refined: eps / sqrt(d sigma² (S2 - 2 S3 + S2²)); diffuse: eps sqrt(v_eff / (d sigma²)); "
    "peaked: eps / sqrt(sum over j != k of o_j² |w_j - w_k|²); sigma² is the mean of all squared "
    "entries of W. p90: the error that one prompt in ten exceeds, its interval is in study.json. "
    f"In brackets {COVERAGE} intervals by bootstrap of prompts."
)
COLUMNS = [
    Column("form", "form"),
    Column("regime", "v_eff"),
    Column("n", "n"),
    Column("error_shown", "|log10 ratio|, median"),
    Column("error_p90", "p90", 3),
    Column("ratio_shown", "ratio, median"),
    Column("reason", "remark"),
]


def approximations_table(session: Session, contexts: Sequence[Any]) -> Table:
    """The error of the refined, diffuse and peaked forms at the prediction behind each context.

    A pass of its own over the contexts, durable like every other; equal contexts count each.

    Args:
        session: of any study; its model must give its hidden states away.
        contexts: texts, or token ids, as for ``Session.states``.

    Returns:
        a row per form and regime of v_eff; contexts without an answer are counted in the note.

    Raises:
        ModelError: the back end does not give its states away.
    """
    head = getattr(session.model, "head", None)
    values = session.states(WHAT, contexts, _measure(head))
    known = [value for value in values if not isinstance(value, Failure)]
    note = NOTE
    if lost := len(values) - len(known):
        note += f" {lost} of {len(values)} prompts have no answer and are left out."
    return error_table(known, note, seed=session.seed)


def _measure(head: Any) -> Measure:
    """v_eff, exact log10 delta and the three forms' log10 of each state."""
    noise: list[float] = []

    def measure(states: Tensor) -> list[list[float]]:
        if not noise:  # on the first batch: a resumed study may have none
            noise.append(mean_square_of(head))
        exact = token_stability(states, head)
        forms = approximations(states, head, mean_square=noise[0])
        columns = [exact.v_eff, exact.log10_delta_tcb, *(getattr(forms, name) for name in FORMS)]
        return [list(row) for row in zip(*(c.tolist() for c in columns), strict=True)]

    return measure


def error_table(values: Sequence[Sequence[float]], note: str = NOTE, *, seed: int = 0) -> Table:
    """The table from (v_eff, log10 exact, log10 refined, diffuse, peaked) per prompt."""
    table = np.array(values, dtype=np.float64).reshape(len(values), 2 + len(FORMS))
    with np.errstate(invalid="ignore"):  # inf - inf, where every row of W is the top-1's
        errors = table[:, 2:] - table[:, 1:2]
    rows = []
    for column, form in enumerate(FORMS):
        for regime, holds in REGIMES.items():
            inside = np.array([holds(v) for v in table[:, 0]], dtype=bool)
            rows.append({"form": form, "regime": regime, **_row(errors[inside, column], seed)})
    title = "The paper's simpler forms of delta_tcb against the exact value"
    return Table("approximations", title, note, COLUMNS, rows)


def _row(errors: NDArray[np.float64], seed: int) -> Row:
    """What is said of the log10 ratios of one form in one regime."""
    errors = errors[~np.isnan(errors)]
    size = np.abs(errors)[:, None]
    with np.errstate(over="ignore"):
        ratios = (10**errors)[:, None]
    options: dict[str, Any] = {"resamples": RESAMPLES, "level": LEVEL, "seed": seed}
    row: dict[str, Any] = {"n": len(errors)}
    row |= interval_cells("error", median_intervals(size, **options)[0])
    row |= spread(_p90(size[:, 0], seed), "error_p90")
    row |= interval_cells("ratio", median_intervals(ratios, **options)[0])
    if len(errors) < 2:
        row["reason"] = "one prompt has no interval" if len(errors) else "no such prompt"
    return row


def _p90(size: NDArray[np.float64], seed: int) -> Interval:
    """The 90 % quantile by the inverse of the distribution function, an observed value."""
    n = len(size)
    if n == 0:
        return Interval(None, None, None, None, 0)
    place = math.ceil(0.9 * n) - 1
    ordered = np.sort(size)
    if n == 1:
        return Interval(float(ordered[0]), None, None, None, 1)
    # the rank that a resample's place-th smallest has in the sample: a beta variate, in closed form
    uniform = np.random.default_rng((seed, n)).beta(place + 1, n - place, RESAMPLES)
    draws = ordered[np.minimum((n * uniform).astype(np.intp), n - 1)]
    return percentile_interval(float(ordered[place]), draws, n=n, level=LEVEL)
