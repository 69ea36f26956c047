"""What servers put where a text, a number or a list belongs, read without trusting it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

MOST = 2**53
"""Numbers from here on are no counts."""

ROUNDING = 1e-3
"""A log-probability may be above 0 by as much."""

BYTES = range(256)

HALF_PRECISION = 0.05
"""Probabilities of a server that computes in few bits may add up to more than 1 by as much."""


def as_mapping(value: object) -> Mapping[str, Any]:
    """The JSON object; an empty one in place of anything else."""
    return value if isinstance(value, Mapping) else {}


def as_text(value: object) -> str | None:
    """The text; None in place of anything else."""
    return value if isinstance(value, str) else None


def as_count(value: object) -> int | None:
    """A number of tokens; None in place of what cannot be one."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if 0 <= value < MOST and value == int(value) else None


def index_of(choice: Mapping[str, Any]) -> int | None:
    """The index of a choice, 0 where it has none; None where it is no index."""
    given = choice.get("index")
    if given is None:
        return 0
    return int(given) if isinstance(given, str) and given.isdecimal() else as_count(given)


def content_of(choice: Mapping[str, Any]) -> str | None:
    """The answer, empty where the message has none; None where it is no text.

    Some servers send a list of parts: those of type ``text`` are the answer, thoughts are not.
    """
    message = choice.get("message")
    if message is None:
        return ""
    if not isinstance(message, Mapping):
        return None
    content = message.get("content")
    if isinstance(content, list):
        parts = [as_mapping(part) for part in content]
        given = [part.get("text") for part in parts if part.get("type") == "text"]
        texts = [text for text in given if isinstance(text, str)]
        if not all(parts) or len(texts) < len(given):
            return None
        content = "".join(texts)
    found = content or message.get("refusal") or ""
    return found if isinstance(found, str) else None


def entries_of(choice: Mapping[str, Any]) -> Sequence[Mapping[str, Any]] | None:
    """The tokens of a choice with their log-probabilities; None where they are none.

    Numbers that are no log-probabilities, and tokens whose probabilities add up to more than 1
    (servers that write 0.0 for each), say nothing of the model.
    """
    logprobs = choice.get("logprobs")
    entries = logprobs.get("content") if isinstance(logprobs, Mapping) else logprobs
    if not entries:
        return []
    if not isinstance(entries, list) or not all(map(_is_entry, entries)):
        return None
    return entries


def _is_entry(entry: object) -> bool:
    if not _is_token(entry) or not isinstance(entry, Mapping):
        return False
    given, top = entry.get("bytes"), entry.get("top_logprobs") or []
    if not (given is None or (isinstance(given, list) and all(map(BYTES.__contains__, given)))):
        return False
    if not isinstance(top, list) or not all(map(_is_token, top)):
        return False
    mass = math.fsum(math.exp(min(each["logprob"], 0.0)) for each in top)
    return (not top or mass > 0) and mass <= 1 + HALF_PRECISION


def _is_token(entry: object) -> bool:
    """Whether an entry has a token and a log-probability."""
    if not isinstance(entry, dict) or not isinstance(entry.get("token"), str):
        return False
    value = entry.get("logprob")
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return value <= ROUNDING
