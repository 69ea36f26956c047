"""Questions over documents: one form for HotpotQA's records and for a user's own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby, pairwise
from typing import Any

from tcb_bench.perturb.clauses import sentences as spans_of
from tcb_bench.perturb.item import Item, Sentence

EVIDENCE, POOL, ELSEWHERE = "tcb_evidence", "tcb_pool", "tcb_elsewhere"
"""Columns of a prepared record: shown sentences, their documents, sentences of other records."""


class Unresolved(ValueError):
    """A record whose supporting facts are not in its documents; the text is the reason."""


def prepare(row: Mapping[str, Any], columns: Mapping[str, str]) -> dict[str, Any]:
    """The columns that a record gains: the sentences a prompt shows, and the pool around them.

    Args:
        row: a record.
        columns: ``documents`` (its column; ``{title: [...], sentences: [[...]]}`` as in HotpotQA,
            or a list of ``{title, sentences}``, ``{title, text}`` or texts) and ``support``
            (``{title: [...], sent_id: [...]}`` or a list of ``{title, sent_id}``; may be absent).

    Returns:
        ``tcb_evidence``: with labels the supporting facts, each once, in the order of the record;
        without, every sentence. ``tcb_pool``: the documents those come from, whole. ``n_facts``:
        number of supporting facts (0 without labels).

    Raises:
        Unresolved: a supporting title or sentence that the documents do not have.
    """
    documents = _documents(row[columns["documents"]])
    support = row.get(columns["support"])
    if support is None:
        shown = [(t, i) for t, sentences in documents.items() for i in range(len(sentences))]
        shown = [(t, i) for t, i in shown if documents[t][i].strip()]
    else:
        shown = list(dict.fromkeys(_facts(support)))
    evidence = [_sentence(documents, title, index) for title, index in shown]
    if not evidence:
        raise Unresolved("no sentence to show")
    titles = dict.fromkeys(title for title, _ in shown)
    return {
        EVIDENCE: evidence,
        POOL: [{"title": title, "sentences": documents[title]} for title in titles],
        "n_facts": 0 if support is None else len(evidence),
    }


def _sentence(documents: Mapping[str, list[str]], title: str, index: int) -> dict[str, Any]:
    if title not in documents:
        raise Unresolved("a supporting title is not among the documents")
    if not 0 <= index < len(documents[title]):
        raise Unresolved("a supporting sentence is beyond its document")
    if not documents[title][index].strip():
        raise Unresolved("a supporting sentence is blank")
    return {"title": title, "index": index, "text": documents[title][index]}


def _documents(value: Any) -> dict[str, list[str]]:
    """Title -> sentences; a title that occurs again, or is missing, gets a number."""
    if isinstance(value, Mapping):
        bodies = value.get("sentences", value.get("text"))
        pairs = list(zip(value["title"], bodies or (), strict=True))
    else:
        pairs = [_pair(document, number) for number, document in enumerate(value, start=1)]
    found: dict[str, list[str]] = {}
    for title, body in pairs:
        name, again = str(title), 2
        while name in found:
            name, again = f"{title} ({again})", again + 1
        found[name] = sentences(body) if isinstance(body, str) else [str(s) for s in body]
    return found


def _pair(document: Any, number: int) -> tuple[str, Any]:
    if isinstance(document, str):
        return f"Document {number}", document
    body = document.get("sentences")
    return document.get("title") or f"Document {number}", (
        document["text"] if body is None else body
    )


def _facts(support: Any) -> Iterable[tuple[str, int]]:
    if isinstance(support, Mapping):
        return [(t, int(i)) for t, i in zip(support["title"], support["sent_id"], strict=True)]
    return [
        (fact["title"], int(fact["sent_id"])) if isinstance(fact, Mapping) else (fact[0], fact[1])
        for fact in support
    ]


def sentences(text: str) -> list[str]:
    """The sentences of a plain text, joined again exactly the text; white space leads the next one.

    Split by ``perturb.clauses.sentences``, which knows initials and titles ("J. Smith", "Dr. Li"),
    but not every abbreviation; give ``sentences`` where it counts.
    """
    spans = spans_of(text)
    starts = [0, *(end for _, end in spans[:-1]), len(text)]
    return [part for a, b in pairwise(starts) if (part := text[a:b])]


def item_of(doc: Mapping[str, Any], columns: Mapping[str, str], document: str) -> Item:
    """A prepared record as what the perturbations take."""
    return Item(
        id=document,
        question=str(doc[columns["question"]]),
        answer=str(doc.get(columns["answer"]) or ""),
        evidence=_as_sentences(doc[EVIDENCE]),
        documents={d["title"]: tuple(d["sentences"]) for d in doc[POOL]},
        elsewhere=_as_sentences(doc.get(ELSEWHERE) or ()),
        has_support=doc["n_facts"] > 0,
    )


def _as_sentences(rows: Sequence[Mapping[str, Any]]) -> tuple[Sentence, ...]:
    return tuple(Sentence(row["title"], row["index"], row["text"]) for row in rows)


def shown(item: Item) -> list[dict[str, str]]:
    """``evidence`` of a prompt: ``{title, text}`` per document, titles in order of appearance.

    Sentences keep their texts and their order; only the white space between two is evened out.
    """
    order = {title: i for i, title in enumerate(dict.fromkeys(s.title for s in item.evidence))}
    ordered = sorted(item.evidence, key=lambda s: order[s.title])  # stable: order within a title
    return [
        {"title": title, "text": " ".join(s.text.strip(" \t\r\n") for s in group)}
        for title, group in groupby(ordered, key=lambda s: s.title)
    ]


def can_show(shot: Mapping[str, Any], columns: Mapping[str, str]) -> bool:
    """Whether an example can be shown: it has no documents, or its facts resolve in them."""
    if not columns["documents"] or columns["documents"] not in shot:
        return True
    try:
        prepare(shot, columns)
    except Unresolved:
        return False
    return True


def with_evidence(shot: Mapping[str, Any], columns: Mapping[str, str]) -> dict[str, Any]:
    """A few-shot example of a RAG task with the documents it shows, which are never changed."""
    if not columns["documents"] or columns["documents"] not in shot:
        return dict(shot)
    item = item_of({**shot, **prepare(shot, columns)}, columns, "")
    return {**shot, "evidence": shown(item)}
