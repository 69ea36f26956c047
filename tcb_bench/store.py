"""The run folder's crash-safe memory: every response, once, the moment it is finished.

SQLite in WAL mode, one row per (request, repeat) under a key that is the response's whole
identity, so two requests that differ in anything never share an answer. Beside it the manifests:
what one invocation planned, sample by sample, which is all that scoring needs later.
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from tcb_bench.errors import StoreError
from tcb_bench.responses import Response, from_record
from tcb_bench.store_rows import Kept, row_of, unpack
from tcb_bench.store_rows import check_writable as check_writable

STORE_FILE = "store.sqlite"
STORE_VERSION = 1
OPEN_STATES = ("error", "filtered", "unsupported")
"""States of a stored failure that a later run takes up again."""

_SCHEMA = """
CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS responses (
    key TEXT PRIMARY KEY,       -- hash of the response's identity
    state TEXT NOT NULL,        -- 'answered', or a Failure's state
    request BLOB NOT NULL,      -- zlib(JSON): the identity in full, prompt included
    response BLOB NOT NULL,     -- zlib(JSON): responses.to_record
    reused_from TEXT,           -- key of the repeat it was copied from (greedy repeats)
    finished_s REAL NOT NULL);  -- unix time
CREATE TABLE IF NOT EXISTS manifests (
    id INTEGER PRIMARY KEY, created_s REAL NOT NULL, settings TEXT NOT NULL, finished_s REAL);
CREATE TABLE IF NOT EXISTS samples (
    manifest INTEGER NOT NULL, task TEXT NOT NULL, document TEXT NOT NULL,
    idx INTEGER NOT NULL, repeat INTEGER NOT NULL, key TEXT NOT NULL,
    PRIMARY KEY (manifest, task, document, idx, repeat)) WITHOUT ROWID;
"""


@dataclass(frozen=True, slots=True)
class Manifest:
    """One invocation: its settings (JSON types) and whether it came to its end."""

    id: int
    created_s: float
    settings: dict[str, Any]
    finished_s: float | None


class Store:
    """All responses of one run folder. One writer at a time; every ``put`` is durable on return."""

    def __init__(self, folder: Path, *, fresh: bool = False, create: bool = True) -> None:
        """Opens (or with ``create`` makes) the store; ``fresh`` moves an old one aside.

        Raises:
            StoreError: not writable, full, locked by another run, damaged, or no store there.
        """
        self.folder = folder
        self.path = folder / STORE_FILE
        if not create and not self.path.is_file():
            raise StoreError(
                f"{folder}: no {STORE_FILE} here; give the folder of a run, e.g. runs/demo"
            )
        if create:
            check_writable(folder)
        self._lock = FileLock(folder / "run.lock")
        try:
            self._lock.acquire(timeout=0)
        except Timeout:
            raise StoreError(
                f"{folder}: another tcb-bench is writing here; "
                "wait for it or use another --output_path"
            ) from None
        except OSError as error:
            raise StoreError(f"{folder}: cannot lock the run folder: {error.strerror}") from None
        if fresh:
            self._move_away()
        with self._translated():
            self._db = sqlite3.connect(self.path, isolation_level=None)
            self._open()

    def _open(self) -> None:
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA synchronous = FULL")  # holds through a power cut too
        problem = self._db.execute("PRAGMA quick_check(1)").fetchone()[0]
        if problem != "ok":
            raise sqlite3.DatabaseError(problem)
        self._db.executescript(_SCHEMA)
        version = self.meta("store_version") or str(STORE_VERSION)
        if version != str(STORE_VERSION):
            raise StoreError(
                f"{self.path}: written by store version {version}, "
                f"this is {STORE_VERSION}; use --fresh"
            )
        self.set_meta("store_version", version)

    def close(self) -> None:
        """Closes the database and gives the lock back."""
        with contextlib.suppress(AttributeError):
            self._db.close()
        self._lock.release()

    def __enter__(self) -> Store:
        """The store itself; it is closed at the end of the block."""
        return self

    def __exit__(self, *_: object) -> None:
        """Closes the store whatever happened."""
        self.close()

    @contextlib.contextmanager
    def _translated(self) -> Iterator[None]:
        """SQLite's errors as one line that says what to do; never a silent loss."""
        try:
            yield
        except sqlite3.OperationalError as error:
            self.close()
            raise StoreError(
                f"{self.path}: cannot be written: {error}; free space or use another --output_path"
            ) from error
        except sqlite3.DatabaseError as error:
            self.close()
            raise StoreError(
                f"{self.path}: damaged ({error}); move it away, "
                "or --fresh starts anew and keeps it aside"
            ) from error
        except StoreError:
            self.close()
            raise

    def _move_away(self) -> None:
        if self.path.exists():
            stamp = time.strftime("%Y%m%dT%H%M%S") + f".{os.getpid()}"
            for suffix in ("", "-wal", "-shm"):
                old = Path(f"{self.path}{suffix}")
                if old.exists():
                    old.rename(self.folder / f"{STORE_FILE}.{stamp}.old{suffix}")

    def meta(self, name: str) -> str | None:
        """A named text of the store, or None."""
        row = self._db.execute("SELECT value FROM meta WHERE name = ?", (name,)).fetchone()
        return row[0] if row else None

    def set_meta(self, name: str, value: str) -> None:
        """Keeps a named text."""
        with self._translated():
            self._db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (name, value))

    def put(
        self, key: str, request: dict[str, Any], response: Response, reused_from: str | None = None
    ) -> None:
        """Commits one response; an earlier one under the same key (a failure, say) is replaced."""
        self.put_all([(key, request, response, reused_from)])

    def put_all(self, kept: Sequence[Kept], spent: Mapping[str, float] | None = None) -> None:
        """Commits responses together, with one sync, and what was ``spent`` in all by then."""
        rows = [row_of(*each) for each in kept]
        with self._translated():
            self._db.execute("BEGIN IMMEDIATE")
            try:
                self._db.executemany(
                    "INSERT OR REPLACE INTO responses VALUES (?, ?, ?, ?, ?, ?)", rows
                )
                if spent is not None:
                    text = json.dumps(spent, sort_keys=True)
                    self._db.execute("INSERT OR REPLACE INTO meta VALUES ('spent', ?)", (text,))
                self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:  # some errors have rolled it back already
                    self._db.execute("ROLLBACK")
                raise

    @property
    def spent(self) -> dict[str, float]:
        """What all invocations spent at an API: requests, tokens by name, usd; empty for none."""
        found: dict[str, float] = json.loads(self.meta("spent") or "{}")
        return found

    def get(self, key: str) -> Response | None:
        """The response under ``key``, or None."""
        with self._translated():
            row = self._db.execute(
                "SELECT response FROM responses WHERE key = ?", (key,)
            ).fetchone()
        return from_record(unpack(row[0])) if row else None

    def request(self, key: str) -> dict[str, Any] | None:
        """The full identity kept with the response under ``key``, or None."""
        row = self._db.execute("SELECT request FROM responses WHERE key = ?", (key,)).fetchone()
        return unpack(row[0]) if row else None

    def reused_from(self, key: str) -> str | None:
        """Key of the greedy repeat that this response is a copy of, or None."""
        row = self._db.execute("SELECT reused_from FROM responses WHERE key = ?", (key,)).fetchone()
        return row[0] if row else None

    def answered(self, keys: Iterable[str], *, is_final: bool = False) -> set[str]:
        """Those of ``keys`` that need no asking: all but errors and filtered answers.

        ``is_final``: these count as answers, too; what a model did not take is looked at again.
        """
        open_states = ("unsupported",) if is_final else OPEN_STATES
        marks = ", ".join("?" * len(open_states))
        with self._translated():
            have = {
                k
                for (k,) in self._db.execute(
                    f"SELECT key FROM responses WHERE state NOT IN ({marks})", open_states
                )
            }
        return have.intersection(keys)

    def count(self) -> int:
        """Number of stored responses, failures left out."""
        return int(
            self._db.execute(
                f"SELECT count(*) FROM responses WHERE state NOT IN {OPEN_STATES}"
            ).fetchone()[0]
        )

    def begin(self, settings: dict[str, Any]) -> int:
        """Starts a manifest and returns its id."""
        with self._translated():
            cursor = self._db.execute(
                "INSERT INTO manifests (created_s, settings) VALUES (?, ?)",
                (time.time(), json.dumps(settings, sort_keys=True)),
            )
        return int(cursor.lastrowid or 0)

    def plan(self, manifest: int, samples: Iterable[tuple[str, str, int, int, str]]) -> None:
        """Keeps (task, document, idx, repeat, key) of every sample the invocation will have."""
        with self._translated():
            self._db.execute("BEGIN")
            self._db.executemany(
                "INSERT OR REPLACE INTO samples VALUES (?, ?, ?, ?, ?, ?)",
                ((manifest, *sample) for sample in samples),
            )
            self._db.execute("COMMIT")

    def finish(self, manifest: int, settings: dict[str, Any]) -> None:
        """Marks the manifest as complete, with what was learned during the run."""
        with self._translated():
            self._db.execute(
                "UPDATE manifests SET finished_s = ?, settings = ? WHERE id = ?",
                (time.time(), json.dumps(settings, sort_keys=True), manifest),
            )

    def manifest(self, number: int | None = None) -> Manifest:
        """The manifest of that number, or the newest one.

        Raises:
            StoreError: there is none.
        """
        where, args = (
            ("WHERE id = ?", (number,)) if number is not None else ("ORDER BY id DESC LIMIT 1", ())
        )
        with self._translated():
            row = self._db.execute(
                f"SELECT id, created_s, settings, finished_s FROM manifests {where}", args
            ).fetchone()
        if row is None:
            what = f"no invocation {number}" if number is not None else "no invocation"
            raise StoreError(
                f"{self.folder}: {what} in this run; the newest is taken without a number"
            )
        return Manifest(row[0], row[1], json.loads(row[2]), row[3])

    def keys(self, manifest: int) -> dict[tuple[str, str, int, int], str]:
        """(task, document, idx, repeat) -> key, for every sample of the manifest."""
        rows = self._db.execute(
            "SELECT task, document, idx, repeat, key FROM samples WHERE manifest = ?", (manifest,)
        )
        return {(task, document, idx, repeat): key for task, document, idx, repeat, key in rows}
