"""What an entry says beside its numbers: settings, counts, what limits it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tcb_bench.leaderboards.columns import Columns
from tcb_bench.leaderboards.entry import Entry
from tcb_bench.leaderboards.render_numbers import NONE, count, significant
from tcb_bench.records import Counts

Pairs = list[tuple[str, str]]


def counted(counts: Counts | None) -> str:
    """The states that occur, with their counts; "" where they are not known.

    >>> counted(Counts(scored=8, truncated=2, empty=0, filtered=0, error=0, unscored=0))
    '8 scored, 2 truncated'
    """
    if counts is None:
        return ""
    found = [f"{count(n)} {state}" for state, n in counts.model_dump().items() if n]
    return ", ".join(found) or "none"


def notices(entry: Entry, columns: Columns | None) -> list[str]:
    """What limits how the entry can be read."""
    found = []
    if entry.is_partial:
        names = ", ".join(entry.missing) if len(entry.missing) <= 8 else ""
        listed = names or f"{count(len(entry.missing))} parts, listed under What is missing"
        found.append(f"Partial: {listed if entry.missing else 'the run was cut short'}.")
    if entry.data.source in ("sample", "file"):
        found.append(
            "Measured on the small sets that come with the tool, or on a file of the submitter's, "
            "not on the data set itself."
        )
    if any(condition.temperature_effective == "false" for condition in entry.conditions):
        found.append("The model ignores the temperature it is sent.")
    if entry.origin != "tcb-bench":
        found.append(
            f"Imported from a result of {entry.origin}: what that does not say is missing here, "
            "and its intervals are the value less and plus 1.96 standard errors."
        )
    elif columns is None:
        where = f" They lie at {entry.samples.url}." if entry.samples.url else ""
        found.append(
            f"The sample rows are not beside the entry, so it has no figures of them.{where}"
        )
    return found


def summary(entry: Entry) -> Pairs:
    """The first facts of a page."""
    model, usage = entry.model, entry.usage
    backend = f"{model.backend} {model.backend_version or ''}".strip()
    tokens = (
        f"{count(usage.prompt_tokens)} read, {count(usage.completion_tokens)} written"
        if usage
        else ""
    )
    pairs = [
        ("weights", " · ".join(part for part in (model.dtype, model.quantisation) if part)),
        ("parameters", count(model.n_parameters) if model.n_parameters else ""),
        ("back end", backend),
        (
            "documents",
            f"{' '.join(filter(None, (entry.data.id, entry.data.split)))}, {_documents(entry)}",
        ),
        ("responses", counted(entry.counts)),
        ("tokens", tokens),
        ("submitted by", entry.submitted_by),
        ("date of the run", entry.date),
    ]
    if entry.verification:
        pairs.append(("verified by", f"{entry.verification.by}, {entry.verification.date}"))
    return [(name, text) for name, text in pairs if text]


def settings(entry: Entry) -> list[tuple[str, Pairs]]:
    """Blocks of settings with their titles."""
    blocks: list[tuple[str, Pairs]] = [
        ("Signature, part by part", list(entry.signature_parts.items())),
        ("Model", _pairs(entry.model.model_dump())),
        ("Data", _data(entry)),
        ("Task and scoring", _task(entry)),
    ]
    if entry.missing:
        blocks.append(("What is missing", [(str(i + 1), m) for i, m in enumerate(entry.missing)]))
    if entry.verification:
        blocks.append(("Verification", _pairs(entry.verification.model_dump())))
    blocks.append(("Samples", _pairs(entry.samples.model_dump())))
    blocks.append(("Environment", list(entry.environment.items())))
    return blocks


def _documents(entry: Entry) -> str:
    there = "" if entry.data.available is None else f" of {count(entry.data.available)}"
    if entry.limit is None:
        return f"all{there}"
    per = "stratum" if entry.data.strata else "task" if entry.data.members else "draw"
    return f"limit {significant(entry.limit)} per {per}{there}"


def _data(entry: Entry) -> Pairs:
    data = entry.data
    pairs = _pairs(data.model_dump(exclude={"members", "strata", "left_out", "ids"}))
    for name, member in (data.members or {}).items():
        pairs.append((name, f"of {count(member.available)}, sha256 {member.sha256}"))
    for name, stratum in (data.strata or {}).items():
        pairs.append((name, f"{count(stratum.taken)} of {count(stratum.there)}"))
    return pairs + [(f"left out: {why}", count(n)) for why, n in (data.left_out or {}).items()]


def _task(entry: Entry) -> Pairs:
    found: dict[str, Any] = {
        "task version": entry.task.version,
        "shots": entry.n_shot,
        "limit": entry.limit,
        "seed": entry.seed,
        "sampling defaults": entry.sampling_defaults,
        "eps": entry.epsilon,
        "R = max ‖w − mean(W)‖": entry.weight_radius,
        "BERTScore": entry.bert_score,
        "text scores": entry.text_scores,
    }
    if entry.reference:
        found["reference"] = entry.reference.kind
        found["reference by"] = entry.reference.generator
        found["reference sha256"] = entry.reference.sha256
    temperatures = {condition.temperature_effective for condition in entry.conditions}
    found["temperature heeded"] = ", ".join(sorted(temperatures))
    return _pairs(found)


def _pairs(record: Mapping[str, Any]) -> Pairs:
    """Names and values as text; numbers are not rounded here."""
    return [
        (name.replace("_", " "), NONE if value is None else str(value))
        for name, value in record.items()
    ]
