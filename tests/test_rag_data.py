"""Prepared records and reference files. Oracle: small records written out by hand."""

import json

import pytest
from datasets import Dataset

from tcb_bench.errors import DataError
from tcb_bench.rag_data import prepared, read_references, references
from tcb_bench.task_spec import tcb_spec

SPEC = tcb_spec(
    {"tcb": {"request": "generate", "columns": {"documents": "docs", "question": "q"}}}, "here"
)
GOOD = {
    "tcb_id": "1",
    "q": "?",
    "answer": "yes",
    "docs": [{"title": "A", "text": "One. Two."}],
    "support": [{"title": "A", "sent_id": 0}],
}


def dataset(*rows):
    return Dataset.from_list([{**GOOD, **row} for row in rows])


def test_records_whose_facts_do_not_resolve_are_left_out_by_reason():
    rows = dataset(
        {},
        {"tcb_id": "2", "support": [{"title": "B", "sent_id": 0}]},
        {"tcb_id": "3", "support": [{"title": "A", "sent_id": 9}]},
        {"tcb_id": "4", "support": [{"title": "C", "sent_id": 0}]},
    )
    kept, left_out = prepared(rows, SPEC, "t")
    assert kept["tcb_id"] == ["1"]
    assert left_out == {
        "a supporting title is not among the documents": 2,
        "a supporting sentence is beyond its document": 1,
    }
    assert not {"docs", "support"} & set(kept.column_names)
    assert kept[0]["tcb_evidence"] == [{"title": "A", "index": 0, "text": "One."}]


def test_a_missing_column_no_record_or_an_odd_form_is_named():
    with pytest.raises(DataError, match="tcb.columns.question is 'q', the data has"):
        prepared(dataset({}).remove_columns("q"), SPEC, "t")
    with pytest.raises(DataError, match="no record can be asked"):
        prepared(dataset({"support": [{"title": "B", "sent_id": 0}]}), SPEC, "t")
    with pytest.raises(DataError, match="1: its documents or support are not of a known form"):
        prepared(Dataset.from_list([{**GOOD, "docs": [{"name": "A"}]}]), SPEC, "t")


def chosen(**columns):
    return Dataset.from_list(
        [{"tcb_id": "1", "answer": "yes", **columns}, {"tcb_id": "2", "answer": "Oslo", **columns}]
    )


def test_short_references_are_the_answers():
    found = references(chosen(), SPEC, "short", None, "t")
    assert found.texts == {"1": "yes", "2": "Oslo"}
    assert found.facts["kind"] == "short"
    assert found.facts["generator"] is None


def test_sentences_come_from_a_file_and_those_without_the_answer_are_listed(tmp_path):
    path = tmp_path / "refs.jsonl"
    rows = [
        {"doc_id": "1", "reference": "Yes, it is.", "generator": "m"},
        {"doc_id": "2", "reference": "It is Bergen.", "generator": "m"},
        {"doc_id": "3", "reference": "Unused.", "generator": "m"},
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = references(chosen(), SPEC, "sentence", str(path), "t")
    assert found.texts == {"1": "Yes, it is.", "2": "It is Bergen."}
    assert found.without_answer == ("2",)
    assert found.generator == "m"
    other = references(chosen(), SPEC, "sentence", str(path), "t")
    assert other.facts["sha256"] == found.facts["sha256"]


def test_a_column_of_the_data_is_taken_where_there_is_no_file_and_a_hole_is_an_error():
    found = references(chosen(reference="Yes, Oslo."), SPEC, "sentence", None, "t")
    assert found.generator == "task"
    with pytest.raises(DataError, match="2 of 2 documents have no reference sentence"):
        references(chosen(), SPEC, "sentence", None, "t")
    with pytest.raises(DataError, match="first: 1"):
        references(chosen(reference=" "), SPEC, "sentence", None, "t")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"doc_id": "1"}', ":1: expected an object with doc_id and reference"),
        ('{"doc_id": "1", "reference": "a"}\n{"doc_id": "1", "reference": "b"}', "given twice"),
        ("[1]", ":1: expected an object"),
        ("{", ":1: not JSON"),
    ],
)
def test_a_bad_file_of_references_is_named_by_line(tmp_path, text, message):
    path = tmp_path / "refs.jsonl"
    path.write_text(text)
    with pytest.raises(DataError, match=message):
        read_references(path)
