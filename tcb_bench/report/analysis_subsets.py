"""The smallest set of sentences whose removal changes an answer (TP's table 1, subset removal)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tcb_bench.report.analysis_cells import identity, identity_columns, original_index
from tcb_bench.report.grid import Grid
from tcb_bench.report.table import Column, Row, Table
from tcb_bench.responses import answer_text

REMOVAL = re.compile(r"remove:(\d+(?:\+\d+)*)")
NOTE = (
    "Of the removals that were run, at the lowest temperature and in the first run. changed: the "
    "answer's words differ from those of the original's (case and punctuation aside). flipped: the "
    "answer turns from right to wrong or from wrong to right (acc). A set is smallest where no run "
    "set of fewer sentences does the same; sets of equal size are listed together."
)
NEVER = "by none of the sets run"


def removals(contexts: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """Context -> numbers of the removed sentences, of the contexts named ``remove:1+3``."""
    found = {name: REMOVAL.fullmatch(name) for name in contexts}
    return {
        name: tuple(int(number) for number in match[1].split("+"))
        for name, match in found.items()
        if match
    }


def smallest_subsets(grids: Sequence[Grid]) -> Table:
    """One row per question that was answered: its smallest sets, and an answer that they change."""
    columns = [
        *identity_columns(grids),
        Column("doc_id", "id"),
        Column("question", "question"),
        Column("changed", "changed by removing"),
        Column("flipped", "flipped by removing"),
        Column("original", "answer, original"),
        Column("perturbed", "answer, changed"),
        Column("n", "sets run"),
    ]
    rows = [row for grid in grids for row in _rows(grid)]
    title = "Smallest set of sentences that changes the answer"
    return Table("smallest_subsets", title, NOTE, columns, rows)


def subset_counts(grids: Sequence[Grid]) -> Table:
    """Rows per grid and size of the smallest set: questions that change, and that flip, by it."""
    columns = [
        *identity_columns(grids),
        Column("size", "sentences removed"),
        Column("changed", "questions changed"),
        Column("flipped", "questions flipped"),
        Column("n", "n"),
    ]
    rows = [row for grid in grids for row in _counts(grid)]
    title = "How many sentences must go before the answer changes"
    return Table("subset_counts", title, NOTE, columns, rows)


def _counts(grid: Grid) -> Iterator[Row]:
    found = list(_rows(grid))
    sizes = sorted({len(numbers) for numbers in removals(grid.contexts).values()})
    judged = [row for row in found if row["is_judged"]]
    for size in [*sizes, None]:
        flipped = sum(row["flipped_size"] == size for row in judged)
        yield {
            **identity(grid),
            "size": NEVER if size is None else str(size),
            "changed": sum(row["changed_size"] == size for row in found),
            "flipped": flipped if judged else None,
            "n": len(found),
        }


def _rows(grid: Grid) -> Iterator[Row]:
    original, sets = original_index(grid), removals(grid.contexts)
    if original is None or not sets:
        return
    lowest = grid.temperatures[0]
    for question in grid.questions:
        sample = grid.samples.get((lowest, grid.contexts[original], question), {})
        base = _first(sample)
        answers = {
            numbers: row
            for name, numbers in sets.items()
            if (row := _first(grid.samples.get((lowest, name, question), {}))) is not None
        }
        if base is not None and answers:
            doc = {"doc_id": question, "question": sample.get("doc", {}).get("question")}
            yield {**identity(grid), **doc, **_smallest(base, answers)}


def _smallest(
    base: Mapping[str, Any], answers: Mapping[tuple[int, ...], Mapping[str, Any]]
) -> dict[str, Any]:
    right = _acc(base)
    own = words(answer_text(base) or "")
    changed = [s for s, row in answers.items() if words(answer_text(row) or "") != own]
    flipped = [
        s
        for s, row in answers.items()
        if right is not None and (now := _acc(row)) is not None and now != right
    ]
    first = min(changed, key=lambda s: (len(s), s), default=None)
    return {
        "changed": _listed(changed),
        "changed_size": len(first) if first else None,
        "flipped": _listed(flipped) if right is not None else None,
        "flipped_size": min(map(len, flipped), default=None),
        "is_judged": right is not None,
        "original": answer_text(base),
        "perturbed": answer_text(answers[first]) if first else None,
        "n": len(answers),
    }


def _acc(row: Mapping[str, Any]) -> float | None:
    """1 for a right answer, 0 for a wrong one, None where it was not judged."""
    found: float | None = {"acc": row.get("acc"), **(row.get("scores") or {})}["acc"]
    return found


def _first(sample: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The first repeat with a text."""
    rows = sorted(sample.get("rows", ()), key=lambda row: row["repeat"])
    return next((row for row in rows if row.get("text") is not None), None)


def _listed(sets: Sequence[tuple[int, ...]]) -> str:
    size = min(map(len, sets), default=0)
    smallest = sorted(s for s in sets if len(s) == size)
    return ", ".join("+".join(map(str, s)) for s in smallest) or NEVER


def words(text: str) -> list[str]:
    """The words of a text, without case and punctuation."""
    return re.findall(r"\w+", text.casefold())
