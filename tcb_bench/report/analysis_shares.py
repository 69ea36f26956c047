"""Which of temperature, context and question type moves the scores of a model, and how much?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tcb_bench.metrics.variance_shares import SOURCES, variance_shares
from tcb_bench.report.analysis_cells import Settings, by_model, spread, spread_columns
from tcb_bench.report.grid import Floats, Grid
from tcb_bench.report.table import Column, Row, Table

NOTE = (
    "{metric}. Share of the total sum of squares (eta squared) in the analysis of variance of "
    "question type x temperature x context, questions within their type, runs within cells; the "
    "shares of a model sum to 1. Only questions with every score enter (n; the others are left "
    "out), conditions without any score are left out before. 'question' is how questions differ "
    "in all conditions alike, 'question x condition' what conditions do to single questions, "
    "'run' the noise between runs. {level:.0%} intervals by bootstrap of questions within their "
    "type; noise alone gives every source a small share above 0."
)
MOST = 2_000  # resamples of the decomposition; shares need no more


def shares_table(grids: Sequence[Grid], settings: Settings) -> Table:
    """Rows per model: every source of variance with its share, largest factor first as defined."""
    note = NOTE.format(metric=settings.metric, level=1 - settings.alpha)
    columns = [
        Column("model", "model"),
        Column("source", "source"),
        *spread_columns("share", "share"),
        Column("n", "n"),
        Column("n_left_out", "left out"),
    ]
    rows = [row for same in by_model(grids) for row in _rows(same, settings)]
    return Table("variance_shares", "Shares of variance", note, columns, rows)


def _rows(grids: Sequence[Grid], settings: Settings) -> list[Row]:
    tables = _balanced(grids, settings.metric)
    options = {**settings.bootstrap, "resamples": min(settings.resamples, MOST)}
    row: dict[str, Any] = {"model": grids[0].model}
    if tables is None:
        reason = "the question types share no complete temperatures and contexts"
        nothing = {"share": None, "n": 0, "n_left_out": 0, "reason": reason}
        return [{**row, "source": source, **nothing} for source in SOURCES]
    found = variance_shares(tables, weights=[grid.weights for grid in grids], **options)
    counts = {"n": found.n, "n_left_out": found.n_left_out}
    if found.shares[SOURCES[0]].value is None:
        row["reason"] = _why(found.n)
    return [
        {**row, "source": source, **spread(share, "share"), **counts}
        for source, share in found.shares.items()
    ]


def _why(n: int) -> str:
    return "the scores do not vary" if n else "no question has every score"


def _balanced(grids: Sequence[Grid], metric: str) -> list[Floats] | None:
    """Each type's (T, C, Q, R) scores of the conditions and runs that all of them have."""
    first = grids[0]
    if any(
        list(g.temperatures) != list(first.temperatures) or list(g.contexts) != list(first.contexts)
        for g in grids
    ):
        return None
    runs = min(g.scores[metric].shape[3] for g in grids)
    tables = [g.scores[metric][..., :runs] for g in grids]
    asked = np.all([~np.isnan(table).all(axis=(2, 3)) for table in tables], axis=0)  # (T, C)
    contexts = asked.any(axis=0)
    temperatures = asked[:, contexts].all(axis=1)
    if not temperatures.any() or not contexts.any():
        return None
    return [table[temperatures][:, contexts] for table in tables]
