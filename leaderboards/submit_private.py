"""The last look before anything is written: no path, home, user name, address or key in it."""

from __future__ import annotations

import getpass
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tcb_bench.errors import DataError, UsageError
from tcb_bench.leaderboards.entry import Entry, EntrySample

START = r"""(?:^|(?<=[\s"'=:,;|(\[@<>]))"""
KINDS: dict[str, str] = {
    "an absolute path": rf"{START}/[\w.~+-]+/[\w.~+-]|^/\w|\bfile:/",
    "a path of a home folder": rf"{START}~[\w.-]*/",
    "a Windows path": rf"{START}[A-Za-z]:[\\/](?!/)|{START}\\\\\w",
    "an e-mail address": r"[\w.+-]+@(?:[\w-]+\.)+[A-Za-z]{2,}(?![\w:/@])",
    "an API key": r"(?<![A-Za-z0-9])(?:sk-[\w-]{16,}|hf_\w{16,}|gh[pousr]_\w{16,}"
    r"|github_pat_\w{16,}|glpat-[\w-]{16,}|xox[abprs]-[\w-]{8,}|AKIA[0-9A-Z]{16}|AIza[\w-]{30,}|key-[\w-]{24,})"
    r"|\bBearer\s+\S{8,}|-----BEGIN ",
    "credentials in an address": r"://[^/\s\"@]+@",
    "a secret in an address": r"[?&](?:[\w-]*(?:token|key|secret|password|signature)|sig|auth)=",
}
"""What is looked for -> its pattern."""

PRIVATE = re.compile(
    "|".join(f"(?P<k{i}>{pattern})" for i, pattern in enumerate(KINDS.values())), re.IGNORECASE
)
NAMED = ("model.id", "submitted_by", "task.name", "data.id", "data.ids", "links", "signature")
"""Fields that hold public names, in which a user name may well be part of one."""

COMMON = {"root", "user", "admin", "ubuntu", "debian", "runner", "test", "data", "nobody", "docker"}
SECRET_NAME = re.compile(r"(?:key|token|secret|password)s?$", re.IGNORECASE)
SHORTEST = 4  # characters of a user name that is looked for
SHORTEST_SECRET = 8  # of the value of a variable such as HF_TOKEN


def check_links(links: Iterable[str], option: str) -> None:
    """Refuses addresses that are not plain https ones.

    Raises:
        UsageError: another scheme, no host, or a user, password or secret in it.
    """
    for link in links:
        parts = urlsplit(link)
        is_plain = parts.scheme == "https" and parts.hostname and "@" not in parts.netloc
        if not is_plain or re.search(r"[\s<>\"]", link):
            raise UsageError(f"{option} {link.split('@')[-1]}: expected https://host/path")
        if finding(link) is not None:
            raise UsageError(f"{option}: the address holds a secret; give one that anyone may see")


def check_entry(entry: Entry, where: str) -> None:
    """Refuses an entry with anything private in it.

    Raises:
        DataError: with the field and what it looks like, never its value.
    """
    own = _own_words()
    for place, text in texts(entry.model_dump(mode="json", exclude_unset=True)):
        found = finding(text) or _of_this_user(place, text, own)
        if found is not None:
            raise DataError(
                f"{where}: {place} holds {found}; an entry is public: "
                "take it out of the run's settings or the task, and run or score again"
            )


def checked_samples(samples: Iterable[EntrySample], where: str) -> Iterator[EntrySample]:
    """The samples as they come; the first with anything private in it ends them.

    Raises:
        DataError: as ``check_entry``.
    """
    seen: set[str] = set()  # most texts of most rows are the same few
    for sample in samples:
        for place, text in texts(sample.model_dump(mode="json", exclude_unset=True)):
            if text in seen:
                continue
            seen.add(text)
            found = finding(text)
            if found is not None:
                raise DataError(
                    f"{where}: sample of a document: {place} holds {found}; samples are public: "
                    "give the task's documents other ids"
                )
        yield sample


def texts(value: Any, place: str = "") -> Iterator[tuple[str, str]]:
    """Every text of a JSON value, names of objects included, with its place."""
    if isinstance(value, str):
        yield place, value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield place, str(key)
            yield from texts(item, f"{place}.{key}" if place else str(key))
    elif isinstance(value, list):
        for item in value:
            yield from texts(item, place)


def finding(text: str) -> str | None:
    """What of ``KINDS`` is in a text; None for nothing.

    >>> finding("dtype:float32|data:hub@c30699e8356d"), finding("at /home/jo/models/a")
    (None, 'an absolute path')
    """
    found = PRIVATE.search(text)
    return list(KINDS)[int(str(found.lastgroup)[1:])] if found else None


def _own_words() -> dict[str, str]:
    """Words of this machine -> what they are: home folder, user, secrets."""
    words = {str(Path.home()): "the home folder"} if len(Path.home().parts) > 2 else {}
    user = getpass.getuser()
    if len(user) >= SHORTEST and user.lower() not in COMMON:
        words[user] = "the name of the user"
    for name, value in os.environ.items():
        if SECRET_NAME.search(name) and len(value) >= SHORTEST_SECRET:
            words[value] = f"the value of {name}"
    return words


def _of_this_user(place: str, text: str, own: Mapping[str, str]) -> str | None:
    for word, what in own.items():
        if what == "the name of the user":
            is_public = place.startswith(NAMED)
            if not is_public and re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text, re.IGNORECASE):
                return what
        elif word in text:
            return what
    return None
