"""Word salad, as a high temperature gives it, told from sentences by simple counts of words.

What sampling at a high temperature loses first is grammar: the little words that make a third of
English text nearly vanish, while tokens of other scripts, of code, and halves of words glued
together appear. A fluent lie is not garbled, neither is a loop ("the city of the city of ...").
"""

from __future__ import annotations

import re
import unicodedata
from itertools import pairwise

GARBLED_VERSION = 1
"""Raised whenever another text would count as garbled."""

WINDOW = 24
"""Words that are judged together; a shorter rest belongs to the window before it."""

_FEW = 12
"""With fewer words than this the share of little words says nothing."""

_SALAD, _SALAD_WITH_ODD = 0.06, 0.15
"""Shares of little words below which a window is salad, without and with an odd word in it.

24 words of T = 2 have a share of 0.03 (at most 0.12), of T = 0.6 one of 0.38 (at least 0.21);
1 % of Wikipedia's sentences lie below 0.13, most of them lists of names.
"""

_LIST = 0.2
"""From this share of words with a comma behind them, a window without odd words is a list."""

_ODD, _LEAST_ODD = 0.25, 3
"""From this share of odd words, and so many of them, a window is salad whatever else it holds.

Three, since names can be odd: "SpongeBob SquarePants".
"""

_ENGLISH = (
    "a about after all also an and are as at be been before between both but by can did do does "
    "for from had has have he her him his how i if in into is it its more most no not of on one "
    "only or other over she so some than that the their them then there these they this to "
    "under until up was we were what when where which while who whose why will with would you"
)
_OTHERS = (
    "aber as auf au aux avec che con con da dans das de del della dem den der des di die do dos "
    "du e ein eine el elle em en es est et fue gli il ist la las le les los mit na nel nicht o "
    "os par para per por pour que qui se sein son sur um uma un una und une von war y zu"
)
_LITTLE = frozenset(_ENGLISH.split()) | frozenset(_OTHERS.split())

_EDGES = ".,;:!?()[]\"'“”‘’„»«…*_–—-"
_CAMEL = re.compile(r"[^\W\d_]*[a-z]{3}[A-Z][a-z]*[A-Z]?|[A-Z]{3,}[a-z]{3}|[a-z]{2}[A-Z]{2}")
_INNER = re.compile(r"[^\W\d_]{2}[.,:;!?\"¿¡()\[\]{}<>|\\=^~`#$%*]+[^\W\d_]{2}")
_CODE = re.compile(r"[{}\\|=^~`]|\(\)|\]\(|::|->|</|#\w*[^\W\d]|_\w+_")
_DIGIT_INSIDE = re.compile(r"[^\W\d_]{4}\d+[^\W\d_]|[^\W\d_]{6}\d")
_LONGEST = 20  # letters of a word without a hyphen; "internationalization" has 20
_BROKEN = frozenset({"Cc", "Co", "Cn", "Cs"})


def is_garbled(text: str) -> bool:
    """Return whether a quarter or more of a response, by its windows of `WINDOW` words, is salad.

    A window is salad if it holds hardly any of the little words of English (or of five other
    languages of western Europe) and is no list, or if a quarter of its words are odd: two scripts
    in one, capitals or punctuation inside, code, broken characters, no end. Where most letters are
    not Latin, or with fewer than 12 words, only odd words count.

    >>> is_garbled("Icon END Lynn PlayersProtein Ver MineState faq mclivel https nud Weigh x")
    True
    """
    words = text.split()
    if not words:
        return False
    starts = list(range(0, max(1, len(words) - _FEW + 1), WINDOW))
    windows = [words[start:end] for start, end in pairwise([*starts, len(words)])]
    return sum(map(_is_salad, windows)) >= len(windows) / 4


def _is_salad(words: list[str]) -> bool:
    odd = sum(map(_is_odd, words))
    if odd >= _LEAST_ODD and odd >= _ODD * len(words):
        return True
    if len(words) < _FEW or not _is_latin(words):
        return False
    little = sum(word.strip(_EDGES).lower() in _LITTLE for word in words) / len(words)
    breaks = sum(word[-1] in ",;:/&-–" for word in words) / len(words)
    return little < _SALAD_WITH_ODD if odd else little < _SALAD and breaks < _LIST


def _is_odd(word: str) -> bool:
    if not word.isprintable() and any(unicodedata.category(c) in _BROKEN for c in word):
        return True
    core = word.strip(_EDGES)
    if "/" in core or "www." in core or core.startswith("http"):
        return False  # addresses and alternatives
    glued = _CAMEL.search(core) or _INNER.search(core) or _CODE.search(core)
    too_long = len(core) > _LONGEST and core.isalpha()
    is_mixed = not core.isascii() and (_scripts(core) > 1 or "\ufffd" in word)
    return bool(glued or too_long or is_mixed or _DIGIT_INSIDE.search(core))


def _scripts(word: str) -> int:
    """Number of alphabets among Latin, Greek, Cyrillic and all others in a word."""
    names = {unicodedata.name(c, "OTHER").split(" ")[0] for c in word if c.isalpha()}
    known = names & {"LATIN", "GREEK", "CYRILLIC"}
    return len(known) + bool(names - known - {"MODIFIER", "MICRO", "FEMININE", "MASCULINE"})


def _is_latin(words: list[str]) -> bool:
    letters = [c for word in words for c in word if c.isalpha()]
    return sum(c.isascii() or c < "\u0250" for c in letters) >= 0.7 * len(letters) > 0
