"""What an entry says of itself: names, settings and signature that must agree with each other."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator
from datetime import date
from urllib.parse import urlsplit

from tcb_bench.conditions import value_text
from tcb_bench.errors import DataError, UnknownName, UsageError
from tcb_bench.leaderboards.entry import Entry
from tcb_bench.leaderboards.entry_files import SAFE, folder_name
from tcb_bench.leaderboards.known import KnownTask, KnownTasks
from tcb_bench.leaderboards.untrusted import shown
from tcb_bench.selection import limit_size

MAX_NAME = 200  # characters of a model id or a task name
PARTS = {
    *("task", "v", "model", "backend", "data", "shots", "chat", "sampling", "gen", "limit"),
    *("seed", "eps", "metric", "tcb-bench"),
}
"""Parts that every signature of ours has."""


def entry_problems(entry: Entry, known: KnownTasks | None) -> Iterator[str]:
    """Where an entry contradicts itself or the task's own file, without its samples.

    Args:
        entry: the entry.
        known: tasks by name; None = names, versions and settings of tasks are not checked.
    """
    yield from _names(entry)
    yield from _links(entry)
    if entry.origin != "tcb-bench":
        return
    yield from _numbers(entry)
    yield from signature_problems(entry)
    yield from _conditions(entry)
    if known is not None:
        yield from _task(entry, known)


def _names(entry: Entry) -> Iterator[str]:
    try:
        folder_name(entry.model.id)
    except DataError as error:
        yield shown(error, 300)
    for label, name in (("model.id", entry.model.id), ("task.name", entry.task.name)):
        if len(name) > MAX_NAME:
            yield f"{label}: {len(name)} characters; at most {MAX_NAME} are allowed"
    if not SAFE.fullmatch(entry.task.name):
        yield f"task.name {shown(entry.task.name)}: expected letters, digits and . _ + -"
    file = entry.samples.file
    if file is not None and file != f"{entry.task.name}.samples.jsonl.gz":
        yield f"samples.file is {shown(file)}; expected {entry.task.name}.samples.jsonl.gz"
    for label, day in (("date", entry.date), ("verification.date", _verified_on(entry))):
        if day is not None and not _is_day(day):
            yield f"{label} is {day}, which is no day"


def _verified_on(entry: Entry) -> str | None:
    return entry.verification.date if entry.verification else None


def _is_day(text: str) -> bool:
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True


def _links(entry: Entry) -> Iterator[str]:
    addresses = [("links", link) for link in entry.links]
    addresses += [("samples.url", entry.samples.url)] if entry.samples.url else []
    for label, address in addresses:
        try:
            parts = urlsplit(address)
            is_good = parts.scheme == "https" and bool(parts.hostname) and "@" not in parts.netloc
        except ValueError:
            is_good = False
        if not is_good or re.search(r"[\s<>\"'\\]", address):
            yield f"{label}: {shown(address)} is no https address without credentials"


def _numbers(entry: Entry) -> Iterator[str]:
    """Settings in their range, counts that add up."""
    if not is_limit(entry.limit):
        yield f"limit is {entry.limit}; expected null, a whole number >= 1 or a share below 1"
    if entry.seed is not None and not 0 <= entry.seed < 2**63:
        yield f"seed is {entry.seed}; expected 0 to 2^63 - 1"
    if entry.weight_radius is not None and not entry.weight_radius > 0:
        yield f"weight_radius is {entry.weight_radius:g}; expected a length > 0, or null"
    total = entry.counts.model_dump() if entry.counts else {}
    for state, count in total.items():
        there = sum(getattr(condition.counts, state) for condition in entry.conditions)
        if there != count:
            yield f"counts.{state} is {count}; the conditions have {there}"
    if sum(total.values()) != entry.samples.responses:
        yield (
            f"samples.responses is {entry.samples.responses}; counts add up to "
            f"{sum(total.values())}"
        )
    if not entry.is_partial and (entry.missing or total.get("error")):
        yield "is_partial is false, but something is missing or failed: see missing, counts.error"


def is_limit(limit: float | None) -> bool:
    """Whether a number is a ``--limit``."""
    try:
        limit_size(limit, 1)
    except UsageError:
        return False
    return True


def signature_problems(entry: Entry) -> Iterator[str]:
    """The signature is its parts joined, and every part says what the entry's fields say."""
    parts = entry.signature_parts
    if entry.signature != "|".join(f"{name}:{value}" for name, value in parts.items()):
        yield "signature is not its signature_parts joined as name:value with |"
    for name in sorted(PARTS - parts.keys()):
        yield f"signature_parts: {name} is missing"
    for name, wanted in _expected_parts(entry).items():
        given = parts.get(name)
        if given != wanted and (given is not None or wanted is not None):
            yield f"signature_parts.{name} is {shown(given)}; the fields say {shown(wanted)}"


def _expected_parts(entry: Entry) -> dict[str, str | None]:
    model, data, reference = entry.model, entry.data, entry.reference
    expected: dict[str, str | None] = {
        "task": entry.task.name,
        "v": str(entry.task.version),
        "model": model.id,
        "rev": model.revision,
        "backend": model.backend,
        "dtype": model.dtype,
        "weights": (model.weights_sha256 or "")[:8] or None,
        "shots": str(entry.n_shot),
        "sampling": entry.sampling_defaults,
        "limit": "all" if entry.limit is None else f"{entry.limit:g}",
        "seed": str(entry.seed),
        "eps": f"{entry.epsilon:g}",
        "text": entry.text_scores,
        "tcb-bench": entry.environment.get("tcb-bench"),
    }
    mark = f"{data.source}@{(data.revision or data.sha256 or '')[:12]}"
    is_chosen = data.revision and data.strata
    expected["data"] = f"{mark}#{(data.sha256 or '')[:8]}" if is_chosen else mark
    if reference is not None:
        origin = reference.generator or "data"
        expected["ref"] = f"{reference.kind}@{origin}:{(reference.sha256 or '')[:8]}"
        expected["bert"] = (entry.bert_score or "none").replace(" ", "_")
    else:
        expected |= {"ref": None, "bert": None}
    return expected


def _conditions(entry: Entry) -> Iterator[str]:
    """Ids are the axes written out, each once; the means name no condition that is not there."""
    seen: set[str] = set()
    for condition in entry.conditions:
        wanted = ",".join(f"{axis}={value_text(v)}" for axis, v in condition.axes.items())
        if condition.id != wanted:
            yield f"condition {shown(condition.id)}: its axes give the id {shown(wanted)}"
        if condition.id in seen:
            yield f"condition {shown(condition.id)} stands there twice"
        seen.add(condition.id)
    if len({tuple(c.axes) for c in entry.conditions}) > 1:
        yield "conditions: they have different axes"
    if len({c.temperature_effective for c in entry.conditions}) > 1:
        yield "conditions: they differ in temperature_effective, which is the model's"


def _task(entry: Entry, known: KnownTasks) -> Iterator[str]:
    task = known.get(entry.task.name)
    if task is None:
        hint = "`tcb-bench ls tasks` shows all"
        yield shown(UnknownName("task", entry.task.name, known, hint), 300)
        return
    if is_older(entry, known):
        return
    if entry.task.version != task.version:
        yield f"task.version is {shown(entry.task.version)}; {task.name} has {task.version} here"
    members = list(entry.data.members or {})
    if task.members:
        yield from _members(entry, task, members)
    elif members:
        yield f"data.members: {task.name} is no group"
    leaves = [known[name] for name in members if name in known] if members else [task]
    for leaf in leaves[:1]:
        yield from _settings(entry, leaf)


def is_older(entry: Entry, known: KnownTasks) -> bool:
    """Whether the entry is of an earlier version of its task, which no YAML describes now."""
    task = known.get(entry.task.name)
    versions = (entry.task.version, task.version if task else None)
    then, now = (v if isinstance(v, int | float) else None for v in versions)
    return then is not None and now is not None and 0 < then < now


def _members(entry: Entry, task: KnownTask, members: list[str]) -> Iterator[str]:
    other = [name for name in members if name not in task.members]
    lost = [name for name in task.members if name not in members]
    if other:
        yield f"data.members: {shown(other[0])} is no task of {task.name}"
    if members != [name for name in task.members if name in members] and not other:
        yield f"data.members: expected the order of {task.name}"
    if lost and not (entry.is_partial and set(lost) <= set(entry.missing)):
        yield (
            f"data.members: {len(lost)} tasks of {task.name} are not there, such as {lost[0]}; "
            "expected is_partial and their names in missing"
        )


def _settings(entry: Entry, task: KnownTask) -> Iterator[str]:
    """Settings that no option of a run changes: they are the task's."""
    data, source = entry.data, entry.data.source
    if task.data_id is not None and (data.id, data.split) != (task.data_id, task.split):
        yield f"data is {shown(data.id)} {shown(data.split)}; expected {task.data_id} {task.split}"
    revision = task.revision if source == "hub" else None
    if data.revision != revision:
        yield f"data.revision is {shown(data.revision)}; expected {revision} for source {source}"
    if entry.epsilon is not None and not math.isclose(entry.epsilon, task.epsilon):
        yield f"epsilon is {entry.epsilon:g}; {task.name} has {task.epsilon:g}"
    if entry.sampling_defaults != task.sampling_defaults:
        yield f"sampling_defaults is {entry.sampling_defaults}; expected {task.sampling_defaults}"
    axes = list(entry.conditions[0].axes) if entry.conditions else []
    if axes != list(task.axes):
        yield f"conditions: axes {', '.join(map(shown, axes)) or 'none'}; expected " + (
            ", ".join(task.axes) or "none"
        )
        return
    there = {condition.id for condition in entry.conditions}
    every = [
        ",".join(f"{a}={value_text(v)}" for a, v in zip(task.axes, cell, strict=True))
        for cell in itertools.product(*task.axes.values())
    ]
    lost = [cell for cell in every if cell not in there]
    if lost and not entry.is_partial:
        yield (
            f"conditions: {len(lost)} of {task.name} are not there, such as {lost[0]}; "
            "expected is_partial"
        )
