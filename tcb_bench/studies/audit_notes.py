"""What the audit's numbers say, in sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tcb_bench.studies.audit_predict import EVENTS, outcome
from tcb_bench.studies.audit_tables import KINDS

Rows = Sequence[Mapping[str, Any]]


def state_notes(states: Rows, moves: Rows, radii: Rows) -> list[str]:
    """What the moved states say of the bound."""
    known = [s for s in states if not s.get("reason")]
    lost = len(states) - len(known)
    if not known:
        return [f"None of {lost} states could be measured."]
    all_, n = radii[0], len(known)
    notes = [
        f"Of {n} predictions delta_tcb (eps = 1) lies beyond the exact flip radius at "
        f"{all_['beyond']:.0%}, by a factor of {all_['ratio']:.3g} in the median: "
        + (
            "the delta_tcb ball is not a region in which the top-1 is safe."
            if all_["beyond"] > 0
            else "on these states no top-1 changes inside the delta_tcb ball."
        )
    ]
    notes += _at_one(moves)
    inside, outside = (sum(s["flips_at"][i] for s in known) for i in (0, 1))
    notes.append(
        f"The flip radius is exact as claimed if moves just inside it flip nothing and moves just "
        f"outside flip all: {inside} of {n} flipped inside, {outside} of {n} outside."
    )
    if open_ := [s for s in known if not s["spectral"]["converged"]]:
        notes.append(
            f"Power iteration did not converge at {len(open_)} states: no spectral radius there."
        )
    if lost:
        reasons = sorted({str(s["reason"]) for s in states if s.get("reason")})
        notes.append(f"{lost} states have no values: {'; '.join(reasons)}.")
    return notes


def _at_one(moves: Rows) -> list[str]:
    """How far the first order holds, and what a move of delta_tcb itself does."""
    at_one = {row["direction"]: row for row in moves if row["c"] == 1.0}
    if len(at_one) < len(KINDS):
        return []
    first = {row["direction"]: row for row in reversed(moves) if row["direction"] in at_one}
    parts = [
        f"{label} direction: true change {at_one[label]['ratio']:.2f} of the foretold one "
        f"(at c = {first[label]['c']:g}: {first[label]['ratio']:.2f}), top-1 changed at "
        f"{at_one[label]['flipped']:.0%}"
        for label in KINDS.values()
        if at_one[label]["ratio"] is not None and first[label]["ratio"] is not None
    ]
    return ["Moved by exactly delta_tcb, in the median: " + "; ".join(parts) + "."]


def question_notes(questions: Rows, foretold: Rows) -> list[str]:
    """What the changed prompts say of the predictors."""
    known = [q for q in questions if q["reason"] is None]
    notes = [f"{len(questions)} questions, {len(questions) - len(known)} of them left out."]
    for event, groups in EVENTS.items():
        rows = [row for row in foretold if row["event"] == event]
        asked = [o for q in known if (o := outcome(q, groups))[0] in (0.0, 1.0)]
        if not rows or not asked:
            continue
        share = sum(o[0] for o in asked) / len(asked)
        head = (
            f"{event}: {sum(o[0] for o in asked):.0f} of {len(asked)} answers changed ({share:.0%})"
        )
        if rows[0]["reason"]:
            notes.append(f"{head}; no AUROC, {rows[0]['reason']}.")
            continue
        delta = rows[0]
        verdict = _verdict(delta["auroc_ci_low"], delta["auroc_ci_high"])
        notes.append(
            f"{head}; delta_tcb foretells them with AUROC {delta['auroc']:.2f} "
            f"[{delta['auroc_ci_low']:.2f}, {delta['auroc_ci_high']:.2f}], {verdict}. "
            f"{_compared(rows[1:])}"
        )
    return notes


def _verdict(low: float, high: float) -> str:
    if low > 0.5:
        return "better than chance"
    return "worse than chance: the order is wrong" if high < 0.5 else "not told from chance"


def _compared(others: Rows) -> str:
    """Which quantities foretell better or worse than delta_tcb by their paired intervals."""
    low, high = "less_delta_ci_low", "less_delta_ci_high"
    better = [r for r in others if r[low] is not None and r[low] > 0]
    worse = [r for r in others if r[high] is not None and r[high] < 0]

    def listed(rows: Rows) -> str:
        return ", ".join(f"{r['predictor']} {r['auroc']:.2f}" for r in rows) or "none"

    return f"Better by their paired intervals: {listed(better)}; worse: {listed(worse)}."
