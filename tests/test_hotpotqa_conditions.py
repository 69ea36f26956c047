"""The 88 conditions of HotpotQA-TempPerturb: prompts, sampling, seeds. Oracle: TP section 4, by hand."""

import re
from collections import Counter

import pytest

from tcb_bench.config import TaskOptions
from tcb_bench.errors import DataError
from tcb_bench.load_tasks import load_tasks, quiet

TASK = "hotpotqa_tempperturb"
TEMPERATURES = ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0", "1.2", "1.4", "1.6", "1.8", "2.0"]
CONTEXTS = ["original", "replace_half", "remove_half", "ner"]


def loaded(**options):
    with quiet():
        return load_tasks([TASK], TaskOptions(**{"data": "sample", "limit": 2, **options}))


@pytest.fixture(scope="module")
def tasks():
    return loaded().tasks


def cell(tasks, temperature="0.6", context="original", kind="bridge"):
    return tasks[f"{TASK}|temperature={temperature},context={context},question_type={kind}"]


def prompt(task, doc):
    return task.fewshot_context(doc, num_fewshot=0)


def test_there_are_88_conditions_with_temperatures_as_decimals(tasks):
    assert len(tasks) == 88
    found = Counter(re.search("temperature=([^,]+)", name)[1] for name in tasks)
    assert found == dict.fromkeys(TEMPERATURES, 8)


def test_every_request_of_every_condition_carries_every_sampling_parameter(tasks):
    for task in tasks.values():
        request = task.construct_requests(task.eval_docs[0], "x", metadata=("t", 0, 3))
        generation = request.arguments[1]
        assert generation == {
            "temperature": task.condition.axes["temperature"],
            "top_p": 1.0,
            "top_k": 0,
            "min_p": 0.0,
            "repetition_penalty": 1.0,
            "max_gen_toks": 1000,
            "until": ["\n\nQuestion:"],
            "stability_at": "first",
        }
        assert request.request_type == "generate_traced"
        assert task.config.repeats == 3


def test_models_own_defaults_are_written_into_every_request(tasks):
    task = cell(tasks, "1.4")
    task.model_sampling = {"top_p": 0.9, "temperature": 0.7, "top_k": 20}
    generation = task.generation()
    task.model_sampling = {}
    assert (generation["temperature"], generation["top_p"], generation["top_k"]) == (1.4, 0.9, 20)


def test_each_type_has_its_own_questions_and_every_stratum_its_share(tasks):
    for kind in ("bridge", "comparison"):
        docs = cell(tasks, kind=kind).eval_docs
        assert set(docs["type"]) == {kind}
        assert Counter(docs["n_facts"]) == {2: 2, 3: 2, 4: 2}


def test_a_prompt_is_the_same_at_every_temperature_and_its_context_is_what_the_name_says(tasks):
    doc = cell(tasks).eval_docs[0]
    texts = {c: {prompt(cell(tasks, t, c), doc) for t in TEMPERATURES} for c in CONTEXTS}
    assert [len(found) for found in texts.values()] == [1, 1, 1, 1]
    original, replaced, removed, masked = (found.pop() for found in texts.values())
    assert len({original, replaced, removed, masked}) == 4
    evidence = [s["text"].strip() for s in doc["tcb_evidence"]]
    half = len(evidence) // 2
    assert all(text in original for text in evidence)
    assert all(text in removed for text in evidence[:-half])
    assert not any(text in removed for text in evidence[-half:])
    assert not any(text in replaced for text in evidence[-half:])
    assert "[MASK]" in masked
    for text in (original, replaced, removed, masked):
        assert text.endswith(f"Question: {doc['question']}\nAnswer:")
        assert text.count("only the documents") == 1


def test_the_closed_book_control_shows_no_document():
    with quiet():
        found = load_tasks(["hotpotqa_closed_book"], TaskOptions(data="sample", limit=1)).tasks
    assert len(found) == 22
    task = next(iter(found.values()))
    doc = task.eval_docs[0]
    assert prompt(task, doc) == (
        f"Answer the question in one complete sentence.\n\nQuestion: {doc['question']}\nAnswer:"
    )


def test_a_question_is_never_among_its_own_examples_and_examples_show_their_documents():
    found = loaded(limit=None, num_fewshot=20, where={"temperature": ["0.0"], "context": ["ner"]})
    for task in found.tasks.values():
        for doc in task.eval_docs:
            text = task.fewshot_context(doc, num_fewshot=20)
            assert text.count(f"Question: {doc['question']}\n") == 1
            assert text.count("Question: ") == 21
            assert "[MASK]" not in text.split("Question: ")[0]


def test_where_makes_the_closed_book_a_fifth_context_of_the_same_task():
    found = loaded(where={"context": ["original", "none"], "temperature": ["0.0"]}).tasks
    assert len(found) == 4
    task = cell(found, "0.0", "none")
    doc = task.eval_docs[0]
    assert prompt(task, doc) == (
        f"Answer the question in one complete sentence.\n\nQuestion: {doc['question']}\nAnswer:"
    )


def test_conditions_that_remove_sentence_three_ask_only_questions_that_have_one():
    with quiet():
        found = load_tasks(["hotpotqa_subsets"], TaskOptions(data="sample", limit=1)).tasks
    name = "hotpotqa_subsets|temperature=0.0,context={},question_type=bridge"
    assert set(found[name.format("remove:1")].eval_docs["n_facts"]) == {2, 3, 4}
    assert set(found[name.format("remove:3")].eval_docs["n_facts"]) == {3, 4}
    assert set(found[name.format("remove:1+4")].eval_docs["n_facts"]) == {4}


def test_references_come_with_the_sample_and_the_short_answer_can_stand_in(tasks):
    task = cell(tasks)
    doc = task.eval_docs[0]
    assert task.documents.references.texts[doc["tcb_id"]] == doc["reference"]
    assert task.documents.references.without_answer == ()
    short = cell(loaded(reference="short").tasks)
    assert short.documents.references.texts[doc["tcb_id"]] == doc["answer"]


def test_real_data_without_reference_sentences_stop_before_any_inference(shared_data):
    with pytest.raises(DataError, match="tcb-bench references .*--reference short"):
        loaded(data=str(shared_data))


def test_real_records_that_do_not_resolve_are_counted_and_short_strata_take_all(shared_data):
    """shared/data/README.md: 316 fullwiki rows without a gold title, 1,648 rows resolve."""
    task = cell(loaded(data=str(shared_data), reference="short", limit=None).tasks)
    documents = task.documents
    assert sum(documents.left_out.values()) == 316
    taken = {name: n for name, (n, _) in documents.selection.strata.items()}
    assert taken == {
        "type=bridge,n_facts=2": 100,
        "type=bridge,n_facts=3": 100,
        "type=bridge,n_facts=4": 100,
        "type=comparison,n_facts=2": 100,
        "type=comparison,n_facts=3": 58,
        "type=comparison,n_facts=4": 21,
    }
    weights = documents.selection.documents["tcb_weight"]
    assert sum(weights) / len(weights) == pytest.approx(1)


def test_the_seeds_of_a_condition_are_its_own_for_every_question_and_run(tasks, tmp_path):
    from tcb_bench.durable import DurableLM, numbered
    from tcb_bench.store import Store

    class Engine:
        identity = {"model": "m"}
        reuses_at_zero = True

    requests = []
    for task in tasks.values():
        for i, doc in enumerate(task.eval_docs):
            request = task.construct_requests(doc, "p", metadata=(task.config.task, i, 3))
            requests += [request] * 3
    with Store(tmp_path) as store:
        lm = DurableLM(Engine(), store, store.begin({}), 0)
        asks = [lm._ask_of("generate_traced", r, n) for r, n in numbered(requests)]
    assert len(asks) == 88 * 6 * 3
    seeds = [ask.arguments[1]["seed"] for ask in asks if ask.is_sampled]
    assert len(set(seeds)) == len(seeds) == 80 * 6 * 3  # every sampled answer has a seed of its own
    assert all(ask.arguments[1]["seed"] is None for ask in asks if not ask.is_sampled)
    assert {ask.arguments[1]["temperature"] for ask in asks} == set(map(float, TEMPERATURES))


@pytest.mark.slow
def test_the_whole_study_is_planned_and_hashed_within_a_minute_and_two_gib(tmp_path):
    """79,200 requests over 600 synthetic records of the real draw's size, in a process of its own."""
    import subprocess
    import sys

    from conftest import ROOT

    done = subprocess.run(
        [sys.executable, str(ROOT / "tests" / "plan_whole_study.py"), str(tmp_path)],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    planned, stored, peak_mib, seconds = map(float, done.stdout.split())
    assert stored == 79_200
    assert 72_000 < planned <= stored  # equal prompts at T = 0 are one request
    assert peak_mib < 2048
    assert seconds < 60  # of one core
