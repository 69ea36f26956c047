"""The tables of ``study correlations``, BC's table 1 first, and what they say of its claims."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tcb_bench.metrics.statistics import Interval
from tcb_bench.report.table import Column, Table
from tcb_bench.studies.correlations_points import PAIRS, STATISTICS, Point, Regime
from tcb_bench.studies.shown import COVERAGE, PAPER_MODEL, interval_text

Row = Mapping[str, Any]

PAPER = {
    "dpd_tcb": ("Diverse prompts (DPD)", 309, (0.95, -0.40, -0.41)),
    "lvd_tcb": ("Low v_eff targeted (LVD)", 360, (0.08, 0.62, -0.60)),
}
"""BC table 1, for LLaMA-3.1-8B: n and r of the first three pairs."""
SHOWN = {"pearson": "Pearson", "pearson_log": "Pearson of logs", "spearman": "Spearman"}
SPREAD = ("delta_tcb", "flip_radius", "v_eff", "logit_margin")


def paper_table(rows: Sequence[Row], regimes: Sequence[Regime]) -> Table:
    """BC table 1 with the paper's row above each of ours, second views below them."""
    shown = []
    for regime in regimes:
        if regime.name in PAPER:
            title, n, values = PAPER[regime.name]
            texts = [f"{value:.2f}" for value in values]
            shown.append({"regime": title, "who": PAPER_MODEL, "n": n} | _named(texts))
        own = [_found(rows, regime.name, pair, "pearson") for pair in PAIRS[:3]]
        reasons = dict.fromkeys(row["reason"] for row in own if row["reason"])
        shown.append(
            {"regime": regime.title, "who": "this model", "n": regime.n}
            | _named(map(_with_interval, own))
            | {f"{key}_value": row["value"] for key, row in _named(own).items()}
            | {"reason": "; ".join(reasons) or None}
        )
    columns = [
        Column("regime", "prompts"),
        Column("who", "model"),
        Column("n", "n"),
        *(Column(_key(pair), f"r({pair[0]}, {pair[1]})") for pair in PAIRS[:3]),
    ]
    return Table(
        "table1",
        "Pearson correlations by regime (BC table 1)",
        f"Raw values as in the paper, with {COVERAGE} bootstrap intervals over prompts. The two "
        "rows of the paper are of other prompts and another model: nothing here is fitted to them.",
        columns,
        shown,
    )


def correlations_table(rows: Sequence[Row]) -> Table:
    """Every pair and statistic in every regime."""
    shown = []
    for title, x, y in dict.fromkeys((row["title"], row["x"], row["y"]) for row in rows):
        own = {r["statistic"]: r for r in rows if (r["title"], r["x"], r["y"]) == (title, x, y)}
        texts = {name: _with_interval(own[name]) for name in STATISTICS}
        reasons = dict.fromkeys(row["reason"] for row in own.values() if row["reason"])
        n = own["spearman"]["n"]
        reason = "; ".join(reasons) or None
        shown.append({"regime": title, "pair": f"{x}, {y}", "n": n, **texts, "reason": reason})
    return Table(
        "correlations",
        "All correlations",
        f"{COVERAGE} bootstrap intervals over prompts. Spearman's is of ranks, so one number "
        "serves raw and log scale. Prompts without a measurement are left out of n. Prompts of one "
        "template, or made of one prompt, are alike: intervals are rather too narrow for that.",
        [
            Column("regime", "prompts"),
            Column("pair", "quantities"),
            Column("n", "n"),
            *(Column(name, SHOWN[name]) for name in STATISTICS),
            Column("reason", "why none"),
        ],
        shown,
    )


def spread_table(regimes: Iterable[Regime]) -> Table:
    """How wide each quantity is, and how few prompts hold half of its variance."""
    shown = []
    for regime in regimes:
        for name in SPREAD:
            values = regime.column(name)
            row = {"regime": regime.title, "quantity": name, "n": regime.n}
            if len(values):
                ends = (min(values), statistics.median(values), max(values))
                row |= dict(zip(("low", "middle", "high"), map(_number, ends), strict=True))
            shown.append(row | {"half": regime.half(name)})
    return Table(
        "spread",
        "Range of each quantity",
        "The last column is the smallest number of prompts that hold half of the raw variance: "
        "where it is small, a raw Pearson correlation describes these few.",
        [
            Column("regime", "prompts"),
            Column("quantity", "quantity"),
            Column("n", "n"),
            Column("low", "lowest"),
            Column("middle", "median"),
            Column("high", "highest"),
            Column("half", "hold half of the variance"),
        ],
        shown,
    )


def modifications_table(points: Sequence[Point], most: float) -> Table:
    """How many modified prompts have a low v_eff on this model, by modification."""
    names = list(dict.fromkeys(point.about["modification"] for point in points))
    shown = [_modification(name, points, most) for name in names]
    total = _modification(None, points, most)
    return Table(
        "modifications",
        f"Modified prompts with v_eff < {most:g} on this model",
        "Only these count as LVD. A prompt without a measurement does not count.",
        [
            Column("modification", "modification"),
            Column("n", "prompts"),
            Column("n_passed", f"v_eff < {most:g}"),
            Column("share", "share", is_percent=True),
            Column("v_eff", "median v_eff", 2),
            Column("n_lost", "not measured"),
        ],
        [*shown, total],
    )


def _modification(name: str | None, points: Sequence[Point], most: float) -> dict[str, Any]:
    own = [p for p in points if name is None or p.about["modification"] == name]
    known = [p.values["v_eff"] for p in own if p.is_measured]
    passed = sum(value < most for value in known)
    return {
        "modification": name or "all",
        "n": len(own),
        "n_passed": passed,
        "share": passed / len(own),
        "v_eff": statistics.median(known) if known else None,
        "n_lost": len(own) - len(known),
    }


def claims(rows: Sequence[Row], near_zero: float) -> list[str]:
    """One sentence per number of BC table 1: whether sign and strength are found here."""
    found = []
    for regime, (title, _, values) in PAPER.items():
        for pair, paper in zip(PAIRS[:3], values, strict=True):
            own = {s: _found(rows, regime, pair, s) for s in STATISTICS}
            if None in own.values():  # the task was not asked
                continue
            texts = ", ".join(f"{SHOWN[s]} {_with_interval(own[s])}" for s in STATISTICS)
            said = verdict(own["pearson"], paper, near_zero)
            found.append(
                f"{title}, {pair[0]} against {pair[1]}: paper {paper:.2f}; {texts}: {said}."
            )
    return found


def second_views(rows: Sequence[Row]) -> list[str]:
    """delta_tcb against v_eff in each second view, where the regime itself may mix two laws."""
    own = [r for r in rows if r["is_extra"] and (r["x"], r["y"]) == PAIRS[0]]
    said: dict[str, list[str]] = {}
    for row in own:
        text = _with_interval(row) or f"none ({row['reason']})"
        said.setdefault(row["title"], []).append(f"{SHOWN[row['statistic']]} {text}")
    return [f"{title}: delta_tcb against v_eff: {', '.join(v)}." for title, v in said.items()]


def verdict(row: Row, paper: float, near_zero: float) -> str:
    """What the raw Pearson correlation says about the paper's: by sign and interval only."""
    value, low, high = (row[key] for key in ("value", "ci_low", "ci_high"))
    if value is None or low is None:
        return f"cannot be told ({row['reason'] or 'no interval'})"
    if abs(paper) < near_zero:
        if -near_zero < low and high < near_zero:
            return "near zero here too"
        far = low >= near_zero or high <= -near_zero
        return "not near zero here" if far else "cannot be told, the interval is too wide"
    if low <= 0 <= high:
        return "the sign cannot be told here, the interval holds 0"
    return "the paper's sign holds" if (value > 0) == (paper > 0) else "the opposite sign here"


def _found(rows: Sequence[Row], regime: str, pair: Sequence[str], statistic: str) -> Any:
    """The row of one correlation; None where the regime was not measured."""
    wanted = (regime, *pair, statistic)
    keys = ("regime", "x", "y", "statistic")
    return next((row for row in rows if tuple(map(row.__getitem__, keys)) == wanted), None)


def _named(values: Iterable[Any]) -> dict[str, Any]:
    return dict(zip(map(_key, PAIRS[:3]), values, strict=True))


def _key(pair: Sequence[str]) -> str:
    return "__".join(pair)


def _with_interval(row: Row) -> str | None:
    return interval_text(Interval(row["value"], row["ci_low"], row["ci_high"], None, row["n"]))


def _number(value: float) -> str:
    """Four significant digits; lengths span many powers of ten."""
    return "inf" if math.isinf(value) else f"{value:.4g}"
