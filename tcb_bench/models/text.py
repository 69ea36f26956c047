"""Generated tokens as text while they come: character offsets, stop strings, the end of a row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

CONTEXT = 6  # prompt tokens decoded along: some tokenizers strip a text's first space
LONGEST_WINDOW = 32  # tokens
LONGEST_PENDING = 16  # tokens; a character has 4 bytes at most, so a longer wait is in vain
INCOMPLETE = "\ufffd"


class TextBuilder:
    """Text of a growing list of tokens, in linear time, never taking back a character.

    Decoding a token alone loses what depends on its neighbours (leading spaces, characters of
    several tokens), and decoding all tokens each time is quadratic; so a short window is decoded
    with and without the new token, and the difference is that token's text.

    Attributes:
        text: the text so far; an incomplete character is not in it before it is complete.
        offsets: per token [start, end) in ``text``; tokens of one character share its range, and
            tokens without text (special ones) are empty.
    """

    def __init__(self, tokenizer: Any, context: Sequence[int] = ()) -> None:
        """``context`` is the prompt; its last few tokens are decoded along."""
        self.tokenizer = tokenizer
        self.text = ""
        self.offsets: list[list[int]] = []
        self._known = list(context[-CONTEXT:])  # tokens whose text is taken
        self._before = self._decode(self._known)
        self._waiting: list[int] = []  # tokens that end in an incomplete character
        self._stable = 0  # complete characters of these

    def push(self, token: int) -> None:
        """Adds a token."""
        self._waiting.append(token)
        grown = self._decode(self._known + self._waiting)[len(self._before) :]
        complete = grown.rstrip(INCOMPLETE)
        is_complete = complete == grown or len(self._waiting) >= LONGEST_PENDING
        start = len(self.text) + self._stable
        end = len(self.text) + (len(grown) if is_complete else len(complete) + 1)
        if is_complete and len(self._waiting) > 1:
            start = self._past_broken(start, grown)
        self.offsets.append([start, max(start, end)])
        self._stable = len(complete)
        if is_complete:
            self._take(grown)

    def _past_broken(self, start: int, grown: str) -> int:
        """Where the new token begins if what the last one left open turns out as U+FFFD."""
        rest = grown[self._stable :]
        n_broken = len(rest) - len(rest.lstrip(INCOMPLETE))
        if 0 < n_broken < len(rest):
            start += n_broken
            self.offsets[-1][1] = start
        return start

    def finish(self) -> None:
        """Takes an incomplete character at the end as the tokenizer shows it, usually U+FFFD."""
        if self._waiting:
            self._take(self._decode(self._known + self._waiting)[len(self._before) :])

    def _take(self, grown: str) -> None:
        self.text += grown
        before = self._decode(self._waiting)
        # The window keeps more than the last tokens where these show nothing to lean on.
        known = self._waiting if before else (self._known + self._waiting)[-LONGEST_WINDOW:]
        self._known, self._before = known, before or self._decode(known)
        self._waiting, self._stable = [], 0

    def _decode(self, tokens: list[int]) -> str:
        text: str = self.tokenizer.decode(
            tokens, skip_special_tokens=True, clean_up_tokenization_spaces=False
        )
        return text


@dataclass
class StopRule:
    """When a row ends.

    Attributes:
        tokens: ids that end it: end-of-sequence tokens, and stop strings that are special tokens.
        strings: stop strings, looked for in the text.
        think_end: token or string that ends a reasoning part, in which no stop string counts.
    """

    tokens: frozenset[int]
    strings: tuple[str, ...] = ()
    think_end: int | str | None = None

    @property
    def overlap(self) -> int:
        """Characters of the old text that a stop string reaching into the new text may cover."""
        return max(map(len, self.strings), default=1) - 1


@dataclass
class RowText:
    """One row of a batch while it is generated.

    Attributes:
        builder: its text.
        rule: when it ends.
        tokens: its token ids, the end-of-sequence token included.
        is_done: whether it has ended by ``rule``; later tokens are padding.
    """

    builder: TextBuilder
    rule: StopRule
    tokens: list[int] = field(default_factory=list)
    is_done: bool = False
    _cut: int | None = None
    _searched: int = 0  # characters in which no stop string begins
    _has_thought: bool = False

    def push(self, token: int) -> bool:
        """Adds a token unless the row has ended; whether it has now."""
        if self.is_done:
            return True
        self.tokens.append(token)
        if token in self.rule.tokens:
            self.builder.finish()
            self.builder.offsets.append([len(self.builder.text)] * 2)
            self.is_done = True
            return True
        self.builder.push(token)
        if self._is_reasoning(token):
            return False
        self._cut = self._find_stop()
        self.is_done = self._cut is not None
        return self.is_done

    def _is_reasoning(self, token: int) -> bool:
        end, text = self.rule.think_end, self.builder.text
        if end is None or self._has_thought:
            return False
        if isinstance(end, int):
            self._has_thought, self._searched = token == end, len(text)
        elif (found := text.find(end, max(0, self._searched - len(end)))) >= 0:
            self._has_thought, self._searched = True, found + len(end)
        else:
            self._searched = len(text)
        return not self._has_thought

    def _find_stop(self) -> int | None:
        text, start = self.builder.text, self._searched
        found = [at for stop in self.rule.strings if (at := text.find(stop, start)) >= 0]
        self._searched = max(start, len(text) - self.rule.overlap)
        return min(found, default=None)

    def result(self) -> tuple[str, list[int], list[list[int]]]:
        """(text, tokens, offsets) up to the first stop string."""
        self.builder.finish()
        text, offsets = self.builder.text, self.builder.offsets
        if self._cut is None:
            return text, list(self.tokens), offsets
        cut = self._cut
        kept = [i for i, (start, _) in enumerate(offsets) if start < cut]
        tokens = [self.tokens[i] for i in kept]
        return text[:cut], tokens, [[offsets[i][0], min(offsets[i][1], cut)] for i in kept]
