"""Which documents a task asks: strata, the seeded draw, the limit, and data beside them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

from tcb_bench.data import ID_COLUMN
from tcb_bench.errors import DataError
from tcb_bench.rag import ELSEWHERE, EVIDENCE, POOL
from tcb_bench.selection import draw, limit_size, seeded_order

if TYPE_CHECKING:
    from datasets import Dataset

WEIGHT, STRATUM = "tcb_weight", "tcb_stratum"
N_ELSEWHERE = 8  # sentences of other records kept beside each document, at least


@dataclass(frozen=True, slots=True)
class Selection:
    """The documents of a run.

    Attributes:
        documents: in the data set's own order, with their weights where there are strata.
        available: how many the draw could give before ``--limit``.
        strata: name -> (documents taken, documents there) per stratum; empty without strata.
    """

    documents: Dataset
    available: int
    strata: Mapping[str, tuple[int, int]]


def select(
    documents: Dataset,
    strata: Mapping[str, Sequence[Any]] | None,
    size: int | None,
    limit: float | None,
    seed: int,
) -> Selection:
    """The YAML's draw, then ``--limit``; with strata both count per stratum.

    A stratum with fewer documents than asked for gives all it has, and a document's weight is then
    N / (K n_k) for N documents in K strata that are not empty, n_k of them in its own: each of
    these weighs alike, and the weights have mean 1. An empty stratum is listed with (0, 0).

    Raises:
        DataError: no document in any stratum, or no such column.
    """
    if not strata:
        drawn = documents.select(draw(documents[ID_COLUMN], size, seed))
        kept = draw(drawn[ID_COLUMN], limit_size(limit, len(drawn)), seed)
        return Selection(drawn.select(kept), len(drawn), {})
    cells = _cells(documents, strata)
    ids = documents[ID_COLUMN]
    available, taken = 0, {}
    for name, rows in cells.items():
        drawn_rows = [rows[i] for i in draw([ids[r] for r in rows], size, seed)]
        available += len(drawn_rows)
        keep = draw([ids[r] for r in drawn_rows], limit_size(limit, len(drawn_rows)), seed)
        taken[name] = [drawn_rows[i] for i in keep]
    total, filled = sum(map(len, taken.values())), sum(map(bool, taken.values()))
    weight = {r: total / (filled * len(rows)) for rows in taken.values() for r in rows}
    stratum = {r: name for name, rows in taken.items() for r in rows}
    order = sorted(weight)
    chosen = documents.select(order).add_column(WEIGHT, [weight[r] for r in order])
    chosen = chosen.add_column(STRATUM, [stratum[r] for r in order])
    counts = {name: (len(taken[name]), len(cells[name])) for name in cells}
    return Selection(chosen, available, counts)


def _cells(documents: Dataset, strata: Mapping[str, Sequence[Any]]) -> dict[str, list[int]]:
    for column in strata:
        if column not in documents.column_names:
            raise DataError(f"strata names the column {column!r}, the data has none of that name")
    names = [dict(zip(strata, cell, strict=True)) for cell in product(*strata.values())]
    rows: dict[str, list[int]] = {_name(cell): [] for cell in names}
    for row, values in enumerate(zip(*(documents[c] for c in strata), strict=True)):
        if all(value in strata[c] for c, value in zip(strata, values, strict=True)):
            rows[_name(dict(zip(strata, values, strict=True)))].append(row)
    if not any(rows.values()):
        raise DataError(f"no document is in any of the strata {dict(strata)}")
    return rows


def _name(cell: Mapping[str, Any]) -> str:
    return ",".join(f"{column}={value}" for column, value in cell.items())


def with_elsewhere(chosen: Dataset, pool: Dataset, seed: int) -> Dataset:
    """Each document with sentences of other records of the pool, in ``tcb_elsewhere``.

    At least as many as the document shows itself, from the next records in the seeded order of all
    ids: a function of the ids and the seed, not of the file's order or of ``--limit``.
    """
    ids = pool[ID_COLUMN]
    order = seeded_order(ids, seed)
    place = {ids[row]: i for i, row in enumerate(order)}
    spare: dict[int, list[dict[str, Any]]] = {}
    found = []
    for row in chosen:
        need, start, own = max(N_ELSEWHERE, len(row[EVIDENCE])), place[row[ID_COLUMN]], []
        for step in range(1, len(order)):
            other = order[(start + step) % len(order)]
            if other not in spare:
                spare[other] = _spare(pool[other])
            own += spare[other]
            if len(own) >= need:
                break
        found.append(own[:need])
    empty = all(not rows for rows in found)
    return chosen if empty else chosen.add_column(ELSEWHERE, found)


def _spare(row: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Sentences of a record, those that are no evidence of its own question first."""
    own = {(s["title"], s["index"]) for s in row[EVIDENCE]}
    every = [
        {"title": d["title"], "index": i, "text": text}
        for d in row[POOL]
        for i, text in enumerate(d["sentences"])
        if text.strip()
    ]
    return sorted(every, key=lambda s: (s["title"], s["index"]) in own)


def with_unique_ids(documents: Dataset) -> Dataset:
    """The documents with ids that differ: where process_docs makes several of a row, ``id#2``."""
    seen: Counter[str] = Counter()
    ids = []
    for own in documents[ID_COLUMN]:
        seen[own] += 1
        ids.append(own if seen[own] == 1 else f"{own}#{seen[own]}")
    if len(seen) == len(ids):
        return documents
    return documents.remove_columns(ID_COLUMN).add_column(ID_COLUMN, ids)
