"""One response of an entry: its state, its answer, its scores, its quantities, its label."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tcb_bench.leaderboards.bounds import Point, violations
from tcb_bench.leaderboards.entry import Entry
from tcb_bench.leaderboards.untrusted import shown
from tcb_bench.metrics.answers import choice_letter
from tcb_bench.metrics.robustness import conflict_case
from tcb_bench.row_tables import TEXT_SCORES
from tcb_bench.sample_records import Conflict, ScoreRow

WITHOUT_SCORE = ("filtered", "error", "unscored")
YES_OR_NO = ("em", "yes_no", "refusal", "garbled")
COSINES = ("bertscore_f1", "bertscore_precision", "bertscore_recall")
ROUNDED = 1e-5  # of float32 sums over the tokens of a text
STABLE_SLACK = 1e-4
"""Stable is ``relative_flip_radius >= median (1 - 1e-4)``: see `tcb_bench.samples.SLACK`."""

Row = Mapping[str, Any]


def row_problems(entry: Entry, row: ScoreRow) -> Iterator[str]:
    """What cannot be true of a response.

    Args:
        entry: for eps and R.
        row: the response as its sample has it.
    """
    yield from _state_problems(row)
    if row.acc not in (None, 0.0, 1.0):
        yield f"acc = {row.acc:g}, which is neither right (1) nor wrong (0)"
    if row.choice_logprobs:
        yield from _choice_problems(row, row.choice_logprobs)
    if row.scores is not None:
        yield from _score_problems(row, row.scores)
    is_choice = None if row.greedy_is_choice is None else bool(row.greedy_is_choice)
    yield from violations(
        Point(
            values=row.stability,
            epsilon=entry.epsilon or 1.0,
            radius=entry.weight_radius,
            choices=[v for v in row.choice_logprobs or () if v is not None] or None,
            is_greedy_choice=is_choice,
        )
    )


def _state_problems(row: ScoreRow) -> Iterator[str]:
    """A truncated text ended by length and no other did; what failed has no numbers at all."""
    if row.state in WITHOUT_SCORE:
        if row.acc is not None or row.scores or any(row.stability.values()):
            yield f"state {row.state}, but it has numbers"
        return
    is_cut = row.finish_reason == "length"
    if row.finish_reason is not None and is_cut != (row.state == "truncated"):
        yield f"state {row.state}, but finish_reason {shown(row.finish_reason)}"
    if row.state == "empty" and (row.acc or any((row.scores or {}).values())):
        yield "state empty, but it is right or has scores above 0"


def _choice_problems(row: ScoreRow, given: Sequence[float | None]) -> Iterator[str]:
    """The answer is the likeliest choice, the first of equal ones; null is below all others."""
    logprobs = [-math.inf if value is None else value for value in given]
    best = max(range(len(logprobs)), key=logprobs.__getitem__)
    if len(logprobs) <= 26 and row.answer != choice_letter(best):
        tops = [choice_letter(i) for i, value in enumerate(logprobs) if value == logprobs[best]]
        if row.answer not in tops:  # equal at six digits, apart in the run
            yield f"answer {shown(row.answer)}, but choice_logprobs are highest for {tops[0]}"
    if row.greedy_is_choice not in (None, 0.0, 1.0):
        yield f"greedy_is_choice = {row.greedy_is_choice:g}, which is neither 0 nor 1"


def _score_problems(row: ScoreRow, scores: Mapping[str, float | None]) -> Iterator[str]:
    """Each score in its range, and what scores of one text say of each other.

    Longest common subsequences are no longer than the words in common, over the same lengths:
    rougeL <= rouge1. BERTScore is a mean of cosines, in [-1, 1], and F1 = 2 P R / (P + R). An
    answer equal to the short one (em) has all its words, and holds it (acc). Yes/no is acc itself.
    """
    for name, value in scores.items():
        if name not in TEXT_SCORES:
            yield f"score {shown(name)} is unknown; expected one of {', '.join(TEXT_SCORES)}"
        elif value is not None:
            yield from _range_problems(name, value)
    get = scores.get
    rouge1, rouge_l, f1, em = get("rouge1"), get("rougeL"), get("f1"), get("em")
    if rouge1 is not None and rouge_l is not None and rouge_l > rouge1 + 1e-9:
        yield f"rougeL = {rouge_l:g} > rouge1 = {rouge1:g}"
    if em == 1 and f1 is not None and f1 not in (0.0, 1.0):
        yield f"em = 1, but f1 = {f1:g}"
    if em == 1 and f1 == 1 and row.acc == 0:
        yield "em = 1 and f1 = 1, but acc = 0"
    yes_no = get("yes_no")
    if yes_no is not None and row.acc is not None and yes_no != row.acc:
        yield f"yes_no = {yes_no:g}, but acc = {row.acc:g}"
    p, r, f = get("bertscore_precision"), get("bertscore_recall"), get("bertscore_f1")
    if p is not None and r is not None and f is not None and abs(p + r) > 0.01:
        if not math.isclose(f, 2 * p * r / (p + r), rel_tol=ROUNDED, abs_tol=ROUNDED):
            yield f"bertscore_f1 = {f:g}, but 2 P R / (P + R) = {2 * p * r / (p + r):g}"


def _range_problems(name: str, value: float) -> Iterator[str]:
    low = -1.0 if name in COSINES else 0.0
    if not low - ROUNDED <= value <= 1 + ROUNDED:
        yield f"{name} = {value:g} is not from {low:g} to 1"
    elif name in YES_OR_NO and value not in (0.0, 1.0):
        yield f"{name} = {value:g}, which is neither 0 nor 1"


def label_problem(row: Row, stable_at: float, given: Conflict) -> str | None:
    """Where a row's label is not the one of its numbers; None where it is.

    Args:
        row: the response, as a dict with ``acc`` and ``stability``.
        stable_at: the task's median relative_flip_radius, less 1e-4 of it.
        given: the label as submitted.
    """
    if not math.isclose(given.stable_at, stable_at, rel_tol=1e-9, abs_tol=1e-12):
        return f"conflict.stable_at = {given.stable_at:g}; the task's rows give {stable_at:g}"
    acc, values = row.get("acc"), row["stability"]
    p_top1 = values.get("p_top1")
    case = conflict_case(
        correct=None if acc is None else bool(acc),
        p_top1=None if p_top1 is None else min(1.0, max(0.0, p_top1)),
        stability=values.get("relative_flip_radius"),
        stable_at=stable_at,
    )
    if (given.accuracy, given.confidence) != tuple(case):
        said = f"{shown(given.accuracy)}, {shown(given.confidence)}"
        return f"conflict is {said}; its numbers give {case.accuracy}, {case.confidence}"
    return None
