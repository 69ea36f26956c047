"""Entries against each other: copies, other documents under one id, answers that exclude others."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tcb_bench.leaderboards.entry import Entry
from tcb_bench.leaderboards.untrusted import shown

COPIED = 0.2  # share of rows with another entry's numbers, from which it is a copy
COPIED_TEXTS = 0.9  # the same for rows without stability: short answers agree by chance
FEWEST = 5  # rows that have to be the same

Verdicts = Mapping[tuple[str, str], frozenset[tuple[str, bool]]]


@dataclass(frozen=True, slots=True)
class Summary:
    """What the comparison of entries needs of one.

    Attributes:
        path: of the entry; ``model`` its model's id, ``task`` and ``version`` its task's.
        setting: limit, seed, data set, split, source, revision: with these alike, so are documents.
        drawn: (task or member, document id) -> sha256.
        verdicts: (task or member, document id) -> answers and whether they count as right.
        marks: (M,) 64-bit hashes of its rows' numbers; ``is_measured``: stability numbers.
    """

    path: Path
    model: str
    task: str
    setting: tuple[Any, ...]
    drawn: Mapping[tuple[str, str], str]
    verdicts: Verdicts
    marks: NDArray[np.uint64]
    is_measured: bool


def setting_of(entry: Entry) -> tuple[Any, ...]:
    """What decides the documents beside the task's name."""
    data = entry.data
    return (
        *(entry.task.name, str(entry.task.version), data.id, data.split, data.source),
        *(data.revision, entry.limit, entry.seed),
    )


def across(summaries: Sequence[Summary]) -> Iterator[tuple[Path, str]]:
    """What several entries cannot all be right about: (path, problem)."""
    by_task: dict[str, list[Summary]] = defaultdict(list)
    by_setting: dict[tuple[Any, ...], list[Summary]] = defaultdict(list)
    for summary in summaries:
        by_task[summary.task].append(summary)
        by_setting[summary.setting].append(summary)
    for own in by_task.values():
        yield from _copies(own)
    for own in by_setting.values():
        yield from _documents(own)
        yield from _verdicts(own)


def _copies(summaries: Sequence[Summary]) -> Iterator[tuple[Path, str]]:
    """Entries of different models with the same numbers, in whatever order or under other ids."""
    if len(summaries) < 2:
        return
    marks = np.concatenate([summary.marks for summary in summaries])
    owner = np.repeat(np.arange(len(summaries)), [len(s.marks) for s in summaries])
    order = np.argsort(marks, kind="stable")
    marks, owner = marks[order], owner[order]
    _, first, counts = np.unique(marks, return_index=True, return_counts=True)
    shared: Counter[tuple[int, int]] = Counter()
    for start, count in zip(first[counts > 1], counts[counts > 1], strict=True):
        own = owner[start : start + count].tolist()
        shared.update((a, b) for i, a in enumerate(own[:50]) for b in own[i + 1 : 50])
    for (a, b), count in sorted(shared.items()):
        mine, other = summaries[a], summaries[b]
        least = min(len(mine.marks), len(other.marks))
        share = COPIED if mine.is_measured and other.is_measured else COPIED_TEXTS
        if mine.model != other.model and count >= max(share * least, min(FEWEST, least)):
            for one, two in ((mine, other), (other, mine)):
                yield (
                    one.path,
                    f"{count} of its {len(one.marks)} different rows have the numbers of "
                    f"{shown(two.model)}: a copy, or the same weights under another name",
                )


def _documents(summaries: Sequence[Summary]) -> Iterator[tuple[Path, str]]:
    """The same data set, revision, limit and seed, but other documents under the same ids."""
    votes: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for summary in summaries:
        for own, sha256 in summary.drawn.items():
            votes[own][sha256] += 1
    split = {own: counts for own, counts in votes.items() if len(counts) > 1}
    for summary in summaries:
        odd = [own for own in split if own in summary.drawn and _is_odd(split[own], summary, own)]
        if odd:
            yield (
                summary.path,
                f"mixed data: {len(odd)} documents have other hashes than in other entries of the "
                f"same data, revision, limit and seed, such as {shown(min(odd)[1])}",
            )


def _is_odd(counts: Counter[str], summary: Summary, own: tuple[str, str]) -> bool:
    """Whether this entry is not of the majority; where there is none, all are odd."""
    (_, most), (_, next_) = counts.most_common(2)
    return most == next_ or counts[summary.drawn[own]] < most


def _verdicts(summaries: Sequence[Summary]) -> Iterator[tuple[Path, str]]:
    """One answer counted as right here and as wrong there, or two different ones as right.

    The answer that most entries agree with is taken for the gold one; where two have as many, each
    entry that contradicts another is named.
    """
    found: dict[Path, list[tuple[tuple[str, str], str]]] = defaultdict(list)
    for own in {key for summary in summaries for key in summary.verdicts}:
        told = {s.path: s.verdicts[own] for s in summaries if own in s.verdicts}
        answers = {answer for verdict in told.values() for answer, is_right in verdict if is_right}
        if not answers:
            continue
        support = {a: sum(_agrees(verdict, a) for verdict in told.values()) for a in answers}
        most = max(support.values())
        best = [answer for answer in answers if support[answer] == most]
        for path, verdict in told.items():
            if not all(_agrees(verdict, answer) for answer in best):
                found[path].append((own, ", ".join(sorted(best))))
    for path, odd in sorted(found.items()):
        (_, doc_id), gold = min(odd)
        yield (
            path,
            f"acc: {len(odd)} questions are scored against other entries' (or its own) scores of "
            f"the same answers, such as {shown(doc_id)}, where right is {shown(gold)}",
        )


def _agrees(verdict: frozenset[tuple[str, bool]], gold: str) -> bool:
    return all((answer == gold) == is_right for answer, is_right in verdict)
