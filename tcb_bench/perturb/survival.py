"""What a paraphrase must not touch: numbers, negations and names, and that a question is one."""

from __future__ import annotations

import re
from collections import Counter

from tcb_bench.perturb.clauses import sentences
from tcb_bench.perturb.tokens import KEPT, NEGATIONS, NUMBER_WORDS, words

_DIGITS = re.compile(r"\d+(?:[.,]\d+)*")
_UNITS = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen "
    "sixteen seventeen eighteen nineteen"
)
_VALUES = {word: str(value) for value, word in enumerate(_UNITS.split())}
_POSSESSIVE = re.compile(r"(?:'s|’s|'|’)\Z")
_NOT = re.compile(r"n['’]t\Z")
_PART = re.compile(r"[^\W_]+")


def lost(original: str, paraphrase: str) -> tuple[str, ...]:
    """Which of number, negation, name, question a paraphrase does not keep; () for none.

    number: the multiset of numbers, in digits (1,000 is 1000) or words (three is 3, half is half).
    negation: how many negations there are; "isn't" and "is not" are one each.
    name: a name of the original that the paraphrase lacks, or a name in the paraphrase of which the
        original has no word. Names are words with a capital that do not begin a sentence, or with
        two capitals anywhere; "I" and capitalised function words are none.
    question: one of the two ends in a question mark and the other does not: models answer.

    A text that passes may still say something else: these are necessary, not sufficient.
    """
    checks = {
        "number": numbers(original) == numbers(paraphrase),
        "negation": n_negations(original) == n_negations(paraphrase),
        "name": names(original) <= _parts(paraphrase) and names(paraphrase) <= _parts(original),
        "question": _asks(original) == _asks(paraphrase),
    }
    return tuple(name for name, survives in checks.items() if not survives)


def numbers(text: str) -> Counter[str]:
    """How often each number stands in ``text``, by its digits or, from twenty on, by its word."""
    found = Counter(match[0].replace(",", "") for match in _DIGITS.finditer(text))
    parts = (match[0].lower() for match in _PART.finditer(text))
    return found + Counter(_VALUES.get(part, part) for part in parts if part in NUMBER_WORDS)


def n_negations(text: str) -> int:
    """How many words of ``text`` are negations or end in n't."""
    found = [word.text.lower() for word in words(text)]
    return sum(word in NEGATIONS or bool(_NOT.search(word)) for word in found)


def names(text: str) -> set[str]:
    """Parts, in lower case, of the words of ``text`` that are written as names."""
    starts = {
        next((word.start for word in words(text[slice(*span)])), 0) + span[0]
        for span in sentences(text)
    }
    return {
        part
        for word in words(text)
        if _is_name(word.text, begins=word.start in starts)
        for part in _parts(word.text)
    }


def _asks(text: str) -> bool:
    return text.rstrip("\"'”’)] \n").endswith("?")


def _is_name(word: str, *, begins: bool) -> bool:
    n_capitals = sum(letter.isupper() for letter in word)
    return n_capitals > (1 if begins else 0) and word.lower() not in KEPT


def _parts(text: str) -> set[str]:
    """Runs of letters and digits in lower case, without the s of a possessive."""
    plain = [_POSSESSIVE.sub("", word.text) for word in words(text)]
    return {match[0].lower() for word in plain for match in _PART.finditer(word)}
