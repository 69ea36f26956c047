"""Responses as rows of the store, and whether its folder can be written."""

from __future__ import annotations

import contextlib
import json
import os
import time
import zlib
from pathlib import Path
from typing import Any

from tcb_bench.errors import StoreError
from tcb_bench.responses import Failure, Response, to_record

Kept = tuple[str, dict[str, Any], Response, str | None]
"""Key, identity, response, and the key of the repeat that it is a copy of."""

_PROBE_BYTES = 1 << 20


def row_of(
    key: str, request: dict[str, Any], response: Response, reused_from: str | None
) -> tuple[Any, ...]:
    """The values of a response's row, in the order of the store's columns."""
    state = response.state if isinstance(response, Failure) else "answered"
    return key, state, _pack(request), _pack(to_record(response)), reused_from, time.time()


def _pack(value: object) -> bytes:
    return zlib.compress(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode())


def unpack(blob: bytes) -> dict[str, Any]:
    """What a packed column holds.

    Raises:
        StoreError: it is damaged.
    """
    try:
        value: dict[str, Any] = json.loads(zlib.decompress(blob))
    except (zlib.error, ValueError) as error:
        raise StoreError(
            f"a stored response cannot be read ({error}); the store is damaged, use --fresh"
        ) from None
    return value


def check_writable(folder: Path) -> None:
    """Fails before any inference where the folder is read-only or the disk is full."""
    probe = folder / f".probe-{os.getpid()}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with probe.open("wb") as file:
            file.write(bytes(_PROBE_BYTES))
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise StoreError(
            f"{folder}: cannot write there: {error.strerror or error}; choose another --output_path"
        ) from None
    finally:
        with contextlib.suppress(OSError):
            probe.unlink(missing_ok=True)
