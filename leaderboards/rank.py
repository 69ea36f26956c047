"""The leaderboards as data: entries that can be compared, with ranges of ranks.

Columns, groups and ranks are what the pages show and what anyone can read from Python:

    boards(load_entries(Path("leaderboards/entries")))
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tcb_bench.leaderboards.boards import Board, BoardColumn, BoardGroup, BoardRow, Cell
from tcb_bench.leaderboards.columns import Columns, read_columns
from tcb_bench.leaderboards.comparable import (
    Comparable,
    comparable,
    conflicts,
    differing,
    shown,
    title,
)
from tcb_bench.leaderboards.entry_files import Loaded
from tcb_bench.leaderboards.rank_facts import facts_of, tier_of
from tcb_bench.leaderboards.rank_measures import Measure, measures_of
from tcb_bench.leaderboards.rank_questions import QuestionTable, question_cells
from tcb_bench.leaderboards.rank_reported import reported_rows
from tcb_bench.leaderboards.rank_sweep_model import model_table
from tcb_bench.leaderboards.rank_sweeps import score_of, sweep_cells, sweep_columns

TITLES = {
    "mmlu_tcb": "MMLU-TCB",
    "gsm8k_tcb": "GSM8K-TCB",
    "hotpotqa_tempperturb": "HotpotQA-TempPerturb",
}
"""Boards that are always there, in this order; those of other tasks follow by name."""

NOTE = (
    "Models are compared within a group only: all of its rows answered the same documents with the "
    "same prompt, shots, sampling, reference and metrics. Intervals are 95 % bootstrap intervals "
    "over questions. A rank is a range: a model lies above another where their difference on the "
    "questions both have, with the standard error of the paired bootstrap, is significant at 5 % "
    "for all pairs of the column together (Holm); from 1 + the models above to all - the models "
    "below. Where samples are elsewhere, intervals that do not overlap decide, widened likewise."
)


def boards(loaded: Sequence[Loaded], *, seed: int = 0) -> list[Board]:
    """The boards of all entries: MMLU-TCB, GSM8K-TCB, HotpotQA-TempPerturb, then other tasks.

    Args:
        loaded: entries with their paths, as `entry_files.load_entries` gives them.
        seed: of the resamples behind ranks and the intervals of curves; >= 0.

    Raises:
        DataError: a sample file cannot be read.

    Cost: a second per 70,000 sample rows, and per column of M models with Q questions O(M^2 Q).
    Samples are read one entry at a time; an (M, Q) table per column stays.
    """
    tasks = sorted({one.entry.task.name for one in loaded} - TITLES.keys())
    return [
        _board(task, [one for one in loaded if one.entry.task.name == task], seed)
        for task in [*TITLES, *tasks]
    ]


def _board(task: str, loaded: Sequence[Loaded], seed: int) -> Board:
    entries = [one.entry for one in loaded]
    score = "bertscore_f1" if task == "hotpotqa_tempperturb" else score_of(entries)
    measures = [] if score else measures_of(task, entries)
    columns = sweep_columns(entries, score) if score else [m.column for m in measures]
    groups = comparable(loaded)
    return Board(
        name=task,
        title=TITLES.get(task, task),
        note=NOTE,
        columns=columns,
        groups=[_group(g, groups[0], columns, measures, score=score, seed=seed) for g in groups],
        reported=reported_rows(task),
        conflicts=conflicts(groups),
    )


def _group(
    group: Comparable,
    largest: Comparable,
    columns: Sequence[BoardColumn],
    measures: Sequence[Measure],
    *,
    score: str | None,
    seed: int,
) -> BoardGroup:
    facts: list[dict[str, str]]
    if score is None:
        cells, facts = _question_group(group.loaded, measures, seed)
    else:
        cells, facts = _sweep_group(group.loaded, columns, score, seed)
    rows = [
        BoardRow(
            model=one.entry.model.id,
            tier=tier_of(one.entry),
            entry=f"{one.path.parent.name}/{one.path.name}",
            facts=facts[i],
            cells=cells[i],
        )
        for i, one in enumerate(group.loaded)
    ]
    return BoardGroup(
        key=group.key,
        title=title(group.settings, differing(group.settings, largest.settings)),
        settings=shown(group.settings),
        rows=sorted(rows, key=lambda row: _order(row, columns[0])),
    )


def _question_group(
    loaded: Sequence[Loaded], measures: Sequence[Measure], seed: int
) -> tuple[list[dict[str, Cell]], list[dict[str, str]]]:
    table, facts = QuestionTable(measures), []
    for one in loaded:
        columns = _columns(one)
        table.add(columns)
        facts.append(facts_of(one.entry, None if columns is None else len(columns.questions)))
    return question_cells([one.entry for one in loaded], table, measures, seed=seed), facts


def _sweep_group(
    loaded: Sequence[Loaded], columns: Sequence[BoardColumn], score: str, seed: int
) -> tuple[list[dict[str, Cell]], list[dict[str, str]]]:
    tables, facts = [], []
    for one in loaded:
        found = _columns(one)
        tables.append(model_table(found, one.entry, score))
        facts.append(facts_of(one.entry, None if found is None else len(found.questions)))
    entries = [one.entry for one in loaded]
    cells, more = sweep_cells(entries, tables, columns, score=score, seed=seed)
    return cells, [own | added for own, added in zip(facts, more, strict=True)]


def _columns(one: Loaded) -> Columns | None:
    path = one.samples
    return read_columns(path) if path is not None and path.exists() else None


def _order(row: BoardRow, column: BoardColumn) -> tuple[bool, float, str]:
    """The best value of the first column first, rows without one last, ties by model."""
    value = _value(row.cells, column)
    sign = 1.0 if column.higher_is_better is False else -1.0
    return value is None, sign * (value or 0.0), row.model


def _value(cells: Mapping[str, Cell], column: BoardColumn) -> float | None:
    return cells[column.key].value if column.key in cells else None
