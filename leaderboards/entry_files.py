"""Entries and their sample rows as files: where they lie, and reading them without trust."""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from tcb_bench.errors import DataError
from tcb_bench.leaderboards.entry import Entry, EntrySample
from tcb_bench.results import write_json

MAX_ENTRY = 16 * 2**20  # bytes of an entry
MAX_LINE = 2**20  # bytes of one sample row
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
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_ENTRY + 1)
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}") from None
    if len(raw) > MAX_ENTRY:
        raise DataError(f"{path}: larger than {MAX_ENTRY} bytes, which no entry is")
    try:
        return Entry.model_validate_json(raw)
    except ValidationError as error:
        raise DataError(f"{path}: {first_problem(error)}") from None


def read_samples(path: Path) -> Iterator[EntrySample]:
    """The sample rows of a file, one at a time; memory does not grow with the file.

    Raises:
        DataError: no gzip, a line that is too long, more than ``MAX_SAMPLES`` bytes unpacked, or a
            row that is not what the schema says.
    """
    total = 0
    try:
        with gzip.open(path, "rb") as file:
            number = 0
            while line := file.readline(MAX_LINE + 1):
                number, total = number + 1, total + len(line)
                if len(line) > MAX_LINE or total > MAX_SAMPLES:
                    raise DataError(f"{path}: line {number} or the whole is larger than allowed")
                yield EntrySample.model_validate_json(line)
    except ValidationError as error:
        raise DataError(f"{path}: line {number}: {first_problem(error)}") from None
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path}: no readable gzip file: {error}") from None


def first_problem(error: ValidationError) -> str:
    """The first of pydantic's complaints in one line, and how many more there are."""
    found = error.errors(include_url=False, include_input=False)
    place = ".".join(str(part)[:60] for part in found[0]["loc"]) or "the file"
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
        """Its sample file, None where that lies elsewhere."""
        name = self.entry.samples.file
        return self.path.with_name(name) if name else None


def load_entries(root: Path) -> list[Loaded]:
    """All entries under a folder, in the order of their paths."""
    return [Loaded(path, read_entry(path)) for path in sorted(root.glob("*/*.json"))]


def file_sha256(path: Path) -> str:
    """sha256 of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_entry(path: Path, entry: Entry) -> None:
    """An entry as its file, keys in the order of the definition."""
    write_json(path, entry.model_dump(mode="json", exclude_unset=True))
