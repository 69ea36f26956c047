"""A task file with its includes, merged as lm-eval does it, with the place of every key."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tcb_bench.strict_yaml import Parsed, parse, wrong


@dataclass(slots=True)
class Merged:
    """A file with its includes: where each dotted key was written, as ``FILE:LINE``."""

    label: str
    own_lines: dict[str, int]
    config: dict[str, Any] = field(default_factory=dict)
    origins: dict[str, str] = field(default_factory=dict)
    unescaped: dict[str, list[str]] = field(default_factory=dict)

    def at(self, key: str) -> str:
        """``FILE:LINE`` of a dotted key, or of the nearest mapping that should hold it."""
        while key and key not in self.origins:
            key = key.rpartition(".")[0]
        return self.origins.get(key, f"{self.label}:1")


def load(path: Path, cache: dict[Path, Parsed] | None = None) -> Merged:
    """The file with its includes resolved as lm-eval does, except that ``tcb`` is merged deeply.

    Included files come first, in order, without their ``task_list``; local keys win. Like
    lm-eval it takes each file once: a cycle, or one base reached on two ways, is an error.

    Args:
        path: the YAML file.
        cache: parsed files by resolved path, shared between calls that meet the same bases.

    Raises:
        UsageError: not readable, not UTF-8, not YAML, not a mapping, a key given twice, or an
            ``include`` that is missing or met before.
    """
    return _load(path, path.resolve(), {} if cache is None else cache, set())


def _load(label: Path, path: Path, cache: dict[Path, Parsed], seen: set[Path]) -> Merged:
    seen.add(path)
    if path not in cache:
        cache[path] = parse(path, str(label))
    own = cache[path]
    merged = Merged(str(label), own.lines)
    at = f"{label}:{own.lines.get('include', 1)}"
    for name in _includes(own, at):
        base = (path.parent / name).resolve()
        if base in seen:
            raise wrong(at, f"include {name!r} was read already", "each file once, no cycles")
        if not base.is_file():
            raise wrong(at, f"include {name!r} is not there", "expected a file, from this folder")
        below = _load(label.parent / name, base, cache, seen)
        below.config.pop("task_list", None)
        _merge(merged, below.config, below.origins, below.unescaped)
    config = {k: v for k, v in copy.deepcopy(own.config).items() if k != "include"}
    origins = {key: f"{label}:{line}" for key, line in own.lines.items()}
    quotes = {k: [f"{label}:{line}" for line in found] for k, found in own.unescaped.items()}
    _merge(merged, config, origins, quotes)
    return merged


def _includes(own: Parsed, at: str) -> list[str]:
    if "include" not in own.config:
        return []
    value = own.config["include"]
    names = value if isinstance(value, list) else [value]
    if not names or not all(isinstance(name, str) and name for name in names):
        raise wrong(at, f"include is {value!r}", "expected a file name or a list of them")
    return names


def _merge(
    into: Merged, config: dict[str, Any], origins: dict[str, str], quotes: dict[str, list[str]]
) -> None:
    """Puts ``config`` over ``into``; what it replaces loses its origins and its warnings."""
    for key, value in config.items():
        old = into.config.get(key)
        if key == "tcb" and isinstance(value, dict) and isinstance(old, dict):
            value = _deep(old, value)
        else:
            prefix = f"{key}."
            into.origins = {k: v for k, v in into.origins.items() if not k.startswith(prefix)}
            into.unescaped.pop(key, None)
        into.config[key] = value
    into.origins.update(origins)
    into.unescaped.update(quotes)


def _deep(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in over.items():
        old = base.get(key)
        both = isinstance(old, dict) and isinstance(value, dict)
        merged[key] = _deep(old, value) if both else value  # type: ignore[arg-type]
    return merged
