"""The mappings ``tcb`` and ``sweep``: defaults, and refusals that name the key."""

import pytest
from task_texts import BASE, refusal, write

from tcb_bench.errors import UsageError
from tcb_bench.task_spec import tcb_spec

TCB = {
    "epsilon: 1": "tcb.request is missing; expected next_token or generate_traced or generate",
    "request: next_tokn": "tcb.request is 'next_tokn'; expected next_token or",
    "request: generate_traced, position: prompt_end": "tcb.position is 'prompt_end'; expected f",
    "request: next_token, position: first": "tcb.position is 'first'; expected prompt_end",
}

TCB_OF_GENERATE = {
    "epsilom: 1": "no key 'epsilom' in tcb; did you mean 'epsilon'?",
    "zzz: 1": "no key 'zzz' in tcb; the keys are request, epsilon",
    "epsilon: 0": "tcb.epsilon is 0; expected a number > 0",
    "epsilon: 1e-3": "tcb.epsilon is '1e-3'; expected a number > 0 (YAML reads",
    "epsilon: .inf": "tcb.epsilon is inf",
    "epsilon: true": "tcb.epsilon is True",
    "position: last": "tcb.position is 'last'; expected none",
    "answer: letter": "tcb.answer is 'letter'; expected choice or final_number",
    "draw: 0": "tcb.draw is 0; expected a whole number >= 1",
    "draw: 2.0": "tcb.draw is 2.0",
    "draw: null": "tcb.draw is None",
    "doc_id: '{rows}'": "tcb.doc_id is '{rows}'; expected a text with {config}",
    "doc_id: '{row'": "tcb.doc_id is '{row'",
    "doc_id: '{}'": "tcb.doc_id is '{}'",
    "doc_id: '{id.x}'": "tcb.doc_id is '{id.x}'",
    "doc_id: '{split}'": "tcb.doc_id is '{split}'; expected {row} or {id} in it",
    "shots: no.jsonl": "tcb.shots 'no.jsonl' is not there; expected a JSONL file",
    "sampling_defaults: api": "tcb.sampling_defaults is 'api'; expected neutral or",
    "sample: ''": "tcb.sample is ''; expected a text",
    "local: here": "tcb.local is 'here'; expected",
    "local: {}": "tcb.local.files is missing; expected a path like",
    "local: {file: a}": "no key 'file' in tcb.local; did you mean 'files'?",
    "local: {files: '{row}'}": "tcb.local.files is '{row}'; expected a text with",
    "local: {files: a, splits: {x: 1}}": "tcb.local.splits is {'x': 1}; expected",
    "local: {files: a, columns: []}": "tcb.local.columns is []; expected a list",
    "local: {files: a, adapt: csv}": "tcb.local.adapt is 'csv'; expected none or",
}


@pytest.mark.parametrize(
    ("tcb", "message"),
    [*TCB.items(), *((f"request: generate, {k}", v) for k, v in TCB_OF_GENERATE.items())],
)
def test_a_bad_tcb_is_refused_with_the_line(tmp_path, tcb, message):
    assert refusal(write(tmp_path, f"{BASE}tcb: {{{tcb}}}\n")).startswith(
        f"mine.yaml:10: {message}"
    )


@pytest.mark.parametrize(
    ("tcb", "position", "answer"),
    [
        ({"request": "next_token"}, "prompt_end", "choice"),
        ({"request": "generate_traced"}, "final_number", "final_number"),
        ({"request": "generate_traced", "position": "last"}, "last", "exact"),
        ({"request": "generate"}, None, "exact"),
        ({"request": "generate", "answer": "final_number"}, None, "final_number"),
    ],
)
def test_defaults_follow_the_request(tcb, position, answer):
    spec = tcb_spec({"tcb": tcb}, "here")
    assert (spec.position, spec.answer) == (position, answer)
    assert (spec.epsilon, spec.draw, spec.doc_id, spec.shots) == (1.0, None, None, None)
    assert (spec.sampling_defaults, spec.sample, spec.local) == ("neutral", "sample", None)


def test_local_layout_is_filled_in_and_errors_begin_with_where():
    tcb = {"request": "generate", "local": {"files": "a/{split}.jsonl"}, "doc_id": "{row:05d}"}
    spec = tcb_spec({"tcb": tcb}, "here")
    assert spec.local == {
        "files": "a/{split}.jsonl",
        "splits": {},
        "columns": None,
        "adapt": "none",
    }
    with pytest.raises(UsageError, match="^here: tcb.request is missing; expected next_token"):
        tcb_spec({"tcb": {}}, "here")


def test_columns_strata_axes_and_a_list_of_files_are_read():
    tcb = {
        "request": "generate",
        "columns": {"documents": "context"},
        "strata": {"type": ["a", "b"], "n": [2]},
        "axes": {"question_type": "type"},
        "reference": "sentence",
        "answer": "short_answer",
        "local": {"files": ["a.jsonl", "b.jsonl"]},
    }
    spec = tcb_spec({"tcb": tcb}, "here")
    assert spec.has_documents
    assert spec.columns["documents"] == "context"
    assert spec.columns["support"] == "support"
    assert (spec.strata, spec.axes) == ({"type": ["a", "b"], "n": [2]}, {"question_type": "type"})
    assert not tcb_spec({"tcb": {"request": "generate"}}, "here").has_documents


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"columns": {"document": "x"}}, "did you mean 'documents'"),
        ({"columns": {"documents": 1}}, "tcb.columns is"),
        ({"strata": {"type": []}}, "tcb.strata.type is .*each once"),
        ({"strata": {"n": [2, "2"]}}, "tcb.strata.n is .*each once"),
        ({"strata": {"n": [True]}}, "expected a list of texts or whole numbers"),
        ({"axes": {"kind": 3}}, "tcb.axes is"),
        ({"reference": "long"}, "expected none or short or sentence"),
        ({"local": {"files": []}}, "tcb.local.files is"),
        ({"local": {"files": ["a", 1]}}, "expected a text"),
    ],
    ids=str,
)
def test_what_is_wrong_in_them_is_named(more, message):
    with pytest.raises(UsageError, match=f"^here: .*{message}"):
        tcb_spec({"tcb": {"request": "generate", **more}}, "here")
