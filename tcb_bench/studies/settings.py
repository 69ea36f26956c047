"""Settings of a study: its shipped YAML, a user's YAML over it, then ``--set``."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tcb_bench.errors import UnknownName, UsageError
from tcb_bench.strict_yaml import parse

HERE = Path(__file__).parent
Settings = dict[str, Any]

WORDS = {
    str: "a text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    list: "a list",
    dict: "a mapping",
}
NULLS: dict[str, tuple[type, ...]] = {
    "prompts": (str,),
    "example": (str,),
    "space": (str, dict),
    "max_gen_toks": (int,),
    "stable_at": (float,),
}
"""Settings that are shipped as null -> what else they may be."""
LIMITS: dict[str, tuple[float, float]] = {
    "resamples": (1, 1_000_000),
    "level": (0.01, 0.9999),
    "max_gen_toks": (0, 1_000_000),
    "temperature": (0, 1000),
    "v_eff_max": (1, 1e12),
    "near_zero": (0, 1),
    "probes": (2, 1_000_000),
    "directions": (0, 100_000),
    "aligned": (1, 10_000),
    "draws": (1, 10_000),
    "num_fewshot": (-1, 1000),
    "seeds": (1, 10_000),
    **dict.fromkeys(("vcq_acc", "vcq_acc_var", "aq_acc", "aq_acc_var"), (0, 1)),
}
"""From and to; what only one study refuses stands with it."""


def read_settings(
    study: str, file: Path | None = None, over: Mapping[str, Any] | None = None
) -> Settings:
    """Every setting of ``study``: the shipped value unless ``file`` or then ``over`` has another.

    Raises:
        UsageError: a value of another kind than the shipped one or out of range, or a file that
            cannot be read.
        UnknownName: a setting that the study does not have, with the nearest.
    """
    shipped = parse(HERE / f"{study}.yaml", f"{study}.yaml").config
    given = [(f"{file}", parse(file, str(file)).config)] if file else []
    settings = dict(shipped)
    for where, changes in [*given, ("--set", over or {})]:
        for name, value in changes.items():
            if name not in shipped:
                hint = f"settings of the study: {', '.join(shipped)}"
                raise UnknownName(f"setting in {where}", str(name), shipped, hint)
            at = f"{where}: {name}"
            if name == "version" and value != shipped[name]:
                raise UsageError(f"{at}={value!r}: this study is version {shipped[name]}")
            settings[name] = _as(value, shipped[name], at, NULLS.get(name, ()))
            _check_range(name, settings[name], at)
    return settings


def _as(value: Any, shipped: Any, where: str, otherwise: tuple[type, ...]) -> Any:
    """The value in the shipped one's type; where that is null, in one of ``otherwise`` (if any)."""
    if shipped is None:
        return value if value is None or not otherwise else _one_of(value, otherwise, where)
    if isinstance(shipped, list):
        values = [value] if isinstance(value, str | int | float) else value
        if str(value).startswith("[") and isinstance(value, str):
            raise UsageError(
                f"{where}={value}: write each text of a list in quotes: \"['a', 'b']\""
            )
        if not isinstance(values, list):
            raise UsageError(f"{where}={value!r}: expected a list, as in {shipped!r}")
        return [_element(one, shipped, f"{where}={value!r}") for one in values]
    return _one_of(value, (type(shipped),), where, f", as in {shipped!r}")


def _one_of(value: Any, kinds: tuple[type, ...], where: str, example: str = "") -> Any:
    if _is_number(value) and not math.isfinite(value):
        raise UsageError(f"{where}={value!r}: expected a finite value{example}")
    if bool in kinds and str(value).lower() in ("true", "false"):
        return str(value).lower() == "true"  # `--set` has Python's words, YAML its own
    if float in kinds and _is_number(value):
        return float(value)
    if kinds[0] is str and _is_number(value):  # `--set example=5`: an id that looks like a number
        return str(value)
    if type(value) not in kinds:
        words = " or ".join(WORDS[kind] for kind in kinds)
        raise UsageError(f"{where}={value!r}: expected {words}{example}")
    return value


def _element(value: Any, shipped: list[Any], where: str) -> Any:
    """A list's element: a text or a finite number, as the shipped list's are; texts where empty."""
    if all(isinstance(one, str) for one in shipped):
        if not isinstance(value, str) or not value.strip():
            raise UsageError(f"{where}: expected a list of texts, as in {shipped!r}")
    elif not _is_number(value) or not math.isfinite(value):
        raise UsageError(f"{where}: expected a list of finite numbers, as in {shipped!r}")
    return value


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _check_range(name: str, value: Any, where: str) -> None:
    low, high = LIMITS.get(name, (-math.inf, math.inf))
    if _is_number(value) and not low <= value <= high:
        raise UsageError(f"{where}={value!r}: expected from {low:.12g} to {high:.12g}")
