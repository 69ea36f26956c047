"""What a model of an API takes, from a table by exact name; other names are not guessed."""

from __future__ import annotations

import functools
import re
from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

from tcb_bench.models.capabilities_table import PROVIDERS, Capability, Table, read_table

__all__ = ["PROVIDERS", "Capability", "capability", "known_models", "row_name"]

TABLE = Path(__file__).with_name("capabilities.yaml")

_SNAPSHOT = re.compile(r"(?P<row>.+?)-(?P<day>\d{4}-\d{2}-\d{2}|\d{4})")
_FINE_TUNED = re.compile(r"ft:(?P<base>[^:]+):.+")


def capability(
    provider: str, model: str, extra_body: Mapping[str, Any] | None = None
) -> Capability | None:
    """What the table knows about a model; None where it knows nothing.

    A name is known if it is a row's, or that of a dated snapshot (``gpt-4o-2024-08-06``,
    ``gpt-4-0613``) or of a fine-tuned model (``ft:gpt-4o-mini-2024-07-18:organisation::id``).

    Args:
        provider: ``openai``, ``deepseek`` or ``compatible`` (which has no rows).
        model: the name that the API is asked for.
        extra_body: what is added to each request: it may switch reasoning on or off, and with it
            what is accepted.
    """
    return look_up(shipped_table(), provider, model, extra_body)


def known_models(provider: str) -> tuple[str, ...]:
    """Names of a provider's rows, sorted."""
    return tuple(sorted(shipped_table().rows.get(provider, {})))


@functools.cache
def shipped_table() -> Table:
    """The table of this package, read once."""
    return read_table(TABLE, TABLE.name)


def look_up(
    table: Table, provider: str, model: str, extra_body: Mapping[str, Any] | None = None
) -> Capability | None:
    """``capability`` in any table."""
    rows = table.rows.get(provider, {})
    has_snapshots = provider in table.with_snapshots
    base = fine_tuned_base(model) if has_snapshots else None
    name = row_name(rows, base or model, snapshots=has_snapshots)
    if name is None:
        return None
    changes: dict[str, Any] = {}
    for variant in rows[name].variants:
        if all((extra_body or {}).get(key) in values for key, values in variant.when.items()):
            changes |= variant.changes
    return replace(rows[name].capability, model=model, **changes)


def row_name(rows: Collection[str], model: str, *, snapshots: bool = True) -> str | None:
    """The row that speaks for a model: its own, else that of which it is a dated snapshot.

    Nothing else in a name counts: ``gpt-5-chat-latest`` and ``my-gpt-4o`` belong to no other row.
    """
    if model in rows:
        return model
    found = _SNAPSHOT.fullmatch(model) if snapshots else None
    return found["row"] if found and found["row"] in rows and _is_day(found["day"]) else None


def fine_tuned_base(model: str) -> str | None:
    """The model that one of OpenAI's fine-tuned names is made from; None for any other name."""
    found = _FINE_TUNED.fullmatch(model)
    return found["base"] if found else None


def _is_day(text: str) -> bool:
    """Whether YYYY-MM-DD or MMDD is a day of the calendar."""
    try:
        date.fromisoformat(text if "-" in text else f"2000-{text[:2]}-{text[2:]}")
    except ValueError:
        return False
    return True
