"""The prediction of an answer among choices, from the reply of an API."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from tcb_bench.metrics.choices import chosen_letter
from tcb_bench.metrics.top_logprobs import top_quantities
from tcb_bench.models.chat_reply import FILTERED, is_cut, ranked, reasoning_end, text_of
from tcb_bench.models.chat_shape import entries_of
from tcb_bench.models.chat_token_texts import BAD_LOGPROBS, NO_LOGPROBS
from tcb_bench.responses import Failure, NextToken, Response

NO_CHOICE_SHOWN = "none of the choices is among the likeliest tokens that the API shows"
ONE_TOKEN = "its one token is no answer; --top_logprobs 0 asks for a text"
IN_REASONING = "the first token is one of the reasoning"
CUT = "the reply was cut off before its answer; give more --answer_tokens or --reasoning_tokens"


def prediction(
    choice: Mapping[str, Any],
    choices: Sequence[str],
    call: Mapping[str, Any],
    usable: str | None = None,
    think_end: str = "",
) -> Response:
    """The model's prediction of the first token of its reply, or the letter that it wrote.

    With log-probabilities a choice is every shown token that is it but for white space, and a
    choice that is not shown has no value (it is less likely than all that are). Without them the
    answer is the letter in the text.
    """
    if choice.get("finish_reason") == "content_filter":
        return Failure(FILTERED, state="filtered", call=dict(call))
    entries = entries_of(choice) if usable is None else []
    letters = [each.strip() for each in choices]
    prompt_tokens = call.get("prompt_tokens") or 0
    if not entries or not entries[0].get("top_logprobs"):
        without = BAD_LOGPROBS if entries is None else NO_LOGPROBS
        return _written(choice, letters, call, usable or without, think_end)
    top = ranked(entries[0])
    greedy = str(top[0]["token"])
    row = top_quantities([float(each["logprob"]) for each in top])
    row["nll"] = -float(top[0]["logprob"])
    shown = [_joined(top, letter) for letter in letters]
    known = sorted((value for value in shown if value is not None), reverse=True)
    if letters and not known:
        return Failure(f"{NO_CHOICE_SHOWN}: it would say {greedy!r}", "unscored", dict(call))
    row |= _over_choices(known)
    return NextToken(
        stability=row,
        choice_logprobs=shown,
        choice_tokens=list(range(len(letters))),
        token=letters.index(greedy.strip()) if greedy.strip() in letters else -1,
        token_text=greedy,
        prompt_tokens=prompt_tokens,
        call=dict(call),
    )


def _joined(top: Sequence[Mapping[str, Any]], letter: str) -> float | None:
    """Log-probability of all shown tokens that are the letter but for white space."""
    own = [float(each["logprob"]) for each in top if str(each["token"]).strip() == letter]
    finite = [value for value in own if value > -math.inf]
    if not own:
        return None
    best = max(own)
    return best + math.log(sum(math.exp(value - best) for value in finite)) if finite else best


def _over_choices(known: Sequence[float]) -> dict[str, float]:
    """Lead of the best choice, and the probability of all that are shown (a lower bound)."""
    found = {"choice_mass": math.fsum(math.exp(value) for value in known)} if known else {}
    return found | ({"choice_margin": known[0] - known[1]} if len(known) > 1 else {})


def _written(
    choice: Mapping[str, Any],
    letters: Sequence[str],
    call: Mapping[str, Any],
    without: str,
    think_end: str,
) -> Response:
    """The answer as the text says it; nothing is known of how likely it was."""
    text = text_of(choice)
    start = reasoning_end(text, think_end)
    text = "" if think_end and not start and is_cut(choice) else text[start:]
    found = chosen_letter(text, letters) if letters else None
    if found is None and is_cut(choice):
        was_asked = (call.get("sent") or {}).get("logprobs")
        return Failure(f"{without}; {ONE_TOKEN}" if was_asked else CUT, "unscored", dict(call))
    return NextToken(
        stability={},
        choice_logprobs=[],
        choice_tokens=list(range(len(letters))),
        token=-1 if found is None else found,
        token_text=text,
        prompt_tokens=call.get("prompt_tokens") or 0,
        call=dict(call),
        without=without,
    )
