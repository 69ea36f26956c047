"""What went wrong with a request to an API, and what follows: wait, ask again, or stop."""

from __future__ import annotations

import email.utils
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from tcb_bench.models.chat_shape import content_of, index_of

Action = Literal["retry", "wait", "stop", "quota", "condition", "unscored", "filtered"]

HEALS = frozenset({408, 409, 425, 500, 502, 503, 504, 520, 521, 522, 523, 524, 529})
QUOTA_CODES = frozenset({"insufficient_quota", "billing_hard_limit_reached", "billing_not_active"})
TOO_LONG = re.compile(
    r"context_length_exceeded|maximum context length|context window|too many (input )?tokens|"
    r"prompt is too long|longer than the (model's|maximum)",
    re.IGNORECASE,
)
TOO_MUCH_AT_ONCE = re.compile(r"request too large", re.IGNORECASE)
"""A 429 for a request that is more than a minute's tokens: waiting does not help."""

BROKEN_OFF = {"error": 502, "insufficient_system_resource": 503, "abort": 503}
"""Reasons of a choice that ended because the server failed -> the status that means the same."""

FILTER = re.compile(r"content[_ ]?(policy|filter|management)|moderation|flagged", re.IGNORECASE)
REFUSES = re.compile(
    r"only the default|unsupported|not (be )?support|does not support|not permitted|"
    r"extra (fields|inputs)|unrecognized|unknown (field|parameter|argument)|not allowed|"
    r"invalid (value|parameter)|out of range|must be|should be|less than or equal|between",
    re.IGNORECASE,
)
SAMPLING = ("temperature", "top_p", "top_k", "min_p", "repetition_penalty")
LONGEST_WAIT_S = 3600.0


@dataclass(eq=False)
class Fault(Exception):
    """One failed attempt.

    Attributes:
        kind: short name for counts: ``429``, ``500``, ``timeout``, ``connection``, ``bad reply``.
        action: ``retry`` heals by itself; ``wait`` heals after a pause (429); ``stop`` ends the
            model's run; ``quota`` ends it too, but as one to be continued; ``condition`` is a
            parameter that the model refuses; ``unscored`` and ``filtered`` are of this prompt only.
        message: one line of what was said, without secrets.
        wait_s: how long the API asks to wait; None = it does not say.
        field: the refused parameter of a ``condition``.
    """

    kind: str
    action: Action
    message: str
    wait_s: float | None = None
    field: str | None = None

    def __str__(self) -> str:
        return self.message


def fault_of_status(status: int, body: Any, headers: Mapping[str, str]) -> Fault:
    """What a reply that is no success means.

    Args:
        status: HTTP's.
        body: the JSON of the reply, or its text.
        headers: of the reply; names in lower case.
    """
    message, codes, param = _said(body)
    line = f"HTTP {status}" + (f": {message}" if message else "")
    said = " ".join((*codes, message))
    if QUOTA_CODES.intersection(codes) or status == 402:
        return Fault("quota", "quota", line)
    if status == 429 and TOO_MUCH_AT_ONCE.search(said):
        return Fault("429", "unscored", f"the prompt is too long for the rate limit: {line}")
    if status == 429:
        return Fault("429", "wait", line, wait_s=retry_after(headers))
    if status in HEALS or status >= 500:
        return Fault(str(status), "retry", line, wait_s=retry_after(headers))
    if status in (400, 413, 422):
        return _of_request(status, line, said, param)
    return Fault(str(status), "stop", line)


def _of_request(status: int, line: str, said: str, param: str) -> Fault:
    """A request that the API will never take: because of its prompt, a parameter, or all of it."""
    if TOO_LONG.search(said) or status == 413:
        return Fault(str(status), "unscored", f"prompt and reply are too long: {line}")
    if FILTER.search(said):
        return Fault(str(status), "filtered", line)
    refused = param if param in SAMPLING else ""
    if not refused and REFUSES.search(said):
        refused = next((name for name in SAMPLING if re.search(rf"\b{name}\b", said)), "")
    if refused:
        return Fault(str(status), "condition", line, field=refused)
    return Fault(str(status), "stop", line)


def _said(body: Any) -> tuple[str, tuple[str, ...], str]:
    """Message, codes and parameter of an error's body, in whatever form it comes."""
    error = body.get("error", body) if isinstance(body, Mapping) else body
    if not isinstance(error, Mapping):
        text = re.sub(r"<[^>]*>", " ", str(error or ""))
        return " ".join(text.split())[:300], (), ""
    message = error.get("message") or error.get("detail") or ""
    codes = tuple(c for c in (error.get("code"), error.get("type")) if isinstance(c, str))
    return " ".join(str(message).split())[:300], codes, str(error.get("param") or "")


def fault_in_reply(reply: Any) -> Fault | None:
    """What is wrong with a reply that HTTP calls a success; None where nothing is."""
    if not isinstance(reply, Mapping):
        return Fault("bad reply", "retry", "the reply is no JSON object")
    if reply.get("error") and not reply.get("choices"):
        return _fault_of_error(reply, 502)
    choices = reply.get("choices")
    if not isinstance(choices, list) or not choices:
        return Fault("bad reply", "retry", "the reply has no choices")
    if not good_choices(reply):
        return fault_in_choice(choices[0])
    return None


def good_choices(reply: Mapping[str, Any]) -> dict[int, dict[str, Any]]:
    """Index -> choice of a reply, without those that the server broke off; of two the first."""
    found: dict[int, dict[str, Any]] = {}
    for choice in reply["choices"]:
        if fault_in_choice(choice) is None:
            found.setdefault(index_of(choice) or 0, choice)
    return found


def fault_in_choice(choice: Any) -> Fault | None:
    """Why a choice of a reply is no answer of the model; None where it is one."""
    if not isinstance(choice, Mapping):
        return Fault("bad reply", "retry", "a choice of the reply is no JSON object")
    status = BROKEN_OFF.get(str(choice.get("finish_reason")))
    if choice.get("error") or status:
        return _fault_of_error(choice, status or 502)
    if index_of(choice) is None:
        return Fault("bad reply", "retry", "a choice of the reply has an index that is no number")
    if content_of(choice) is None:
        return Fault("bad reply", "retry", "a choice of the reply has a message that is no text")
    return None


def _fault_of_error(holder: Mapping[str, Any], default: int) -> Fault:
    """The fault that an ``error`` in a reply stands for; its code may be a status of HTTP."""
    error = holder.get("error")
    code = str(error.get("code") if isinstance(error, Mapping) else None)
    status = int(code) if code.isdecimal() and 400 <= int(code) < 600 else default
    reason = f"the answer was broken off ({holder.get('finish_reason')})"
    return fault_of_status(status, {"error": error or reason}, {})


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds that ``retry-after-ms`` or ``retry-after`` (seconds or a date) ask to wait."""
    given = headers.get("retry-after-ms"), headers.get("retry-after")
    for text, scale in zip(given, (1e-3, 1.0), strict=True):
        try:
            seconds = float(text or "") * scale
        except ValueError:
            continue
        if seconds == seconds:
            return min(max(seconds, 0.0), LONGEST_WAIT_S)
    date = email.utils.parsedate_tz(given[1] or "")
    if date is None:
        return None
    return min(max(email.utils.mktime_tz(date) - time.time(), 0.0), LONGEST_WAIT_S)


def without_secrets(text: str, secrets: tuple[str, ...]) -> str:
    """The text with every secret, whole or its longer parts, as ``***``."""
    for secret in secrets:
        if len(secret) >= 4:
            text = text.replace(secret, "***")
    return text
