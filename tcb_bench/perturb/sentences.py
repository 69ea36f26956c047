"""Changes of the evidence, sentence by sentence; every text that stays is left byte for byte.

Each function is ``change(item, rng, tools, argument)``. The half rules concern the last k = n // 2
of the n evidence sentences, in the order in which the record lists them. Evidence without support
labels is whole documents: there the rule holds for each title by itself.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from tcb_bench.perturb.item import Change, Item, NotApplicable, Sentence, T, reordered

SOURCES = ("other_title", "other_record")  # where a replacement comes from if not the same title


def original(value: T, _rng: random.Random, _tools: object, _argument: None = None) -> Change[T]:
    """The value as it is: the baseline of every axis."""
    return Change(value)


def none(item: Item, _rng: random.Random, _tools: object, _argument: None = None) -> Change[Item]:
    """No evidence at all: what the model answers from memory (closed book)."""
    return Change(replace(item, evidence=()))


def remove_half(
    item: Item, _rng: random.Random, _tools: object, _argument: None = None
) -> Change[Item]:
    """The last n // 2 sentences deleted; ``removed`` counts them. Source: TP 4.1."""
    gone = set(last_half(item))
    return Change(_keep(item, lambda place: place not in gone), counts={"removed": len(gone)})


def replace_half(
    item: Item, rng: random.Random, _tools: object, _argument: None = None
) -> Change[Item]:
    """The last n // 2 sentences replaced as ``replace_at`` says. Source: TP 4.1."""
    return replace_at(item, last_half(item), rng)


def remove(
    item: Item, _rng: random.Random, _tools: object, argument: tuple[int, ...]
) -> Change[Item]:
    """The sentences with these numbers (from 1) deleted: leave-one-out and subsets.

    Raises:
        NotApplicable: there are fewer sentences than the highest number.
    """
    _at_least(item, max(argument))
    kept = _keep(item, lambda place: place + 1 not in argument)
    return Change(kept, counts={"removed": len(argument)})


def combination(item: Item, rng: random.Random, _tools: object, argument: int) -> Change[Item]:
    """A drawn subset of ``argument`` sentences, in the given order. Source: TP table 1.

    Raises:
        NotApplicable: there are fewer than ``argument`` sentences.
    """
    _at_least(item, argument)
    kept = set(rng.sample(range(len(item.evidence)), argument))
    gone = len(item.evidence) - argument
    return Change(_keep(item, lambda place: place in kept), counts={"removed": gone})


def source_reordering(
    item: Item, rng: random.Random, _tools: object, _argument: None = None
) -> Change[Item]:
    """The documents in another order, never the given one where there are two; each stays whole.

    Sentences of one title keep their order and come to stand together. Source: TP table 1.
    """
    titles = list(dict.fromkeys(sentence.title for sentence in item.evidence))
    if len(titles) < 2:
        return Change(item)
    order = {title: place for place, title in enumerate(reordered(titles, rng))}
    evidence = sorted(item.evidence, key=lambda sentence: order[sentence.title])
    return Change(replace(item, evidence=tuple(evidence)))


def unit_replacement(
    item: Item, rng: random.Random, _tools: object, argument: int | None = None
) -> Change[Item]:
    """One sentence replaced as ``replace_at`` says: number ``argument`` (from 1), or a drawn one.

    Source: TP table 1.

    Raises:
        NotApplicable: there are fewer than ``argument`` sentences, or none.
    """
    _at_least(item, argument or 1)
    place = rng.randrange(len(item.evidence)) if argument is None else argument - 1
    return replace_at(item, (place,), rng)


def distractor(
    item: Item, rng: random.Random, _tools: object, _argument: None = None
) -> Change[Item]:
    """One irrelevant sentence more, under its own title, at a drawn place between two documents.

    It comes from a document of the record that holds no evidence, else from ``item.elsewhere``
    (flag ``other_record``); where neither has one, nothing is added (flag ``no_candidate``).
    Source: BC C.4.3.
    """
    shown = {sentence.title for sentence in item.evidence}
    own = [s for title in item.documents if title not in shown for s in _unused(item, title)]
    used = _texts(item.evidence)
    flags: tuple[str, ...] = ()
    candidates = _usable(own, used)
    if not candidates:
        candidates, flags = _usable(item.elsewhere, used), ("other_record",)
    if not candidates:
        return Change(item, ("no_candidate",), {"added": 0})
    new, at = rng.choice(candidates), rng.choice(_boundaries(item.evidence))
    evidence = (*item.evidence[:at], new, *item.evidence[at:])
    return Change(replace(item, evidence=evidence), flags, {"added": 1})


def last_half(item: Item) -> tuple[int, ...]:
    """Places (from 0) in ``item.evidence`` of the sentences the half rules concern."""
    return tuple(place for group in groups(item) for place in group[len(group) - len(group) // 2 :])


def groups(item: Item) -> list[list[int]]:
    """Places of the evidence: all in one group, or without support labels a group per title."""
    found: dict[str, list[int]] = {}
    for place, sentence in enumerate(item.evidence):
        found.setdefault("" if item.has_support else sentence.title, []).append(place)
    return list(found.values())


def replace_at(item: Item, places: Sequence[int], rng: random.Random) -> Change[Item]:
    """Each sentence at ``places`` (from 0) replaced, where it stands, by an irrelevant one.

    It is drawn from the same title; where that has none left, from the record's other documents
    (flag ``other_title``), else from ``item.elsewhere`` (flag ``other_record``), else the sentence
    is deleted (flag ``removed``). Places that their own title can serve are served first. What is
    drawn holds a letter or digit, has not the text of an evidence sentence, and is drawn once.
    "Right entity, wrong evidence" is the failure meant, so that a sentence from elsewhere stands
    under the title of the one it replaces, with index -1; one of the same title keeps its index.

    Returns:
        counts ``replaced`` (all that were), ``other_title`` and ``other_record`` (of them),
        ``removed``.
    """
    used = _texts(item.evidence)
    found: dict[int, Sentence] = {}
    counts = dict.fromkeys(("replaced", *SOURCES, "removed"), 0)
    for source in ("", *SOURCES):
        for place in (place for place in places if place not in found):
            title = item.evidence[place].title
            candidates = _usable(_pool(item, source, title), used)
            if not candidates:
                continue
            new = rng.choice(candidates)
            used.add(new.text.strip())
            found[place] = Sentence(title, -1, new.text) if source else new
            counts["replaced"] += 1
            if source:
                counts[source] += 1
    counts["removed"] = len(places) - len(found)
    evidence = [found.get(place, sentence) for place, sentence in enumerate(item.evidence)]
    gone = set(places) - set(found)
    kept = tuple(sentence for place, sentence in enumerate(evidence) if place not in gone)
    flags = tuple(name for name in (*SOURCES, "removed") if counts[name])
    return Change(replace(item, evidence=kept), flags, counts)


def _pool(item: Item, source: str, title: str) -> list[Sentence]:
    if source == "other_record":
        return list(item.elsewhere)
    titles = item.documents if source == "other_title" else [title]
    return [sentence for name in titles for sentence in _unused(item, name)]


def _unused(item: Item, title: str) -> list[Sentence]:
    shown = {(sentence.title, sentence.index) for sentence in item.evidence}
    texts = enumerate(item.documents.get(title, ()))
    return [Sentence(title, i, text) for i, text in texts if (title, i) not in shown]


def _texts(sentences: Iterable[Sentence]) -> set[str]:
    return {sentence.text.strip() for sentence in sentences}


def _usable(sentences: Iterable[Sentence], used: set[str]) -> list[Sentence]:
    """Those that say something: some splits of the real data are a lone ``.`` or ``".``."""
    return [
        sentence
        for sentence in sentences
        if any(map(str.isalnum, sentence.text)) and sentence.text.strip() not in used
    ]


def _boundaries(evidence: Sequence[Sentence]) -> list[int]:
    """Places where a sentence can be put without parting two neighbours of one title."""
    return [
        place
        for place in range(len(evidence) + 1)
        if not 0 < place < len(evidence) or evidence[place - 1].title != evidence[place].title
    ]


def _keep(item: Item, is_kept: Callable[[int], bool]) -> Item:
    return replace(item, evidence=tuple(s for i, s in enumerate(item.evidence) if is_kept(i)))


def _at_least(item: Item, n: int) -> None:
    if len(item.evidence) < n:
        raise NotApplicable(
            f"document {item.id!r} has {len(item.evidence)} evidence sentences; at least {n} needed"
        )
