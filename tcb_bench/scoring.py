"""From one stored response to one row: state, accuracy, and the stability where it counts."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from tcb_bench.errors import DataError
from tcb_bench.metrics.answers import choice_letter, final_number, gsm8k_gold, same_number
from tcb_bench.metrics.qa import contains_answer
from tcb_bench.models.positions import critical_token, first_answer_token, rule_version
from tcb_bench.responses import Failure, Generation, NextToken, Response, Row
from tcb_bench.text_scores import text_scores

if TYPE_CHECKING:
    from tcb_bench.task_files import TcbSpec

SCALED_BY_EPSILON = ("delta_tcb", "relative_delta")
MAX_LOG10 = 300.0  # a float64 holds 1e308, and h_norm divides
NOT_FOUND = "no number found in the answer"
UNSUPPORTED = "unsupported"
CLOSED = (
    *("delta_tcb", "log10_delta_tcb", "flip_radius", "relative_delta", "relative_flip_radius"),
    *("v_eff", "h_norm"),
)
"""Quantities that need a model's weights or all of its distribution, which no API gives."""

CLOSED_REASON = (
    "delta_tcb and flip_radius need the output embedding, which an API does not give; "
    "v_eff lies between v_eff_low and v_eff_high"
)


def score(
    response: Response, target: Any, spec: TcbSpec, reference: str | None = None
) -> dict[str, Any]:
    """The row of one response.

    Args:
        response: what the model answered, or why it did not.
        target: the gold answer: an index of the choices, a number's text, or a text.
        spec: the task's ``tcb`` mapping (epsilon, answer, position).
        reference: the text that a free answer is compared with; None = no comparison.

    Returns:
        ``state`` (scored, truncated, empty, filtered, error, unscored), ``acc`` (1.0, 0.0, None),
        ``answer``, ``reason`` (why something is null, else None), ``stability``: quantity -> value
        with None where it cannot be given, and for a task with references ``scores``: metric ->
        value. Of a text only the part behind its reasoning counts. Nothing that failed on our side
        becomes a 0.
    """
    if isinstance(response, NextToken):
        return _score_choice(response, target, spec)
    if isinstance(response, Generation):
        return _score_text(response, target, spec, reference)
    reason = response.reason if isinstance(response, Failure) else "not a response of this task"
    state = response.state if isinstance(response, Failure) else "unscored"
    row: dict[str, Any] = {"state": state, "acc": None, "answer": None}
    row |= {"reason": reason, "stability": {}}
    if state == UNSUPPORTED:  # of the condition, so that its rows are none of the model's failures
        row |= {"state": "unscored", "unsupported": True}
    return row


def _score_choice(response: NextToken, target: Any, spec: TcbSpec) -> dict[str, Any]:
    logprobs = response.choice_logprobs
    known = {i: value for i, value in enumerate(logprobs) if value is not None}
    best = max(known, key=known.__getitem__) if known else None
    if response.without and response.choice_tokens:
        return _score_letter(response, target)
    values, reason = _finite(response.stability, spec.epsilon)
    if "choice_mass" in values:
        values["answer_mass"] = values.pop("choice_mass")
    row = {
        "state": "scored",
        "acc": None if best is None else float(best == int(target)),
        "answer": None if best is None else choice_letter(best),
        "reason": "the task has no choices, so nothing is right or wrong"
        if best is None
        else reason,
        "stability": values,
        "choice_logprobs": [None if v is None else round(v, 6) for v in logprobs],
        "greedy_token": response.token_text,
    }
    if best is not None:
        row["greedy_is_choice"] = float(response.token in response.choice_tokens)
    return row


def _score_letter(response: NextToken, target: Any) -> dict[str, Any]:
    """The letter that a reply names; a reply that names none is a wrong answer of the model."""
    found = response.token if response.token >= 0 else None
    return {
        "state": "scored" if response.token_text.strip() else "empty",
        "acc": 0.0 if found is None else float(found == int(target)),
        "answer": None if found is None else choice_letter(found),
        "reason": response.without,
        "stability": {},
        "text": response.token_text,
    }


def _score_text(
    response: Generation, target: Any, spec: TcbSpec, reference: str | None
) -> dict[str, Any]:
    is_empty = not response.answer.strip()
    cut = response.finish_reason == "length"
    state = "truncated" if cut else "empty" if is_empty else "scored"
    answer, acc = _judge(response.answer, target, spec)
    values, reason = _critical_stability(response, spec)
    row = {
        "state": state,
        "acc": acc,
        "answer": answer,
        "reason": reason,
        "stability": values,
        "finish_reason": response.finish_reason,
        "completion_tokens": response.completion_tokens,
    }
    if reference is not None:
        row["scores"] = text_scores(response.answer, str(target), reference)
    if spec.answer == "short_answer" and response.rule == "all":
        row["stability_mean"] = _over_answer(response, spec.epsilon)
    return row


def _judge(text: str, target: Any, spec: TcbSpec) -> tuple[str | None, float]:
    """The extracted answer and whether it is right; no answer is a wrong answer of the model."""
    if spec.answer == "final_number":
        found = final_number(text)
        gold = gold_number(str(target))
        return (found.text, float(same_number(found.value, gold))) if found else (None, 0.0)
    if spec.answer == "short_answer":
        return None, float(contains_answer(text, str(target)))
    answer = text.strip()
    return answer, float(answer == str(target).strip())


def gold_number(target: str) -> Decimal:
    """The number of a gold answer: after ``####`` where it has that, else its final one.

    Raises:
        DataError: there is none, so the task cannot be scored by number.
    """
    found = final_number(target)
    if found is None:
        raise DataError(f"the gold answer {target[-60:]!r} has no number; use `answer: exact`")
    return gsm8k_gold(target) if "####" in target else found.value


def _critical_stability(
    response: Generation, spec: TcbSpec
) -> tuple[dict[str, float | None], str | None]:
    """Quantities at the critical token by today's rule, or why there are none."""
    if spec.position is None:
        return {}, None
    if response.without:
        return {}, response.without
    start = response.answer_start
    token = critical_token(spec.position, response.text, response.offsets, start=start)
    if token is None:
        return {}, NOT_FOUND if spec.position == "final_number" else f"no {spec.position} token"
    if token not in response.positions:
        return {}, (
            f"the critical position is token {token} by {rule_version(spec.position)}, but "
            f"{response.rule} kept {response.positions or 'none'}; "
            "run again, or keep the whole trace with --trace"
        )
    at = response.positions.index(token)
    values, reason = _finite(
        {name: column[at] for name, column in response.stability.items()}, spec.epsilon
    )
    values["critical_token"] = token
    return values, reason


def _finite(row: Row, epsilon: float) -> tuple[dict[str, float | None], str | None]:
    """The row with delta scaled to ``epsilon`` and every non-finite value None, with the reason.

    delta is linear in epsilon, so responses are stored for 1 and are shared by every epsilon.
    """
    values: dict[str, float | None] = dict(row)
    for name in SCALED_BY_EPSILON:
        if name in row:
            values[name] = row[name] * epsilon
    if "log10_delta_tcb" in row:
        values |= _beyond_float32(row, epsilon)
        values["log10_delta_tcb"] = row["log10_delta_tcb"] + math.log10(epsilon)
    lost = [name for name, value in values.items() if value is None or not math.isfinite(value)]
    reasons = [f"not finite: {', '.join(sorted(lost))}"] if lost else []
    if "top_mass" in row:
        lost += CLOSED
        reasons.append(CLOSED_REASON)
    values |= dict.fromkeys(lost)
    return values, "; ".join(reasons) or None


def _over_answer(response: Generation, epsilon: float) -> dict[str, float]:
    """Means over all tokens of an answer: of log10 for lengths, plain for the rest."""
    found = {}
    first = first_answer_token(response.offsets, response.answer_start)
    for name in ("log10_delta_tcb", "flip_radius", "relative_flip_radius", "p_top1", "nll"):
        column = response.stability.get(name, [])[first:]
        values = [value for value in column if math.isfinite(value)]
        if name.endswith("flip_radius"):
            values = [math.log10(v) for v in values if v > 0]
        key = f"log10_{name}" if name.endswith("flip_radius") else name
        if values:
            shift = math.log10(epsilon) if name == "log10_delta_tcb" else 0.0
            found[key] = statistics.fmean(values) + shift
    return found


def _beyond_float32(row: Row, epsilon: float) -> dict[str, float]:
    """delta_tcb and relative_delta by logarithm, where float32 overflowed and float64 holds."""
    log10 = row["log10_delta_tcb"] + math.log10(epsilon)
    if math.isfinite(row.get("delta_tcb", 0.0)) or not math.isfinite(log10) or log10 > MAX_LOG10:
        return {}
    delta = 10.0**log10
    return {"delta_tcb": delta, "relative_delta": delta / row["h_norm"]}


def states(rows: Sequence[dict[str, Any]]) -> dict[str, int]:
    """How many rows are in each of the six states; every state is named, also with 0."""
    counts = dict.fromkeys(("scored", "truncated", "empty", "filtered", "error", "unscored"), 0)
    for row in rows:
        counts[row["state"]] += 1
    return counts


def mean_of_known(values: Iterable[float | None]) -> float | None:
    """The mean of what is not None; None where nothing is."""
    known = [value for value in values if value is not None]
    return statistics.fmean(known) if known else None
