"""The tables of ``dynamics``: the texts, dips before loops, dips and the second-best token."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tcb_bench.metrics.association import spearman
from tcb_bench.metrics.dynamics import robust_z
from tcb_bench.metrics.shares import share_interval
from tcb_bench.metrics.statistics import (
    Interval,
    mean_intervals,
    median_intervals,
    percentile_interval,
    resampled_sums,
)
from tcb_bench.report.table import Column, Row, Table
from tcb_bench.studies.dynamics_texts import Case
from tcb_bench.studies.dynamics_windows import Design, Found, texts_of
from tcb_bench.studies.shown import COVERAGE, LEVEL, interval_cells
from tcb_bench.trace_text import Rule, TracedText

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
Bootstrap = Mapping[str, int]
"""``resamples`` and ``seed``."""

COMPARED = {
    "p_top2": "P(2nd)",
    "p_top1": "P(1st)",
    "entropy": "entropy",
    "flip_radius": "flip_radius",
}
FEWEST = 12  # tokens of a text whose quantities are correlated
NO_LOOP = "no text of it loops"


def shown(name: str, label: str) -> Column:
    """A column of texts of ``interval_cells``."""
    return Column(f"{name}_shown", label)


def texts_table(cases: Sequence[Case], rule: Rule, how: Bootstrap) -> Table:
    """How many texts loop and where, how many dips there are, by kind of prompt."""
    kinds = list(dict.fromkeys(case.prompt.kind for case in cases))
    rows = [_kind_row(kind, [c for c in cases if c.prompt.kind == kind], how) for kind in kinds]
    if len(kinds) > 1:
        rows.append(_kind_row("all", cases, how))
    columns = [
        Column("kind", "prompts"),
        Column("n", "texts"),
        *([Column("n_failed", "no text")] if any(row["n_failed"] for row in rows) else []),
        Column("n_loops", "loops"),
        shown("loops", "share"),
        Column("onset", "begins at", 0),
        shown("dips", "dips per 100 tokens"),
        shown("before", "log10 delta outside"),
        shown("inside", "inside loops"),
    ]
    around = "the whole text"
    if rule.window:
        around = f"{rule.window} tokens to either side, fewer at the text's ends"
    note = (
        f"A dip: log10 delta_tcb at least {rule.threshold:g} robust standard deviations (1.4826 "
        f"MAD) below the median of {around}. A loop: an n-gram of up to {rule.longest} tokens that "
        f"stands {rule.repeats} times in a row, {rule.least} tokens at least; it begins with the "
        "first token that repeats; at which token: median over loops. Dips are counted outside "
        "loops; log10 delta: median over texts of each text's median. "
        f"{COVERAGE} intervals over texts (Wilson's of the share, else bootstrap). "
        "BC's figure 4 is one curve, without numbers."
    )
    return Table("texts", "Generated texts, their dips and loops", note, columns, rows)


def _kind_row(kind: str, cases: Sequence[Case], how: Bootstrap) -> dict[str, Any]:
    texts = texts_of(cases)
    loops = [text.loop for text in texts if text.loop is not None]
    outside = [_outside(text) for text in texts]
    dips = [100 * float(t.dips[o].mean()) for t, o in zip(texts, outside, strict=True) if o.any()]
    before = [_middle(t.log10_delta[o]) for t, o in zip(texts, outside, strict=True)]
    inside = [_middle(t.log10_delta[~o]) for t, o in zip(texts, outside, strict=True)]
    share = share_interval([t.loop is not None for t in texts], level=LEVEL)
    row = {
        "kind": kind,
        "n": len(texts),
        "n_failed": len(cases) - len(texts),
        "tokens": _middle([len(text) for text in texts]),
        "n_loops": len(loops),
        "onset": _middle([loop.onset for loop in loops]),
        **interval_cells("loops", share, 0, is_percent=True),
        **interval_cells("dips", _mean(dips, how), 1),
        **interval_cells("before", _median(before, how)),
        **interval_cells("inside", _median(inside, how)),
    }
    reasons = [case.reason for case in cases if case.reason]
    reason = reasons[0] if reasons else None if loops else NO_LOOP
    return {**row, "reason": reason} if reason else row


def before_table(found: Sequence[Found], design: Design) -> Table:
    """Do dips precede loops more often than chance?"""
    width = design.width
    rows = []
    for one in found:
        contrast = one.contrast
        row = {
            "measure": one.measure,
            "control": one.control,
            "n": contrast.difference.n,
            "n_left_out": one.n_left_out,
            "n_windows": one.n_windows,
            "before": contrast.first,
            "elsewhere": contrast.others,
            **interval_cells("difference", contrast.difference, 3),
            "p": contrast.p,
        }
        if contrast.difference.n < 2:
            row["reason"] = (
                f"{contrast.difference.n} loops with a control: no interval; more texts, longer "
                "ones, or --set before=4"
            )
        rows.append(row)
    columns = [
        Column("measure", f"in {width} tokens"),
        Column("control", "against"),
        Column("n", "n"),
        Column("n_left_out", "out"),
        Column("n_windows", "windows"),
        Column("before", "before", 3),
        Column("elsewhere", "control", 3),
        shown("difference", "difference"),
        Column("p", "p", 3),
    ]
    note = (
        f"The {width} tokens before a loop begins, against the disjoint windows of {width} before "
        f"them in the same text that have {design.left} tokens before them, and against the same "
        "positions of texts that reach them and do not "
        f"loop by then nor within {width} tokens more. z-scores of a window are made anew from "
        "the tokens before its end alone: in a loop delta is high, and would make dips of all "
        "before. n: loops; windows: their controls. "
        "Dips precede loops if shares are higher, or z lower, before loops. "
        "Out: loops that begin too early, or have no control. Difference: mean over loops, "
        f"{COVERAGE} bootstrap interval; p: two-sided permutation test, each loop's windows "
        "shuffled; not corrected for the number of rows, nor for a text that is control to several "
        "loops."
    )
    return Table("before", "Do dips precede loops?", note, columns, rows)


def second_table(texts: Sequence[TracedText], rule: Rule, how: Bootstrap) -> Table:
    """Dips and spikes of P(2nd): together or apart."""
    rows: list[Row] = []
    for scope, pick in (("all tokens", _every), ("outside loops", _outside)):
        for name, label in COMPARED.items():
            values = [_rho(text, name, pick(text)) for text in texts]
            row = {"what": f"rho with {label}", "scope": scope}
            interval = _mean([v for v in values if v is not None], how)
            rows.append({**row, "n": interval.n, **interval_cells("value", interval, 3)})
        for what, interval in _spikes(texts, rule, pick, how).items():
            rows.append(
                {"what": what, "scope": scope, "n": interval.n}
                | interval_cells("value", interval, 3)
            )
    rows = [
        row
        if row["value"] is not None
        else {**row, "reason": "no text has enough tokens, or no dip"}
        for row in rows
    ]
    columns = [
        Column("what", "within texts"),
        Column("scope", "tokens"),
        Column("n", "texts"),
        shown("value", "value"),
    ]
    note = (
        f"rho: Spearman's with log10 delta_tcb, of each text of {FEWEST} tokens at least, then the "
        "mean over texts. A spike of "
        f"P(2nd) lies at least {rule.threshold:g} robust standard deviations above the median of "
        f"the tokens around it, as a dip lies below. {COVERAGE} bootstrap intervals over texts. "
        "BC says that dips are often spikes of P(2nd), without a number."
    )
    return Table("second", "Are dips spikes of P(2nd)?", note, columns, rows)


def _rho(text: TracedText, name: str, picked: Flags) -> float | None:
    if picked.sum() < FEWEST or name not in text.columns:
        return None
    other = np.asarray(text.columns[name], dtype=np.float64)[picked]
    value: float | None = spearman(text.log10_delta[picked], other, resamples=1).value
    return value


def _spikes(
    texts: Sequence[TracedText], rule: Rule, pick: Any, how: Bootstrap
) -> dict[str, Interval]:
    """Share of dips that are spikes, of other tokens, and the difference, over all texts."""
    counts = []
    for text in texts:
        picked = pick(text)
        spike = robust_z(text.columns["p_top2"], rule.window) >= rule.threshold
        known, dip = picked & ~np.isnan(text.z), text.dips
        groups = (known & dip & spike, known & dip, known & ~dip & spike, known & ~dip)
        counts.append([int(group.sum()) for group in groups])
    table = np.array(counts, dtype=np.float64).reshape(-1, 4)
    draws = resampled_sums(table, **how)
    names = ("dips that are spikes of P(2nd)", "other tokens that are", "difference of the two")
    own = _shares(table.sum(0)[None])[:, 0]
    return {
        name: percentile_interval(_or_none(value), drawn, n=len(texts), level=LEVEL)
        for name, value, drawn in zip(names, own, _shares(draws), strict=True)
    }


def _shares(sums: Floats) -> Floats:
    """(3, B): share of dips, share of the others, their difference; NaN where there are none."""
    with np.errstate(invalid="ignore", divide="ignore"):
        dips, others = sums[:, 0] / sums[:, 1], sums[:, 2] / sums[:, 3]
    return np.stack([dips, others, dips - others])


def _every(text: TracedText) -> Flags:
    return np.ones(len(text), dtype=bool)


def _outside(text: TracedText) -> Flags:
    """(T,) whether a token is outside the loop, counted from its first repeated token."""
    places = np.arange(len(text))
    start, end = (text.loop.onset, text.loop.end) if text.loop else (len(text), len(text))
    outside: Flags = (places < start) | (places >= end)
    return outside


def _or_none(value: float) -> float | None:
    return None if math.isnan(value) else float(value)


def _middle(values: Iterable[float]) -> float | None:
    listed = [float(v) for v in values]
    return float(np.median(listed)) if listed else None


def _mean(values: Sequence[float], how: Bootstrap) -> Interval:
    table = np.array([[v] for v in values]).reshape(-1, 1)
    return mean_intervals(table, level=LEVEL, **how)[0]


def _median(values: Sequence[float | None], how: Bootstrap) -> Interval:
    known = [[v] for v in values if v is not None]
    table = np.array(known, dtype=np.float64).reshape(-1, 1)
    return median_intervals(table, level=LEVEL, **how)[0]


def summary(tables: Mapping[str, Table]) -> dict[str, Any]:
    """The tables' rows by name, for study.json's readers."""
    return {name: list(table.rows) for name, table in tables.items()}
