"""How delta_tcb goes with v_eff and the logit margin, for diverse and for certain prompts.

BC table 1: Pearson correlations over 309 diverse prompts (DPD) and 360 prompts made to have a low
v_eff (LVD). Here with intervals, on raw and on log scale, by ranks, and for flip_radius too.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from typing import Any

from tcb_bench.errors import UnknownName
from tcb_bench.studies.correlations_figures import draw
from tcb_bench.studies.correlations_points import QUANTITIES, Point, Regime, correlated
from tcb_bench.studies.correlations_tables import (
    claims,
    correlations_table,
    modifications_table,
    paper_table,
    second_views,
    spread_table,
)
from tcb_bench.studies.findings import Findings
from tcb_bench.studies.session import Answer, Session
from tcb_bench.task_files import catalogue

ABOUT = ("kind", "source", "modification")


def study(session: Session) -> Findings:
    """Asks the tasks, and correlates what was measured in each regime.

    Raises:
        UnknownName: a low task that there is not.
    """
    loaded = session.load()
    _check_low_tasks(session)
    asked: dict[str, list[Point]] = {}
    contexts: list[str] = []
    for name, task in loaded.tasks.items():
        answers = session.answers(task)
        contexts += [answer.prompt for answer in answers]
        asked[name] = [_point(answer, name) for answer in answers]
    regimes = [r for name, points in asked.items() for r in _regimes(name, points, session)]
    rows = [row for regime in regimes for row in correlated(regime, session)]
    verdicts = [*claims(rows, session.settings["near_zero"]), *second_views(rows)]
    tables = [paper_table(rows, regimes), correlations_table(rows), spread_table(regimes)]
    low = [point for name in session.settings["low_tasks"] for point in asked.get(name, [])]
    if low:
        tables.append(modifications_table(low, session.settings["v_eff_max"]))
    counted = {point for r in regimes if not r.is_extra for point in r.points}
    if session.settings["approximations"]:
        from tcb_bench.studies.approximations import approximations_table

        tables.append(approximations_table(session, contexts))
    return Findings(
        tables=tables,
        rows=[_row(p, p in counted) for points in asked.values() for p in points],
        notes=[*_missing(loaded.missing), *verdicts, *_notes(regimes, low, session.settings)],
        draw=functools.partial(draw, [r for r in regimes if not r.is_extra]),
        summary={"correlations": rows},
    )


def _check_low_tasks(session: Session) -> None:
    known = [*session.config.tasks, *catalogue(session.config.include_path)]
    for name in session.settings["low_tasks"]:
        if name not in known:
            raise UnknownName("task in low_tasks", name, known, "`tcb-bench ls tasks` lists them")


def _point(answer: Answer, task: str) -> Point:
    """What was measured; lengths beyond every float are +inf, the rest of what failed is NaN."""
    stability = answer.row["stability"]
    raw = getattr(answer.response, "stability", {})
    values = {name: _value(stability.get(name), raw.get(name)) for name in QUANTITIES}
    about = {name: str(answer.doc.get(name, "")) for name in ABOUT}
    return Point(answer.id, task, answer.row, answer.prompt, values, about)


def _value(scored: float | None, raw: Any) -> float:
    if scored is not None:
        return float(scored)
    return math.inf if raw == math.inf else math.nan


def _regimes(name: str, points: Sequence[Point], session: Session) -> list[Regime]:
    """The task's regime and a second view: all of a low task, the uncertain part of another."""
    title = {"dpd_tcb": "DPD", "lvd_tcb": "LVD"}.get(name, name)
    most = session.settings["v_eff_max"]
    if name not in session.settings["low_tasks"]:
        open_ = tuple(point for point in points if point.values["v_eff"] >= most)
        return [
            Regime(name, title, tuple(points), False),
            Regime(f"{name} open", f"{title}, v_eff >= {most:g}", open_, False, is_extra=True),
        ]
    low = tuple(point for point in points if point.values["v_eff"] < most)
    return [
        Regime(name, f"{title}, v_eff < {most:g}", low, True),
        Regime(f"{name} all", f"{title}, all asked", tuple(points), False, is_extra=True),
    ]


def _row(point: Point, counts: bool) -> dict[str, Any]:
    row = point.row
    return {
        "doc_id": point.id,
        "task": point.task,
        **point.about,
        "counts": counts,
        "state": row["state"],
        "reason": _why_null(point),
        "greedy_token": row.get("greedy_token"),
        **{name: point.values[name] for name in QUANTITIES},
        "stability": row["stability"],
        "prompt": point.prompt,
    }


def _why_null(point: Point) -> str | None:
    if not point.row["stability"]:
        return str(point.row["reason"])
    lost = [name for name, value in point.values.items() if not math.isfinite(value)]
    return f"not finite: {', '.join(lost)}" if lost else None


def _missing(missing: Mapping[str, str]) -> list[str]:
    return [f"Not asked: {name}: {why}." for name, why in missing.items()]


def _notes(
    regimes: Sequence[Regime], low: Sequence[Point], settings: Mapping[str, Any]
) -> list[str]:
    notes = []
    if low:
        passed = sum(point.values["v_eff"] < settings["v_eff_max"] for point in low)
        lost = sum(not point.is_measured for point in low)
        notes.append(
            f"{passed} of {len(low)} modified prompts have v_eff < {settings['v_eff_max']:g} on "
            f"this model and count as LVD; {len(low) - passed - lost} do not and {lost} have no "
            "measurement."
        )
    for regime in regimes:
        few = regime.half("delta_tcb")
        if few is not None and not regime.is_extra:
            notes.append(
                f"{regime.title}: {few} of {regime.n} prompts hold half of the variance of "
                "delta_tcb, so its raw Pearson correlations describe mostly these"
                + (" few." if few <= 0.05 * regime.n else ".")
            )
    return notes
