"""Tokens of a reply by their texts: where each lies in the answer, since an API gives no ids."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tcb_bench.models.chat_shape import entries_of

NO_LOGPROBS = "the API gives no log-probabilities of this model, so nothing is known of stability"
BAD_LOGPROBS = "the API's log-probabilities are malformed, or no probabilities, and are not used"
OTHER_TEXT = "the API's tokens do not make its text, so their log-probabilities are not used"


@dataclass(frozen=True, slots=True)
class TokenTexts:
    """Tokens with their log-probabilities.

    Attributes:
        offsets: per token [start, end) in characters of the text; a token inside a multi-byte
            character has that character's range, one without text (an end of sequence) is empty.
        logprobs: per token what the API says: ``token``, ``logprob``, ``top_logprobs``. Empty, as
            ``offsets``, where it says nothing or where the tokens do not make the text.
        problem: why they are empty.
    """

    offsets: list[list[int]] = field(default_factory=list)
    logprobs: list[Mapping[str, Any]] = field(default_factory=list)
    problem: str = ""

    def before(self, length: int) -> TokenTexts:
        """Those that begin in the first ``length`` characters, for a text that was cut there."""
        n = sum(start < length for start, _ in self.offsets)
        kept = [[start, min(end, length)] for start, end in self.offsets[:n]]
        return TokenTexts(kept, list(self.logprobs[:n]))


def token_texts(choice: Mapping[str, Any], text: str) -> TokenTexts:
    """The tokens of a reply's choice; none where they do not join to its text."""
    entries = entries_of(choice)
    if not entries:
        return TokenTexts(problem=BAD_LOGPROBS if entries is None else NO_LOGPROBS)
    pieces = [_bytes(entry) for entry in entries]
    whole = text.encode()
    joined = b"".join(pieces)
    end = len(whole)
    if not joined.startswith(whole) or (joined and not whole):  # an empty text: tokens of reasoning
        return TokenTexts(problem=OTHER_TEXT)
    offsets, at = [], 0
    starts = _characters(text)
    for piece in pieces:
        # tokens behind the text are ends of sequence that some servers list
        first, last = min(at, end), min(at + len(piece), end)
        at += len(piece)
        offsets.append([starts[first], starts[last - 1] + 1] if last > first else [len(text)] * 2)
    return TokenTexts(offsets, list(entries))


def _bytes(entry: Mapping[str, Any]) -> bytes:
    found = entry.get("bytes")
    return bytes(found) if found is not None else str(entry["token"]).encode()


def _characters(text: str) -> list[int]:
    """Per byte of the text the index of its character, and the length at the end."""
    starts = [i for i, char in enumerate(text) for _ in char.encode()]
    return [*starts, len(text)]
