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


def critical_token(rule: str, text: str, offsets: Sequence[Sequence[int]]) -> int | None:
    """Index of the first token that holds a character of the critical part of ``text``.

    Its prediction is the critical point: everything before the answer is fixed, the answer is not.

    Args:
        rule: a name in ``RULES``.
        text: the generated text.
        offsets: per token [start, end) in characters of ``text``.

    Returns:
        None where the text has no critical part (no number in it, or no text at all).

    Raises:
        UnknownName: there is no such rule.

    >>> critical_token("final_number", "It is 18.", [[0, 2], [2, 5], [5, 7], [7, 8], [8, 9]])
    2
    """
    span = _rule(rule)[1](text)
    if span is None:
        return None
    start, end = span
    overlaps = (i for i, (a, b) in enumerate(offsets) if a < end and b > start)
    return next(overlaps, None)


def _rule(name: str) -> tuple[int, Callable[[str], Span | None]]:
    if name not in RULES:
        raise UnknownName("position rule", name, RULES)
    return RULES[name]
