"""One mapping of a task file, read key by key: unknown keys and bad values are refused."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

from tcb_bench.errors import UsageError
from tcb_bench.strict_yaml import nearest, wrong

At = Callable[[str], str]
"""Dotted key -> where it stands, for the beginning of a message."""


def is_number(value: object) -> bool:
    """Whether it is a finite number; true and false are none."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def is_whole(value: object, least: int) -> bool:
    """Whether it is a whole number from ``least`` on; true and 3.0 are none."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


class Section:
    """A mapping with its dotted name; a key that is absent takes its default, a null does not."""

    def __init__(self, values: object, name: str, where: str | At) -> None:
        """``where``: what messages begin with, or a function from the dotted key to that."""
        self.name, self._where = name, where
        if not isinstance(values, dict):
            found = f"{name} is {values!r}" if values is not None else f"there is no {name} mapping"
            raise wrong(self.at(name), found, f"expected `{name}:` with keys below it")
        self.values: dict[Any, Any] = values

    def at(self, key: str) -> str:
        """Where a dotted key stands."""
        return self._where(key) if callable(self._where) else self._where

    def inside(self, key: str) -> Section:
        """The mapping under ``key``."""
        return Section(self.values[key], f"{self.name}.{key}", self._where)

    def bad(self, key: object, expected: str) -> UsageError:
        """The refusal of ``key``'s value, or of its absence."""
        name = f"{self.name}.{key}"
        found = f"{name} is {self.values[key]!r}" if key in self.values else f"{name} is missing"
        return wrong(self.at(name), found, expected)

    def allow(self, known: Iterable[str], otherwise: str = "") -> None:
        """Refuses keys that are not known, with the nearest that is."""
        names = list(known)
        for key in self.values:
            if key not in names:
                hint = nearest(key, names, otherwise or f"the keys are {', '.join(names)}")
                raise wrong(self.at(f"{self.name}.{key}"), f"no key {key!r} in {self.name}", hint)

    def choice(self, key: str, options: tuple[str, ...], default: str | None) -> str:
        """One of ``options``; without a default the key is required."""
        value = self.values.get(key, default)
        if value not in options:
            raise self.bad(key, f"expected {' or '.join(options)}")
        return str(value)

    def positive(self, key: str, default: float) -> float:
        """A number above 0."""
        value = self.values.get(key, default)
        if not is_number(value) or value <= 0:
            raise self.bad(key, "expected a number > 0 (YAML reads 1e-3 as text: 0.001 or 1.0e-3)")
        return float(value)

    def whole(self, key: str) -> int | None:
        """A whole number >= 1, or None where the key is absent."""
        if key in self.values and not is_whole(self.values[key], 1):
            raise self.bad(key, "expected a whole number >= 1")
        return self.values.get(key)

    def text(self, key: str) -> str | None:
        """A text that is not blank, or None where the key is absent."""
        value = self.values.get(key)
        if key in self.values and not (isinstance(value, str) and value.strip()):
            raise self.bad(key, "expected a text")
        return value
