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
        tokens: ids that end it anywhere: end-of-sequence tokens, and stop strings that are special
            tokens.
        strings: stop strings, looked for in the text.
        think_end: token or string that ends a reasoning part. Stop strings count from the first
            end on; the answer begins behind the last one. White space that follows an end is
            neither searched for stop strings nor part of the answer, as in lm-eval.
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
    _scanned: int = 0  # characters in which no further end of the reasoning begins
    _answer: int | None = None  # where the answer begins; None before the reasoning has ended

    def push(self, token: int) -> bool:
        """Adds a token unless the row has ended; whether it has now."""
        if self.is_done:
            return True
        self.tokens.append(token)
        self.is_done = token in self.rule.tokens
        if self.is_done:
            self.builder.finish()
            self.builder.offsets.append([len(self.builder.text)] * 2)
        else:
            self.builder.push(token)
        self._follow_reasoning(token)
        if not self.is_done and (self.rule.think_end is None or self._answer is not None):
            self._cut = self._find_stop()
            self.is_done = self._cut is not None
        return self.is_done

    def _follow_reasoning(self, token: int) -> None:
        """Moves the answer's start behind what the new token ends, and the white space there."""
        end, text = self.rule.think_end, self.builder.text
        if isinstance(end, int):
            if token == end:
                self._answer = self.builder.offsets[-1][1]
        elif end is not None:
            while (found := text.find(end, self._scanned)) >= 0:
                self._scanned = self._answer = found + len(end)
            self._scanned = max(self._scanned, len(text) - len(end) + 1)
        if self._answer is not None:
            while text[self._answer : self._answer + 1].isspace():
                self._answer += 1

    def _find_stop(self) -> int | None:
        text, start = self.builder.text, max(self._searched, self._answer or 0)
        found = [at for stop in self.rule.strings if (at := text.find(stop, start)) >= 0]
        self._searched = max(start, len(text) - self.rule.overlap)
        return min(found, default=None)

    @property
    def answer_start(self) -> int:
        """Characters of the text that are reasoning; 0 also where its end never came.

        They reach to the last end of reasoning (a token's own text included) and past the white
        space that follows it.
        """
        return self._answer or 0

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
