"""Which entries of a task can be compared: they asked the same of every model.

Numbers stand side by side only where documents, prompt, shots, sampling, reference and metrics are
the same. What differs between models by their nature (dtype, quantisation, back end, the words of
a chat template) is shown in each row and does not separate. Nor does epsilon: relative_delta is
linear in it, and boards show all of them at epsilon 1.

An entry imported from another harness stands with its like: what was asked is known by the hash
that lm-eval takes over documents and prompts, and where that is missing too the entry is shown and
not ranked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tcb_bench.leaderboards.entry import Entry
from tcb_bench.leaderboards.entry_files import Loaded
from tcb_bench.results import digest

NONE = "none"
UNKNOWN = "not known"
_SHOWN = 12  # digits of a hash


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparable:
    """Entries that agree in all of ``settings``; ``key`` is a short hash of these."""

    key: str
    settings: Mapping[str, str]
    loaded: Sequence[Loaded]


def comparable(loaded: Sequence[Loaded]) -> list[Comparable]:
    """Groups of entries of one task, the largest first, then by key; entries by their path."""
    groups: dict[str, list[Loaded]] = {}
    settings: dict[str, Mapping[str, str]] = {}
    for one in sorted(loaded, key=lambda one: one.path.as_posix()):
        found = must_agree(one.entry)
        key = digest(found)[:10]
        settings[key] = found
        groups.setdefault(key, []).append(one)
    order = sorted(groups, key=lambda key: (-len(groups[key]), key))
    return [Comparable(key=k, settings=settings[k], loaded=groups[k]) for k in order]


def must_agree(entry: Entry) -> dict[str, str]:
    """What two entries of a task must have in common, name -> value in full.

    ``prompt`` is the hash of what each condition asks any model, in the order of the conditions.
    Where a task leaves sampling to the model (``sampling defaults: model``) each model's own
    parameters belong to it and do not separate.
    """
    parts = entry.signature_parts
    is_own = entry.sampling_defaults == "model"
    return {
        "result of": entry.origin,
        "task version": str(entry.task.version),
        **_data(entry),
        "limit": "all" if entry.limit is None else f"{entry.limit:g}",
        "seed": parts.get("seeds", UNKNOWN) if entry.seed is None else str(entry.seed),
        "conditions": str(len(entry.conditions)),
        "prompt": _prompt(entry),
        "shots": UNKNOWN if entry.n_shot is None else str(entry.n_shot),
        "chat template": "no" if parts.get("chat", "no") == "no" else "yes",
        "shots as turns": parts.get("turns", "no"),
        "system instruction": parts.get("system", NONE),
        "sampling defaults": entry.sampling_defaults or UNKNOWN,
        "sampling": "each model's own" if is_own else parts.get("gen", NONE),
        "reference": _reference(entry),
        "metric version": parts.get("metric", NONE),
        "BERTScore": entry.bert_score or NONE,
        "text scores": entry.text_scores or NONE,
    }


def shown(settings: Mapping[str, str]) -> dict[str, str]:
    """The settings for reading: hashes cut, and what a task does not have left out."""
    usual = {
        **{"result of": "tcb-bench", "shots as turns": "no"},
        **dict.fromkeys(("system instruction", "reference", "BERTScore", "text scores"), NONE),
    }
    absent = {name for name, value in usual.items() if settings[name] == value}
    return {name: _cut(value) for name, value in settings.items() if name not in absent}


def title(settings: Mapping[str, str], differing: Sequence[str] = ()) -> str:
    """One line: data, shots, chat; then what sets the group apart from the largest one."""
    where = settings["data"]
    version = _cut(settings["data revision"])
    line = f"{where}, {version}, {settings['shots']}-shot"
    line += ", chat template" if settings["chat template"] == "yes" else ""
    line += (
        "" if settings["result of"] == "tcb-bench" else f", imported from {settings['result of']}"
    )
    named = ("data", "data revision", "shots", "chat template", "result of")
    others = [f"{name} {_cut(settings[name])}" for name in differing if name not in named]
    return "; ".join([line, *others])


def differing(one: Mapping[str, str], other: Mapping[str, str]) -> list[str]:
    """Names of the settings in which two groups differ."""
    return [name for name in one if one[name] != other[name]]


def conflicts(groups: Sequence[Comparable]) -> list[str]:
    """In words, why each group stands apart from the first."""
    found = []
    for group in groups[1:]:
        names = differing(group.settings, groups[0].settings)
        reasons = [
            f"{name} ({_cut(group.settings[name])}, not {_cut(groups[0].settings[name])})"
            for name in names
        ]
        found.append(
            f"Group {group.key} is not compared with {groups[0].key}: other {', '.join(reasons)}."
        )
    return found


def is_known(entry: Entry) -> bool:
    """Whether it is known what the model was asked."""
    return _prompt(entry) != UNKNOWN


def _prompt(entry: Entry) -> str:
    if entry.conditions:
        return digest(sorted([cell.id, cell.request_sha256] for cell in entry.conditions))
    return entry.signature_parts.get("data", UNKNOWN)


def _data(entry: Entry) -> dict[str, str]:
    data = entry.data
    where = [data.id, data.config, data.split]
    if data.source is None:
        revision = data.revision or UNKNOWN
    else:
        revision = f"{data.source}@{data.revision}" if data.revision else f"{data.source} files"
    return {
        "data": " ".join(part for part in where if part),
        "data revision": revision,
        "documents": data.sha256 or UNKNOWN,
    }


def _reference(entry: Entry) -> str:
    reference = entry.reference
    if reference is None:
        return NONE
    by = f" by {reference.generator}" if reference.generator else ""
    return f"{reference.kind}{by} {reference.sha256 or ''}".strip()


def _cut(value: str) -> str:
    """Long hexadecimal words to their first digits."""
    words = []
    for word in value.split(" "):
        head, at, tail = word.rpartition("@")
        is_hash = len(tail) >= 32 and all(c in "0123456789abcdef" for c in tail)
        words.append(head + at + (tail[:_SHOWN] if is_hash else tail))
    return " ".join(words)
