"""What a model answers: the records that travel from an engine through the store to the scores."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar

Row = dict[str, float]
"""Stability of one position: quantity -> number, delta for epsilon = 1; may hold inf or nan."""


@dataclass(frozen=True, slots=True)
class NextToken:
    """The prediction after the last prompt token, answer to a ``next_token`` request.

    Attributes:
        stability: all quantities of ``metrics.delta_tcb.QUANTITIES``, plus ``choice_margin``,
            ``choice_flip_radius`` and ``choice_mass`` where choices were given.
        choice_logprobs: natural log-probability of each choice, in the order of the request; None
            where an API does not show it (it is then below all that are shown). Empty where there
            are none: ``token`` then says which choice a text names.
        choice_tokens: token id of each choice; an API gives no ids, so there its position.
        token: the greedy (top-1) token id; ``token_text`` is its text. With an API the position of
            the choice that it is, or -1.
        prompt_tokens: number of prompt tokens the model saw.
        call: what an API says of it, see ``Generation``.
        without: why ``stability`` lacks what it lacks; empty where nothing is missing.
    """

    kind: ClassVar[str] = "next_token"
    stability: Row
    choice_logprobs: list[float | None]
    choice_tokens: list[int]
    token: int
    token_text: str
    prompt_tokens: int
    call: dict[str, Any] = field(default_factory=dict)
    without: str = ""


@dataclass(frozen=True, slots=True)
class Generation:
    """A generated text, answer to a ``generate_traced`` request.

    Attributes:
        text: the text up to (without) the first stop string; special tokens left out.
        tokens: generated token ids, the end-of-sequence token included, none after a stop string.
        offsets: per token [start, end) in characters of ``text``; a token inside a multi-token
            character has the character's range; the end-of-sequence token has (len, len).
        finish_reason: ``stop`` (end of sequence or stop string) or ``length``.
        stability: quantity -> values at the token indices ``positions`` (``nll`` is of the token
            generated there); delta for epsilon = 1.
        positions: token indices with stability: all of them when traced, else the critical one.
        rule: name and version of the rule that chose ``positions`` (``all`` when traced).
        prompt_tokens: number of prompt tokens the model saw.
        answer_start: characters of ``text`` that are reasoning and the white space behind it; 0
            where there is none, and where its end never came.
        call: with an API ``id``, ``model`` and ``system_fingerprint`` of the reply, its own
            ``finish_reason``, ``choice`` of ``n``, the fields ``sent`` besides the messages,
            ``reasoning`` where it was shown, and at choice 0 the ``usage`` that is billed.
        without: why there is no stability at the position asked for; empty where there is.
    """

    kind: ClassVar[str] = "generation"
    text: str
    tokens: list[int]
    offsets: list[list[int]]
    finish_reason: str
    prompt_tokens: int
    stability: dict[str, list[float]] = field(default_factory=dict)
    positions: list[int] = field(default_factory=list)
    rule: str = "none"
    answer_start: int = 0
    call: dict[str, Any] = field(default_factory=dict)
    without: str = ""

    @property
    def completion_tokens(self) -> int | None:
        """Tokens generated for this text; None where one bill covers several texts."""
        if not self.call:
            return len(self.tokens)
        own = self.call.get("usage", {}).get("completion_tokens")
        return int(own) if own is not None and self.call["n"] == 1 else None

    @property
    def answer(self) -> str:
        """The part of the text that is extracted from, compared and scored."""
        return self.text[self.answer_start :]


@dataclass(frozen=True, slots=True)
class Plain:
    """An answer to one of lm-eval's own request types: a text, or [log-likelihood, is greedy]."""

    kind: ClassVar[str] = "plain"
    value: Any


@dataclass(frozen=True, slots=True)
class Failure:
    """No answer, and why; counted under ``state``, never scored as 0.

    Attributes:
        reason: one line: what went wrong and what can be done.
        state: ``error`` (asked again on resume), ``filtered``, ``unscored``, or ``unsupported``
            (the model takes no such request; it was not sent).
        call: what an API said, see ``Generation``.
    """

    kind: ClassVar[str] = "failure"
    reason: str
    state: str = "error"
    call: dict[str, Any] = field(default_factory=dict)


Response = NextToken | Generation | Plain | Failure
_KINDS = {cls.kind: cls for cls in (NextToken, Generation, Plain, Failure)}


def to_record(response: Response) -> dict[str, Any]:
    """A response as JSON types (``inf`` and ``nan`` kept as floats), which it shares with it."""
    return {"kind": response.kind} | {f.name: getattr(response, f.name) for f in fields(response)}


def from_record(record: dict[str, Any]) -> Response:
    """The response that ``to_record`` wrote."""
    fields = dict(record)
    return _KINDS[fields.pop("kind")](**fields)


def answer_text(row: Mapping[str, Any]) -> str | None:
    """What is scored of a sample row's ``text``: all behind its reasoning; None without a text."""
    text = row.get("text")
    return None if text is None else str(text)[row.get("reasoning_chars", 0) :]
