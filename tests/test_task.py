"""TcbTask: what it refuses, which prompts and requests it builds. Expected texts are written by hand."""

import json

import pytest

from tcb_bench.config import TaskOptions
from tcb_bench.errors import DataError, UnknownName, UsageError
from tcb_bench.load_tasks import load_tasks
from tcb_bench.responses import NextToken

BASE = """\
task: mine
class: !function tcb_bench.task.TcbTask
dataset_path: json
dataset_kwargs: {data_files: {test: d.jsonl}}
test_split: test
doc_to_text: "{{q}}"
doc_to_target: a
metadata: {version: 1, license: MIT}
"""
ROWS = [{"q": f"{i}+1=", "a": str(i + 1)} for i in range(9)]


@pytest.fixture
def load(tmp_path):
    def load(more, rows=ROWS, **options):
        (tmp_path / "d.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
        (tmp_path / "mine.yaml").write_text(BASE + more)
        return load_tasks(["mine"], TaskOptions(**options), [tmp_path])

    return load


GENERATE = "tcb: {request: generate_traced}\n"


def test_every_sampling_parameter_is_written_out_and_the_order_is_yaml_option_cell(load):
    loaded = load(
        GENERATE
        + "generation_kwargs: {until: [x], top_p: 0.9, top_k: 7}\nsweep: {temperature: [0.0, 0.4]}\n",
        gen_kwargs={"top_k": 3, "temperature": 1.0},
    )
    assert list(loaded.tasks) == ["mine|temperature=0.0", "mine|temperature=0.4"]
    assert loaded.tasks["mine|temperature=0.4"].generation() == {
        "temperature": 0.4,
        "top_p": 0.9,
        "top_k": 3,
        "min_p": 0.0,
        "repetition_penalty": 1.0,
        "max_gen_toks": 256,
        "until": ["x"],
        "stability_at": "final_number",
    }


def test_conditions_share_one_loaded_data_set(load):
    loaded = load(GENERATE + "generation_kwargs: {until: []}\nsweep: {temperature: [0.0, 0.4]}\n")
    first, second = loaded.tasks.values()
    assert first.dataset is second.dataset


def test_sampling_defaults_model_takes_the_models_own_below_the_yamls(load):
    task = load(
        "tcb: {request: generate_traced, sampling_defaults: model}\ngeneration_kwargs: {until: [], top_k: 4}\n"
    ).tasks["mine"]
    task.model_sampling = {"top_p": 0.8, "top_k": 50, "temperature": 0.7}
    made = task.generation()
    assert (made["top_p"], made["top_k"], made["temperature"]) == (0.8, 4, 0.7)


@pytest.mark.parametrize(
    ("more", "error", "part"),
    [
        (
            GENERATE + "generation_kwargs: {until: [], temprature: 1}\n",
            UnknownName,
            "did you mean 'temperature'",
        ),
        (GENERATE + "process_results: x\n", UsageError, "process_results has no effect here"),
        (
            GENERATE + "filter_list: [{name: x, filter: [{function: take_first}]}]\n",
            UsageError,
            "filter_list has no effect",
        ),
        (
            GENERATE + "metric_list: [{metric: flip_radus}]\n",
            UnknownName,
            "did you mean 'flip_radius'",
        ),
        (GENERATE + "doc_to_text: again\n", UsageError, "mine.yaml:10"),
        (GENERATE + "doc_to_txt: again\n", UsageError, "doc_to_text"),
        ("tcb: {request: generate_traced, epsilom: 2}\n", UsageError, "epsilon"),
        (GENERATE + "perturbation: {kind: typo}\n", UsageError, "perturbation"),
    ],
)
def test_what_would_be_ignored_or_is_unknown_is_refused(load, more, error, part):
    with pytest.raises(error, match=part):
        task = load(more).tasks["mine"]
        task.generation()


def test_a_template_that_does_not_render_names_the_file_and_the_task(load):
    with pytest.raises(UsageError, match=r"mine\.yaml: task mine cannot be built"):
        load(
            GENERATE
            + 'gen_prefix: "{{ q | nofilter }}"\ndescription: "{{ q | nofilter }}"\nfewshot_config: {sampler: none_such}\n'
        )


def test_no_documents_is_an_error(load):
    with pytest.raises(DataError, match="no documents|cannot be read"):
        load(GENERATE, rows=[])


def test_process_docs_that_keeps_nothing_is_an_error(load, tmp_path):
    (tmp_path / "helpers.py").write_text(
        "def nothing(data):\n    return data.filter(lambda row: False)\n"
    )
    with pytest.raises(DataError, match="process_docs dropped all"):
        load(GENERATE + "process_docs: !function helpers.nothing\n")


def test_ids_survive_process_docs(load, tmp_path):
    (tmp_path / "helpers.py").write_text(
        "def odd(data):\n    return data.filter(lambda row: int(row['a']) % 2 == 0)\n"
    )
    task = load(GENERATE + "process_docs: !function helpers.odd\n").tasks["mine"]
    assert list(task.eval_docs["tcb_id"]) == ["1", "3", "5", "7"]


def test_the_item_itself_is_never_among_its_shots_also_when_rows_repeat(load):
    rows = [{"q": f"{i}+1=", "a": str(i + 1)} for i in (0, 1, 2, 3)]
    task = load(GENERATE + "fewshot_split: test\nnum_fewshot: 3\n", rows=rows).tasks["mine"]
    for doc in task.eval_docs:
        prompt = task.fewshot_context(doc, num_fewshot=3)
        assert prompt.count(doc["q"]) == 1
        assert prompt.endswith(doc["q"])


def test_shots_depend_on_the_document_and_seed_only(load):
    more = GENERATE + "fewshot_split: test\nnum_fewshot: 2\n"
    first, second = load(more).tasks["mine"], load(more).tasks["mine"]
    forward = [first.fewshot_context(doc, num_fewshot=2) for doc in first.eval_docs]
    backward = [
        second.fewshot_context(doc, num_fewshot=2) for doc in reversed(list(second.eval_docs))
    ]
    assert forward == backward[::-1]
    other = load(more, seed=1).tasks["mine"]
    assert [other.fewshot_context(doc, num_fewshot=2) for doc in other.eval_docs] != forward


def test_a_partial_tcb_mapping_keeps_what_its_base_says(tmp_path):
    (tmp_path / "d.jsonl").write_text(json.dumps(ROWS[0]) + "\n")
    (tmp_path / "_base.yaml").write_text(
        BASE.replace("task: mine\n", "") + "tcb: {request: generate_traced, position: last}\n"
    )
    (tmp_path / "more.yaml").write_text("include: _base.yaml\ntask: more\ntcb: {epsilon: 2}\n")
    spec = load_tasks(["more"], TaskOptions(), [tmp_path]).tasks["more"].spec
    assert (spec.request, spec.position, spec.epsilon) == ("generate_traced", "last", 2)


def test_choices_of_a_document_become_whole_continuations(load):
    task = load("tcb: {request: next_token}\ndoc_to_choice: ['1', '2', '3']\n").tasks["mine"]
    request = task.construct_requests(task.eval_docs[0], "0+1=", metadata=("mine", 0, 1))
    assert request.arguments == ("0+1=", (" 1", " 2", " 3"))
    assert task.target(task.eval_docs[0]) == 0


def test_a_gold_that_is_no_choice_is_an_error_that_names_the_document(load):
    task = load("tcb: {request: next_token}\ndoc_to_choice: ['7', '8']\n").tasks["mine"]
    with pytest.raises(DataError, match="mine: 0: answer '1' is none of"):
        task.construct_requests(task.eval_docs[0], "x", metadata=("mine", 0, 1))


@pytest.mark.parametrize("gold", [2, -1, 4])
def test_a_gold_index_outside_the_choices_is_an_error_before_anything_is_asked(load, gold):
    rows = [{"q": "w", "a": 0}, {"q": "x", "a": gold}]
    task = load("tcb: {request: next_token}\ndoc_to_choice: ['7', '8']\n", rows=rows).tasks["mine"]
    with pytest.raises(DataError, match="no index from 0 to 1"):
        task.construct_requests(task.eval_docs[1], "x", metadata=("mine", 0, 1))


def test_a_sweep_where_nothing_is_sampled_is_refused(load):
    with pytest.raises(UsageError, match="sweep.temperature changes nothing"):
        load("tcb: {request: next_token}\nsweep: {temperature: [0.0, 1.0]}\n")


def test_without_choices_only_the_stability_is_asked_for(load):
    task = load("tcb: {request: next_token}\n").tasks["mine"]
    doc = task.eval_docs[0]
    assert task.construct_requests(doc, "x", metadata=("mine", 0, 1)).arguments == ("x", ())
    response = NextToken({"v_eff": 2.0}, [], [], 7, "z", 1)
    [row] = task.process_results(doc, [[response]])["tcb_rows"]
    assert (row["state"], row["acc"], row["stability"]) == ("scored", None, {"v_eff": 2.0})
    assert "no choices" in row["reason"]


def test_a_prompt_that_cannot_be_rendered_names_its_document(load):
    rows = [{"q": "x", "a": "1"}, {"q": None, "a": "2"}]
    task = load(
        GENERATE + 'doc_to_choice: null\ndescription: "{{ q.upper() }}"\n', rows=rows
    ).tasks["mine"]
    with pytest.raises(DataError, match="mine: document 1: its prompt cannot be rendered"):
        task.fewshot_context(task.eval_docs[1], num_fewshot=0)


def test_rows_that_process_docs_makes_of_one_row_have_ids_of_their_own(load, tmp_path):
    (tmp_path / "helpers.py").write_text(
        "from datasets import concatenate_datasets\n\n\n"
        "def twice(data):\n    return concatenate_datasets([data, data])\n"
    )
    task = load(GENERATE + "process_docs: !function helpers.twice\n", rows=ROWS[:2]).tasks["mine"]
    assert list(task.eval_docs["tcb_id"]) == ["0", "1", "0#2", "1#2"]


def test_a_copy_of_the_item_in_another_split_is_not_among_its_shots(load, tmp_path):
    (tmp_path / "train.jsonl").write_text("".join(json.dumps(r) + "\n" for r in ROWS[:4]))
    more = GENERATE + "fewshot_split: train\nnum_fewshot: 3\n"
    files = "{data_files: {test: d.jsonl, train: train.jsonl}}"
    (tmp_path / "d.jsonl").write_text("".join(json.dumps(r) + "\n" for r in ROWS))
    (tmp_path / "mine.yaml").write_text(BASE.replace("{data_files: {test: d.jsonl}}", files) + more)
    task = load_tasks(["mine"], TaskOptions(), [tmp_path]).tasks["mine"]
    for doc in task.eval_docs:
        assert task.fewshot_context(doc, num_fewshot=3).count(doc["q"]) == 1


def test_shots_that_do_not_suffice_beside_the_document_itself_are_a_usage_error(load):
    task = load(GENERATE + "fewshot_split: test\nnum_fewshot: 9\n").tasks["mine"]
    with pytest.raises(UsageError, match="9 shots asked for .* the pool has 8 beside the document"):
        task.fewshot_context(task.eval_docs[0], num_fewshot=9)


@pytest.mark.parametrize("gold", [None, ["7", "seven"]])
def test_a_gold_that_is_no_text_is_refused_before_anything_is_asked(load, gold):
    rows = [{"q": "x", "a": gold}, {"q": "y", "a": gold}]
    exact = "tcb: {request: generate_traced, position: first, answer: exact}\n"
    task = load(exact, rows=rows).tasks["mine"]
    with pytest.raises(DataError, match="is no text or number"):
        task.construct_requests(task.eval_docs[1], "x", metadata=("mine", 0, 1))


@pytest.mark.parametrize("until", ["[5]", "null", "['']"])
def test_stop_strings_that_are_no_texts_are_refused_before_the_model_is_loaded(load, until):
    with pytest.raises(UsageError, match="until"):
        load(GENERATE + f"generation_kwargs: {{until: {until}}}\n")


def test_a_negative_number_of_shots_in_a_yaml_is_refused(load):
    with pytest.raises(UsageError, match="num_fewshot -1"):
        load(GENERATE + "num_fewshot: -1\n")
