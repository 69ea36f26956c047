"""The prompts of dpd_tcb and lvd_tcb; MMLU's against mmlu_tcb_reasoning, ours against a digest."""

import collections
import hashlib
import json

import pytest
from task_texts import BASE, refusal, write

from tcb_bench.config import TaskOptions
from tcb_bench.data import ID_COLUMN
from tcb_bench.errors import TcbBenchError
from tcb_bench.load_tasks import load_tasks
from tcb_bench.prompt_sets import dpd
from tcb_bench.task_files import tasks_folder

COLUMNS = {"id", "prompt", "kind", "source", "modification", "answer", ID_COLUMN}
MODIFICATIONS = {
    *("cloze_repetition", "answer_in_context", "answer_instructed", "shots_locked"),
    *("verbatim_copy", "numbered_answers", "record_format", "closing_tag"),
}
OWN_KINDS = {
    **{"completion": 16, "question": 16, "classification": 16, "translation": 15, "code": 15},
    **{"arithmetic": 16, "sequence": 14, "story": 18, "list": 14, "dialogue": 14},
    **{"definition": 13, "rewriting": 12, "bare": 20, "instruction": 10},
}
OWN_SHA256 = "1dd2f0a42c9d3a95c856d72e9ef1e9bac2b410f31100b4b58a8de828b95283da"


def documents(name, data="sample", **more):
    task = load_tasks([name], TaskOptions(data=str(data), **more)).tasks[name]
    return task, list(task.eval_docs)


@pytest.fixture(scope="module")
def diverse():
    return documents("dpd_tcb")[1]


@pytest.fixture(scope="module")
def modified():
    return documents("lvd_tcb")[1]


def test_209_prompts_of_14_kinds_are_ours_and_always_the_same(diverse):
    own = [doc for doc in diverse if doc["id"].startswith("own/")]
    assert collections.Counter(doc["kind"] for doc in own) == OWN_KINDS
    assert len(own) == 209
    assert len({doc["prompt"] for doc in own}) == 209
    text = json.dumps([doc["prompt"] for doc in own], ensure_ascii=False)
    assert hashlib.sha256(text.encode()).hexdigest() == OWN_SHA256


def test_documents_have_their_columns_and_their_own_ids(diverse, modified):
    for docs in (diverse, modified):
        assert all(doc.keys() == COLUMNS and doc["prompt"].strip() for doc in docs)
        assert len({doc["id"] for doc in docs}) == len(docs)
        assert all(doc[ID_COLUMN] == doc["id"] for doc in docs)
    assert {doc["modification"] for doc in diverse} == {"none"}


def test_dpd_is_309_prompts_and_lvd_360_on_the_real_data(shared_data):
    diverse, modified = (documents(name, shared_data)[1] for name in ("dpd_tcb", "lvd_tcb"))
    assert (len(diverse), len(modified)) == (309, 360)
    subjects = collections.Counter(d["id"].split("/")[1] for d in diverse if d["id"][:4] == "mmlu")
    assert sorted(subjects.values()) == [20] * 5
    assert {doc["source"] for doc in modified} <= {doc["id"] for doc in diverse}


@pytest.mark.parametrize("data", ["sample", "shared"])
def test_mmlu_questions_are_those_of_mmlu_tcb_reasoning_with_its_prompt(data, request):
    data = request.getfixturevalue("shared_data") if data == "shared" else data
    theirs = {}
    for task in load_tasks(["mmlu_tcb_reasoning"], TaskOptions(data=str(data))).tasks.values():
        for doc in task.eval_docs:
            theirs[doc[ID_COLUMN]] = str(
                task.fewshot_context(doc, num_fewshot=0, gen_prefix="Answer:")
            )
    task, docs = documents("dpd_tcb", data)
    ours = {
        doc["id"].removeprefix("mmlu/"): str(task.fewshot_context(doc, num_fewshot=0))
        for doc in docs
        if doc["id"].startswith("mmlu/")
    }
    assert ours == theirs


def test_the_sample_has_fewer_mmlu_questions(diverse, modified):
    assert sum(doc["id"].startswith("mmlu/") for doc in diverse) == 50
    assert (len(diverse), len(modified)) == (259, 360)


def test_every_modification_changes_45_prompts_of_dpd_by_its_name(diverse, modified):
    base = {doc["id"]: doc for doc in diverse}
    counts = collections.Counter(doc["modification"] for doc in modified)
    assert counts == dict.fromkeys(MODIFICATIONS, 45)
    for doc in modified:
        source = base[doc["source"]]
        assert doc["id"] == f"{doc['modification']}/{source['id']}"
        assert doc["kind"] == source["kind"]
        assert doc["answer"] == source["answer"] or not source["answer"]
        shown = source["prompt"]
        if doc["modification"] == "record_format":
            shown = json.dumps(shown, ensure_ascii=False)
        assert shown in doc["prompt"]


ENDS = {
    "cloze_repetition": "\n" + 7 * "{cue} {answer}\n" + "{cue}",
    "answer_in_context": "{prompt}\n\n" + 6 * "Known answer: {answer}\n" + "Known answer:",
    "answer_instructed": "Text: {prompt}\n\nline 1: {answer}\nline 2: {answer}\nline 3: {answer}\n"
    "line 4: {answer}\nline 5:",
    "shots_locked": "brackets: [[{answer}]]\n\n{prompt}\nReply in double",
    "numbered_answers": "{prompt}\nstep 1 = {answer}\nstep 2 = {answer}\nstep 3 = {answer}\n"
    "step 4 = {answer}\nstep",
    "closing_tag": "{prompt}</prompt>\n<answer>{answer}</answer>\n<answer>{answer}</",
}
"""What a model has to go on with, read off the README."""


def test_each_modification_ends_as_its_name_says(diverse, modified):
    base = {doc["id"]: doc["prompt"] for doc in diverse}
    for doc in modified:
        name, source = doc["modification"], base[doc["source"]]
        cue = source.rstrip("\n").split("\n")[-1]
        if name in ENDS:
            end = ENDS[name].format(answer=doc["answer"], cue=cue, prompt=source)
            assert doc["prompt"].endswith(end)
        elif name == "record_format":
            first, second = doc["prompt"].split("\n")
            assert json.loads(first) == {"text": source, "answer": doc["answer"]}
            assert first.startswith(second)
            assert second == first.removesuffix(
                f'answer": {json.dumps(doc["answer"], ensure_ascii=False)}}}'
            )
        else:
            whole, copy = doc["prompt"].removeprefix("Text: ").split("\n\nExact copy of the text: ")
            assert whole == source
            assert whole.startswith(copy)
            assert 0 < len(copy) < len(whole)


def test_shots_of_a_locked_prompt_are_two_others_of_its_kind(diverse, modified):
    kinds = {doc["prompt"]: doc["kind"] for doc in diverse}
    for doc in (d for d in modified if d["modification"] == "shots_locked"):
        end = f"\nReply in double brackets: [[{doc['answer']}]]\n\n"
        *shots, own = doc["prompt"].removesuffix("\nReply in double").split(end)
        assert len(set(shots)) == 2
        assert own not in shots
        assert {kinds[shot] for shot in shots} == {doc["kind"]}


def test_a_limit_is_a_seeded_draw():
    first = [doc["id"] for doc in documents("lvd_tcb", limit=7)[1]]
    assert len(first) == 7
    assert first == [doc["id"] for doc in documents("lvd_tcb", limit=7)[1]]
    assert first != [doc["id"] for doc in documents("lvd_tcb", limit=7, seed=1)[1]]


def test_another_seed_of_the_generator_draws_other_combinations():
    folder = tasks_folder() / "dpd_tcb"
    how = {"folder": folder, "templates": "templates.jsonl", "subjects": [], "per_subject": 1}
    one, two = ({d["prompt"] for d in dpd([], seed=seed, **how)} for seed in (0, 1))
    assert one != two
    assert len(one) == len(two) == 209
    with pytest.raises(TcbBenchError, match="no MMLU question of philosophy"):
        dpd([], seed=0, **{**how, "subjects": ["philosophy"]})


MODULE = """
def good(rows, *, folder, times):
    return [{"id": f"{i}", "question": f"{row['question']} {i}", "answer": row["answer"]}
            for i in range(times) for row in rows]
def none(rows, *, folder): return None
def without_id(rows, *, folder): return [{"question": "x"}]
def uneven(rows, *, folder): return [{"id": "1", "q": "x"}, {"id": "2"}]
def twice(rows, *, folder): return [{"id": "1", "question": "x", "answer": "y"}] * 2
def empty(rows, *, folder): return []
def broken(rows, *, folder): return 1 / 0
def helper(rows): return [{"id": row + 1} for row in rows]
def confused(rows, *, folder): return helper(rows)
def other(rows): return []
value = 3
"""
REFUSED = {
    "nowhere.at_all": "tcb.generator.function 'nowhere.at_all' cannot be imported: No module",
    "my_prompts.missing": "'my_prompts.missing' cannot be imported: module 'my_prompts' has no",
    "my_prompts.value": "'my_prompts.value' is no function",
    "my_prompts.good": "mine: tcb.generator my_prompts.good: called as (rows, folder=...), but it is "
    "good(rows, *, folder, times): missing a required argument: 'times'; give under generator what",
    "my_prompts.other": "but it is other(rows): got an unexpected keyword argument 'folder'",
    "my_prompts.good, tmes: 3": "called as (rows, folder=..., tmes=...), but it is good(rows, ",
    "my_prompts.confused": "my_prompts.confused failed at my_prompts.py:11: TypeError: "
    "unsupported operand type(s) for +: 'dict' and 'int'",
    "my_prompts.none": "my_prompts.none returned NoneType; expected a list of mappings",
    "my_prompts.without_id": "my_prompts.without_id: row 0 has no `id`",
    "my_prompts.uneven": "my_prompts.uneven: row 1 has other columns than row 0",
    "my_prompts.twice": "document id '1' occurs twice",
    "my_prompts.empty": "my_prompts.empty returned no documents",
    "my_prompts.broken": "my_prompts.broken failed at my_prompts.py:10: ZeroDivisionError: division by zero",
}


@pytest.fixture
def load_own(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    write(tmp_path, MODULE, "my_prompts.py")
    write(tmp_path, '{"question": "Why?", "answer": "So."}\n', "rows.jsonl")

    def load_own(generator):
        tcb = f"tcb: {{request: generate_traced, position: first, generator: {{{generator}}}}}\n"
        write(tmp_path, BASE + tcb)
        return load_tasks(["mine"], TaskOptions(), [tmp_path]).tasks["mine"]

    return load_own


def test_a_users_own_generator_makes_a_tasks_documents(load_own):
    task = load_own("function: my_prompts.good, times: 3")
    assert [doc["question"] for doc in task.eval_docs] == ["Why? 0", "Why? 1", "Why? 2"]


@pytest.mark.parametrize(("function", "message"), REFUSED.items())
def test_a_generator_that_cannot_serve_is_refused_in_one_line(load_own, function, message):
    with pytest.raises(TcbBenchError) as caught:
        load_own(f"function: {function}")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("generator", "message"),
    [
        ("generator: my_prompts.good", "tcb.generator is 'my_prompts.good'; expected"),
        ("generator: {seed: 1}", "tcb.generator.function is missing; expected a function's full"),
        ("generator: {function: good}", "tcb.generator.function is 'good'; expected a function's"),
    ],
)
def test_a_generator_without_a_full_name_is_refused_with_the_line(tmp_path, generator, message):
    path = write(tmp_path, f"{BASE}tcb: {{request: next_token, {generator}}}\n")
    assert refusal(path).startswith(f"mine.yaml:10: {message}")
