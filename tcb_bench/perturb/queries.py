"""Additions to a question that leave the question itself byte for byte."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from tcb_bench.perturb.item import Change
from tcb_bench.perturb.tokens import KEPT, Word, is_keyword
from tcb_bench.perturb.tokens import words as words_of

if TYPE_CHECKING:
    from tcb_bench.perturb.tools import Tools

TERMS = 2
SHORTEST_TERM = 3  # letters
UNCHANGED = ("unchanged",)

PREFIXES = (
    "Just out of curiosity, while the kettle is boiling:",
    "Between you and me, before the bus arrives:",
    "Changing the subject for a moment:",
    "My neighbour wondered over breakfast:",
    "Somebody in the queue behind me asked:",
    "Quick question, the phone is about to ring:",
    "Overheard on the stairs this morning:",
    "While we wait for the rain to stop:",
)
"""Small talk: no number, no negation, no instruction, nothing that answers a question."""


def prefix_injection(
    text: str, rng: random.Random, _tools: Tools, _argument: None = None
) -> Change[str]:
    """One of ``PREFIXES`` and a space before the text; ``unchanged`` for white space alone.

    Source: TP table 1, which names a short prefix; ours distract, and do not attack.
    """
    if not text.strip():
        return Change(text, UNCHANGED)
    return Change(f"{rng.choice(PREFIXES)} {text}")


def term_augmentation(
    text: str, rng: random.Random, tools: Tools, argument: int | None = None
) -> Change[str]:
    """``argument`` terms (2) put behind the text, each after a space, as a search query is widened.

    A term is drawn from the text's own content words: words of letters (three or more) that are no
    stop word, number word or negation, each once. Where WordNet has a synonym of it, a drawn one
    stands for it (counted in ``synonyms``), else the word itself is repeated: a retriever's score
    of a document about these things rises either way. ``added`` counts terms; ``unchanged`` where
    the text has no content word. White space at the end stays at the end. Source: TP table 1.
    """
    terms = list({word.text.lower(): word for word in words_of(text) if _is_term(word)}.values())
    count = min(TERMS if argument is None else argument, len(terms))
    lexicon = tools.wordnet()
    added, n_synonyms = [], 0
    for term in rng.sample(terms, count):
        synonyms = lexicon.synonyms(term.text) if is_keyword(term) else ()
        added.append(rng.choice(synonyms) if synonyms else term.text)
        n_synonyms += bool(synonyms)
    end = len(text.rstrip())
    changed = "".join([text[:end], *(f" {term}" for term in added), text[end:]])
    counts = {"added": count, "synonyms": n_synonyms}
    return Change(changed, () if added else UNCHANGED, counts)


def _is_term(word: Word) -> bool:
    lower = word.text.lower()
    return len(word.text) >= SHORTEST_TERM and word.text.isalpha() and lower not in KEPT
