"""What a row says of its model beside the numbers."""

from __future__ import annotations

import json

from tcb_bench.leaderboards.entry import Entry
from tcb_bench.records import Counts

IGNORES = "the model ignores temperature: this is one level, not a curve over temperature"
_TEMPERATURE = {
    "false": "ignored",
    "remapped": "remapped by the provider; temperatures are those requested",
    "unknown": "not known whether it is heeded",
}


def facts_of(entry: Entry, n_questions: int | None) -> dict[str, str]:
    """Name -> value, for reading; what is as usual or not known is left out.

    Args:
        entry: the entry.
        n_questions: distinct questions of its samples; None without samples here.
    """
    model = entry.model
    unscored, truncated = _unscored(entry.counts)
    heeds = {_TEMPERATURE.get(cell.temperature_effective) for cell in entry.conditions} - {None}
    facts: dict[str, str | None] = {
        "dtype": model.dtype,
        "quantisation": quantisation(model.quantisation),
        "backend": " ".join(part for part in (model.backend, model.backend_version) if part),
        "revision": model.revision,
        "parameters": f"{model.n_parameters:,}" if model.n_parameters else None,
        "date": entry.date,
        "submitted by": entry.submitted_by,
        "verified by": entry.verification.by if entry.verification else None,
        "documents": str(n_questions) if n_questions is not None else None,
        "partial": partial(entry),
        "responses without a score": str(unscored) if unscored else None,
        "texts cut off": str(truncated) if truncated else None,
        "temperature": "; ".join(sorted(str(word) for word in heeds)) or None,
        "sampling": own_sampling(entry),
        "epsilon": None if entry.epsilon in (None, 1) else f"{entry.epsilon:g}, shown at 1",
        "ranks": None if n_questions is not None else "from intervals: no samples here",
    }
    return {name: value for name, value in facts.items() if value}


def tier_of(entry: Entry) -> str:
    """``verified``, ``self-reported``, or ``imported`` from another harness."""
    return entry.tier if entry.origin == "tcb-bench" else "imported"


def _unscored(counts: Counts | None) -> tuple[int, int]:
    """Responses without a score, and texts cut off; 0 where a result does not say."""
    if counts is None:
        return 0, 0
    return counts.filtered + counts.error + counts.unscored, counts.truncated


def ignores_temperature(entry: Entry) -> bool:
    """Whether the model does not heed the temperature in any condition."""
    return any(cell.temperature_effective == "false" for cell in entry.conditions)


def partial(entry: Entry) -> str | None:
    """What a partial entry lacks, in words."""
    if not entry.is_partial:
        return None
    if not entry.missing:
        return "yes"
    rest = ", ..." if len(entry.missing) > 1 else ""
    return f"lacks {len(entry.missing)}: {entry.missing[0]}{rest}"


def own_sampling(entry: Entry) -> str | None:
    """That the model's own sampling parameters were used, with the hash of these."""
    if entry.sampling_defaults != "model":
        return None
    mark = entry.signature_parts.get("gen")
    return f"the model's own ({mark})" if mark else "the model's own"


def quantisation(text: str | None) -> str | None:
    """A scheme for reading; a back end's JSON as its words.

    >>> quantisation('{"dequantize": false, "gguf_file": "m.Q4_1.gguf", "quant_method": "gguf"}')
    'm.Q4_1.gguf, gguf'
    """
    try:
        parts = json.loads(text) if text else None
    except ValueError:
        return text
    if not isinstance(parts, dict):
        return text
    words = [str(value) for value in parts.values() if isinstance(value, str | int | float)]
    return ", ".join(word for word in words if word not in ("True", "False")) or text
