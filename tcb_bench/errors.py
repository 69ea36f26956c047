"""Errors that a user meets: one line each, with the exit code of the command."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class TcbBenchError(Exception):
    """Anything the command line reports without a traceback: what was given, expected, to do."""

    exit_code = 1


class UsageError(TcbBenchError):
    """The command line, a YAML file or an option is wrong; nothing was started."""

    exit_code = 2


class ModelError(TcbBenchError):
    """The model cannot be loaded or cannot be measured truthfully."""


class DataError(TcbBenchError):
    """A data set or file is missing, unreadable or not what the task expects."""


class StoreError(TcbBenchError):
    """The run folder cannot be used: locked, damaged, full, read-only, or of another model."""


class UnknownName(UsageError):
    """A name nobody knows, with the nearest known ones."""

    def __init__(self, kind: str, name: str, known: Iterable[str], hint: str = "") -> None:
        """``kind`` is what was looked for ("task"), ``hint`` the command that lists them."""
        names = sorted(set(known))
        near = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
        guess = f"; did you mean {' or '.join(map(repr, near))}?" if near else ""
        tail = f" {hint}" if hint else ""
        super().__init__(f"no {kind} {name!r}{guess or ';'}{tail}")


def reason(error: BaseException, longest: int = 300) -> str:
    """Why a library failed, in one line: the first of its message, or the kind of the error."""
    lines = str(error).strip().splitlines()
    return lines[0][:longest] if lines else type(error).__name__
