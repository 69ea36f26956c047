"""Whether a text is still language: what sampling at a high temperature leaves of an answer."""

from __future__ import annotations

import re
import unicodedata

GARBLED_VERSION = 1
"""Raised whenever ``is_garbled`` would judge a text differently."""

MIN_WORDS = 6  # fewer say too little to be judged by shares
MOST_ODD = 0.1  # share of odd words that ordinary text (names, numbers, quotes) stays below
LEAST_ODD = 2  # odd words; one is a typing error or a trade mark
LEAST_COMMON = 0.25  # share of function words among lower-case ones; English prose has about 0.5
JUDGED_BY_COMMON = 12  # lower-case words from which that share is telling

_COMMON = frozenset(
    "a an the and or but of in on at to for from by with as is are was were be been it its that this "
    "these those he she they his her their who which what when where not no yes has have had do does "
    "did can could will would may there than then also both into one two i you we my your our so if "
    "about after before between during over under more most other some such only own same".split()
)
_EDGES = "\"'“”‘’«»()[]*_.,;:!?…-–—`"
_ODD = re.compile(
    r"[a-zäöüß][A-Z]"  # a capital inside a word, as in codE
    r"|[A-Za-z]\d+[A-Za-z]"  # digits inside a word
    r"|[A-Za-z][^\w\s'’.&/\-–—]+[A-Za-z]"  # signs inside a word
    r"|[{}<>\\|=^~#@$]{1}[A-Za-z(]|[A-Za-z)][{}<>\\|=^~#@$]"  # code
    r"|[{}\\|<>^~]"
    r"|\w_\w"
    r"|[A-Za-z]{21,}"  # longer than any word of prose
    r"|([A-Za-z])\1{3,}"
)
_NAMES = re.compile(r"(?:Mc|Mac|De|Le|La|Van|Di|Fitz|O')[A-Z]\w*$")


def is_garbled(text: str) -> bool:
    """Whether a text is word salad rather than an answer; short texts are never judged so.

    A word is odd if it mixes scripts, holds control or replacement characters, a capital, digits or
    signs inside, code, or more than 20 letters. A text of at least 6 words is garbled if more than a
    tenth of them, and at least two, are odd, or if of 12 and more lower-case words of Latin script
    less than a quarter are function words of English. Fluent nonsense is not seen, and other languages
    are not judged by their function words alone: it counts how often sampling broke down.

    Checked against: sentences of HotpotQA, of which 0.7 % are called garbled (mostly lists), and
    answers of SmolLM2-135M by temperature (tests/test_metrics_garbled.py).
    """
    words = [word.strip(_EDGES) for word in text.split()]
    words = [word for word in words if word]
    if len(words) < MIN_WORDS:
        return False
    odd = sum(map(_is_odd, words))
    if odd >= LEAST_ODD and odd > MOST_ODD * len(words):
        return True
    lower = [word for word in words if word.isascii() and word.isalpha() and word[0].islower()]
    if len(lower) < JUDGED_BY_COMMON:
        return False
    return sum(word in _COMMON for word in lower) < LEAST_COMMON * len(lower)


def _is_odd(word: str) -> bool:
    if any(unicodedata.category(c) in ("Cc", "Co", "Cn", "Cs") or c == "\ufffd" for c in word):
        return True
    if len(_scripts(word)) > 1:
        return True
    return bool(_ODD.search(word)) and not _NAMES.match(word)


def _scripts(word: str) -> set[str]:
    """The alphabets of a word's letters, by the first word of each letter's Unicode name."""
    names = {unicodedata.name(c, "?").split()[0] for c in word if c.isalpha()}
    east = {"CJK", "HIRAGANA", "KATAKANA", "KATAKANA-HIRAGANA"}  # Japanese mixes these
    return (
        names - {"MICRO", "MASCULINE", "FEMININE", "MODIFIER"} - (east if names <= east else set())
    )
