"""Changes of clauses and sentences: their order, and one sentence more."""

from __future__ import annotations

import random
import re
from itertools import pairwise
from typing import TYPE_CHECKING

from tcb_bench.perturb.item import Change, reordered
from tcb_bench.perturb.tokens import ENTITY, KEPT
from tcb_bench.perturb.tokens import words as words_of

if TYPE_CHECKING:
    from tcb_bench.perturb.tools import Tools

Span = tuple[int, int]
SHORTEST_CLAUSE = 3  # words; less is an item of a list, a date or an apposition
UNCHANGED = ("unchanged",)

DISTRACTORS = (
    "The windows of the house next door had been cleaned that morning.",
    "A radio was playing softly somewhere down the street.",
    "The weather was mild for the time of the year.",
    "A cat was asleep on the wall beside the garden.",
    "The paint on the old fence had begun to fade.",
    "Somebody had left a blue umbrella by the door.",
    "The kitchen smelled of fresh bread.",
    "Leaves were drifting slowly across the lawn.",
)
"""Harmless and beside the point: no number in digits or words, no negation, no name."""


_ABBREVIATIONS = frozenset(
    "Mr Mrs Ms Dr Prof St Mt Ft Jr Sr vs No Gen Col Sen Rep Rev Capt Lt Sgt Inc Ltd Co".split()
)
_SENTENCE_END = re.compile(
    r"(?<![^\W_])(?P<before>[^\W_]*+)[.!?]++[\"'”’)\]]*+(?P<gap>\s++)(?=[\"'“‘(\[]?(?P<next>[^\W_]))"
)
_TAIL = re.compile(r"[.!?…]++[\"'”’)\]]*+\Z")
_ENCLOSED = re.compile(r"\([^()]*+\)|\[[^\[\]]*+\]|\"[^\"]*+\"|“[^“”]*+”|" + ENTITY)
_JOINT = re.compile(
    r"""(?<!\s)(?: ;\s++ | ,\s++(?:(?:and|but|or)\s++)?+
    | \s++(?:and|but)\s++(?=(?:I|you|he|she|it|we|they|there)\b) )
    (?!(?:because|so|then|where|which|who|whom|whose)\b)  # leans on what stands before it""",
    re.VERBOSE,
)
_MAYBE_NAMES = frozenset(("i", "may", "will"))  # of KEPT, those that keep a capital


def clause_reordering(
    text: str, rng: random.Random, _tools: Tools, _argument: None = None
) -> Change[str]:
    """The clauses of each sentence in another order, as ``clauses`` finds them.

    What joins clauses (", and ") and ends the sentence keeps its place. The clause that comes first
    gets a capital where the sentence had one; the one that came first loses it where its first word
    is a function word ("If", "The": no name). Where no sentence has two clauses, the sentences
    between the first, which names things, and the last, which asks, are reordered; else
    ``unchanged``. Words are kept, but for capitals. Whether the meaning is kept no rule can tell:
    it is in "If it rains, who stays?", not in "He won the first game, but he lost the second".
    Source: BC C.4.3.

    Returns:
        counts ``clauses`` or ``sentences``: how many were reordered.
    """
    spans = sentences(text)
    parts = {span: clauses(text, span) for span in spans}
    new = {span: _reordered_clauses(text, span, parts[span], rng) for span in spans}
    changed = [span for span in spans if new[span] != text[slice(*span)]]
    if changed:
        counts = {"clauses": sum(len(parts[span]) for span in changed)}
        return Change(_with_spans(text, new), counts=counts)
    told = [text[slice(*span)] for span in spans[1:-1]]
    if len(set(told)) < 2:
        return Change(text, UNCHANGED)
    order = dict(zip(spans[1:-1], reordered(told, rng), strict=True))
    return Change(_with_spans(text, order), counts={"sentences": len(told)})


def distractor_sentence(
    text: str, rng: random.Random, _tools: Tools, _argument: None = None
) -> Change[str]:
    """One of ``DISTRACTORS`` and a space at a drawn sentence start, the last sentence's included.

    So it stands before the sentence that asks, in a text of one sentence before the text.
    ``unchanged`` for a text of white space. Source: BC C.4.3.
    """
    spans = sentences(text)
    if not spans:
        return Change(text, UNCHANGED)
    start, _ = rng.choice(spans)
    return Change(f"{text[:start]}{rng.choice(DISTRACTORS)} {text[start:]}")


def sentences(text: str) -> list[Span]:
    """Start and end of each sentence, without the white space around it; [] for none.

    A sentence ends at ``.``, ``!`` or ``?`` (and closing quotes) before white space and a word that
    does not begin in lower case, but not behind an initial ("J. Smith") or a title ("Dr. Smith").
    """
    gaps = [match.span("gap") for match in _SENTENCE_END.finditer(text) if not _inside(match)]
    starts = [len(text) - len(text.lstrip()), *(end for _, end in gaps)]
    ends = [*(start for start, _ in gaps), len(text.rstrip())]
    return [span for span in zip(starts, ends, strict=True) if span[0] < span[1]]


def clauses(text: str, sentence: Span) -> list[Span]:
    """Start and end of each clause of one sentence; the punctuation that ends it is in none.

    They are parted by ``;``, by ``,`` with or without and, but, or, and by "and" or "but" before a
    pronoun; never before a word that leans on the clause before it ("which", "then"), nor inside
    parentheses, brackets or double quotes; and only where three words or more stand on either side
    before the next such place, which leaves lists alone.
    """
    start, end = sentence
    tail = _TAIL.search(text, start, end)
    end = tail.start() if tail else end
    enclosed = [match.span() for match in _ENCLOSED.finditer(text, start, end)]
    joints = [
        match.span()
        for match in _JOINT.finditer(text, start, end)
        if not any(left <= match.start() < right for left, right in enclosed)
    ]
    edges = [(start, start), *joints, (end, end)]
    long = [
        _n_words(text[left:right]) >= SHORTEST_CLAUSE for (_, left), (right, _) in pairwise(edges)
    ]
    kept = [joint for joint, sides in zip(joints, pairwise(long), strict=True) if all(sides)]
    return [(left, right) for (_, left), (right, _) in pairwise([edges[0], *kept, edges[-1]])]


def _n_words(text: str) -> int:
    return len(words_of(text))


def _inside(match: re.Match[str]) -> bool:
    before = match["before"]
    abbreviated = before in _ABBREVIATIONS or (len(before) == 1 and before.isupper())
    return match["next"].islower() or (abbreviated and match[0][len(before)] == ".")


def _reordered_clauses(text: str, sentence: Span, parts: list[Span], rng: random.Random) -> str:
    old = [text[slice(*part)] for part in parts]
    if len(set(old)) < 2:
        return text[slice(*sentence)]
    order = reordered(list(range(len(old))), rng)
    if order[0] != 0 and old[0][0].isupper():
        first = old[order[0]]
        old[order[0]] = _capital(first) + first[1:]
        old[0] = _without_capital(old[0])
    return _with_spans(text, dict(zip(parts, [old[i] for i in order], strict=True)), sentence)


def _capital(clause: str) -> str:
    upper = clause[:1].upper()
    return upper if len(upper) == 1 else clause[:1]  # the upper case of "ß" is two letters


def _without_capital(clause: str) -> str:
    word = next(iter(words_of(clause)), None)
    if word is None or word.start or not word.text.istitle():
        return clause
    lower = word.text.lower()
    return lower + clause[word.end :] if lower in KEPT - _MAYBE_NAMES else clause


def _with_spans(text: str, new: dict[Span, str], whole: Span | None = None) -> str:
    """``text`` (its part ``whole``) with other text in the spans of ``new``, which are in order."""
    place, end = whole or (0, len(text))
    pieces = []
    for span, replacement in new.items():
        pieces += [text[place : span[0]], replacement]
        place = span[1]
    return "".join([*pieces, text[place:end]])
