"""The input side of the audit: whose answers change with the prompt, and what foretold it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tcb_bench.metrics.association import spearman
from tcb_bench.metrics.paired_auroc import paired_aurocs
from tcb_bench.metrics.statistics import Interval
from tcb_bench.studies.audit_variants import (
    OPTIONS,
    answer_of,
    applies,
    edited,
    group_of,
    is_right,
    option_order,
)
from tcb_bench.studies.session import Answer, Session
from tcb_bench.studies.shown import interval_cells

PREDICTORS: dict[str, int] = {
    "delta_tcb": -1,
    "flip_radius": -1,
    "choice_flip_radius": -1,
    "choice_margin": -1,
    "logit_margin": -1,
    "p_top1": -1,
    "choice_entropy": 1,
    "entropy": 1,
    "v_eff": 1,
}
"""Quantity of the unchanged prompt -> the sign with which a larger score foretells a change."""

EVENTS = {
    "all but options": ("wording", "examples"),
    "wording": ("wording",),
    "examples": ("examples",),
    "options": ("options",),
}
"""Event -> the groups of changes of which at least one changes the answer."""

BAD_STATES = ("error", "filtered", "unscored")


def baseline_row(
    answer: Answer, name: str, task: Any, keep_truncated: bool = True
) -> dict[str, Any]:
    """One question as the unchanged prompt is answered; ``reason`` where it cannot be compared."""
    state, text = answer.row["state"], answer_of(answer, task)
    reason = None
    if state in BAD_STATES:
        reason = f"no answer: {answer.row.get('reason') or state}"
    elif state == "truncated" and not keep_truncated:
        reason = "the text was cut off before its end"
    elif text is None:
        reason = "no answer found in the text"
    return {
        "id": answer.id,
        "part": "question",
        "task": name,
        "state": state,
        "answer": text,
        "choice": answer.row.get("answer"),
        "acc": is_right(answer, task),
        "reason": reason,
        "predictors": predictors(answer.row),
        "variants": [],
    }


def predictors(row: Mapping[str, Any]) -> dict[str, float | None]:
    """Every quantity of ``PREDICTORS`` that the row has; delta by its finite logarithm."""
    stability = row.get("stability") or {}
    found = {name: stability.get(name) for name in PREDICTORS if name in stability}
    if "log10_delta_tcb" in stability:
        found["delta_tcb"] = stability["log10_delta_tcb"]
    if row.get("choice_logprobs"):
        found["choice_entropy"] = choice_entropy(row["choice_logprobs"])
    return {name: found[name] for name in PREDICTORS if name in found}


def choice_entropy(logprobs: Sequence[float]) -> float:
    """Entropy in nats of the choices alone, their probabilities made to sum to 1.

    >>> round(choice_entropy([-1.0, -1.0]), 6)
    0.693147
    """
    top = max(logprobs)
    weights = [math.exp(value - top) for value in logprobs]
    total = sum(weights)
    return -sum(w / total * math.log(w / total) for w in weights if w)


def add_variants(session: Session, task: Any, rows: Sequence[dict[str, Any]]) -> None:
    """Asks every changed prompt of a task, and notes on each question's row what was answered.

    ``rows`` hold the prompts already used, under ``prompts``.
    """
    keep = session.settings["keep_truncated"]
    for edit in session.settings["perturbations"]:
        if not applies(task, edit):
            continue
        for number in range(session.settings["draws"]):
            clone = edited(task, edit, number)
            for row, answer in zip(rows, session.answers(clone), strict=True):
                seed = session.seed + number
                order = option_order(answer.doc, seed) if edit == OPTIONS else None
                made = _variant(row, answer, task, (edit, number), order)
                row["variants"].append(made if keep else _without_cut(made))


def _variant(
    row: dict[str, Any],
    answer: Answer,
    task: Any,
    what: tuple[str, int],
    order: Sequence[int] | None,
) -> dict[str, Any]:
    """What one changed prompt gave; ``changed`` is None where it cannot be compared."""
    text = answer_of(answer, task, order)
    state = answer.row["state"]
    if answer.prompt in row["prompts"]:
        state = "same prompt"
    row["prompts"].add(answer.prompt)
    is_known = state not in ("same prompt", *BAD_STATES) and row["reason"] is None
    return {
        "edit": what[0],
        "draw": what[1],
        "group": group_of(what[0]),
        "state": state,
        "answer": text,
        "acc": is_right(answer, task, order) if is_known else None,
        "changed": text != row["answer"] if is_known else None,
    }


def _without_cut(variant: dict[str, Any]) -> dict[str, Any]:
    """The variant, not compared where its text was cut off."""
    is_cut = variant["state"] == "truncated"
    return variant | {"acc": None, "changed": None} if is_cut else variant


def outcome(row: Mapping[str, Any], groups: Sequence[str]) -> tuple[float, float]:
    """(any answer changed, share changed) over a question's variants of these groups; NaN: none."""
    changed = [v["changed"] for v in row["variants"] if v["group"] in groups]
    known = [c for c in changed if c is not None]
    return (float(any(known)), float(np.mean(known))) if known else (math.nan, math.nan)


def foretold(
    rows: Sequence[Mapping[str, Any]], event: str, settings: Mapping[str, Any], seed: int
) -> list[dict[str, Any]]:
    """A table row per predictor of one event: AUROC, difference to delta_tcb, rank correlation."""
    names = [n for n in PREDICTORS if any(n in r["predictors"] for r in rows)]
    if not names:
        return []
    values = np.array(
        [[_number(r["predictors"].get(n)) * PREDICTORS[n] for n in names] for r in rows]
    )
    happened, rate = np.array([outcome(r, EVENTS[event]) for r in rows]).T
    known = ~np.isnan(values).any(axis=1) & ~np.isnan(happened)
    values, happened, rate = values[known], happened[known], rate[known]
    counts = (int(happened.sum()), int((1 - happened).sum()))
    reason = _too_few(counts, settings["min_changed"])
    bootstrap = {"resamples": settings["resamples"], "level": settings["level"], "seed": seed}
    paired = paired_aurocs(values, happened, **bootstrap)
    found = []
    for q, name in enumerate(names):
        row: dict[str, Any] = {
            "event": event,
            "predictor": name,
            "n": len(rate),
            "n_changed": counts[0],
        }
        row |= {"n_lost": int((~known).sum()), "reason": reason}
        empty = Interval(None, None, None, None, len(rate))
        row |= interval_cells("auroc", empty if reason else paired.areas[q])
        row |= interval_cells("less_delta", empty if reason or q == 0 else paired.differences[q])
        row |= interval_cells("rate", spearman(values[:, q], rate, **bootstrap))
        found.append(row)
    return found


def _too_few(counts: tuple[int, int], least: int) -> str | None:
    if counts[0] < least:
        return f"{counts[0]} changed answers, fewer than {least}"
    return f"{counts[1]} unchanged answers, fewer than {least}" if counts[1] < least else None


def _number(value: float | None) -> float:
    return math.nan if value is None else float(value)
