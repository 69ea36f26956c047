"""Settings of a study: its shipped YAML, a user's YAML over it, then ``--set``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tcb_bench.errors import UnknownName, UsageError
from tcb_bench.strict_yaml import parse

HERE = Path(__file__).parent
Settings = dict[str, Any]


def read_settings(
    study: str, file: Path | None = None, over: Mapping[str, Any] | None = None
) -> Settings:
    """Every setting of ``study``: the shipped value unless ``file`` or then ``over`` has another.

    Raises:
        UsageError: a value of another kind than the shipped one, or a file that cannot be read.
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
            settings[name] = _as(value, shipped[name], f"{where}: {name}")
    return settings


def _as(value: Any, shipped: Any, where: str) -> Any:
    """The value in the shipped one's type; null is free, and takes anything."""
    if shipped is None or value is None and not isinstance(shipped, bool | int | float):
        return value
    if isinstance(shipped, bool) and str(value).lower() in ("true", "false"):
        return str(value).lower() == "true"  # `--set` has Python's words, YAML its own
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if isinstance(shipped, float) and is_number:
        return float(value)
    if isinstance(shipped, list) and isinstance(value, str | int | float):
        value = [value]
    if type(value) is not type(shipped):
        kind = {
            "str": "a text",
            "int": "a whole number",
            "float": "a number",
            "bool": "true or false",
            "list": "a list",
            "dict": "a mapping",
        }[type(shipped).__name__]
        raise UsageError(f"{where}={value!r}: expected {kind}, as in {shipped!r}")
    return value
