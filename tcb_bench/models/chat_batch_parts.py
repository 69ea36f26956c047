"""Files of a Batch API's run: what goes into each batch, and a journal of what became of it.

``batches.jsonl`` in the run folder has a line for each step of each batch, on the disk before the
next step is taken, so that a process killed at any moment leaves enough to take the batch up again.
``batches/0001.jsonl`` is what is uploaded; ``batches/0001.keys.jsonl`` has for each of its requests
where it begins (in bytes) and the keys of the responses that its choices are for.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

from tcb_bench.errors import StoreError

ENDPOINT: Final = "/v1/chat/completions"
JOURNAL = "batches.jsonl"
PARTS = "batches"
AGAIN = "; move it away to ask all again (and pay for it again)"


@dataclass
class Part:
    """One batch, from its file to its merged answers.

    Attributes:
        number: 1 for the first of the run folder.
        name: unique to it; the batch carries it at the provider.
        sha256: of the file.
        n_requests: lines of the file.
        file_id: of the uploaded file; empty: not uploaded, so that no batch can exist.
        batch_id: empty: not known whether there is one.
        uploaded_s: unix time; the batch is created at once afterwards.
        left: once it is merged, the keys that nobody had asked for then.
    """

    number: int
    name: str
    sha256: str
    n_requests: int
    file_id: str = ""
    batch_id: str = ""
    uploaded_s: float = 0.0
    left: frozenset[str] | None = None

    @property
    def label(self) -> str:
        """For a person: ``batch 1 (batch_abc)``."""
        return f"batch {self.number}" + (f" ({self.batch_id})" if self.batch_id else "")


class Journal:
    """The steps of all batches of a run folder; one process at a time has it."""

    def __init__(self, folder: Path) -> None:
        """Makes nothing yet."""
        self.path = folder / JOURNAL
        self.folder = folder / PARTS
        self._last = 0

    def file(self, part: Part | int, kind: str = "") -> Path:
        """A file of a part: what is uploaded, ``keys``, or a downloaded one."""
        number = part if isinstance(part, int) else part.number
        return self.folder / (f"{number:04d}.{kind}.jsonl" if kind else f"{number:04d}.jsonl")

    def open_parts(self) -> list[Part]:
        """Parts that are not merged, or that have answers which nobody has asked for yet.

        Raises:
            StoreError: the journal is damaged.
        """
        parts: dict[int, Part] = {}
        for event in self._events():
            try:
                self._last = max(self._last, int(event["part"]))
                _apply(event, parts)
            except (KeyError, TypeError, ValueError):
                raise self._damaged(event) from None
        return list(parts.values())

    def _events(self) -> Iterator[dict[str, Any]]:
        if not self.path.is_file():
            return
        with self.path.open("r+b") as file:
            end = 0
            for line in file:
                if not line.endswith(b"\n"):  # the process died while it wrote: it was not done
                    file.truncate(end)
                    return
                end += len(line)
                try:
                    event = json.loads(line)
                except ValueError:
                    raise self._damaged(line) from None
                yield event

    def _damaged(self, line: object) -> StoreError:
        return StoreError(f"{self.path}: damaged: {str(line)[:60]}{AGAIN}")

    def next_number(self) -> int:
        """The number of a new part."""
        self._last += 1
        return self._last

    def write(self, event: str, part: Part, **more: object) -> None:
        """Adds a step; it is on the disk on return."""
        record = {"event": event, "part": part.number, "time_s": time.time(), **more}
        is_new = not self.path.exists()
        with self.path.open("ab") as file:
            file.write(json.dumps(record).encode() + b"\n")
            _sync(file)
        if is_new:
            _sync_folder(self.path.parent)

    def close(self, part: Part, event: str, **more: object) -> None:
        """The last step of a part, whose files nobody needs any more."""
        self.write(event, part, **more)
        for kind in ("", "keys", "output", "errors"):
            self.file(part, kind).unlink(missing_ok=True)

    def lines(self, part: Part) -> Iterator[tuple[int, list[str]]]:
        """For each request of a part where it begins in the file, and the keys of its responses.

        Raises:
            StoreError: the file is gone.
        """
        try:
            with self.file(part, "keys").open(encoding="utf-8") as file:
                for line in file:
                    offset, *keys = json.loads(line)
                    yield int(offset), keys
        except (OSError, ValueError):
            raise self._lost(part) from None

    def body(self, file: IO[bytes], part: Part, offset: int, custom_id: str) -> dict[str, Any]:
        """What was sent for a request of the part whose file is open.

        Raises:
            StoreError: it is not there.
        """
        file.seek(offset)
        try:
            line = json.loads(file.readline())
            if line["custom_id"] == custom_id:
                body: dict[str, Any] = line["body"]
                return body
        except (ValueError, KeyError, TypeError):
            pass
        raise self._lost(part)

    def open(self, part: Part) -> IO[bytes]:
        """The file of a part.

        Raises:
            StoreError: it is gone.
        """
        try:
            return self.file(part).open("rb")
        except OSError:
            raise self._lost(part) from None

    def _lost(self, part: Part) -> StoreError:
        return StoreError(
            f"{self.path}: the files of {part.label} in {self.folder.name} are missing or damaged, "
            f"so that its answers cannot be put in their place; put them back{AGAIN}"
        )


class PartWriter:
    """A part while it is written, request by request."""

    def __init__(self, journal: Journal) -> None:
        """Opens both files."""
        self.journal, self.number = journal, journal.next_number()
        journal.folder.mkdir(exist_ok=True)
        self._file = journal.file(self.number).open("wb")
        self._keys = journal.file(self.number, "keys").open("wb")
        self._sha256 = hashlib.sha256()
        self.n_bytes = self.n_requests = 0

    def add(self, keys: Sequence[str], line: bytes) -> None:
        """Adds a request from ``line_of``, whose choices are for ``keys``."""
        self._keys.write(json.dumps([self.n_bytes, *keys]).encode() + b"\n")
        self._file.write(line)
        self._sha256.update(line)
        self.n_bytes += len(line)
        self.n_requests += 1

    def close(self) -> Part | None:
        """The part, on the disk and in the journal; None where nothing was added."""
        for file in (self._file, self._keys):
            _sync(file)
            file.close()
        name, sha256 = uuid.uuid4().hex, self._sha256.hexdigest()
        part = Part(self.number, name, sha256, self.n_requests)
        if not self.n_requests:
            for kind in ("", "keys"):
                self.journal.file(part, kind).unlink()
            return None
        _sync_folder(self.journal.folder)
        self.journal.write("written", part, name=name, sha256=sha256, requests=part.n_requests)
        return part


def _apply(event: Mapping[str, Any], parts: dict[int, Part]) -> None:
    """One step of the journal."""
    number, kind = int(event["part"]), event["event"]
    if kind == "written":
        parts[number] = Part(number, event["name"], event["sha256"], event["requests"])
    elif kind == "uploaded":
        parts[number].file_id, parts[number].uploaded_s = event["file_id"], event["time_s"]
    elif kind == "created":
        parts[number].batch_id = event["batch_id"]
    elif kind == "merged" and event["left"]:
        parts[number].left = frozenset(event["left"])
    elif kind in ("merged", "dropped"):
        del parts[number]
    else:
        raise ValueError(f"no such step: {kind}")


def line_of(custom_id: str, body: Mapping[str, Any]) -> bytes:
    """One line of the file that is uploaded."""
    record = {"custom_id": custom_id, "method": "POST", "url": ENDPOINT, "body": body}
    return json.dumps(record, separators=(",", ":")).encode() + b"\n"


def _sync(file: IO[bytes]) -> None:
    file.flush()
    os.fsync(file.fileno())


def _sync_folder(folder: Path) -> None:
    """Makes new names in a folder survive a power cut; Windows cannot, and needs not."""
    if os.name == "nt":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
