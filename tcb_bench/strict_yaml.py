"""One YAML file as lm-eval reads it, but strictly: what is wrong is named by file and line."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tcb_bench.errors import UsageError

PROMPT_KEYS = (
    *("description", "doc_to_text", "doc_to_target", "doc_to_choice", "gen_prefix"),
    *("target_delimiter", "fewshot_delimiter", "fewshot_config", "generation_kwargs"),
)
"""Keys whose values reach a prompt or a stop string; elsewhere a backslash is a pattern's."""

_JINJA = re.compile(r"\{\{.*?\}\}|\{%.*?%\}|\{#.*?#\}", re.DOTALL)
_LATEX_N = r"(?:abla|e|earrow|eg|eq|ewcommand|ewline|exists|i|mid|oindent|ot|otin|u|warrow)\b"
_BACKSLASH_N = re.compile(rf"\\n(?!{_LATEX_N})")
_DEPTH = 3  # keys whose lines are kept: tcb.local.files

_Loader: Any = type("_Loader", (getattr(yaml, "CSafeLoader", yaml.SafeLoader),), {})
_Loader.add_constructor("!function", lambda loader, node: loader.construct_scalar(node))


@dataclass(frozen=True, slots=True)
class Parsed:
    """One file: its own mapping, the line of each dotted key, and the doubtful quotes per key."""

    config: dict[str, Any]
    lines: dict[str, int]
    unescaped: dict[str, list[int]]


def wrong(at: str, found: str, expected: str) -> UsageError:
    """The one voice of the refusals: ``FILE:LINE: what was found; what was expected``."""
    return UsageError(f"{at}: {found}; {expected}")


def nearest(name: object, known: Iterable[str], otherwise: str) -> str:
    """``did you mean 'x'?`` for a name close to a known one, else ``otherwise``."""
    near = difflib.get_close_matches(str(name), sorted(known), n=1, cutoff=0.6)
    return f"did you mean {near[0]!r}?" if near else otherwise


def without_jinja(text: str) -> str:
    """The text of a template with every Jinja block blanked."""
    return _JINJA.sub(" ", text)


def parse(path: Path, label: str) -> Parsed:
    """One file, its ``include`` not yet followed.

    Args:
        path: where it lies.
        label: its name in messages.

    Raises:
        UsageError: not readable, not UTF-8, not YAML, not a mapping, or a key given twice.
    """
    text = _read(path, label)
    loader = _Loader(text)
    try:
        root = loader.get_single_node()
        if not isinstance(root, yaml.MappingNode):
            found = "nothing" if root is None else f"a {root.id}"
            raise wrong(f"{label}:1", f"the file holds {found}", "expected `key: value` lines")
        for key, value in root.value:
            if key.value == "class" and value.tag != "!function":
                at = f"{label}:{value.start_mark.line + 1}"
                raise wrong(at, "class is a text", "expected `class: !function module.Class`")
        _check_nodes(root, loader, label, set())
        lines, unescaped = dict(_lines(root, "", 1)), _unescaped(root)  # construction flattens `<<`
        return Parsed(loader.construct_document(root), lines, unescaped)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        at = f"{label}:{mark.line + 1 if mark else 1}"
        problem = " ".join(filter(None, [error.problem, error.context]))
        raise wrong(at, problem, "expected valid YAML") from None
    except yaml.reader.ReaderError as error:
        line = text.encode()[: error.position].count(10) + 1
        raise wrong(f"{label}:{line}", error.reason, "expected plain text") from None
    finally:
        loader.dispose()


def _read(path: Path, label: str) -> str:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise wrong(f"{label}:1", f"cannot be read ({error.strerror})", "expected a file") from None
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        at = f"{label}:{data[: error.start].count(10) + 1}"
        found = f"byte 0x{data[error.start]:02x} is not UTF-8"
        raise wrong(at, found, "save the file as UTF-8") from None


def _check_nodes(node: yaml.Node, loader: Any, label: str, seen: set[int]) -> None:
    """Refuses keys given twice, at any depth, and scalars that Python cannot hold."""
    if id(node) in seen:
        return
    seen.add(id(node))
    if isinstance(node, yaml.MappingNode):
        _check_keys(node, label)
        children = [child for pair in node.value for child in pair]
    elif isinstance(node, yaml.SequenceNode):
        children = node.value
    elif node.tag == "tag:yaml.org,2002:merge":
        children = []
    else:
        children = []
        try:
            loader.construct_object(node)
        except ValueError as error:  # a date like 2024-13-45
            at = f"{label}:{node.start_mark.line + 1}"
            raise wrong(at, f"{node.value!r}: {error}", "expected a value (or quotes)") from None
    for child in children:
        _check_nodes(child, loader, label, seen)


def _check_keys(node: yaml.MappingNode, label: str) -> None:
    first: dict[tuple[str, str], int] = {}
    for key, _ in node.value:
        if isinstance(key, yaml.ScalarNode):
            line, name = key.start_mark.line + 1, (key.tag, key.value)
            if name in first:
                found = f"key {key.value!r} is given twice (first in line {first[name]})"
                raise wrong(f"{label}:{line}", found, "expected once")
            first[name] = line


def _lines(node: yaml.MappingNode, prefix: str, depth: int) -> Iterator[tuple[str, int]]:
    for key, value in node.value:
        name = f"{prefix}{key.value}"
        yield name, key.start_mark.line + 1
        if isinstance(value, yaml.MappingNode) and depth < _DEPTH:
            yield from _lines(value, f"{name}.", depth + 1)


def _unescaped(root: yaml.MappingNode) -> dict[str, list[int]]:
    """Lines per prompt key where a backslash and an n stand in quotes that keep them as two."""
    found = {}
    for key, value in root.value:
        if key.value in PROMPT_KEYS:
            hits = [n.start_mark.line + 1 for n in _scalars(value, set()) if _keeps_backslash_n(n)]
            if hits:
                found[key.value] = hits
    return found


def _keeps_backslash_n(node: yaml.ScalarNode) -> bool:
    is_raw = node.style in ("'", "", None) and node.tag != "!function"
    return is_raw and bool(_BACKSLASH_N.search(without_jinja(node.value)))


def _scalars(node: yaml.Node, seen: set[int]) -> Iterator[yaml.ScalarNode]:
    if isinstance(node, yaml.ScalarNode):
        yield node
    elif id(node) not in seen:
        seen.add(id(node))
        pairs = node.value if isinstance(node, yaml.MappingNode) else [node.value]
        for children in pairs:
            for child in children:
                yield from _scalars(child, seen)
