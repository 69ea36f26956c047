"""Every number of an entry against the same number made again from its samples."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tcb_bench.leaderboards.check_samples import Read
from tcb_bench.leaderboards.entry import Entry, EntryCondition, EntryMetric
from tcb_bench.leaderboards.known import KnownTask
from tcb_bench.leaderboards.recompute import recomputed
from tcb_bench.leaderboards.untrusted import shown
from tcb_bench.results import digest

TOLERANCE = 1e-9
ROUNDING = 1e-12  # of the metric's value: an interval or error below it is what rounding leaves
PARTS = ("value", "ci_low", "ci_high", "stderr")
CHOOSES_PLACES = ":"  # in a perturbation's name: documents without that place are left out


def count_problems(entry: Entry, read: Read) -> Iterator[str]:
    """Lines, responses, states, tokens and flags against those of the samples."""
    for name, given, there in (
        ("samples.rows", entry.samples.rows, read.lines),
        ("samples.responses", entry.samples.responses, read.responses),
    ):
        if given != there:
            yield f"{name} is {given}; the samples have {there}"
    listed = [condition.id for condition in entry.conditions]
    for cell in sorted(read.cells.keys() - set(listed)):
        yield f"samples: condition {shown(cell)} is none of the entry's"
    for condition in entry.conditions:
        if condition.id not in read.cells:
            yield f"condition {shown(condition.id)} has no samples"
            continue
        yield from _cell_counts(condition, read)
    if entry.usage is not None:
        for name, given in entry.usage.model_dump().items():
            low, high = read.least_tokens[name], read.tokens[name]
            if read.bills:  # an API: one bill may cover several responses
                low = high = read.bills[name]
            if given is not None and not low <= given <= high:
                between = f"{high}" if low == high else f"from {low} to {high}"
                yield f"usage.{name} is {given}; the samples have {between}"


def _cell_counts(condition: EntryCondition, read: Read) -> Iterator[str]:
    cell = read.cells[condition.id]
    place = f"condition {shown(condition.id)}: " if condition.id else ""
    for state, given in condition.counts.model_dump().items():
        if given != cell.states[state]:
            yield f"{place}counts.{state} is {given}; the samples have {cell.states[state]}"
    if dict(cell.text_flags) != (condition.text_flags or {}):
        yield f"{place}text_flags differ from those of the samples"
    changes = condition.perturbation
    if (changes is not None) != cell.is_changed:
        yield f"{place}perturbation is in one of entry and samples only"
    elif changes is not None:
        is_same = changes.flags == dict(cell.flags) and changes.counts.keys() == cell.counts.keys()
        if not is_same or any(
            not math.isclose(value, cell.counts[name], rel_tol=TOLERANCE)
            for name, value in changes.counts.items()
        ):
            yield f"{place}perturbation differs from the sum over the samples"


def data_problems(entry: Entry, read: Read, known: KnownTask | None) -> Iterator[str]:
    """data.sha256 from the samples' ids and hashes, and the same documents in every condition."""
    yield from _hashes(entry, read)
    if known is None:
        return
    if read.repeats and read.repeats != {known.repeats}:
        there = ", ".join(map(str, sorted(read.repeats)))
        yield f"samples have {there} repeats; {known.name} asks {known.repeats} times"
    whole: dict[tuple[Any, ...], set[tuple[str, str]]] = {}
    for condition in entry.conditions:
        if condition.id in read.cells:
            own = tuple(condition.axes.get(axis) for axis in known.document_axes)
            whole.setdefault(own, set()).update(read.cells[condition.id].asked)
    parts: dict[tuple[Any, ...], set[tuple[str, str]]] = {}
    for condition in entry.conditions:
        if condition.id not in read.cells:
            continue
        own = tuple(condition.axes.get(axis) for axis in known.document_axes)
        places = tuple(v for v in condition.axes.values() if CHOOSES_PLACES in str(v))
        asked = read.cells[condition.id].asked
        wanted = parts.setdefault((own, places), asked if places else whole[own])
        if asked != wanted:
            some = min((asked ^ wanted), default=("", ""))[1]
            yield (
                f"condition {shown(condition.id)}: asks {len(asked)} questions, others of its kind "
                f"{len(wanted)}; they differ in {shown(some)}"
            )


def _hashes(entry: Entry, read: Read) -> Iterator[str]:
    data = entry.data
    names = list(data.members) if data.members else [entry.task.name]
    other = read.drawn.keys() - set(names)
    if other:
        yield f"samples: task {shown(min(other))} is none of the entry's"
    hashes = {}
    for name in names:
        pairs = sorted([one, sha256] for one, sha256 in read.drawn.get(name, {}).items())
        hashes[name] = digest(pairs)
        if data.members and data.members[name].sha256 != hashes[name]:
            yield f"data.members.{name}.sha256 is not that of the samples' ids and hashes"
    if data.members:
        wanted = digest([member.sha256 for member in data.members.values()])
        available = sum(member.available for member in data.members.values())
        if available != data.available:
            yield f"data.available is {data.available}; its members have {available}"
    else:
        wanted = hashes[names[0]]
    there = {one for own in read.drawn.values() for one in own}
    if data.ids is not None and set(data.ids) > there:
        return  # documents of conditions that were not asked are in the hash too
    if data.sha256 != wanted:
        yield f"data.sha256 is {data.sha256}; ids and hashes of the samples give {wanted}"


def metric_problems(entry: Entry, read: Read) -> Iterator[str]:
    """Every aggregate with its interval, of each condition and of all, to 1e-9.

    Names that are missing or extra, direction and unit are compared too.
    """
    cells = {cell: found.documents for cell, found in read.cells.items()}
    ordered = {c.id: cells[c.id] for c in entry.conditions if c.id in cells}
    overall, conditions = recomputed(
        ordered, is_group=entry.data.members is not None, seed=entry.seed or 0
    )
    for key in ("metrics", "metrics_completed"):
        yield from _compare(getattr(entry, key), overall[key], key)
        for condition in entry.conditions:
            if condition.id in conditions:
                place = f"condition {shown(condition.id)}: {key}" if condition.id else f"..{key}"
                made = conditions[condition.id][key]
                yield from _compare(getattr(condition, key), made, place)


def _compare(
    given: Sequence[EntryMetric], made: Sequence[EntryMetric], place: str
) -> Iterator[str]:
    mine, theirs = _by_name(given), _by_name(made)
    if len(mine) != len(given):
        yield f"{place}: a name stands there twice"
    if lost := theirs.keys() - mine.keys():
        yield f"{place}: {', '.join(sorted(lost))} missing; the samples give them"
    if more := mine.keys() - theirs.keys():
        yield f"{place}: {', '.join(map(shown, sorted(more)))} not given by the samples"
    for name in (name for name in mine if name in theirs):
        yield from _differences(mine[name], theirs[name], f"{place}.{name}")


def _by_name(metrics: Sequence[EntryMetric]) -> Mapping[str, EntryMetric]:
    return {metric.name: metric for metric in metrics}


def _differences(mine: EntryMetric, made: EntryMetric, place: str) -> Iterator[str]:
    rounding = ROUNDING * max(1.0, abs(made.value or 0.0))
    for part in PARTS:
        given, wanted = getattr(mine, part), getattr(made, part)
        if not _are_close(given, wanted, rounding):
            said, true = ("null" if v is None else f"{v:.12g}" for v in (given, wanted))
            yield f"{place}: {part} is {said}; the samples give {true}"
    for part in ("n", "higher_is_better", "unit", "interval"):
        given, wanted = getattr(mine, part), getattr(made, part)
        if given != wanted:
            yield f"{place}: {part} is {shown(given)}; expected {shown(wanted)}"


def _are_close(given: float | None, wanted: float | None, rounding: float) -> bool:
    if given is None or wanted is None:
        return given is wanted
    return math.isclose(given, wanted, rel_tol=TOLERANCE, abs_tol=rounding)
