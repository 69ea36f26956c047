"""A run folder's store as one sees it who only looks: nothing is written, locked or made."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from tcb_bench.errors import StoreError
from tcb_bench.responses import Generation, Response
from tcb_bench.store import OPEN_STATES, STORE_FILE, STORE_VERSION, Store

SEEN = 1000
"""Responses of a task whose lengths are looked at, at most."""


class StoreView(Store):
    """The store of a folder, also while a run writes to it; empty where there is none."""

    def __init__(self, folder: Path, *, is_empty: bool = False) -> None:
        """Opens the store to read; ``is_empty``: as if there were none (``--fresh``).

        Raises:
            StoreError: damaged, or of another version.
        """
        self.folder, self.path = folder, folder / STORE_FILE
        with self._translated():
            is_there = not is_empty and self.path.is_file()
            self._db = sqlite3.connect(_address(self.path) if is_there else ":memory:", uri=True)
            names = {name for (name,) in self._db.execute("SELECT name FROM sqlite_master")}
            self.has_rows = {"meta", "responses", "samples", "manifests"} <= names
            version = self.meta("store_version") or str(STORE_VERSION)
            if version != str(STORE_VERSION):
                self.close()
                raise StoreError(
                    f"{self.path}: written by store version {version}, this is {STORE_VERSION}; "
                    "use --fresh"
                )

    def __enter__(self) -> StoreView:
        """The view itself; it is closed at the end of the block."""
        return self

    def close(self) -> None:
        """Closes the database; there is no lock to give back."""
        with contextlib.suppress(AttributeError):
            self._db.close()

    @contextlib.contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            self.close()
            raise StoreError(f"{self.path}: cannot be read ({error})") from error

    def meta(self, name: str) -> str | None:
        """A named text of the store, or None."""
        return super().meta(name) if self.has_rows else None

    def answered(self, keys: Any, *, is_final: bool = False) -> set[str]:
        """Those of ``keys`` that need no asking; see ``Store``."""
        return super().answered(keys, is_final=is_final) if self.has_rows else set()

    def engine(self, is_same: Callable[[dict[str, Any]], bool]) -> dict[str, Any] | None:
        """Identity of the engine in the newest invocation whose settings are the same.

        Args:
            is_same: whether an invocation's settings would load the model that is meant.
        """
        if not self.has_rows:
            return None
        with self._translated():
            manifests = self._db.execute("SELECT id, settings FROM manifests ORDER BY id DESC")
            for number, settings in manifests:
                if not is_same(json.loads(settings)):
                    continue
                row = self._db.execute(
                    "SELECT r.key FROM samples s JOIN responses r ON r.key = s.key "
                    "WHERE s.manifest = ? LIMIT 1",
                    (number,),
                ).fetchone()
                request = self.request(row[0]) if row else None
                if request is not None:
                    found: dict[str, Any] = request["engine"]
                    return found
        return None

    def completion_mean(self, tasks: Sequence[str]) -> float | None:
        """Mean number of tokens generated for one response of these tasks; None where none is.

        Keys are hashes, so that the first ``SEEN`` in their order are as good as a draw.
        """
        if not self.has_rows:
            return None
        marks, states = ", ".join("?" * len(tasks)), ", ".join("?" * len(OPEN_STATES))
        with self._translated():
            rows = self._db.execute(
                "SELECT DISTINCT r.key FROM samples s JOIN responses r ON r.key = s.key "
                f"WHERE s.task IN ({marks}) AND r.state NOT IN ({states}) "
                "AND r.reused_from IS NULL ORDER BY r.key LIMIT ?",
                (*tasks, *OPEN_STATES, SEEN),
            ).fetchall()
        bills = [bill for (key,) in rows if (bill := _bill(self.get(key))) is not None]
        texts = sum(n for _, n in bills)
        return sum(tokens for tokens, _ in bills) / texts if texts else None


def _address(path: Path) -> str:
    """Of a store without a log nothing is being written: no helper file is needed beside it."""
    is_still = not path.with_name(f"{path.name}-wal").exists()
    return f"{path.resolve().as_uri()}?mode=ro" + ("&immutable=1" if is_still else "")


def _bill(response: Response | None) -> tuple[int, int] | None:
    """(tokens generated, texts they are of); None where another response has the bill."""
    call = getattr(response, "call", None)
    if call:
        tokens = call.get("usage", {}).get("completion_tokens")
        return (int(tokens), int(call["n"])) if tokens is not None else None
    return (len(response.tokens), 1) if isinstance(response, Generation) else None
