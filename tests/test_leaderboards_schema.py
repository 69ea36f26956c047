"""Schemas and README. Oracle: the jsonschema package, on files that a real run and submit wrote."""

import copy
import gzip
import json
import re

import pytest
from board_entries import make_entry
from jsonschema import Draft202012Validator
from submit_runs import written

from tcb_bench.leaderboards.entry import Entry
from tcb_bench.leaderboards.entry_files import entry_text
from tcb_bench.leaderboards.schema import FOLDER, README, SCHEMAS, main, schema_of, schema_text
from tcb_bench.leaderboards.schema_tables import tables, with_tables


def validator(name):
    schema = json.loads((FOLDER / f"{name}.schema.json").read_text(encoding="utf-8"))
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


def errors(name, value):
    return [f"{e.json_path}: {e.message[:200]}" for e in validator(name).iter_errors(value)]


@pytest.mark.parametrize("name", SCHEMAS)
def test_the_files_are_what_the_definitions_give(name):
    assert (FOLDER / f"{name}.schema.json").read_bytes() == schema_text(name).encode()
    version = SCHEMAS[name][1]
    assert schema_of(name)["$id"] == f"urn:tcb-bench:schema:{name}:{version}"


def test_the_readme_is_what_the_definitions_give():
    text = README.read_text(encoding="utf-8")
    assert with_tables(text) == text
    assert set(re.findall(r"<!-- table:(\w+) -->", text)) == set(tables())


def test_every_field_says_what_it_means():
    rows = [line for table in tables().values() for line in table.splitlines() if "`" in line]
    assert len(rows) > 150
    assert [row for row in rows if re.search(r"\|\s*\|$", row)] == []


def test_the_command_writes_schemas_and_tables(tmp_path):
    readme = tmp_path / "README.md"
    blocks = re.compile(r"(<!-- table:\w+ -->\n).*?(<!-- end -->)", re.DOTALL)
    readme.write_text(blocks.sub(r"\1\2", README.read_text()))
    assert "| field |" not in readme.read_text()
    main(tmp_path / "schema", readme)
    assert readme.read_text() == README.read_text()
    made = {path.name: path.read_bytes() for path in (tmp_path / "schema").iterdir()}
    assert made == {path.name: path.read_bytes() for path in FOLDER.iterdir()}


@pytest.mark.slow
def test_files_of_a_real_run_are_valid(tiny_run):
    results = sorted(tiny_run.glob("results_*.json"))
    samples = sorted(tiny_run.glob("samples_*.jsonl"))
    assert len(results) == 2
    assert len(samples) == 7
    for path in results:
        assert errors("result", json.loads(path.read_text())) == [], path.name
    for path in samples:
        for line in path.read_text().splitlines():
            assert errors("sample", json.loads(line)) == [], path.name


@pytest.mark.slow
@pytest.mark.parametrize("task", ["mmlu_tcb", "gsm8k_tcb", "phrases"])
def test_entries_of_a_real_run_are_valid(tiny_run, tmp_path, task):
    loaded = written(tiny_run, task, tmp_path, is_partial_ok=True)
    assert errors("entry", json.loads(loaded.path.read_text())) == []
    lines = gzip.decompress(loaded.samples.read_bytes()).splitlines()
    assert len(lines) == loaded.entry.samples.rows > 0
    for line in lines:
        assert errors("entry_sample", json.loads(line)) == []


@pytest.fixture(scope="module")
def record(tmp_path_factory):
    path = make_entry(tmp_path_factory.mktemp("entries"), "org/model", "gsm8k_tcb", 4)
    return json.loads(path.read_text())


def without(record, name):
    return {key: value for key, value in record.items() if key != name}


BAD = {
    "a key more": lambda r: r | {"note": "x"},
    "a key less": lambda r: without(r, "weight_radius"),
    "a number as text": lambda r: r | {"epsilon": "1.0"},
    "epsilon 0": lambda r: r | {"epsilon": 0},
    "a negative count": lambda r: r | {"counts": r["counts"] | {"error": -1}},
    "another version": lambda r: r | {"entry_version": 2},
    "no sha256": lambda r: r | {"data": r["data"] | {"sha256": "abc"}},
    "another date": lambda r: r | {"date": "31.1.2026"},
    "a third tier": lambda r: r | {"tier": "gold"},
    "no counts, though ours": lambda r: r | {"counts": None},
    "no conditions, though ours": lambda r: r | {"conditions": []},
    "no data hash, though ours": lambda r: r | {"data": r["data"] | {"sha256": None}},
    "verified by nobody": lambda r: r | {"tier": "verified"},
    "imported and verified": lambda r: (
        r
        | {"origin": "lm-eval", "tier": "verified"}
        | {"verification": {"by": "x", "date": "2026-01-31", "run_sha256": "0" * 64}}
    ),
}


@pytest.mark.parametrize("change", BAD.values(), ids=BAD)
def test_schema_and_definition_refuse_the_same(record, change):
    assert errors("entry", record) == []
    bad = change(copy.deepcopy(record))
    assert errors("entry", bad) != []
    with pytest.raises(ValueError, match="validation error"):
        Entry.model_validate(bad)


def test_an_entry_is_one_line_a_metric_and_loses_nothing(record):
    entry = Entry.model_validate(record)
    text = entry_text(entry)
    assert json.loads(text) == record
    assert Entry.model_validate_json(text) == entry
    lines = text.splitlines()
    names = [line for line in lines if '"name": ' in line and '"unit": ' in line]
    n_metrics = len(entry.metrics) + len(entry.metrics_completed)
    n_metrics += sum(len(c.metrics) + len(c.metrics_completed) for c in entry.conditions)
    assert len(names) == n_metrics
    assert len(text) < len(json.dumps(record, indent=2)) * 0.9
