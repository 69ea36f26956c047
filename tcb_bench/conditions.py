"""Sweep axes to conditions, and their canonical ids."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any


@dataclass(frozen=True, slots=True)
class Condition:
    """One cell of a sweep: axis -> value, in the order in which the YAML lists the axes."""

    axes: Mapping[str, Any]

    @property
    def id(self) -> str:
        """``temperature=0.6,context=ner``; empty for a task without a sweep."""
        return ",".join(f"{axis}={value_text(value)}" for axis, value in self.axes.items())


def value_text(value: object) -> str:
    """A value as the id shows it: numbers as plain decimals, so that 3 * 0.2 is 0.6."""
    if isinstance(value, float):
        short = Decimal(repr(round(value, 10))).normalize()
        return f"{short:f}" if short != short.to_integral() else f"{short:.1f}"
    return str(value)


def conditions(sweep: Mapping[str, Sequence[Any]] | None) -> list[Condition]:
    """The product of all axes, the last one fastest; without a sweep, one with an empty id."""
    axes = sweep or {}
    return [
        Condition(dict(zip(axes, values, strict=True)))
        for values in itertools.product(*axes.values())
    ]
