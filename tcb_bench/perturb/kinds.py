"""The table of perturbations by name, and how one is applied with a seed.

Nothing heavy is imported here: functions and resources are loaded when a kind is applied.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from tcb_bench.errors import UnknownName, UsageError
from tcb_bench.perturb.item import Change, Item, Kind, Sentence, Shots, T, generator
from tcb_bench.perturb.tools import Tools

Argument = int | tuple[int, ...] | None

AXES = {
    "context": ("any", "context", "text"),
    "query": ("any", "text"),
    "shots": ("any", "shots"),
}
"""Axis of a sweep -> the targets that it takes."""

SHOW_ALL = "`tcb-bench ls perturbations` shows all"
_NUMBER = re.compile(r"[1-9][0-9]{0,5}")


def _kind(target: str, place: str, meaning: str, source: str, **more: Any) -> Kind:
    return Kind(target, f"tcb_bench.perturb.{place}", meaning, source, **more)


KINDS: dict[str, Kind] = {
    "original": _kind("any", "sentences:original", "nothing is changed", "TP 4.1"),
    "none": _kind("context", "sentences:none", "no evidence at all (closed book)", "ours"),
    "replace_half": _kind(
        "context",
        "sentences:replace_half",
        "the last half of the sentences replaced by irrelevant ones of the same title",
        "TP 4.1",
    ),
    "remove_half": _kind(
        "context", "sentences:remove_half", "the last half of the sentences deleted", "TP 4.1"
    ),
    "ner": _kind(
        "context",
        "entities:ner",
        "named entities of the last sentence masked as [MASK], titles first",
        "TP 4.1",
        needs=("ner",),
    ),
    "remove": _kind(
        "context",
        "sentences:remove",
        "the sentences with these numbers deleted: remove:1 or remove:1+3",
        "TP table 1",
        argument="places",
    ),
    "combination": _kind(
        "context",
        "sentences:combination",
        "a drawn subset of so many sentences kept: combination:2",
        "TP table 1",
        argument="count",
    ),
    "source_reordering": _kind(
        "context", "sentences:source_reordering", "the documents in another order", "TP table 1"
    ),
    "unit_replacement": _kind(
        "context",
        "sentences:unit_replacement",
        "one sentence replaced by an irrelevant one of its title: a drawn one, or number :1",
        "TP table 1",
        argument="count?",
    ),
    "distractor": _kind(
        "context",
        "sentences:distractor",
        "one irrelevant sentence of another document added",
        "BC C.4.3",
    ),
    "entity_replacement": _kind(
        "text",
        "entities:entity_replacement",
        "every named entity replaced by a random noun",
        "TP table 1",
        needs=("ner",),
    ),
    "word_reordering": _kind(
        "text", "words:word_reordering", "the words in another order", "TP table 1"
    ),
    "synonym": _kind(
        "text",
        "words:synonym",
        "keywords (2) replaced by synonyms from WordNet",
        "TP table 1, BC C.4.3",
        argument="count?",
        needs=("wordnet",),
    ),
    "antonym": _kind(
        "text",
        "words:antonym",
        "keywords (1) replaced by antonyms from WordNet",
        "TP table 1",
        argument="count?",
        needs=("wordnet",),
    ),
    "random_noise": _kind(
        "text",
        "words:random_noise",
        "random words (one per ten) put between and around the words",
        "TP table 1",
        argument="count?",
    ),
    "typos": _kind("text", "words:typos", "words (one in ten) mistyped", "ours", argument="count?"),
    "prefix_injection": _kind(
        "text",
        "queries:prefix_injection",
        "a short distracting prefix before the text",
        "TP table 1",
    ),
    "term_augmentation": _kind(
        "text",
        "queries:term_augmentation",
        "search terms (2) added behind the text",
        "TP table 1",
        argument="count?",
        needs=("wordnet",),
    ),
    "clause_reordering": _kind(
        "text", "clauses:clause_reordering", "clauses in another order, where allowed", "BC C.4.3"
    ),
    "distractor_sentence": _kind(
        "text", "clauses:distractor_sentence", "one harmless irrelevant sentence added", "BC C.4.3"
    ),
    "paraphrase": _kind(
        "text",
        "paraphrase:paraphrase",
        "the text paraphrased by a model; unverified",
        "BC C.4.3",
        needs=("paraphraser",),
    ),
    "shots_reordering": _kind(
        "shots", "examples:shots_reordering", "the few-shot examples in another order", "BC C.4.3"
    ),
    "shots_replacement": _kind(
        "shots",
        "examples:shots_replacement",
        "one few-shot example replaced by another of the pool",
        "BC C.4.3",
    ),
}
"""Name -> perturbation, in the order in which ``tcb-bench ls perturbations`` shows them."""


def parse(name: str, axis: str) -> tuple[Kind, Argument]:
    """The kind that ``name`` ("ner", "remove:1+3") means on an axis, and its argument.

    Raises:
        ValueError: no such axis.
        UnknownName: no such kind on this axis; the nearest is named.
        UsageError: an argument that is missing, unwanted or malformed.
    """
    if axis not in AXES:
        raise ValueError(f"no axis {axis!r}; expected one of {', '.join(AXES)}")
    base, colon, text = name.partition(":")
    known = [other for other, kind in KINDS.items() if kind.target in AXES[axis]]
    if base not in known:
        raise UnknownName(f"{axis} perturbation", base, known, SHOW_ALL)
    return KINDS[base], _argument(base, text if colon else None)


def needs(names: Iterable[str]) -> set[str]:
    """The resources of ``Tools`` that the named perturbations use, arguments and all.

    Raises:
        UnknownName: no such kind on any axis.
    """
    bases = [name.partition(":")[0] for name in names]
    for base in bases:
        if base not in KINDS:
            raise UnknownName("perturbation", base, KINDS, SHOW_ALL)
    return {need for base in bases for need in KINDS[base].needs}


def change_item(item: Item, name: str, *, seed: int, tools: Tools) -> Change[Item]:
    """What a context perturbation makes of ``item``; a text kind changes each shown sentence.

    The result depends on nothing but the item, the name, the seed and the resources' versions; a
    sentence's change by a text kind on no other sentence. Flags are those of any sentence, counts
    are sums; flag ``unchanged`` where the result equals ``item``.

    Raises:
        NotApplicable: the kind does not exist for an item with so few sentences.
        UnknownName, UsageError: as ``parse``.
    """
    kind, argument = parse(name, "context")
    if kind.target != "text":
        rng = generator(seed, name, item.id)
        return _flagged(item, kind.resolve()(item, rng, tools, argument), name)
    changes = [
        change_text(s.text, name, seed=seed, document=_place(item, s), tools=tools)
        for s in item.evidence
    ]
    texts = zip(item.evidence, changes, strict=True)
    evidence = tuple(replace(sentence, text=change.value) for sentence, change in texts)
    value = replace(item, evidence=evidence)
    return _flagged(item, Change(value, _flags(changes), _counts(changes)), name)


def change_text(text: str, name: str, *, seed: int, document: str, tools: Tools) -> Change[str]:
    """What a text perturbation makes of ``text``, drawn for (seed, name, document).

    Raises:
        UnknownName, UsageError: as ``parse``.
    """
    kind, argument = parse(name, "query")
    rng = generator(seed, name, document)
    return _flagged(text, kind.resolve()(text, rng, tools, argument), name)


def change_shots(
    shots: Shots, name: str, *, seed: int, document: str, tools: Tools
) -> Change[Shots]:
    """What a perturbation of the examples makes of ``shots``, drawn for (seed, name, document).

    Raises:
        UnknownName, UsageError: as ``parse``.
    """
    kind, argument = parse(name, "shots")
    rng = generator(seed, name, document)
    return _flagged(shots, kind.resolve()(shots, rng, tools, argument), name)


def _argument(base: str, text: str | None) -> Argument:
    wanted = KINDS[base].argument
    if text is None and (wanted is None or wanted.endswith("?")):
        return None
    if wanted is None:
        raise UsageError(f"{base}:{text}: {base} takes no argument; write {base}")
    numbers = (text or "").split("+")
    places = tuple(int(number) for number in numbers if _NUMBER.fullmatch(number))
    if wanted == "places":
        if len(places) < len(numbers) or list(places) != sorted(set(places)):
            raise UsageError(
                f"{_written(base, text)}: give the numbers of sentences, from 1 and rising, "
                f"as in {base}:1 or {base}:1+3"
            )
        return places
    if len(numbers) != 1 or not places:
        raise UsageError(f"{_written(base, text)}: give a whole number >= 1, as in {base}:2")
    return places[0]


def _written(base: str, text: str | None) -> str:
    return base if text is None else f"{base}:{text}"


def _place(item: Item, sentence: Sentence) -> str:
    return "\x1f".join((item.id, ascii(sentence.title), str(sentence.index)))


def _flagged(before: T, change: Change[T], name: str) -> Change[T]:
    """``unchanged`` says just whether the value is the same; of ``original`` that is no news."""
    flags = tuple(flag for flag in change.flags if flag != "unchanged")
    if change.value == before and name != "original":
        flags = (*flags, "unchanged")
    return replace(change, flags=flags)


def _flags(changes: Sequence[Change[Any]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(flag for change in changes for flag in change.flags))


def _counts(changes: Sequence[Change[Any]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for change in changes:
        for name, count in change.counts.items():
            total[name] = total.get(name, 0) + count
    return total
