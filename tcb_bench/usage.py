"""What responses cost in tokens, who gave them, and which were never asked for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from tcb_bench.aggregate import Document


def usage(documents: Iterable[Document]) -> dict[str, int]:
    """Tokens of all responses; a reused repeat, and a bill for several texts, count once."""
    rows = [row for doc in documents for row in doc["rows"] if not row.get("reused_from")]
    calls = [row["usage"] for row in rows if row.get("usage")]
    local = [row for row in rows if not row.get("call")]
    found = {
        name: sum(row.get(name) or 0 for row in [*local, *calls])
        for name in ("prompt_tokens", "completion_tokens")
    }
    more = ("reasoning_tokens", "cached_tokens") if calls else ()
    return found | {name: sum(call.get(name) or 0 for call in calls) for name in more}


def fingerprints(documents: Iterable[Document]) -> dict[str, int]:
    """How many responses an API gave with which configuration of its own."""
    calls = [row["call"] for doc in documents for row in doc["rows"] if row.get("call")]
    return dict(Counter(str(c["system_fingerprint"]) for c in calls if c.get("system_fingerprint")))


def unsupported(documents: Sequence[Document]) -> dict[str, str]:
    """Why a condition is none for this model: every one of its requests was left unsent."""
    rows = [row for doc in documents for row in doc["rows"]]
    if not rows or not all(row.get("unsupported") for row in rows):
        return {}
    return {"unsupported": str(rows[0]["reason"])}
