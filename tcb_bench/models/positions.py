"""Rules that find the critical token of a generated text: the one whose prediction is measured."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tcb_bench.errors import UnknownName
from tcb_bench.metrics.answers import EXTRACTION_VERSION, final_number

Span = tuple[int, int]


def _final_number(text: str) -> Span | None:
    number = final_number(text)
    return None if number is None else (number.start, number.end)


def _first(text: str) -> Span | None:
    return (0, 1) if text else None


def _last(text: str) -> Span | None:
    return (len(text) - 1, len(text)) if text else None


RULES: dict[str, tuple[int, Callable[[str], Span | None]]] = {
    "final_number": (EXTRACTION_VERSION, _final_number),
    "first": (1, _first),
    "last": (1, _last),
}
"""Name -> (version, function from a text to the characters [start, end) of its critical part)."""


def rule_version(name: str) -> str:
    """Name and version of a rule, as stored with every response: ``final_number/1``.

    Raises:
        UnknownName: there is no such rule.
    """
    return f"{name}/{_rule(name)[0]}"


def critical_token(
    rule: str, text: str, offsets: Sequence[Sequence[int]], *, start: int = 0
) -> int | None:
    """Index of the first token that holds a character of the critical part of an answer.

    Its prediction is the critical point: everything before the answer is fixed, the answer is not.

    Args:
        rule: a name in ``RULES``.
        text: the generated text.
        offsets: per token [start, end) in characters of ``text``.
        start: characters of ``text`` before its answer part; the rule sees only what follows.

    Returns:
        None where the answer has no critical part (no number in it, or no text at all).

    Raises:
        UnknownName: there is no such rule.

    >>> critical_token("final_number", "It is 18.", [[0, 2], [2, 5], [5, 7], [7, 8], [8, 9]])
    2
    """
    span = _rule(rule)[1](text[start:])
    if span is None:
        return None
    first, end = span[0] + start, span[1] + start
    overlaps = (i for i, (a, b) in enumerate(offsets) if a < end and b > first)
    return next(overlaps, None)


def first_answer_token(offsets: Sequence[Sequence[int]], start: int) -> int:
    """Index of the first token that holds a character of the answer; their number if none does.

    Args:
        offsets: per token [start, end) in characters of the text.
        start: where the answer begins; with 0 every token belongs to it.

    >>> first_answer_token([[0, 2], [2, 2], [2, 3], [3, 3]], 2)
    2
    """
    if not start:
        return 0
    return next((i for i, (_, end) in enumerate(offsets) if end > start), len(offsets))


def _rule(name: str) -> tuple[int, Callable[[str], Span | None]]:
    if name not in RULES:
        raise UnknownName("position rule", name, RULES)
    return RULES[name]
