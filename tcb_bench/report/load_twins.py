"""The samples that two runs of a pair share, and whether their predictions are the same point."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from tcb_bench.metrics.answers import final_number
from tcb_bench.models.positions import RULES
from tcb_bench.report.load_pairs import Pair
from tcb_bench.report.load_run import Cell
from tcb_bench.report.load_samples import HAS_SCORES, read_sample
from tcb_bench.responses import answer_text
from tcb_bench.task_spec import POSITIONS

Row = Mapping[str, Any]
Sample = Mapping[str, Any]


class Point(Enum):
    """How the predictions of two rows compare.

    SAME: both follow the same prompt and text. OTHER: they follow different texts, so what differs
    is the question, not the precision. NONE: there is nothing measured to compare.
    """

    SAME = "same"
    OTHER = "other"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Twins:
    """The same repeat of the same document in both runs.

    Attributes:
        reference, other: the rows.
        point: whether they predict from the same text.
        answers: what each answered: a letter, a number or a text; None where no answer is read.
    """

    reference: Row
    other: Row
    point: Point
    answers: tuple[Any, Any]


def twins(pair: Pair) -> Iterator[Twins]:
    """Rows with an answer in both runs; of repeats that both copied at T = 0 only the first."""
    for name in pair.members:
        if name not in pair.reference.tasks or name not in pair.other.tasks:
            continue
        first, second = pair.reference.tasks[name], pair.other.tasks[name]
        rule = _rule(first.config)
        for condition, cell in first.cells.items():
            if condition in second.cells:
                for a, b in _samples(cell, second.cells[condition]):
                    yield from _rows(a, b, rule)


def _samples(first: Cell, second: Cell) -> Iterator[tuple[Sample, Sample]]:
    """The samples of the documents that both conditions have, read one by one."""
    if first.samples is None or second.samples is None:
        return
    there = second.samples.places
    for document, place in first.samples.places.items():
        if document in there:
            yield read_sample(place), read_sample(there[document])


def _rule(config: Mapping[str, Any]) -> str | None:
    """Where a task measures: ``prompt_end`` or a rule of positions; None for nowhere."""
    tcb = config.get("tcb") or {}
    default = POSITIONS.get(tcb.get("request") or "", ())
    found: str | None = tcb.get("position") or (default[0] if default else None)
    return found


def _rows(a: Sample, b: Sample, rule: str | None) -> Iterator[Twins]:
    repeats = {row["repeat"]: row for row in b["rows"]}
    for row in a["rows"]:
        twin = repeats.get(row["repeat"])
        if twin is None or not HAS_SCORES.issuperset((row["state"], twin["state"])):
            continue
        if row.get("reused_from") and twin.get("reused_from"):
            continue
        before = _before(a, row, rule), _before(b, twin, rule)
        if None in before and (before[0] == before[1] or row.get("text") == twin.get("text")):
            point = Point.NONE
        else:
            point = Point.SAME if before[0] == before[1] else Point.OTHER
        yield Twins(row, twin, point, (_answer(row, rule), _answer(twin, rule)))


def _before(sample: Sample, row: Row, rule: str | None) -> tuple[Any, ...] | None:
    """What a prediction was made after: document, prompt, text and tokens; None without one.

    Counts of tokens are in it, for one text can be cut into tokens in two ways.
    """
    if not row.get("stability"):
        return None
    given = (sample.get("doc_sha256"), sample.get("prompt"), row.get("prompt_tokens"))
    if rule not in RULES:
        return given
    text = row.get("text") or ""
    start = row.get("reasoning_chars", 0)  # the rule sees what follows the reasoning
    span = RULES[rule][1](text[start:])
    if span is None:
        return None
    return (*given, text[: start + span[0]], row["stability"].get("critical_token"))


def _answer(row: Row, rule: str | None) -> Any:
    """What was answered; a number by its value, so that 1,000 is 1000."""
    if rule != "final_number":
        return row.get("answer")
    number = final_number(answer_text(row) or "")
    return number.value if number else None
