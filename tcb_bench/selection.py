"""Seeded draws: which documents a run takes, as a pure function of their ids and the seed."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence

from tcb_bench.errors import UsageError


def stable_hash(*parts: object) -> int:
    """A 63-bit integer from the parts' text, the same on every machine and in every process.

    Parts are joined by an unlikely separator, so ("a", "bc") and ("ab", "c") differ. 63 bits fit
    SQLite's integers and every generator's seed.
    """
    text = "\x1f".join(str(part) for part in parts)
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8]) >> 1


def seeded_order(ids: Sequence[str], seed: int) -> list[int]:
    """Indices of ``ids`` in the order of the draw: by hash of (seed, id), not by position.

    The first n are the draw of n: it does not change when rows of the file are reordered, and a
    larger draw contains the smaller one, so a run can be extended without asking again.
    """
    return sorted(range(len(ids)), key=lambda i: (stable_hash(seed, ids[i]), i))


def draw(ids: Sequence[str], size: int | None, seed: int) -> list[int]:
    """Indices of ``size`` seeded documents in the data set's own order; all of them for None."""
    if size is None or size >= len(ids):
        return list(range(len(ids)))
    return sorted(seeded_order(ids, seed)[:size])


def limit_size(limit: float | None, available: int) -> int | None:
    """Number of documents that ``--limit`` means for one task with ``available`` documents.

    Args:
        limit: None = all; a whole number >= 1 = that many; a number between 0 and 1 = that share,
            rounded up. 1 (and 1.0) is one document, as in lm-eval.
        available: documents of this task; the share is of these, anew for each task.

    Raises:
        UsageError: zero, negative, not a number, or a fraction above 1.
    """
    if limit is None:
        return None
    if not math.isfinite(limit) or limit <= 0:
        raise UsageError(
            f"--limit {limit:g} takes no document; give a number >= 1 or a share in (0, 1)"
        )
    if limit < 1:
        return math.ceil(limit * available)
    if limit != int(limit):
        raise UsageError(f"--limit {limit:g} is neither whole nor a share in (0, 1)")
    return int(limit)
