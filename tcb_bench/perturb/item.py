"""What a perturbation is given and what it returns."""

from __future__ import annotations

import importlib
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from tcb_bench.selection import stable_hash

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Sentence:
    """One sentence of a document: its title, its place there (from 0) and its text, untouched."""

    title: str
    index: int
    text: str


@dataclass(frozen=True, slots=True)
class Item:
    """A question with the sentences its prompt shows, and the documents those come from.

    Attributes:
        id: the document id of the record.
        question: the question, untouched.
        answer: the short answer; "" where there is none.
        evidence: the sentences the prompt shows, in the order in which the record lists them; with
            support labels the supporting facts, without them every sentence of every document.
        documents: title -> all sentences of that document, the pool for replacements.
        elsewhere: sentences of other records, for what a record's own documents cannot give.
        has_support: whether ``evidence`` are labelled supporting facts.
    """

    id: str
    question: str
    answer: str
    evidence: tuple[Sentence, ...]
    documents: Mapping[str, tuple[str, ...]]
    elsewhere: tuple[Sentence, ...] = ()
    has_support: bool = True


@dataclass(frozen=True, slots=True)
class Change(Generic[T]):
    """What came out, and how: ``flags`` name what was special (``answer_masked``, ``unchanged``).

    ``counts`` are numbers a reader wants to see (``masked``: 3); ``flags`` and the keys of
    ``counts`` are words of a fixed vocabulary per kind, counted over a run.
    """

    value: T
    flags: tuple[str, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)


class NotApplicable(ValueError):
    """The kind does not exist for this document (``remove:4`` of three sentences): leave it out."""


@dataclass(frozen=True, slots=True)
class Shots:
    """Few-shot examples: ``chosen``, those the prompt shows, and ``pool``, valid others.

    The pool must not hold the evaluated document itself: an example drawn from it is shown.
    """

    chosen: tuple[Mapping[str, Any], ...]
    pool: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class Kind:
    """One perturbation by name.

    Attributes:
        target: ``context`` (Item -> Item), ``text`` (str -> str; of a question, or of each shown
            sentence), ``shots`` (Shots -> Shots), or ``any`` of them.
        function: "module:name" of the function, called as ``change(value, rng, tools, argument)``;
            it returns a Change of the value and is imported at the first call.
        argument: what follows the name after a colon: None, "count" (a whole number >= 1) or
            "places" (rising whole numbers >= 1 joined by +); with "?" at the end it may be absent.
        needs: resources of ``Tools`` it uses: "ner", "wordnet", "paraphraser".
        meaning: one line for ``tcb-bench ls perturbations``.
        source: the paper and its place.
    """

    target: str
    function: str
    meaning: str
    source: str
    argument: str | None = None
    needs: tuple[str, ...] = ()

    def resolve(self) -> Callable[..., Change[Any]]:
        """The function itself; this imports its module."""
        module, _, name = self.function.partition(":")
        found: Callable[..., Change[Any]] = getattr(importlib.import_module(module), name)
        return found


def generator(seed: int, kind: str, document: str) -> random.Random:
    """The random numbers of one kind on one document: they depend on nothing else."""
    return random.Random(stable_hash(seed, "perturb", kind, document))


def reordered(values: Sequence[T], rng: random.Random) -> list[T]:
    """``values`` in a drawn order, uniform among those that differ from the given one.

    Where all values are equal no order differs: they come back as they are.
    """
    order = list(values)
    if all(value == order[0] for value in order):
        return order
    while order == list(values):
        rng.shuffle(order)
    return order
