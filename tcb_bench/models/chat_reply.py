"""From the reply of an API to texts, what they cost, and what is known of their stability."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tcb_bench.metrics.top_logprobs import top_quantities
from tcb_bench.models.chat_faults import good_choices
from tcb_bench.models.chat_shape import as_count, as_mapping, as_text, content_of, index_of
from tcb_bench.models.chat_token_texts import TokenTexts, token_texts
from tcb_bench.models.positions import critical_token, rule_version
from tcb_bench.models.sampling import Sampling
from tcb_bench.responses import Failure, Generation, Response

TEMPERED = "the API's log-probabilities depend on the temperature, so only those at 1 are used"
PERHAPS_TEMPERED = (
    "whether the API's log-probabilities depend on the temperature is not known, so only those at "
    "1 are used"
)
NOT_TOLD = -9999.0
"""What OpenAI writes in place of the log-probability of a token beyond the likeliest."""

FILTERED = "the provider's filter cut this answer; the same command asks again"


def usage_of(reply: Mapping[str, Any]) -> dict[str, int]:
    """Tokens that are billed: prompt, completion, and of these reasoning and cached ones."""
    usage = as_mapping(reply.get("usage"))
    prompt = as_mapping(usage.get("prompt_tokens_details"))
    completion = as_mapping(usage.get("completion_tokens_details"))
    cached = prompt.get("cached_tokens", usage.get("prompt_cache_hit_tokens"))
    found = {
        "prompt_tokens": usage.get("prompt_tokens"),
        "completion_tokens": usage.get("completion_tokens"),
        "reasoning_tokens": completion.get("reasoning_tokens"),
        "cached_tokens": cached,
    }
    counts = {name: as_count(value) for name, value in found.items()}
    known = {name: count for name, count in counts.items() if count is not None}
    if (total := as_count(usage.get("total_tokens"))) is not None and "prompt_tokens" in known:
        # some servers leave reasoning out of completion_tokens, and bill it
        generated = max(known.get("completion_tokens", 0), total - known["prompt_tokens"])
        known["completion_tokens"] = generated
    return known


def call_of(
    reply: Mapping[str, Any], choice: Mapping[str, Any], sent: Mapping[str, Any], n: int
) -> dict[str, Any]:
    """What stands beside a response: whose it is, what was sent for it, what it cost.

    The bill of a request with several choices stands at the first good one alone.
    """
    index = index_of(choice) or 0
    shown = {k: v for k, v in sent.items() if k not in ("messages", "model")}
    call: dict[str, Any] = {
        "id": as_text(reply.get("id")),
        "model": as_text(reply.get("model")),
        "system_fingerprint": as_text(reply.get("system_fingerprint")),
        "finish_reason": as_text(choice.get("finish_reason")),
        "choice": index,
        "n": n,
        "sent": shown,
        "prompt_tokens": usage_of(reply).get("prompt_tokens"),
    }
    if reasoning := _reasoning(choice):
        call["reasoning"] = reasoning
    if index == min(good_choices(reply), default=0):
        call["usage"] = usage_of(reply)
    return call


def _reasoning(choice: Mapping[str, Any]) -> str | None:
    message = as_mapping(choice.get("message"))
    return as_text(message.get("reasoning_content") or message.get("reasoning"))


def text_of(choice: Mapping[str, Any]) -> str:
    """The answer; a refusal in a field of its own is the model's answer too."""
    return content_of(choice) or ""


def is_cut(choice: Mapping[str, Any]) -> bool:
    """Whether the limit of tokens ended the reply."""
    return choice.get("finish_reason") == "length"


def reasoning_end(text: str, think_end: str, find: Callable[..., int] = str.rfind) -> int:
    """Characters up to the last ``think_end`` and the white space behind it; 0: it never comes.

    ``find=str.find``: up to the first one.
    """
    at = find(text, think_end) if think_end else -1
    if at < 0:
        return 0
    answer = text[at + len(think_end) :]
    return len(text) - len(answer.lstrip())


def until_stop(text: str, stops: Sequence[str], start: int = 0) -> tuple[str, bool]:
    """The text before the first of its stop strings from ``start`` on; whether one was there."""
    ends = [end for stop in stops if (end := text.find(stop, start)) >= 0]
    return (text[: min(ends)], True) if ends else (text, False)


def generation(
    choice: Mapping[str, Any],
    given: Sampling,
    call: Mapping[str, Any],
    usable: str | None,
    think_end: str = "",
) -> Response:
    """A text, with what its log-probabilities say at the positions asked for.

    Args:
        choice: of the reply.
        given: what was asked, stop strings and rule of positions included.
        call: from ``call_of``.
        usable: why log-probabilities are not looked at; None = they are.
        think_end: what ends the reasoning inside the text. Stop strings count behind it.
    """
    if choice.get("finish_reason") == "content_filter":
        return Failure(FILTERED, state="filtered", call=dict(call))
    whole = text_of(choice)
    start = reasoning_end(whole, think_end, str.find)
    is_thinking = bool(think_end) and not start and not call.get("reasoning")
    text, is_stopped = (whole, False) if is_thinking else until_stop(whole, given.until, start)
    start = reasoning_end(text, think_end)
    tokens = token_texts(choice, whole)
    wanted = given.stability_at != "none"
    without = None if not wanted else usable or (None if tokens.logprobs else tokens.problem)
    kept = tokens.before(len(text)) if is_stopped else tokens
    stability, positions, rule = _stability(kept, text, start, given.stability_at, without)
    return Generation(
        text=text,
        tokens=[],
        offsets=kept.offsets,
        finish_reason="length" if is_cut(choice) and not is_stopped else "stop",
        prompt_tokens=call.get("prompt_tokens") or 0,
        stability=stability,
        positions=positions,
        rule=rule,
        call=dict(call),
        without=without or "",
        answer_start=start,
    )


def _stability(
    tokens: TokenTexts, text: str, start: int, rule: str, without: str | None
) -> tuple[dict[str, list[float]], list[int], str]:
    if rule == "none" or without:
        return {}, [], "none"
    if rule == "all":
        positions = list(range(len(tokens.offsets)))
    else:
        token = critical_token(rule, text, tokens.offsets, start=start)
        positions = [] if token is None else [token]
        rule = rule_version(rule)
    rows = [row_of(tokens.logprobs[i]) for i in positions]
    names = [name for name in rows[0] if all(name in row for row in rows)] if rows else []
    return {name: [row[name] for row in rows] for name in names}, positions, rule


def row_of(entry: Mapping[str, Any]) -> dict[str, float]:
    """Quantities at one token; ``nll`` is of the token that was generated, nan where not told."""
    top = [float(each["logprob"]) for each in ranked(entry)]
    own = float(entry["logprob"])
    return {**top_quantities(top or [own]), "nll": math.nan if own <= NOT_TOLD else -own}


def ranked(entry: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The likeliest tokens at one position, in order: none that is not shown is likelier.

    vLLM puts the generated token first, also where it is none of the likeliest; then it is left
    out, since tokens between it and the others are not shown.
    """
    listed = list(entry.get("top_logprobs") or ())
    top = sorted(listed, key=lambda each: -float(each["logprob"]))
    is_own = bool(listed) and str(listed[0]["token"]) == str(entry["token"])
    return top[:-1] if len(top) > 1 and is_own and top[-1] is listed[0] else top
