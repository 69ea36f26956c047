"""The tables of ``geometry``: the paper's, its two halves, the ratios, and the sweeps."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tcb_bench.metrics.shares import share_interval
from tcb_bench.metrics.statistics import Interval, median_intervals
from tcb_bench.report.table import Column, Row, Table
from tcb_bench.studies.geometry_plan import OVERALL, SWEEPS, Pair, Plan, Point
from tcb_bench.studies.shown import PAPER_MODEL, interval_cells

PAPER = (0.95, 0.92, 0.80, 0.90)
PAPER_BINS = [20, 100]
TOGETHER = "all together"
EMPTY = "no prompt has such a v_eff"
SINGLE = "one prompt has no interval"


@dataclass(frozen=True)
class Statistics:
    """How intervals are made."""

    resamples: int
    level: float
    seed: int

    def share(self, held: Sequence[bool]) -> Interval:
        """Wilson's score interval of a share."""
        return share_interval(held, level=self.level)

    def median(self, values: Sequence[float]) -> Interval:
        """Bootstrap interval of a median; +inf is a value."""
        table = [[value] for value in values] or [[math.nan]]
        return median_intervals(table, resamples=self.resamples, level=self.level, seed=self.seed)[
            0
        ]


def ratio(point: Point, move: tuple[int, float]) -> float:
    """What delta becomes, over delta before; +inf where nothing is left of the norm."""
    try:
        return float(10 ** (point.moved[move] - point.log10_delta))
    except OverflowError:
        return math.inf


def is_up(point: Point, pair: Pair) -> bool:
    """It is so that delta(cluster) > delta."""
    return point.moved[pair.cluster] > point.log10_delta


def is_down(point: Point, pair: Pair) -> bool:
    """It is so that delta > delta(disperse)."""
    return point.log10_delta > point.moved[pair.disperse]


def compared(points: Sequence[Point], pair: Pair, statistics: Statistics) -> dict[str, Any]:
    """All that is said of some prompts under one comparison, as keys of a row."""
    up, down = [is_up(p, pair) for p in points], [is_down(p, pair) for p in points]
    held = [a and b for a, b in zip(up, down, strict=True)]
    row: dict[str, Any] = {"n": len(points), "n_held": sum(held)}
    for name, shares in (("held", held), ("cluster_held", up), ("disperse_held", down)):
        row |= interval_cells(name, statistics.share(shares), 0, is_percent=True)
    for name, move in (("cluster", pair.cluster), ("disperse", pair.disperse)):
        row |= interval_cells(f"{name}_ratio", statistics.median([ratio(p, move) for p in points]))
    return row if len(points) > 1 else {**row, "reason": SINGLE if points else EMPTY}


def distinct(points: Sequence[Point]) -> list[Point]:
    """Each prompt once: DPD holds MMLU's questions too."""
    return [point for point in points if not point.is_repeat]


def cells(points: Sequence[Point], plan: Plan) -> Iterator[tuple[str, str, list[Point]]]:
    """(data set, category, its prompts), each data set alone and then all together."""
    names = list(dict.fromkeys(point.data for point in points))
    for data in [*names, TOGETHER] if len(names) != 1 else names:
        own = [p for p in points if p.data == data] if data != TOGETHER else distinct(points)
        for category, holds in plan.categories.items():
            yield data, category, [p for p in own if holds(p.v_eff)]


def tables(points: Sequence[Point], plan: Plan, statistics: Statistics) -> list[Table]:
    """The paper's table first."""
    has_paper = list(plan.settings["bins"]) == PAPER_BINS
    paper = dict(zip(plan.categories, PAPER, strict=True)) if has_paper else {}
    rows = [
        {
            "data": data,
            "category": category,
            **compared(own, plan.main, statistics),
            "paper": paper.get(category),
        }
        for data, category, own in cells(points, plan)
    ]
    level = f"{statistics.level:.0%}"
    return [
        _paper_table(rows, plan, level),
        _halves(rows, level),
        _ratios(rows, plan, level),
        _sweeps(sweep_rows(points, plan, statistics), plan, level),
    ]


FIRST = [Column("data", "prompts"), Column("category", "v_eff"), Column("n", "n")]
REMARK = Column("reason", "remark")


def _paper_table(rows: Sequence[Row], plan: Plan, level: str) -> Table:
    k, alpha, beta = (plan.settings[name] for name in SWEEPS)
    note = (
        f"K = {k}, alpha = {alpha:g}, beta = {beta:g}; h and o stay as they are, mu and delta_tcb "
        f"are computed anew (C.4.1). In brackets Wilson's {level} interval. The paper's prompts "
        "are MMLU's; it gives no number of them per category."
    )
    columns = [
        *FIRST,
        Column("held_shown", "held"),
        Column("paper", PAPER_MODEL, 2, is_percent=True),
        REMARK,
    ]
    title = "delta(cluster) > delta(orig) > delta(disperse) (BC table 2)"
    return Table("geometry", title, note, columns, rows)


def _halves(rows: Sequence[Row], level: str) -> Table:
    columns = [
        *FIRST,
        Column("cluster_held_shown", "cluster > orig"),
        Column("disperse_held_shown", "orig > disperse"),
        REMARK,
    ]
    note = f"The two halves of the inequality, each alone, same prompts. Wilson's {level} interval."
    return Table("geometry_halves", "Each half of the inequality", note, columns, rows)


def _ratios(rows: Sequence[Row], plan: Plan, level: str) -> Table:
    alpha, beta = plan.settings["alpha"], plan.settings["beta"]
    columns = [
        *FIRST,
        Column("cluster_ratio_shown", "cluster / orig"),
        Column("disperse_ratio_shown", "disperse / orig"),
        REMARK,
    ]
    most = f"1 / (1 - alpha) = {1 / (1 - alpha):.2f}" if alpha < 1 else "infinite"
    note = (
        f"Median of delta(moved) / delta over the prompts, {level} bootstrap interval. Were every "
        f"token but the top-1 moved, the ratios would be {most} and 1 / (1 + beta) = "
        f"{1 / (1 + beta):.2f}."
    )
    return Table("geometry_ratios", "By how much delta_tcb changes", note, columns, rows)


def sweep_rows(points: Sequence[Point], plan: Plan, statistics: Statistics) -> list[dict[str, Any]]:
    """A row per value of a swept setting and category, each prompt of all data sets once."""
    once = distinct(points)
    return [
        {
            "setting": SWEEPS[pair.setting],
            "value": pair.value,
            "category": category,
            **compared([p for p in once if holds(p.v_eff)], pair, statistics),
        }
        for pair in plan.sweeps()
        for category, holds in plan.categories.items()
    ]


def _sweeps(rows: Sequence[Row], plan: Plan, level: str) -> Table:
    k, alpha, beta = (plan.settings[name] for name in SWEEPS)
    columns = [
        Column("setting", "setting"),
        Column("value", "value", 2),
        Column("n", "n"),
        Column("held_shown", "held"),
        Column("cluster_ratio_shown", "cluster / orig"),
        Column("disperse_ratio_shown", "disperse / orig"),
        REMARK,
    ]
    note = (
        f"One setting at a time, the others at K = {k}, alpha = {alpha:g}, beta = {beta:g}; every "
        "prompt once. The categories apart are in study.json under summary.sweeps. In brackets "
        f"{level} intervals."
    )
    title = "More or fewer competitors, farther or less far"
    overall = [row for row in rows if row["category"] == OVERALL]
    return Table("geometry_sweeps", title, note, columns, overall)


def notes(
    points: Sequence[Point], plan: Plan, rows: Sequence[Mapping[str, Any]], table: Table
) -> list[str]:
    """What the numbers say, in sentences."""
    found = [sentence for row in table.rows if (sentence := _against_paper(row))]
    main, once = plan.main, distinct(points)
    if n_twice := len(points) - len(once):
        found.append(
            f"{n_twice} prompts have the text of an earlier one; {TOGETHER} counts each text once."
        )
    fails = [(is_up(p, main), is_down(p, main)) for p in once]
    counts = {pattern: fails.count(pattern) for pattern in [(False, True), (True, False)]}
    both = fails.count((False, False))
    if failed := sum(counts.values()) + both:
        found.append(
            f"Of {failed} prompts where it did not hold, only the cluster half failed in "
            f"{counts[False, True]}, only the disperse half in {counts[True, False]}, both in "
            f"{both}."
        )
    lost = [str(row["reason"]) for row in rows if "reason" in row]
    if lost:
        reasons = "; ".join(sorted(set(lost)))
        found.append(f"{len(lost)} of {len(rows)} prompts have no value: {reasons}.")
    return found


def _against_paper(row: Row) -> str | None:
    if row["category"] != OVERALL or row["held"] is None:
        return None
    text = f"{row['data']}: held for {row['n_held']} of {row['n']} prompts ({row['held']:.1%})"
    if row["paper"] is None or row["held_ci_low"] is None:
        return f"{text}."
    is_in = row["held_ci_low"] <= row["paper"] <= row["held_ci_high"]
    where = "inside" if is_in else "outside"
    return f"{text}; the paper's {row['paper']:.0%} lies {where} the interval."
