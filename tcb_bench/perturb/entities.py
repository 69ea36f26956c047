"""Named entities masked or replaced: always whole, words beside them untouched.

A span that is changed is a named entity as spaCy finds it (every label, dates and numbers too) or
an occurrence of the document's title; spans that overlap are changed as one, blanks at their ends
stay, and an HTML entity (``&amp;``) is never cut.
"""

from __future__ import annotations

import html
import random
import re
import unicodedata
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Protocol

from tcb_bench.perturb.item import Change, Item
from tcb_bench.perturb.sentences import groups
from tcb_bench.perturb.words import NOISE_WORDS

MASK = "[MASK]"
_HTML_ENTITY = re.compile(r"&(?:#\d+|#[xX][0-9a-fA-F]+|[A-Za-z][A-Za-z0-9]*);")
_DISAMBIGUATION = re.compile(r"\s*\([^()]*\)\s*$")
_WORD = re.compile(r"\w+")
_ARTICLES = frozenset(("a", "an", "the"))

Span = tuple[int, int]


class Recognizer(Protocol):
    """What finds named entities."""

    def ner(self, text: str) -> Iterable[tuple[int, int, str]]:
        """Start, end (in characters) and label of each named entity of ``text``."""


@dataclass(frozen=True, slots=True)
class Masked:
    """A text with its masks, what they hide, and how many of them hide the title."""

    text: str
    hidden: tuple[str, ...]
    n_title: int


def ner(item: Item, _rng: random.Random, tools: Recognizer, _argument: None = None) -> Change[Item]:
    """Every named entity of the last evidence sentence masked as ``[MASK]``, titles first.

    Without support labels: of the last sentence of each document. Source: TP 4.1.

    Returns:
        counts ``masked`` and ``title_masked`` (masks that hide the document's title); flag
        ``no_entity`` where nothing was masked, ``answer_masked`` where a mask hides the short
        answer, ``answer_cut`` where none hides it whole, but masks leave it in none of the
        sentences it stood in. The answer is compared as words, without case and articles.
    """
    evidence, masked = list(item.evidence), []
    for place in (group[-1] for group in groups(item)):
        old = evidence[place]
        masked.append(mask(old.text, old.title, tools))
        evidence[place] = replace(old, text=masked[-1].text)
    counts = {
        "masked": sum(len(one.hidden) for one in masked),
        "title_masked": sum(one.n_title for one in masked),
    }
    value = replace(item, evidence=tuple(evidence))
    return Change(value, _flags(item, value, masked), counts)


def _flags(before: Item, after: Item, masked: list[Masked]) -> tuple[str, ...]:
    hidden = [text for one in masked for text in one.hidden]
    if not hidden:
        return ("no_entity",)
    if any(_holds(text, before.answer) for text in hidden):
        return ("answer_masked",)
    pairs = zip(before.evidence, after.evidence, strict=True)
    stood = [new for old, new in pairs if new != old and _holds(old.text, before.answer)]
    is_cut = bool(stood) and not any(_holds(new.text, before.answer) for new in stood)
    return ("answer_cut",) if is_cut else ()


def entity_replacement(
    text: str, rng: random.Random, tools: Recognizer, _argument: None = None
) -> Change[str]:
    """Every named entity replaced by a noun drawn from ``NOISE_WORDS``, each by its own draw.

    Flag ``no_entity`` where there is none; count ``replaced``. Source: TP table 1, whose "entities
    (nouns, proper nouns)" are named entities here.
    """
    spans = _whole(text, [(start, end) for start, end, _ in tools.ner(text)])

    def noun(old: str) -> str:
        return rng.choice([word for word in NOISE_WORDS if word != old.casefold()])

    changed = _substituted(text, spans, noun)
    return Change(changed, () if spans else ("no_entity",), {"replaced": len(spans)})


def mask(text: str, title: str, tools: Recognizer) -> Masked:
    """``text`` with the occurrences of ``title`` and all named entities masked.

    A named entity that overlaps the title is masked with it ("the Yoruba people of Nigeria").
    """
    titles = title_spans(text, title)
    spans = _whole(text, [*titles, *((start, end) for start, end, _ in tools.ner(text))])
    n_title = sum(any(a < end and start < b for a, b in titles) for start, end in spans)
    hidden = tuple(text[start:end] for start, end in spans)
    return Masked(_substituted(text, spans, lambda _: MASK), hidden, n_title)


def title_spans(text: str, title: str) -> list[Span]:
    """Where ``text`` names ``title``: as it is, else without its last parenthesis ("(film)").

    Compared on whole words, with HTML entities resolved, every blank alike and format characters
    (U+200E) left out; if no form occurs, ignoring case, save for one word that lost a parenthesis:
    "It (novel)" is not every "it".
    """
    plain, spans = _plain(text)
    full, _ = _plain(title.strip())
    short = _DISAMBIGUATION.sub("", full)
    forms = [form for form in dict.fromkeys((full, short)) if form]
    found = _occurrences(plain, forms, re.NOFLAG)
    if not found:
        loose = [form for form in forms if form == full or len(form.split()) > 1]
        found = _occurrences(plain, loose, re.IGNORECASE)
    return [(spans[start][0], spans[end - 1][1]) for start, end in found]


def _occurrences(plain: str, forms: list[str], flags: re.RegexFlag) -> list[Span]:
    if not forms:
        return []
    either = "|".join(map(re.escape, sorted(forms, key=len, reverse=True)))
    return [m.span() for m in re.finditer(rf"(?<!\w)(?:{either})(?!\w)", plain, flags)]


def _plain(text: str) -> tuple[str, list[Span]]:
    """The text a reader sees, and for each of its characters the span in ``text``."""
    plain, spans, at = [], [], 0
    while at < len(text):
        entity = _HTML_ENTITY.match(text, at)
        end = entity.end() if entity else at + 1
        for char in html.unescape(text[at:end]):
            if unicodedata.category(char) != "Cf":
                plain.append(" " if char.isspace() else char)
                spans.append((at, end))
        at = end
    return "".join(plain), spans


def _whole(text: str, spans: Iterable[Span]) -> list[Span]:
    """``spans`` without blanks at their ends, in order, those that overlap joined."""
    trimmed = []
    for start, end in spans:
        inside = text[start:end].strip()
        if inside:
            start = text.index(inside, start)
            trimmed.append((start, start + len(inside)))
    cut = [m.span() for m in _HTML_ENTITY.finditer(text)]
    trimmed += [c for c in cut if any(a < c[1] and c[0] < b for a, b in trimmed)]
    joined: list[Span] = []
    for start, end in sorted(trimmed):
        if joined and start < joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return joined


def _substituted(text: str, spans: list[Span], new: Callable[[str], str]) -> str:
    parts, at = [], 0
    for start, end in spans:
        parts += [text[at:start], new(text[start:end])]
        at = end
    return "".join([*parts, text[at:]])


def _holds(text: str, answer: str) -> bool:
    """Whether the words of ``answer`` stand in a row in ``text``."""
    words, wanted = _words(text), _words(answer)
    return bool(wanted) and any(
        words[i : i + len(wanted)] == wanted for i in range(len(words) - len(wanted) + 1)
    )


def _words(text: str) -> list[str]:
    words = _WORD.findall(html.unescape(text).casefold())
    return [word for word in words if word not in _ARTICLES]
