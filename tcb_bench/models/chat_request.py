"""From a prompt and its sampling parameters to what is sent, by what a model is known to take."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tcb_bench.errors import UsageError
from tcb_bench.models.capabilities import Capability
from tcb_bench.models.chat_options import ApiOptions
from tcb_bench.models.sampling import Sampling

Message = dict[str, str]
NEUTRAL = {"top_k": 0, "min_p": 0.0, "repetition_penalty": 1.0}
"""Values of parameters that only some servers know which change nothing."""

SEEDS = 2**31
"""Seeds below this are taken by servers that read numbers as doubles, too."""

OURS = frozenset(
    {
        *("model", "messages", "n", "stream", "temperature", "top_p", "stop", "seed"),
        *("max_tokens", "max_completion_tokens", "logprobs", "top_logprobs"),
    }
)
"""Fields that no ``extra_body`` may have, also where a request leaves them out."""

LETTER_TOKENS = 64
"""Room for an answer among choices where a model gives no log-probabilities."""


def as_text(history: Sequence[Mapping[str, str]]) -> str:
    """Messages as one text, which is what lm-eval's requests carry; ``as_messages`` reads it.

    A reply is a turn of its own: what a task would open it with (``Answer:``) ends the user's turn.
    """
    messages = [{"role": turn["role"], "content": turn["content"]} for turn in history]
    if len(messages) > 1 and messages[-1]["role"] == "assistant":
        prefix = messages.pop()["content"]
        question = messages[-1]["content"]
        gap = "" if not question or question[-1].isspace() else "\n"
        messages[-1] = {"role": messages[-1]["role"], "content": f"{question}{gap}{prefix}"}
    return json.dumps(messages, ensure_ascii=False)


def as_messages(text: str, system_role: str = "system") -> list[Message]:
    """The messages that ``as_text`` wrote; any other text is one turn of the user.

    Args:
        text: the prompt of a request.
        system_role: how the model is sent what a task says first: ``system``, ``developer``, or
            ``user`` (before the first turn of the user).
    """
    messages: list[Message] = [{"role": "user", "content": text}]
    if text.startswith('[{"role": '):
        messages = json.loads(text)
    if messages[0]["role"] != "system" or system_role == "system":
        return messages
    first, *rest = messages
    if system_role != "user":
        return [{"role": system_role, "content": first["content"]}, *rest]
    if not rest:
        return [{"role": "user", "content": first["content"]}]
    joined = f"{first['content'].rstrip()}\n\n{rest[0]['content']}"
    return [{"role": rest[0]["role"], "content": joined}, *rest[1:]]


@dataclass(frozen=True, slots=True)
class Lengths:
    """Tokens that a reply may have: ``answer``, and what is sent, reasoning included."""

    answer: int
    sent: int


def lengths(answer: int, capability: Capability, options: ApiOptions, name: str) -> Lengths:
    """How long a reply may be.

    Raises:
        UsageError: more than the model gives.
    """
    answer = options.answer_tokens or answer
    reasoning = options.reasoning_tokens if capability.is_reasoning else 0
    sent = answer + (reasoning if capability.counts_reasoning else 0)
    most = capability.max_tokens
    if most is not None and sent > most:
        parts = f" (answer {answer} + reasoning {reasoning})" if reasoning else ""
        raise UsageError(
            f"{name}: a reply of {sent} tokens{parts} was asked for and the model gives at most "
            f"{most}; lower --answer_tokens or --reasoning_tokens"
        )
    return Lengths(answer, sent)


def unsupported(given: Sampling, capability: Capability) -> str | None:
    """Why the model cannot do what is asked, in one line that conditions share; None if it can."""
    name = f"{capability.provider}/{capability.model}"
    if capability.temperature is None and given.temperature != 1:
        return f"{name} takes no temperature but 1 (--gen_kwargs temperature=1 asks for that)"
    if capability.temperature is not None:
        low, high = capability.temperature
        if not low <= given.temperature <= high:
            return f"{name} takes temperatures from {low:g} to {high:g} only"
    if given.top_p != 1 and not capability.top_p:
        return f"{name} takes no top_p but 1"
    for field, neutral in NEUTRAL.items():
        if getattr(given, field) != neutral and field not in capability.extra:
            return f"{name} takes no {field}"
    return None


def sampling_fields(given: Sampling, capability: Capability) -> dict[str, Any]:
    """Every sampling parameter the model takes, each with its value, no default left to it."""
    fields: dict[str, Any] = {}
    if capability.temperature is not None:
        fields["temperature"] = float(given.temperature)
    if capability.top_p:
        fields["top_p"] = float(given.top_p)
    for field in capability.extra:
        value = getattr(given, field)
        fields[field] = capability.top_k_off if field == "top_k" and not value else value
    if capability.stop_limit and given.until:
        fields["stop"] = list(given.until[: capability.stop_limit])
    if capability.seed and given.seed is not None and given.temperature > 0:
        fields["seed"] = given.seed % SEEDS
    return fields


def body_of(
    messages: Sequence[Message],
    fields: Mapping[str, Any],
    capability: Capability,
    *,
    max_tokens: int,
    top_logprobs: int = 0,
    extra_body: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The body of a request for one choice.

    Raises:
        UsageError: ``extra_body`` would replace something that is measured.
    """
    body: dict[str, Any] = {"model": capability.model, "messages": list(messages), **fields}
    body[capability.max_tokens_field] = max_tokens
    if top_logprobs:
        body |= {"logprobs": True, "top_logprobs": top_logprobs}
    extra = extra_body or {}
    if twice := sorted((body.keys() | OURS) & extra.keys()):
        raise UsageError(f"extra_body: {twice[0]} is set by the task and the options; leave it out")
    return {**body, **extra}
