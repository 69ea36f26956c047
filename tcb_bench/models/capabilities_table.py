"""The rows of capabilities.yaml: what they may say, and the file read strictly."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import MISSING, dataclass, fields
from datetime import date
from pathlib import Path
from typing import Any

from tcb_bench.strict_yaml import nearest, parse, wrong

PROVIDERS = ("openai", "deepseek", "compatible")


@dataclass(frozen=True, slots=True, kw_only=True)
class Capability:
    """What one model of an API accepts, and what of it acts.

    Attributes:
        provider: ``openai``, ``deepseek`` or ``compatible``.
        model: the name asked for.
        is_known: whether a row of the table says so; False where a probe found out.
        temperature: the range accepted; None: any but the default is rejected.
        temperature_effective: ``true``, ``false``, ``remapped`` or ``unknown``.
        temperature_note: how, in words; empty where there is nothing to say.
        max_tokens_field: ``max_tokens`` or ``max_completion_tokens``.
        max_tokens: highest value accepted; None: not known.
        counts_reasoning: whether that number counts reasoning tokens, too.
        is_reasoning: whether the model writes reasoning before its answer.
        stop_limit: stop sequences accepted; 0: the field is rejected.
        top_logprobs: highest ``top_logprobs``; 0: no log-probabilities.
        seed: whether ``seed`` is accepted.
        n: highest ``n``; 1: one choice a request.
        top_p: whether ``top_p`` is accepted.
        extra: further sampling fields accepted, of ``top_k``, ``min_p``, ``repetition_penalty``.
        system_role: ``system``, ``developer``, or ``user`` (put before the first turn of the user).
        has_batch: whether the provider's Batch API offers the model.
        context: tokens of prompt and completion together; None: not known.
        source: address of the public page that says so.
        note: what is not documented and was decided cautiously.
        retires: day (YYYY-MM-DD) on which the provider stops serving the name; empty: none known.
        top_k_off: the ``top_k`` that restricts nothing.
    """

    provider: str
    model: str
    is_known: bool
    temperature: tuple[float, float] | None
    temperature_effective: str
    temperature_note: str = ""
    max_tokens_field: str
    max_tokens: int | None
    counts_reasoning: bool
    is_reasoning: bool
    stop_limit: int
    top_logprobs: int
    seed: bool
    n: int
    top_p: bool
    extra: tuple[str, ...] = ()
    system_role: str
    has_batch: bool
    context: int | None
    source: str
    note: str = ""
    retires: str = ""
    top_k_off: int = -1


@dataclass(frozen=True, slots=True)
class Variant:
    """What changes in a row where each field of ``when`` has one of its values in a request."""

    when: Mapping[str, list[Any]]
    changes: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Row:
    """One model, and how what its requests carry changes what it accepts."""

    capability: Capability
    variants: tuple[Variant, ...] = ()


@dataclass(frozen=True, slots=True)
class Table:
    """All rows, by provider and name, and the providers whose names may carry a date."""

    rows: Mapping[str, Mapping[str, Row]]
    with_snapshots: frozenset[str]


def read_table(path: Path, label: str) -> Table:
    """The table of a file, checked whole.

    Args:
        path: where it lies.
        label: its name in messages.

    Raises:
        UsageError: not YAML, or a row has an unknown key, lacks one, or has a wrong value.
    """
    rows: dict[str, dict[str, Row]] = {}
    snapshots = set()
    for provider, section in parse(path, label).config.items():
        at = f"{label}: {provider}"
        if provider not in PROVIDERS:
            guess = nearest(provider, PROVIDERS, f"expected {', '.join(PROVIDERS)}")
            raise wrong(at, "no such provider", guess)
        _check_keys(at, section, {"snapshots", "families"}, {"snapshots", "families"})
        if _checked(at, "snapshots", section["snapshots"]):
            snapshots.add(provider)
        rows[provider] = {}
        for family, content in _mapping(at, section["families"]).items():
            for model, given in _models(f"{at}: {family}", content).items():
                spot = f"{label}: {provider}/{model}"
                if model in rows[provider]:
                    raise wrong(spot, "two families have this row", "expected one")
                rows[provider][model] = _row(spot, provider, model, given)
    return Table(rows, frozenset(snapshots))


def _models(at: str, content: object) -> dict[str, dict[str, Any]]:
    """What a family says of each model: its defaults, with the model's own keys over them."""
    _check_keys(at, content, {"defaults", "models"}, {"defaults", "models"})
    family = _mapping(at, content)
    defaults = _mapping(at, family["defaults"])
    models = _mapping(at, family["models"])
    return {name: {**defaults, **_mapping(f"{at}: {name}", own)} for name, own in models.items()}


def _row(at: str, provider: str, model: str, given: Mapping[str, Any]) -> Row:
    plain = {key: value for key, value in given.items() if key != "variants"}
    _check_keys(at, plain, _ROW_KEYS, _NEEDED)
    values = {key: _checked(at, key, value) for key, value in plain.items()}
    found = Capability(provider=provider, model=model, is_known=True, **values)
    variants = given.get("variants", [])
    if not isinstance(variants, list):
        raise wrong(at, f"variants is {variants!r}", "expected a list")
    return Row(found, tuple(_variant(f"{at}: variants", one) for one in variants))


def read_probed(at: str, provider: str, model: str, given: object) -> Capability:
    """What a probe found, as a run folder keeps it: a row that may lack a source.

    Args:
        at: its place, for messages.
        provider: ``openai``, ``deepseek`` or ``compatible``.
        model: the name that was asked for.
        given: the fields of a ``Capability``, from JSON.

    Raises:
        UsageError: as in ``read_table``.
    """
    named = {"provider", "model", "is_known"}
    _check_keys(at, given, _ROW_KEYS | named, _NEEDED)
    content = _mapping(at, given).items()
    told = {key: value for key, value in content if key not in named}
    told = {k: v for k, v in told.items() if v != "" or k not in ("source", "retires")}
    values = {"source": "", **{key: _checked(at, key, value) for key, value in told.items()}}
    return Capability(provider=provider, model=model, is_known=False, **values)


def _variant(at: str, given: object) -> Variant:
    _check_keys(at, given, {*_ROW_KEYS, "when"}, {"when"})
    content = dict(_mapping(at, given))
    when = _mapping(at, content.pop("when"))
    if not when or not all(isinstance(choices, list) for choices in when.values()):
        raise wrong(at, f"when is {when!r}", "expected fields of a request, each with a list")
    return Variant(when, {key: _checked(at, key, value) for key, value in content.items()})


def _mapping(at: str, value: object) -> Mapping[str, Any]:
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        raise wrong(at, f"{value!r} is given", "expected names with values")
    return value


def _check_keys(at: str, given: object, known: Collection[str], needed: Collection[str]) -> None:
    content = _mapping(at, given)
    for key in content:
        if key not in known:
            raise wrong(at, f"unknown key {key!r}", nearest(key, known, "leave it out"))
    if missing := sorted(set(needed) - content.keys()):
        raise wrong(at, f"{missing[0]} is missing", "the row or its family's defaults must give it")


def _checked(at: str, key: str, value: Any) -> Any:
    """The value as ``Capability`` holds it."""
    expected, read = _READERS[key]
    found = read(value)
    if found is _WRONG:
        raise wrong(at, f"{key} is {value!r}", f"expected {expected}")
    return found


_WRONG = object()
_Reader = tuple[str, Callable[[Any], Any]]


def _one_of(*texts: str) -> _Reader:
    return " or ".join(texts), lambda v: v if isinstance(v, str) and v in texts else _WRONG


def _count(least: int, *, may_be_null: bool = False) -> _Reader:
    def read(value: Any) -> Any:
        if value is None and may_be_null:
            return None
        return value if type(value) is int and value >= least else _WRONG

    return f"a whole number >= {least}{' or null' if may_be_null else ''}", read


def _range(value: Any) -> Any:
    if value is None:
        return None
    if not isinstance(value, list) or [type(end) in (int, float) for end in value] != [True, True]:
        return _WRONG
    low, high = map(float, value)
    return (low, high) if low <= high else _WRONG


def _extra(value: Any) -> Any:
    known = {"top_k", "min_p", "repetition_penalty"}
    return tuple(value) if isinstance(value, list) and set(map(str, value)) <= known else _WRONG


_FLAG: _Reader = ("true or false", lambda v: v if isinstance(v, bool) else _WRONG)
_TEXT: _Reader = ("a text", lambda v: v if isinstance(v, str) else _WRONG)
_READERS: Mapping[str, _Reader] = {
    "snapshots": _FLAG,
    "temperature": ("[lowest, highest] or null", _range),
    "temperature_effective": _one_of("true", "false", "remapped", "unknown"),
    "temperature_note": _TEXT,
    "max_tokens_field": _one_of("max_tokens", "max_completion_tokens"),
    "max_tokens": _count(1, may_be_null=True),
    "counts_reasoning": _FLAG,
    "is_reasoning": _FLAG,
    "stop_limit": _count(0),
    "top_logprobs": _count(0),
    "seed": _FLAG,
    "n": _count(1),
    "top_p": _FLAG,
    "extra": ("a list of top_k, min_p, repetition_penalty", _extra),
    "system_role": _one_of("system", "developer", "user"),
    "has_batch": _FLAG,
    "context": _count(1, may_be_null=True),
    "source": (
        "the address of a public page, https://...",
        lambda v: v if isinstance(v, str) and re.fullmatch(r"https://\S+", v) else _WRONG,
    ),
    "note": _TEXT,
    "retires": ("a day, YYYY-MM-DD", lambda v: v.isoformat() if type(v) is date else _WRONG),
    "top_k_off": ("a whole number", lambda v: v if type(v) is int else _WRONG),
}
"""How each key of a row is read: what is expected, and the value or ``_WRONG``."""

_ROW_KEYS = _READERS.keys() - {"snapshots"}
_NEEDED = {f.name for f in fields(Capability) if f.default is MISSING} & _ROW_KEYS
