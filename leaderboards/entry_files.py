"""Entries and their sample rows as files: where they lie, and reading them without trust."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from tcb_bench.errors import DataError
from tcb_bench.leaderboards.entry import Entry, EntrySample
from tcb_bench.leaderboards.untrusted import check_json, read_file, shown, unpacked_lines

MAX_ENTRY = 16 * 2**20  # bytes of an entry
MAX_LINE = 2**20  # bytes of one sample row
MAX_FLAT = 400  # characters of a line that holds a whole object or list
MAX_PACKED = 2**26  # bytes of a sample file; 79,200 responses take some 15 MB
MAX_SAMPLES = 2**31  # bytes of all sample rows of an entry, unpacked
SAFE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*")


def folder_name(model_id: str) -> str:
    """``org/name`` as the name of a folder, ``org__name``.

    >>> folder_name("HuggingFaceTB/SmolLM2-135M-Instruct")
    'HuggingFaceTB__SmolLM2-135M-Instruct'
    """
    parts = model_id.split("/")
    if len(parts) != 2 or not all(SAFE.fullmatch(part) for part in parts) or "__" in model_id:
        raise DataError(
            f"model id {model_id!r}: expected organisation/name of letters, digits and . _ + -, "
            "without a double underscore; name it so with --model-id"
        )
    return "__".join(parts)


def entry_path(root: Path, entry: Entry) -> Path:
    """Where an entry lies under the folder of all entries."""
    if not SAFE.fullmatch(entry.task.name):
        raise DataError(f"task name {entry.task.name!r}: expected letters, digits and . _ + -")
    return root / folder_name(entry.model.id) / f"{entry.task.name}.json"


def read_entry(path: Path) -> Entry:
    """An entry from its file.

    Raises:
        DataError: it cannot be read, is too large, or is not what the schema says; one line.
    """
    raw = read_file(path, MAX_ENTRY)
    try:
        entry = Entry.model_validate_json(raw)
    except ValidationError as error:
        raise DataError(f"{shown(path)}: {first_problem(error)}") from None
    check_json(raw, shown(path))
    return entry


def read_samples(path: Path) -> Iterator[EntrySample]:
    """The sample rows of a file, one at a time; memory does not grow with the file.

    Raises:
        DataError: no gzip, a line that is too long, more than ``MAX_SAMPLES`` bytes unpacked, or a
            row that is not what the schema says.
    """
    lines = unpacked_lines(path, packed=MAX_PACKED, unpacked=MAX_SAMPLES, line=MAX_LINE)
    for number, line in enumerate(lines, start=1):
        place = f"{shown(path)}: line {number}"
        try:
            sample = EntrySample.model_validate_json(line)
        except ValidationError as error:
            raise DataError(f"{place}: {first_problem(error)}") from None
        check_json(line, place)
        yield sample


def first_problem(error: ValidationError) -> str:
    """The first of pydantic's complaints in one line, and how many more there are."""
    found = error.errors(include_url=False, include_input=False)
    place = ".".join(shown(part, 60) for part in found[0]["loc"]) or "the file"
    more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
    return f"{place}: {found[0]['msg']}{more}"


def write_samples(path: Path, samples: Iterable[EntrySample]) -> tuple[str, int, int]:
    """Writes sample rows; the same rows give the same bytes.

    Returns:
        sha256 of the file, its lines, and the rows of all lines together.
    """
    lines = responses = 0
    with path.open("wb") as raw, gzip.GzipFile("", "wb", 9, raw, mtime=0) as file:
        for sample in samples:
            record = sample.model_dump(mode="json", exclude_none=False, exclude_unset=True)
            text = json.dumps(record, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
            file.write(text.encode() + b"\n")
            lines, responses = lines + 1, responses + len(sample.rows)
    return file_sha256(path), lines, responses


@dataclass(frozen=True, slots=True)
class Loaded:
    """An entry that was read, and where."""

    path: Path
    entry: Entry

    @property
    def samples(self) -> Path | None:
        """Its sample file, None where that lies elsewhere.

        Raises:
            DataError: the entry names something that is no file beside it.
        """
        name = self.entry.samples.file
        if name is None:
            return None
        if not SAFE.fullmatch(name):
            raise DataError(
                f"{shown(self.path)}: samples.file is {shown(name)}; expected a plain name of a "
                "file beside the entry"
            )
        return self.path.with_name(name)


def load_entries(root: Path) -> list[Loaded]:
    """All entries under a folder, in the order of their paths."""
    return [Loaded(path, read_entry(path)) for path in sorted(root.glob("*/*.json"))]


def file_sha256(path: Path) -> str:
    """sha256 of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_entry(path: Path, entry: Entry) -> None:
    """An entry as its file, keys in the order of the definition; one atomic step.

    Raises:
        DataError: it cannot be written.
    """
    part = path.with_name(f"{path.name}.part")
    try:
        part.write_text(entry_text(entry), encoding="utf-8")
        part.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)
        raise DataError(f"{path}: cannot be written: {error.strerror}") from None


def entry_text(entry: Entry) -> str:
    """An entry as strict JSON: each metric, and all else that is short, on a line of its own."""
    return _indented(entry.model_dump(mode="json", exclude_unset=True), "") + "\n"


def _indented(value: Any, margin: str) -> str:
    """JSON with 2 spaces a level; objects and lists of plain values on one line if that fits."""
    plain = json.dumps(value, ensure_ascii=False, allow_nan=False)
    items = list(value.values()) if isinstance(value, dict) else value
    if not isinstance(items, list) or not items:
        return plain
    if len(plain) <= MAX_FLAT and not any(isinstance(item, dict | list) for item in items):
        return plain
    deeper = f"{margin}  "
    lines = [_indented(item, deeper) for item in items]
    if isinstance(value, dict):
        names = [json.dumps(name, ensure_ascii=False) for name in value]
        lines = [f"{name}: {line}" for name, line in zip(names, lines, strict=True)]
    inner = ",\n".join(f"{deeper}{line}" for line in lines)
    return f"{plain[0]}\n{inner}\n{margin}{plain[-1]}"
