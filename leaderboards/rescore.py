"""An entry against the same entry made again from the full run: every number and sample row."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tcb_bench.errors import DataError
from tcb_bench.leaderboards.entry import Entry, Verification
from tcb_bench.leaderboards.entry_files import Loaded, read_samples

TOLERANCE = 1e-9
ENCODER_TOLERANCE = 1e-5
"""Relative and absolute: numbers of a neural encoder depend on what shares a batch with them."""

OF_AN_ENCODER = ("bertscore", "embedding_similarity")
READER = re.compile(r"\(hug_trans=[^)]*\)")  # bert-score's mark of transformers' version
SHOWN = 20
NOT_SCORES = {
    *("environment", "date", "tier", "verification", "submitted_by", "links", "samples"),
    *("is_partial", "missing"),
}
"""Fields of an entry that scoring again may change, or that are no result of it."""


def differences(entry: Loaded, rebuilt: Loaded) -> list[str]:
    """Where an entry says something else than the run does; empty when it says the same.

    Numbers agree to 1e-9, those of BERTScore's encoder to 1e-5; all else is equal, but for the
    version of transformers that read the encoder, and a quantisation that the run does not know
    (the submitter's word). Sample rows are compared one by one, in their order.

    Args:
        entry: as submitted, its samples beside it.
        rebuilt: made again from the run.

    Returns:
        One line per difference: place, the entry's value, the run's; 20 at most, and how many more.

    Raises:
        DataError: one of the two has no sample file here, or it cannot be read.
    """
    mine, theirs = _compared(entry.entry), _compared(rebuilt.entry)
    if theirs["model"]["quantisation"] in (None, "gguf"):
        theirs["model"]["quantisation"] = mine["model"]["quantisation"]
    found = itertools.chain(_compare(mine, theirs, ""), _rows(_samples(entry), _samples(rebuilt)))
    lines = list(itertools.islice(found, SHOWN))
    rest = sum(1 for _ in found)
    return lines + ([f"and {rest} more"] if rest else [])


def verified(entry: Entry, *, by: str, date: str, run_sha256: str) -> Entry:
    """The entry as a maintainer has verified it.

    Args:
        entry: after `differences` found none.
        by: the maintainer's name or handle.
        date: of the rescoring, YYYY-MM-DD.
        run_sha256: of the run's result file.
    """
    word = Verification(by=by, date=date, run_sha256=run_sha256)
    known = entry.model_dump(mode="json", exclude_unset=True)
    return Entry.model_validate(
        known | {"tier": "verified", "verification": word.model_dump(mode="json")}
    )


def _compared(entry: Entry) -> dict[str, Any]:
    """The entry's fields that scoring again must give, the encoder's reader left out."""
    found = entry.model_dump(mode="json", exclude=NOT_SCORES)
    parts = found["signature_parts"]
    for part, key in ((found, "bert_score"), (found, "signature"), (parts, "bert")):
        if part.get(key):
            part[key] = READER.sub("", part[key])
    return found


def _samples(loaded: Loaded) -> Path:
    path = loaded.samples
    if path is None or not path.is_file():
        url = loaded.entry.samples.url
        where = f" from {url}" if url else ""
        raise DataError(
            f"{loaded.path}: its samples are not beside it: fetch them{where}, name the file in "
            "samples.file for the time of the check"
        )
    return path


def _rows(mine: Path, theirs: Path) -> Iterator[str]:
    pairs = itertools.zip_longest(read_samples(mine), read_samples(theirs))
    for number, (own, other) in enumerate(pairs, start=1):
        if own is None or other is None:
            which = "the run has more rows" if own is None else "the entry has more rows"
            yield f"samples: line {number}: {which}"
            return
        place = f"samples: {own.task} {own.doc_id} {own.condition}".rstrip()
        yield from _compare(own.model_dump(mode="json"), other.model_dump(mode="json"), place)


def _compare(mine: Any, theirs: Any, place: str) -> Iterator[str]:
    """Differences of two JSON values, depth first."""
    if isinstance(mine, Mapping) and isinstance(theirs, Mapping):
        for key in {**mine, **theirs}:
            inner = f"{place}.{key}" if place else str(key)
            yield from _compare(mine.get(key), theirs.get(key), inner)
    elif isinstance(mine, list) and isinstance(theirs, list) and len(mine) == len(theirs):
        for i, (own, other) in enumerate(zip(mine, theirs, strict=True)):
            yield from _compare(own, other, f"{place}[{_name(own) or i}]")
    elif not _are_same(mine, theirs, place):
        yield f"{place}: the entry says {_short(mine)}, the run {_short(theirs)}"


def _name(item: Any) -> str | None:
    """What a metric or condition of a list is called."""
    return (item.get("name") or item.get("id")) if isinstance(item, Mapping) else None


def _are_same(mine: Any, theirs: Any, place: str) -> bool:
    if not all(isinstance(v, int | float) and not isinstance(v, bool) for v in (mine, theirs)):
        return bool(mine == theirs) and isinstance(mine, bool) == isinstance(theirs, bool)
    is_of_encoder = any(word in place for word in OF_AN_ENCODER)
    slack = ENCODER_TOLERANCE if is_of_encoder else TOLERANCE
    return math.isclose(mine, theirs, rel_tol=slack, abs_tol=slack)


def _short(value: Any) -> str:
    text = f"{value:.12g}" if isinstance(value, float) else repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
