"""Changes of single words; white space, punctuation and all other words stay byte for byte."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from tcb_bench.perturb.item import Change, reordered
from tcb_bench.perturb.tokens import KEPT, NEGATIONS, NUMBER_WORDS, Word, is_keyword
from tcb_bench.perturb.tokens import replaced as with_words
from tcb_bench.perturb.tokens import words as words_of

if TYPE_CHECKING:
    from tcb_bench.perturb.tools import Tools

SYNONYMS = 2  # BC C.4.3: one or two keywords
ANTONYMS = 1
WORDS_PER_EDIT = 10  # random noise and typos: one for each ten words, at least one
SHORTEST_TYPO = 4  # letters
UNCHANGED = ("unchanged",)

NOISE_WORDS = tuple(
    """anchor basket bramble candle carpet cello cushion drizzle ember fabric feather fiddle gravel
    hammock harbor hinge kettle ladder lantern lather marble meadow mitten mosaic napkin nutmeg oven
    paddle pebble pillow plaster pollen puddle ribbon saddle sandal shutter sponge spoon thimble
    timber tunnel umbrella varnish velvet violet walnut willow zipper""".split()
)
"""Things of daily life: no number, no negation, no name, nothing that answers a question."""

KEYBOARD = ("qwertyuiop", "asdfghjkl", "zxcvbnm")
NEIGHBOURS: dict[str, str] = {
    key: row[max(place - 1, 0) : place] + row[place + 1 : place + 2]
    for row in (*KEYBOARD, *map(str.upper, KEYBOARD))
    for place, key in enumerate(row)
}
"""Key -> the keys left and right of it."""


def word_reordering(
    text: str, rng: random.Random, _tools: Tools, _argument: None = None
) -> Change[str]:
    """The words in another order, put into the places of the old ones. Source: TP table 1.

    Uniform among the orders that read differently; ``unchanged`` where all words are equal.
    """
    words = words_of(text)
    if len({word.text for word in words}) < 2:
        return Change(text, UNCHANGED)
    order = reordered([word.text for word in words], rng)
    return Change(with_words(text, dict(zip(words, order, strict=True))))


def synonym(
    text: str, rng: random.Random, tools: Tools, argument: int | None = None
) -> Change[str]:
    """``argument`` drawn keywords (2) replaced by WordNet synonyms, everywhere in the text.

    Keywords and synonyms are chosen as ``_replaced_keywords`` says. Source: BC C.4.3, TP table 1.
    """
    lookup = tools.wordnet().synonyms
    return _replaced_keywords(text, rng, lookup, SYNONYMS if argument is None else argument)


def antonym(
    text: str, rng: random.Random, tools: Tools, argument: int | None = None
) -> Change[str]:
    """``argument`` drawn keywords (1) replaced by WordNet antonyms, everywhere in the text.

    Keywords and antonyms are chosen as ``_replaced_keywords`` says. Source: TP table 1.
    """
    lookup = tools.wordnet().antonyms
    return _replaced_keywords(text, rng, lookup, ANTONYMS if argument is None else argument)


def random_noise(
    text: str, rng: random.Random, _tools: Tools, argument: int | None = None
) -> Change[str]:
    """``argument`` drawn words (one per ten of the text) put between its words and around them.

    Each is drawn from ``NOISE_WORDS``, all different while the list lasts, and followed by a space
    (at the end of the text: after one). ``unchanged`` for a text of white space.
    Source: TP table 1.
    """
    pieces = list(re.finditer(r"\S+", text))
    if not pieces:
        return Change(text, UNCHANGED, {"inserted": 0})
    count = _share(len(pieces)) if argument is None else argument
    drawn = [word for _ in range(0, count, len(NOISE_WORDS)) for word in _shuffled_noise(rng)]
    before: list[list[str]] = [[] for _ in range(len(pieces) + 1)]
    for word in drawn[:count]:
        rng.choice(before).append(word)
    parts, end = [], 0
    for piece, new in zip(pieces, before, strict=False):  # the last group has no piece behind it
        parts += [text[end : piece.start()], *(f"{word} " for word in new), piece.group()]
        end = piece.end()
    parts += [*(f" {word}" for word in before[-1]), text[end:]]
    return Change("".join(parts), counts={"inserted": count})


def typos(text: str, rng: random.Random, _tools: Tools, argument: int | None = None) -> Change[str]:
    """``argument`` drawn words (one per ten of the text) with one typing error each.

    Two neighbouring letters swapped, a letter dropped, a letter doubled, or the key beside hit;
    never the first letter. Words are of four letters or more, of letters only; numbers in digits
    or words and negations are left alone. ``edits`` counts. Source: ours.
    """
    words = words_of(text)
    fit = [word for word in words if _can_be_mistyped(word.text)]
    count = _share(len(words)) if argument is None else argument
    new = {word: mistyped(word.text, rng) for word in rng.sample(fit, min(count, len(fit)))}
    return Change(with_words(text, new), () if new else UNCHANGED, {"edits": len(new)})


def mistyped(word: str, rng: random.Random) -> str:
    """``word`` (two characters or more) with one typing error behind its first letter."""
    place = rng.randrange(1, len(word))
    options = [word[:place] + word[place + 1 :], word[: place + 1] + word[place:]]
    keys = NEIGHBOURS.get(word[place], "")
    options += [word[:place] + key + word[place + 1 :] for key in keys]
    if place + 1 < len(word) and word[place] != word[place + 1]:
        options.append(word[:place] + word[place + 1] + word[place] + word[place + 2 :])
    return rng.choice(options)


def _replaced_keywords(
    text: str, rng: random.Random, lookup: Callable[[str], tuple[str, ...]], count: int
) -> Change[str]:
    """``count`` keywords, drawn of those for which ``lookup`` knows a word, replaced by such a one.

    A keyword is lower-case throughout and no stop word, number word or negation, and neither is
    what replaces it. It is replaced wherever it stands in lower case, so that a text keeps calling
    one thing by one name. Behind "a" or "an" only a word that keeps the article right is used.
    ``replaced`` counts keywords; ``unchanged`` where there are none.
    """
    places: dict[str, list[Word]] = {}
    articles: dict[str, bool] = {}
    previous = ""
    for word in words_of(text):
        if is_keyword(word):
            places.setdefault(word.text, []).append(word)
            articles[word.text] = articles.get(word.text, False) or previous in ("a", "an")
        previous = word.text.lower()
    choices = {key: _fitting(key, lookup(key), articles[key]) for key in places}
    fit = [key for key in places if choices[key]]
    drawn = rng.sample(fit, min(count, len(fit)))
    chosen = {key: rng.choice(choices[key]) for key in drawn}
    new = {word: chosen[key] for key in drawn for word in places[key]}
    return Change(with_words(text, new), () if new else UNCHANGED, {"replaced": len(drawn)})


def _fitting(word: str, candidates: tuple[str, ...], behind_article: bool) -> list[str]:
    def sounds(text: str) -> bool:
        return text[0] in "aeiou"

    return [
        other
        for other in candidates
        if other not in KEPT and (not behind_article or sounds(other) == sounds(word))
    ]


def _can_be_mistyped(word: str) -> bool:
    lower = word.lower()
    known = lower in NEGATIONS or lower in NUMBER_WORDS
    return len(word) >= SHORTEST_TYPO and word.isalpha() and not known


def _share(n_words: int) -> int:
    return max(1, n_words // WORDS_PER_EDIT)


def _shuffled_noise(rng: random.Random) -> list[str]:
    return rng.sample(NOISE_WORDS, len(NOISE_WORDS))
