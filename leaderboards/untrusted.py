"""Files that a stranger wrote: read within bounds, or refused in one line."""

from __future__ import annotations

import json
import re
import stat
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tcb_bench.errors import DataError

BLOCK = 2**18  # bytes read and unpacked at a time
MAX_DIGITS = 18  # of a whole number: what an int64 holds
MAX_TEXT = 8192  # characters of any text; the longest signature has some 700
UNSEEN = re.compile(
    "[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]"
)
"""Control characters, and marks that hide text or turn its direction round."""


def check_file(path: Path, most: int) -> None:
    """Refuses what is no plain file (a link, a folder, a pipe) or has more than ``most`` bytes.

    A pipe is refused before it is opened, since opening it would wait for a writer.

    Raises:
        DataError: it is not there, or not such a file.
    """
    try:
        found = path.lstat()
    except (OSError, ValueError) as error:
        raise DataError(f"{shown(path)}: cannot be read: {reason_of(error)}") from None
    if not stat.S_ISREG(found.st_mode):
        kind = "a symbolic link" if stat.S_ISLNK(found.st_mode) else "no plain file"
        raise DataError(f"{shown(path)}: is {kind}; expected a file of its own")
    if found.st_size > most:
        raise DataError(f"{shown(path)}: has {found.st_size} bytes; at most {most} are allowed")


def read_file(path: Path, most: int) -> bytes:
    """A file's bytes, within the bounds of `check_file`.

    Raises:
        DataError: it cannot be read so.
    """
    check_file(path, most)
    try:
        with path.open("rb") as file:
            raw = file.read(most + 1)
    except OSError as error:
        raise DataError(f"{shown(path)}: cannot be read: {reason_of(error)}") from None
    if len(raw) > most:
        raise DataError(f"{shown(path)}: has more than {most} bytes")
    return raw


def unpacked_lines(path: Path, *, packed: int, unpacked: int, line: int) -> Iterator[bytes]:
    """The lines of a gzip file of one member, without their ends.

    Memory is one block and one line, however far the file unpacks.

    Args:
        path: the file.
        packed: bytes it may have.
        unpacked: bytes that all its lines may have.
        line: bytes that one may have.

    Raises:
        DataError: no gzip, a broken one, several members, or more bytes than allowed.
    """
    check_file(path, packed)
    rest, number = b"", 0
    for block in _unpacked(path, unpacked):
        *lines, rest = (rest + block).split(b"\n")
        if max(map(len, lines), default=0) > line or len(rest) > line:
            raise DataError(f"{shown(path)}: a line behind line {number} has over {line} bytes")
        number += len(lines)
        yield from lines
    if rest:
        raise DataError(f"{shown(path)}: its last line has no end; is the file whole?")


def _unpacked(path: Path, most: int) -> Iterator[bytes]:
    machine, total = zlib.decompressobj(wbits=31), 0
    try:
        with path.open("rb") as file:
            while not machine.eof:
                raw = machine.unconsumed_tail or file.read(BLOCK)
                if not raw:
                    raise DataError(f"{shown(path)}: the gzip file ends too early")
                block = machine.decompress(raw, BLOCK)
                total += len(block)
                if total > most:
                    raise DataError(f"{shown(path)}: unpacks to more than {most} bytes")
                yield block
            if machine.unused_data or file.read(1):
                raise DataError(f"{shown(path)}: more follows its gzip member; expected one member")
    except (OSError, zlib.error) as error:
        raise DataError(f"{shown(path)}: no readable gzip file: {reason_of(error)}") from None


def check_json(raw: bytes, place: str) -> None:
    """What the definitions cannot see of a JSON text that they accept.

    Raises:
        DataError: a name twice in an object (readers differ in which one they take), a whole number
            of over ``MAX_DIGITS`` digits, a text of over ``MAX_TEXT`` characters or with characters
            that do not show.
    """
    is_plain = raw.isascii() and b"\\" not in raw and len(raw) <= MAX_TEXT
    hook = _named_once if is_plain else _object  # plain: no text in it is long or hides anything
    try:
        json.loads(raw, object_pairs_hook=hook, parse_int=_whole)
    except RecursionError:
        raise DataError(f"{place}: lists or objects within each other too deep") from None
    except ValueError as error:
        raise DataError(f"{place}: {reason_of(error)}") from None


def _named_once(pairs: list[tuple[str, Any]]) -> None:
    if len(dict(pairs)) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the name {shown(twice)} stands twice in an object")


def _object(pairs: list[tuple[str, Any]]) -> None:
    _named_once(pairs)
    for name, value in pairs:
        _check_text(name)
        for item in value if isinstance(value, list) else (value,):
            if isinstance(item, str):
                _check_text(item)


def _check_text(text: str) -> None:
    if len(text) > MAX_TEXT:
        raise ValueError(f"a text of {len(text)} characters; at most {MAX_TEXT} are allowed")
    if UNSEEN.search(text):
        raise ValueError(f"the text {shown(text)} has characters that do not show")


def _whole(digits: str) -> int:
    if len(digits.lstrip("-")) > MAX_DIGITS:
        raise ValueError(f"a whole number of {len(digits)} digits; expected at most {MAX_DIGITS}")
    return int(digits)


def reason_of(error: Exception) -> str:
    """Why a file cannot be read, in a line."""
    said = error.strerror if isinstance(error, OSError) else None
    return shown(said or str(error))


def shown(value: object, most: int = 160) -> str:
    """A stranger's text as it may stand in our messages: one line, nothing hidden, not too long."""
    text = UNSEEN.sub("\N{REPLACEMENT CHARACTER}", str(value))
    return text if len(text) <= most else f"{text[: most - 3]}..."
