"""The tables of leaderboards/README.md: every field of every record, from the schemas."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from tcb_bench.leaderboards.schema import SCHEMAS, schema_of
from tcb_bench.metrics import METRICS

BLOCK = re.compile(r"(<!-- table:(\w+) -->\n).*?(<!-- end -->)", re.DOTALL)
Schema = Mapping[str, Any]


def with_tables(text: str) -> str:
    """The text with every block between ``<!-- table:name -->`` and ``<!-- end -->`` made anew."""
    made = tables()
    return BLOCK.sub(lambda found: f"{found[1]}\n{made[found[2]]}\n{found[3]}", text)


def tables() -> dict[str, str]:
    """Name of a block -> its Markdown; a record that several files share stands in the first."""
    seen: set[str] = set()
    found = {name: "\n".join(_records(schema_of(name), seen)) for name in SCHEMAS}
    return found | {"quantities": _quantities()}


def _records(schema: Schema, seen: set[str]) -> Iterator[str]:
    yield from _record(schema)
    for name, record in _by_use(schema):
        if name not in seen and "properties" in record:
            seen.add(name)
            yield f"#### {name}\n"
            yield from _record(record)


def _by_use(schema: Schema) -> Iterator[tuple[str, Schema]]:
    """The records that a schema uses, in the order in which a reader meets them."""
    waiting, known = _references(schema["properties"]), set()
    while waiting:
        name = waiting.pop(0)
        if name in known:
            continue
        known.add(name)
        record = schema["$defs"][name]
        yield name, record
        waiting += _references(record)


def _references(value: Any) -> list[str]:
    if isinstance(value, Mapping):
        own = [str(value["$ref"]).rpartition("/")[2]] if "$ref" in value else []
        return own + [name for item in value.values() for name in _references(item)]
    if isinstance(value, list):
        return [name for item in value for name in _references(item)]
    return []


def _record(record: Schema) -> Iterator[str]:
    yield _escaped(record.get("description", "").split("\n\n")[0].replace("\n", " ")) + "\n"
    yield "| field | type | meaning |"
    yield "|---|---|---|"
    for name, field in record["properties"].items():
        optional = "" if name in record.get("required", ()) else " (may be absent)"
        meaning = _escaped(field.get("description", ""))
        yield f"| `{name}` | {_escaped(type_text(field))}{optional} | {meaning} |"
    yield ""


def type_text(field: Schema) -> str:
    """A field's type in words.

    >>> type_text({"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "null"}]})
    'list of string, or null'
    """
    if "$ref" in field:
        return str(field["$ref"]).rpartition("/")[2]
    if "anyOf" in field:
        kinds = [type_text(kind) for kind in field["anyOf"]]
        words = " or ".join(kind for kind in kinds if kind != "null")
        return f"{words}, or null" if "null" in kinds else words
    if "enum" in field or "const" in field:
        return " or ".join(f"`{value}`" for value in field.get("enum", [field.get("const")]))
    if field.get("type") == "array":
        return f"list of {_grouped(field['items'])}"
    if field.get("type") == "object":
        inner = field.get("additionalProperties")
        return f"object of {_grouped(inner)}" if isinstance(inner, Mapping) else "object"
    return _plain(field)


def _grouped(field: Schema) -> str:
    text = type_text(field)
    return f"({text})" if " or " in text else text


def _plain(field: Schema) -> str:
    kind = str(field.get("type", "any"))
    if "pattern" in field:
        digits = re.search(r"\{64\}", field["pattern"])
        return "64 hex digits" if digits else "YYYY-MM-DD"
    signs = {"minimum": ">=", "exclusiveMinimum": ">", "maximum": "<="}
    limits = [f"{sign} {field[key]:g}" for key, sign in signs.items() if key in field]
    return " ".join([kind, ", ".join(limits)]).strip()


def _quantities() -> str:
    arrow = {True: "higher", False: "lower", None: "neither"}
    lines = ["| quantity | unit | better | meaning |", "|---|---|---|---|"]
    for name, metric in METRICS.items():
        cells = (f"`{name}`", metric.unit, arrow[metric.higher_is_better], metric.meaning)
        lines.append(f"| {' | '.join(map(_escaped, cells))} |")
    return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    return text.replace("|", "\\|")
