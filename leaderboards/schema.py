"""JSON Schemas of results, samples and entries, made of the definitions that write them.

``python -m tcb_bench.leaderboards.schema`` writes the files under ``leaderboards/schema`` and the
tables of ``leaderboards/README.md`` again; a test compares both with what is written here.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from tcb_bench.leaderboards.entry import ENTRY_VERSION, KNOWN_OF_OURS, Entry, EntrySample
from tcb_bench.records import ResultFile
from tcb_bench.results import SCHEMA_VERSION
from tcb_bench.sample_records import Sample

DIALECT = "https://json-schema.org/draft/2020-12/schema"
FOLDER = Path(__file__).parent / "schema"
README = FOLDER.with_name("README.md")
SCHEMAS: dict[str, tuple[type[BaseModel], int]] = {
    "entry": (Entry, ENTRY_VERSION),
    "entry_sample": (EntrySample, ENTRY_VERSION),
    "result": (ResultFile, SCHEMA_VERSION),
    "sample": (Sample, SCHEMA_VERSION),
}
"""Name of a file -> its definition and version, in the order of the README."""


def schema_of(name: str) -> dict[str, Any]:
    """The JSON Schema (2020-12) of one kind of file; its ``$id`` carries the version."""
    definition, version = SCHEMAS[name]
    found = definition.model_json_schema(by_alias=True, mode="validation")
    rules = _rules_of_origin() if definition is Entry else {}
    return {"$schema": DIALECT, "$id": f"urn:tcb-bench:schema:{name}:{version}", **found, **rules}


def _rules_of_origin() -> dict[str, Any]:
    """What `Entry` checks across fields: only an imported entry may leave these null or empty."""
    there: dict[str, Any] = {"not": {"type": "null"}}
    ours: dict[str, Any] = dict.fromkeys(KNOWN_OF_OURS, there)
    ours["data"] = {"properties": {"source": there, "sha256": there}}
    ours["conditions"] = {"minItems": 1}
    ours["samples"] = {"properties": {"sha256": there}}
    is_verified = {"properties": {"tier": {"const": "verified"}}}
    verification = {"required": ["verification"], "properties": {"verification": there}}
    return {
        "if": {"properties": {"origin": {"const": "lm-eval"}}, "required": ["origin"]},
        "then": {"properties": {"tier": {"const": "self-reported"}}},
        "else": {"properties": ours},
        "allOf": [{"if": is_verified, "then": verification, "else": {"not": verification}}],
    }


def schema_text(name: str) -> str:
    """The schema as its file has it."""
    return json.dumps(schema_of(name), indent=2, ensure_ascii=False) + "\n"


def main(folder: Path = FOLDER, readme: Path = README) -> None:
    """Writes the schema files and the README's tables."""
    from tcb_bench.leaderboards.schema_tables import with_tables

    folder.mkdir(exist_ok=True)
    for name in SCHEMAS:
        (folder / f"{name}.schema.json").write_text(schema_text(name), encoding="utf-8")
    readme.write_text(with_tables(readme.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
