"""Prompts as token ids: one BOS at most, and choices that are one token each."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tcb_bench.errors import ModelError
from tcb_bench.responses import Failure

CHUNK = 512  # texts per tokenizer call; the ids of a call live as Python ints until it is packed


@dataclass(frozen=True, slots=True)
class Prompt:
    """What the model reads: token ids (int32), and the token of each choice that may follow."""

    ids: array[int]
    choices: tuple[int, ...] = ()


def too_long(model: str, length: int, limit: int) -> Failure:
    """The answer to a prompt that a model cannot take; nothing is cut off in silence."""
    return Failure(
        f"the prompt has {length} tokens and {model} takes {limit}; nothing is "
        "cut off in silence: use fewer or shorter examples, or a model with a longer context",
        state="unscored",
    )


class PromptEncoder:
    """Tokenises as lm-eval's HFLM does, in batches, without its two ways to a wrong prompt.

    A text that brings its own BOS (a chat template) gets no second one, and what a tokenizer would
    append (an end of sequence) is left out, since the model is to continue the text.
    """

    def __init__(self, tokenizer: Any, *, add_special: bool | None, fallback: int) -> None:
        """``add_special`` None = the tokenizer's default; ``fallback`` starts an empty prompt."""
        self.tokenizer = tokenizer
        self.fallback = fallback
        self.prefix = _special_prefix(tokenizer) if add_special in (None, True) else []
        starts = (tokenizer.bos_token, tokenizer.decode(self.prefix) if self.prefix else None)
        self._own_starts = tuple(start for start in starts if start)

    def encode(self, texts: Sequence[str]) -> list[array[int]]:
        """Token ids of each text; an empty text is the fallback token alone."""
        unique = list(dict.fromkeys(texts))
        found = dict(zip(unique, self._encode(unique), strict=True))
        return [found[text] for text in texts]

    def _encode(self, texts: list[str]) -> Iterator[array[int]]:
        for start in range(0, len(texts), CHUNK):
            part = texts[start : start + CHUNK]
            rows = self.tokenizer(
                part, add_special_tokens=False, return_attention_mask=False, verbose=False
            )["input_ids"]
            for text, row in zip(part, rows, strict=True):
                yield self._finish(text, row)

    def _finish(self, text: str, row: list[int]) -> array[int]:
        has_own = bool(self._own_starts) and text.startswith(self._own_starts)
        ids = list(row) if has_own else [*self.prefix, *row]
        bos = self.tokenizer.bos_token_id
        while len(ids) > 1 and bos is not None and ids[0] == ids[1] == bos:
            ids = ids[1:]
        return array("i", ids or [self.fallback])

    def prompts(self, requests: Sequence[tuple[str, tuple[str, ...]]]) -> list[Prompt]:
        """Prompts with the token of each choice.

        As in HFLM, context and choice are encoded together and trailing white space of the context
        belongs to the choice; tokens that all choices begin with are then part of the prompt.

        Args:
            requests: (context, choices); choices are whole continuations such as ``" A"``.

        Raises:
            ModelError: a choice is more than one token, or two are the same one.
        """
        unique = list(dict.fromkeys(requests))
        found: dict[tuple[str, tuple[str, ...]], Prompt] = {}
        for start in range(0, len(unique), CHUNK):
            part = unique[start : start + CHUNK]
            texts = [text for request in part for text in _texts(*request)]
            rows = iter(self.encode(texts))
            for context, choices in part:
                encoded = [next(rows) for _ in range(1 + len(choices))]
                found[context, choices] = self._prompt(context, choices, encoded)
        return [found[request] for request in requests]

    def _prompt(self, text: str, choices: tuple[str, ...], encoded: list[array[int]]) -> Prompt:
        context, *wholes = encoded
        if not choices:
            return Prompt(context)
        # An empty context is the fallback token, with which context and choice do not begin.
        length = len(context) if text.rstrip() else len(self.prefix)
        tails = [list(whole[length:]) for whole in wholes]
        shared = 0
        while all(len(tail) > shared + 1 and tail[shared] == tails[0][shared] for tail in tails):
            shared += 1
        self._check_choices(choices, [tail[shared:] for tail in tails])
        ids = context + array("i", tails[0][:shared])
        return Prompt(ids, tuple(tail[shared] for tail in tails))

    def _check_choices(self, choices: tuple[str, ...], tails: list[list[int]]) -> None:
        for choice, tail in zip(choices, tails, strict=True):
            if len(tail) != 1:
                pieces = [self.tokenizer.decode([token]) for token in tail]
                raise ModelError(
                    f"choice {choice!r} is {len(tail)} tokens {pieces} of this tokenizer, expected "
                    "one that no other choice begins with; use letters as choices"
                )
        ids = [tail[0] for tail in tails]
        for i, token in enumerate(ids):
            if token in ids[:i]:
                first = choices[ids.index(token)]
                raise ModelError(
                    f"choices {first!r} and {choices[i]!r} are the same token ({token}) of this "
                    "tokenizer; choices must differ in their first token"
                )


def _texts(context: str, choices: tuple[str, ...]) -> list[str]:
    if not choices:
        return [context]
    return [context.rstrip(), *(context + choice for choice in choices)]


def _special_prefix(tokenizer: Any) -> list[int]:
    """The special tokens that the tokenizer puts before a text, found by trying one."""
    whole = tokenizer("a", verbose=False)["input_ids"]
    bare = tokenizer("a", add_special_tokens=False, verbose=False)["input_ids"]
    for start in range(len(whole) - len(bare) + 1):
        if whole[start : start + len(bare)] == bare:
            return list(whole[:start])
    return []
