"""How far a model's numbers move with its dtype or back end: the report's precision note."""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tcb_bench.report.grid import Floats
from tcb_bench.report.load_pairs import Pair, model_name, pairs, setting
from tcb_bench.report.load_run import Run
from tcb_bench.report.load_twins import Point, Twins, twins
from tcb_bench.report.table import Column, Row, Table

QUANTITIES = (
    *("delta_tcb", "relative_delta", "flip_radius", "v_eff", "logit_margin", "p_top1"),
    *("choice_flip_radius", "choice_margin"),
)
WHO = (
    Column("model", "model"),
    Column("task", "task"),
    Column("reference", "reference"),
    Column("other", "compared with"),
)
NOTE = (
    "One model run twice: |a - b| / |reference| of each sample that both runs predict from the "
    "same text. The reference is the wider dtype, of equal dtypes the back end hf; p99 is the 99th "
    "percentile, interpolated; a margin or radius near 0 can differ by more than itself. What "
    "differs is the model's precision, not the method's: do not rank numbers of different dtype "
    "together."
)
SAMPLES_NOTE = (
    "Of the samples that both runs have, those with the same text before the prediction are "
    "compared. other text: left out, since prompts or generated texts part before the critical "
    "point. no point: neither has a prediction to measure, as where an answer holds no number. The "
    "shares are of compared samples: whose answer differs, and whose most likely token does."
)


@dataclass(slots=True)
class _Tally:
    """What the samples of one pair come to, gathered one by one: texts are not kept.

    Attributes:
        points: how many samples are compared, follow other texts, or have no point.
        values: quantity -> reference, other, reference, other, ... of the compared samples.
        known, unlike: ``answer`` or ``token`` -> compared samples that have it in both runs, and
            those of them where it differs.
    """

    points: Counter[Point] = field(default_factory=Counter)
    values: defaultdict[str, array[float]] = field(
        default_factory=lambda: defaultdict(lambda: array("d"))
    )
    known: Counter[str] = field(default_factory=Counter)
    unlike: Counter[str] = field(default_factory=Counter)

    def add(self, twin: Twins) -> None:
        """Counts a sample; its values only where both runs predict at the same point."""
        self.points[twin.point] += 1
        if twin.point is not Point.SAME:
            return
        stabilities = twin.reference["stability"], twin.other["stability"]
        for quantity in QUANTITIES:
            a, b = (values.get(quantity) for values in stabilities)
            if a is not None and b is not None:
                self.values[quantity].extend((a, b))
        tokens = (stabilities[0].get("top1_token"), stabilities[1].get("top1_token"))
        for name, couple in (("answer", twin.answers), ("token", tokens)):
            if None not in couple:
                self.known[name] += 1
                self.unlike[name] += couple[0] != couple[1]

    def share(self, name: str) -> float | None:
        """The share that differs; None where no sample has it in both runs."""
        return self.unlike[name] / self.known[name] if self.known[name] else None


def precision_tables(runs: Sequence[Run]) -> list[Table]:
    """Differences by quantity, and what was compared; none where no model was run twice.

    Rows hold fractions. A pair that cannot be compared has a row with its reason in the second.

    Args:
        runs: all runs of a report; two of one model are a pair where dtype or back end differs.

    Cost: each sample of a pair is read once more.
    """
    differences: list[Row] = []
    compared: list[Row] = []
    for pair in pairs(runs):
        whose = _identity(pair, runs)
        if pair.reason is not None:
            compared.append({**whose, "reason": pair.reason})
            continue
        tally = _Tally()
        for twin in twins(pair):
            tally.add(twin)
        differences += [{**whose, **row} for row in _differences(tally)]
        compared.append({**whose, **_counts(tally)})
    if not compared:
        return []
    return [_differences_table(differences), _samples_table(compared)]


def _differences_table(rows: Sequence[Row]) -> Table:
    columns = [
        *WHO,
        Column("quantity", "quantity"),
        *(Column(key, key, is_percent=True) for key in ("median", "p99", "max")),
        Column("n", "n"),
    ]
    title = "How far the numbers of one model lie apart"
    return Table("precision", title, NOTE, columns, rows)


def _samples_table(rows: Sequence[Row]) -> Table:
    columns = [
        *WHO,
        Column("samples", "samples"),
        Column("n", "compared"),
        Column("other_text", "other text"),
        Column("no_point", "no point"),
        Column("answer_differs", "answer differs", is_percent=True),
        Column("token_differs", "top token differs", is_percent=True),
    ]
    return Table("precision_samples", "What was compared", SAMPLES_NOTE, columns, rows)


def _identity(pair: Pair, runs: Sequence[Run]) -> dict[str, Any]:
    return {
        "model": model_name(pair.reference),
        "task": pair.task,
        "reference": _named(pair.reference, pair, runs),
        "other": _named(pair.other, pair, runs),
    }


def _named(run: Run, pair: Pair, runs: Sequence[Run]) -> str:
    """``float32, hf``; with the device where two differ, with the folder where a third is alike."""
    dtype, backend = setting(run.tasks[pair.task])
    devices = [(r.block.get("model") or {}).get("device") for r in (pair.reference, pair.other)]
    device = devices[run is pair.other] if devices[0] != devices[1] else None
    text = ", ".join(part for part in (dtype, backend, device) if part)
    alike = [
        other
        for other in runs
        if pair.task in other.tasks
        and model_name(other) == model_name(run)
        and setting(other.tasks[pair.task]) == (dtype, backend)
    ]
    return f"{text} [{run.folder}]" if len(alike) > 1 else text


def _differences(tally: _Tally) -> Iterator[dict[str, Any]]:
    """A row for each quantity that both runs have for at least one sample."""
    for quantity in QUANTITIES:
        values = np.array(tally.values[quantity], dtype=np.float64).reshape(-1, 2)
        if len(values):
            yield {"quantity": quantity, **_spread(values[:, 0], values[:, 1])}


def _spread(reference: Floats, other: Floats) -> dict[str, Any]:
    """Median, 99th percentile and maximum of |a - b| / |reference|, and n.

    Two zeros do not differ; a difference from a reference of 0 has no size and is left out.
    """
    apart = np.abs(reference - other)
    has_size = (reference != 0) | (apart == 0)
    size = np.where(reference == 0, 1.0, np.abs(reference))
    relative = (apart / size)[has_size]
    lost = int((~has_size).sum())
    row: dict[str, Any] = {"n": len(relative)}
    if lost:
        row["reason"] = f"{lost} left out, whose reference is 0"
    if not len(relative):
        return row | dict.fromkeys(("median", "p99", "max"))
    median, p99 = np.percentile(relative, (50, 99))
    return row | {"median": float(median), "p99": float(p99), "max": float(relative.max())}


def _counts(tally: _Tally) -> dict[str, int | float | None]:
    return {
        "samples": tally.points.total(),
        "n": tally.points[Point.SAME],
        "other_text": tally.points[Point.OTHER],
        "no_point": tally.points[Point.NONE],
        "answer_differs": tally.share("answer"),
        "token_differs": tally.share("token"),
    }
