"""Words of a text with their places, and the classes of words no perturbation may confuse."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass

ENTITY = r"&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,30});"
"""An HTML entity, as real data hold them."""

# Possessive (++) and atomic (?>) parts are never given back, so that the search is linear.
_WORD = re.compile(rf"{ENTITY}|(?P<word>[^\W_]++(?:(?>{ENTITY}|[^\w\s]|_)++[^\W_]++)*+)")

NEGATIONS = frozenset(
    "not no nor never none nobody nothing neither nowhere without cannot hardly".split()
)
NUMBER_WORDS = frozenset(
    """zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen
    sixteen seventeen eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety
    hundred hundreds thousand thousands million millions billion billions trillion dozen dozens
    first second third fourth fifth sixth seventh eighth ninth tenth once twice thrice half halves
    quarter quarters double triple quadruple pair pairs couple single both percent""".split()
)
STOP_WORDS = frozenset(
    """a about above across after again against all along also although always am among an and any
    anyone anything are around as at away back be because become been before being below between
    but by can could did do does doing done down during each either else enough even ever every
    everyone everything few for from further get gets give gives go goes got had has have having he
    her here hers herself him himself his how however i if in instead into is it its itself just
    least less let lets made make makes many may me might mine more most much must my myself of off
    often on only onto or other others our ours out over own per please put rather same shall she
    should since so some someone something still such take takes than that the their theirs them
    themselves then there therefore these they this those though through thus to together too
    toward towards under until up upon us use used very via was we well were what whatever when
    where whether which while who whole whom whose why will with within would yes yet you your
    yours yourself""".split()
)
KEPT = NEGATIONS | NUMBER_WORDS | STOP_WORDS
"""Words that are no keywords: changing one changes the grammar, a number or a truth value."""


@dataclass(frozen=True, slots=True)
class Word:
    """A word and its place: ``text`` is characters ``start`` to ``end`` of the whole."""

    text: str
    start: int
    end: int


def words(text: str) -> list[Word]:
    """Words of ``text`` in order: runs without white space, less the punctuation at their ends.

    What stands inside stays: ``O'Neil``, ``1,234.5``, ``AC/DC``, ``U.S`` of "U.S.". White space
    is Unicode's, no-break space included. Symbols and emoji are no words, nor is an HTML entity at
    an end of the run (``&quot;Yes&quot;`` holds Yes). A run holds one word at most.
    """
    return [
        Word(text[match.start() : end], match.start(), end)
        for match in _WORD.finditer(text)
        if match["word"] and (end := _with_marks(text, match.end()))
    ]


def is_keyword(word: Word) -> bool:
    """Whether it carries meaning of its own and is no name: lower-case letters only, not ``KEPT``.

    Every word with a capital counts as a name, also the first of a sentence ("Mercury is hot").
    """
    return word.text.isalpha() and word.text.islower() and word.text not in KEPT


def replaced(text: str, new: Mapping[Word, str]) -> str:
    """``text`` with words put in place of others; all else byte for byte."""
    parts, end = [], 0
    for word in sorted(new, key=lambda word: word.start):
        parts += [text[end : word.start], new[word]]
        end = word.end
    return "".join([*parts, text[end:]])


def _with_marks(text: str, end: int) -> int:
    """``end`` behind the vowel signs and accents that belong to the last letter."""
    while end < len(text) and unicodedata.category(text[end]).startswith("M"):
        end += 1
    return end
