"""What tokens of an API cost: the prices shipped here, with a user's own rows over them."""

from __future__ import annotations

import functools
import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from tcb_bench.models.capabilities import PROVIDERS, fine_tuned_base, row_name
from tcb_bench.strict_yaml import nearest, parse, wrong

SHIPPED = Path(__file__).with_name("prices.yaml")
MILLION = 1_000_000

_NUMBERS = ("input", "cached_input", "output", "batch_factor")
_KEYS = (*_NUMBERS, "as_of", "source")


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """What one model costs.

    Attributes:
        input: USD per million tokens of the prompt.
        cached_input: USD per million tokens of the prompt that were read from the provider's cache.
        output: USD per million tokens of the completion, reasoning included.
        batch_factor: what the prices are multiplied by in the Batch API.
        as_of: the day (YYYY-MM-DD) on which they were read; empty: not said.
        source: where; the name of the file for a user's own row that does not say.
    """

    input: float
    cached_input: float
    output: float
    batch_factor: float = 1.0
    as_of: str = ""
    source: str = ""

    def cost(self, usage: Mapping[str, int], *, is_batch: bool = False) -> float:
        """What a request costs, in USD.

        In a batch, cached tokens keep their own price (at most the batch's price of others): not
        for every model is a halved one published, and a bill is not to be larger than this.

        Args:
            usage: ``prompt_tokens``, ``cached_tokens`` (of the prompt), ``completion_tokens``;
                ``reasoning_tokens`` are among the completion's and not counted again. What is
                missing is 0.
            is_batch: whether the Batch API is used.
        """
        prompt, completion = usage.get("prompt_tokens", 0), usage.get("completion_tokens", 0)
        cached = min(usage.get("cached_tokens", 0), prompt)  # some servers report more
        factor = self.batch_factor if is_batch else 1.0
        cached_price = min(self.cached_input, self.input * factor)
        full = (prompt - cached) * self.input + completion * self.output
        return (full * factor + cached * cached_price) / MILLION


@dataclass(frozen=True, slots=True)
class Prices:
    """Prices by provider and name of the model."""

    rows: Mapping[str, Mapping[str, Price]]

    def of(self, provider: str, model: str) -> Price | None:
        """The price of a model, or None: it is never taken to be 0.

        A row speaks for the model of its name and for its dated snapshots (``gpt-4o-2024-08-06``)
        that have no row; one named ``ft:gpt-4o-mini`` for all fine-tuned models made from it, which
        have other prices than their base.
        """
        rows = self.rows.get(provider, {})
        is_openai = provider == "openai"  # dates in names and fine-tuned names are its own
        if is_openai and model not in rows and (base := fine_tuned_base(model)):
            tuned = {name.removeprefix("ft:") for name in rows if name.startswith("ft:")}
            found = row_name(tuned, base)
            return rows[f"ft:{found}"] if found else None
        name = row_name(rows, model, snapshots=is_openai)
        return rows[name] if name is not None else None


def read_prices(path: Path | None = None) -> Prices:
    """The shipped prices, with the rows of a user's file over them.

    Args:
        path: a file like ``prices.yaml``; None: the shipped prices alone.

    Raises:
        UsageError: the file cannot be read, or a row of it is wrong: ``FILE: row: what, expected``.
    """
    shipped = _shipped()
    if path is None:
        return Prices(shipped)
    own = _read(path, str(path))
    return Prices({p: {**shipped.get(p, {}), **own.get(p, {})} for p in PROVIDERS})


@functools.cache
def _shipped() -> Mapping[str, Mapping[str, Price]]:
    return _read(SHIPPED, SHIPPED.name)


def _read(path: Path, label: str) -> dict[str, dict[str, Price]]:
    found: dict[str, dict[str, Price]] = {}
    for provider, rows in parse(path, label).config.items():
        at = f"{label}: {provider}"
        if provider not in PROVIDERS:
            guess = nearest(provider, PROVIDERS, f"expected {', '.join(PROVIDERS)}")
            raise wrong(at, "no such provider", guess)
        if not isinstance(rows, dict):
            raise wrong(at, f"{rows!r} is given", "expected `model: {input: USD, output: USD}`")
        for model, given in rows.items():
            if not isinstance(model, str):
                raise wrong(
                    at, f"the model {model!r} is no text", f"write {str(model)!r} in quotes"
                )
            found.setdefault(provider, {})[model] = _price(f"{at}/{model}", given, path.name)
    return found


def _price(at: str, given: Any, file_name: str) -> Price:
    if not isinstance(given, dict):
        raise wrong(at, f"{given!r} is given", "expected {input: USD, output: USD}")
    _check_keys(at, given)
    numbers = {key: _amount(at, key, given[key]) for key in _NUMBERS if key in given}
    numbers.setdefault("cached_input", numbers["input"])
    day, source = given.get("as_of", ""), given.get("source", file_name)
    if day != "" and type(day) is not date:
        raise wrong(at, f"as_of is {day!r}", "expected a day, YYYY-MM-DD")
    if not isinstance(source, str):
        raise wrong(at, f"source is {source!r}", "expected an address or a text")
    return Price(**numbers, as_of=str(day), source=source)


def _check_keys(at: str, given: Collection[Any]) -> None:
    for key in given:
        if key not in _KEYS:
            guess = nearest(key, _KEYS, f"expected {', '.join(_KEYS)}")
            raise wrong(at, f"unknown key {key!r}", guess)
    for key in ("input", "output"):
        if key not in given:
            raise wrong(at, f"{key} is missing", "expected USD per million tokens")


def _amount(at: str, key: str, value: Any) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not math.isfinite(value) or value < 0:
        unit = "" if key == "batch_factor" else " (USD per million tokens)"
        raise wrong(at, f"{key} is {value!r}", f"expected a number >= 0{unit}")
    return float(value)
