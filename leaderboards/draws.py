"""Which documents an entry must have: the task's own draw, made again from ids, limit and seed."""

from __future__ import annotations

import functools
import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.resources import files
from itertools import product

from tcb_bench.leaderboards.entry import Entry
from tcb_bench.leaderboards.known import KnownDocuments, KnownTask, KnownTasks
from tcb_bench.leaderboards.untrusted import shown
from tcb_bench.records import StratumRecord
from tcb_bench.selection import draw, limit_size, stable_hash

PUBLIC = ("hub", "local")  # the data sets themselves, not the samples that ship
MAX_AVAILABLE = 200_000  # documents of a task whose ids are listed here
RARE = 1e-9  # chance of a false alarm that a statistical check takes
HASHES = 2**63


@functools.cache
def official_sizes() -> dict[str, dict[str, dict[str, int]]]:
    """Data set -> configuration -> split -> rows, of the sets whose sizes are known for certain.

    MMLU's test splits have 14,042 rows in 57 subjects, GSM8K's has 1,319 (their papers and hub
    pages say so); 52 of the subjects were counted in the files.
    """
    text = files("tcb_bench.leaderboards").joinpath("sizes.json").read_text(encoding="utf-8")
    found: dict[str, dict[str, dict[str, int]]] = json.loads(text)
    return found


def draw_problems(
    entry: Entry, drawn: Mapping[str, Mapping[str, str]], known: KnownTasks
) -> Iterator[str]:
    """Where an entry's documents are not those that its limit and seed draw.

    Args:
        entry: the entry; its limit is one.
        drawn: task (or member) -> document id -> sha256, as the samples have them.
        known: tasks by name; an unknown one is not checked here.
    """
    members = entry.data.members
    for name, ids in drawn.items():
        task = known.get(name)
        if task is None or task.strata or entry.seed is None:
            continue
        available = members[name].available if members and name in members else None
        available = entry.data.available if available is None else available
        wrong = list(_size_problems(entry, task, available))
        yield from wrong or _listed(entry, task, ids, available)


def _size_problems(entry: Entry, task: KnownTask, available: int) -> Iterator[str]:
    if entry.data.source not in PUBLIC or task.data_id is None or task.draw is not None:
        return
    by_config = official_sizes().get(task.data_id, {})
    size = by_config.get(task.config or "", {}).get(task.split or "")
    if size is not None and size != available:
        yield f"{task.name}: data.available is {available}; {task.data_id} has {size} rows there"


def _listed(entry: Entry, task: KnownTask, ids: Mapping[str, str], available: int) -> Iterator[str]:
    """The draw of a task whose ids are its rows' numbers."""
    template = task.doc_id
    if template is None or "{row}" not in template or "{id}" in template or task.draw is not None:
        return
    if available > MAX_AVAILABLE:
        yield f"{task.name}: data.available is {available}, more than any data set here"
        return
    size = limit_size(entry.limit, available)
    every = [
        template.format(config=task.config or "", split=task.split or "", row=row)
        for row in range(available)
    ]
    wanted = {every[i] for i in draw(every, size, entry.seed or 0)}
    yield from _differences(task.name, wanted, set(ids), entry)


def _differences(name: str, wanted: set[str], there: set[str], entry: Entry) -> Iterator[str]:
    if wanted == there:
        return
    lost, more = sorted(wanted - there), sorted(there - wanted)
    parts = [
        f"{len(ids)} {word}, such as {shown(ids[0])}"
        for word, ids in (("missing", lost), ("not drawn", more))
        if ids
    ]
    limit = "all" if entry.limit is None else f"{entry.limit:g}"
    yield (
        f"{name}: documents are not the draw of limit {limit} and seed {entry.seed} "
        f"({len(wanted)} documents): {'; '.join(parts)}"
    )


def strata_problems(
    entry: Entry, strata: Mapping[str, Mapping[str, float]], known: KnownTask
) -> Iterator[str]:
    """Where a stratified draw (HotpotQA's) cannot be what it says.

    Its ids are no row numbers, so the draw cannot be made again without the data. But a draw takes
    the n smallest hashes of N: the largest of them, divided by 2^63, has the Beta(n, N - n + 1)
    distribution. Chosen documents have hashes all over, and exceed its 1 - 1e-9 quantile.
    A condition whose perturbation needs places (``remove:4``) has only the documents with such.

    Args:
        entry: the entry; its limit is one.
        strata: stratum -> document id -> weight, as the samples have them.
        known: the task.
    """
    if not known.strata or entry.data.strata is None or entry.data.ids is None:
        if known.strata:
            yield "data.strata and data.ids: expected, since the task draws from strata"
        return
    records, listed = entry.data.strata, entry.data.ids
    names = [
        ",".join(f"{column}={value}" for column, value in zip(known.strata, cell, strict=True))
        for cell in product(*known.strata.values())
    ]
    if sorted(records) != sorted(names):
        yield f"data.strata: {', '.join(map(shown, sorted(records)))}; expected {', '.join(names)}"
        return
    yield from _ids_problems(listed, strata)
    yield from _weight_problems(entry, strata)
    for name in records:
        yield from _stratum_problems(entry, name, strata.get(name), known)
    total = sum(
        r.there if known.draw is None else min(r.there, known.draw) for r in records.values()
    )
    if total != entry.data.available:
        yield f"data.available is {entry.data.available}; the strata give {total}"


def _stratum_problems(
    entry: Entry, name: str, own: Mapping[str, float] | None, known: KnownTask
) -> Iterator[str]:
    record = (entry.data.strata or {})[name]
    pool = record.there if known.draw is None else min(record.there, known.draw)
    size = limit_size(entry.limit, pool)
    wanted = pool if size is None else min(size, pool)
    if record.taken != wanted:
        yield (
            f"data.strata {name}: {record.taken} taken; of {record.there} there, draw "
            f"{known.draw} and limit {entry.limit} take {wanted}"
        )
    is_whole = any(":" not in condition.id for condition in entry.conditions)
    if own and (len(own) > record.taken or is_whole and len(own) < record.taken):
        yield f"data.strata {name}: {record.taken} taken, the samples have {len(own)}"
    elif own and not _are_first(own, record, entry.seed or 0):
        yield (
            f"data.strata {name}: its documents are not the seeded draw: "
            f"of {record.there}, the first {record.taken} by hash have lower ones"
        )


def _ids_problems(
    listed: Sequence[str], strata: Mapping[str, Mapping[str, float]]
) -> Iterator[str]:
    counts = Counter(listed)
    twice = [one for one, n in counts.items() if n > 1]
    if twice:
        yield f"data.ids: {shown(twice[0])} stands there twice"
    other = sorted({one for own in strata.values() for one in own} - counts.keys())
    if other:
        yield f"samples: document {shown(other[0])} is not among data.ids ({len(other)} such)"


def _weight_problems(entry: Entry, strata: Mapping[str, Mapping[str, float]]) -> Iterator[str]:
    """Weights are N / (K n): N documents in K strata that are not empty, n in a document's own."""
    taken = {name: record.taken for name, record in (entry.data.strata or {}).items()}
    total, filled = sum(taken.values()), sum(map(bool, taken.values()))
    for name, own in strata.items():
        if not taken.get(name):
            yield f"samples: stratum {shown(name)} is not one of data.strata with documents"
            continue
        wanted = total / (filled * taken[name])
        for one, weight in own.items():
            if not math.isclose(weight, wanted, rel_tol=1e-9):
                yield f"samples: {shown(one)}: weight {weight:g}; {name} has {wanted:g}"
                break


def _are_first(ids: Iterable[str], record: StratumRecord, seed: int) -> bool:
    """Whether ids can be among the first ``taken`` of ``there`` by their seeded hashes."""
    n, there = record.taken, record.there
    if n >= there:
        return True
    from scipy.stats import beta

    largest = max(stable_hash(seed, one) for one in ids) / HASHES
    return bool(beta.sf(largest, n, there - n + 1) > RARE)


def document_problems(
    drawn: Mapping[str, Mapping[str, str]], documents: KnownDocuments
) -> Iterator[str]:
    """Where ids or hashes are not those of the task's own documents (``check --data``)."""
    for name, ids in drawn.items():
        own = documents.get(name)
        if own is None:
            continue
        lost, more = own.keys() - ids.keys(), ids.keys() - own.keys()
        if lost or more:
            example = shown(min(lost or more))
            yield (
                f"{name}: {len(lost)} documents of the draw are missing and {len(more)} are not "
                f"of it, such as {example}"
            )
        changed = sorted(one for one in ids.keys() & own.keys() if own[one].sha256 != ids[one])
        if changed:
            yield f"{name}: {len(changed)} documents have other hashes, such as {changed[0]}"
