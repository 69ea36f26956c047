"""What a model that no table knows takes: each field is tried once, in a few short requests."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any

from tcb_bench.models.capabilities import Capability
from tcb_bench.models.chat_client import Client
from tcb_bench.models.chat_faults import Fault, good_choices
from tcb_bench.models.chat_reply import NOT_TOLD, text_of, usage_of
from tcb_bench.models.chat_shape import as_mapping, entries_of

QUESTION = "Write one English word, chosen at random, and nothing else."
SHORT = 24  # tokens of a reply
TRIES = 5
LONGEST_WAIT_S = 300  # of one request, for a rate limit
SIDE_BY_SIDE = 4
HOT = 1.8  # a temperature at which two texts should differ
CLEAR = 0.5  # nats between two tokens below which a change of temperature is not seen
TRIED: tuple[tuple[str, tuple[Any, ...]], ...] = (
    ("top_p", (1.0,)),
    ("seed", (1,)),
    ("stop", (["\n\n\n###", "@@@@", "%%%%", "~~~~"], ["\n\n\n###"])),
    ("n", (2,)),
    ("top_k", (-1, 0)),
    ("min_p", (0.0,)),
    ("repetition_penalty", (1.0,)),
)
"""Fields and the values they are tried with, the first that is taken counts."""


async def ask(client: Client, body: Mapping[str, Any]) -> dict[str, Any]:
    """The reply, after waiting out what heals by itself.

    Raises:
        Fault: it does not heal.
    """
    begun, tries, waits = time.monotonic(), 0, 0
    while True:
        try:
            return await client.chat(body)
        except Fault as fault:
            tries, waits = tries + (fault.action == "retry"), waits + (fault.action == "wait")
            is_late = time.monotonic() - begun > LONGEST_WAIT_S
            if fault.action not in ("retry", "wait") or tries == TRIES or is_late:
                raise
            exponent = min(tries + waits - 1, TRIES)
            pause = random.uniform(0.5, 1) * 2**exponent  # noqa: S311 - jitter, no secret
            await asyncio.sleep(max(pause, fault.wait_s or 0))


async def _takes(client: Client, body: Mapping[str, Any], **more: Any) -> dict[str, Any] | None:
    """The reply with further fields, or None where the API refuses them."""
    try:
        return await ask(client, {**body, **more})
    except Fault as fault:
        if fault.action in ("condition", "stop") and fault.kind in ("400", "422"):
            return None
        raise


async def _gathered(*tries: Coroutine[Any, Any, Any]) -> list[Any]:
    """What each try returns, a few at a time; at the first error the others are given up."""
    few = asyncio.Semaphore(SIDE_BY_SIDE)

    async def one(coroutine: Coroutine[Any, Any, Any]) -> Any:
        try:
            async with few:
                return await coroutine
        finally:
            coroutine.close()  # one that never began

    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one(coroutine)) for coroutine in tries]
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from None
    return [task.result() for task in tasks]


async def _first_taken(
    client: Client, body: Mapping[str, Any], name: str, values: Sequence[Any]
) -> Any:
    """The first of some values of a field that the API takes; None = none of them."""
    for value in values:
        reply = await _takes(client, body, **{name: value})
        if reply is not None and (name != "n" or len(reply["choices"]) == 2):
            return value
    return None


async def probe(client: Client, provider: str, model: str) -> Capability:
    """Finds out what a model takes; some 20 requests of a few tokens.

    A field that is taken without an error may still be ignored: that a temperature acts is said
    only where three texts at 0 agree and three at 1.8 do not.

    Raises:
        Fault: the model cannot be asked at all.
    """
    message = {"role": "user", "content": QUESTION}
    extra = client.connection.extra_body
    body: dict[str, Any] = {**extra, "model": model, "messages": [message], "max_tokens": SHORT}
    field = "max_tokens"
    plain = await _takes(client, body)
    if plain is None:
        field = "max_completion_tokens"
        body[field] = body.pop("max_tokens")
        plain = await ask(client, body)
    system = {"role": "system", "content": "Be brief."}
    found = await _gathered(
        *(_first_taken(client, body, name, values) for name, values in TRIED),
        _takes(client, body, temperature=0.5),
        _takes(client, {**body, "messages": [system, message]}),
        _top_logprobs(client, body),
    )
    *values, tempered, instructed, top_logprobs = found
    taken = {name: v for (name, _), v in zip(TRIED, values, strict=True) if v is not None}
    has_temperature, has_system = tempered is not None, instructed is not None
    is_reasoning, effective = _reasons(plain), "unknown"
    if has_temperature:
        also, effective = await _heeds_temperature(client, body)
        is_reasoning = is_reasoning or also
    return Capability(
        provider=provider,
        model=model,
        is_known=False,
        temperature=(0.0, 2.0) if has_temperature else None,
        temperature_effective=effective if has_temperature else "false",
        max_tokens_field=field,
        max_tokens=None,
        counts_reasoning=True,
        is_reasoning=is_reasoning,
        stop_limit=len(taken.get("stop", ())),
        top_logprobs=top_logprobs,
        seed="seed" in taken,
        n=128 if "n" in taken else 1,
        top_p="top_p" in taken,
        extra=tuple(name for name in ("top_k", "min_p", "repetition_penalty") if name in taken),
        system_role="system" if has_system else "user",
        has_batch=False,
        context=None,
        source="",
        note="probed",
        top_k_off=taken.get("top_k", -1),
    )


async def _heeds_temperature(client: Client, body: Mapping[str, Any]) -> tuple[bool, str]:
    """Whether the model reasons before it answers, and whether its temperature acts."""
    texts: dict[float, set[str]] = {}
    reasons = False
    for temperature in (0.0, HOT):  # one after the other: what shares a batch may round differently
        replies = [await _takes(client, body, temperature=temperature) for _ in range(3)]
        reasons = reasons or any(_reasons(reply) for reply in replies if reply)
        texts[temperature] = {text_of(_first(reply)) for reply in replies if reply}
    is_still, is_varied = len(texts[0.0]) == 1, len(texts[HOT]) > 1
    return reasons, "true" if is_still and is_varied and not reasons else "unknown"


def _first(reply: Mapping[str, Any]) -> Mapping[str, Any]:
    """The first choice of a reply that is none of the server's faults."""
    good = good_choices(reply)
    return good[min(good)]  # the client takes no reply without one


def _reasons(reply: Mapping[str, Any]) -> bool:
    """Whether a reply shows its reasoning, or that some was billed."""
    message = as_mapping(_first(reply).get("message"))
    is_shown = bool(message.get("reasoning_content") or message.get("reasoning"))
    return is_shown or usage_of(reply).get("reasoning_tokens", 0) > 0


async def _top_logprobs(client: Client, body: Mapping[str, Any]) -> int:
    """The highest ``top_logprobs`` of 20, 10 and 5 that the API gives; 0 = none."""
    for top in (20, 10, 5):
        reply = await _takes(client, body, logprobs=True, top_logprobs=top)
        entries = first_entries(reply) if reply is not None else {}
        if len(entries) >= 2:
            return top
    return 0


def first_entries(reply: Mapping[str, Any]) -> dict[str, float]:
    """Token -> log-probability, of the likeliest first tokens of a reply."""
    entries = entries_of(_first(reply))
    top = entries[0].get("top_logprobs") or [] if entries else []
    told = {each["token"]: float(each["logprob"]) for each in top}
    return {token: value for token, value in told.items() if value > NOT_TOLD}


async def logprobs_depend_on_temperature(
    client: Client, capability: Capability, top: int
) -> bool | None:
    """Whether the API divides by the temperature before it shows log-probabilities.

    One short prompt at two temperatures: do the likeliest and the least likely of the shown tokens
    stay as far apart? None where the API gives no answer to that, or one that does not tell.

    Raises:
        Fault: the API cannot be asked now.
    """
    if capability.temperature is None:
        return False  # every request is at the default, 1
    low, high = capability.temperature
    message = {"role": "user", "content": QUESTION}
    body = {
        **client.connection.extra_body,
        "model": capability.model,
        "messages": [message],
        capability.max_tokens_field: 1,
        "logprobs": True,
        "top_logprobs": top,
    }
    try:
        cold, hot = [
            first_entries(await ask(client, {**body, "temperature": temperature}))
            for temperature in (max(low, 0.5), min(high, 1.5))
        ]
    except Fault as fault:
        if fault.kind in ("400", "422") or fault.action in ("unscored", "filtered"):
            return None
        raise
    both = sorted((token for token in cold if token in hot), key=cold.__getitem__)
    if len(both) < 2 or cold[both[-1]] - cold[both[0]] < CLEAR:
        return None
    least, most = both[0], both[-1]
    return abs((cold[most] - cold[least]) - (hot[most] - hot[least])) > 0.1
