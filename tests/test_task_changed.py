"""TcbTask asked in other words, of other documents, with other examples. Prompts written by hand."""

import ast
import json
from pathlib import Path

import pytest

from tcb_bench.conditions import Condition
from tcb_bench.config import TaskOptions
from tcb_bench.errors import UnknownName
from tcb_bench.load_tasks import load_tasks
from tcb_bench.studies.audit_variants import Editor

YAML = """\
task: sums
class: !function tcb_bench.task.TcbTask
dataset_path: json
dataset_kwargs: {data_files: {test: d.jsonl, train: t.jsonl}}
test_split: test
fewshot_split: train
num_fewshot: 1
doc_to_text: "{{question}}"
doc_to_target: a
tcb: {request: generate_traced, columns: {question: question}}
generation_kwargs: {until: []}
metadata: {version: 1, license: MIT}
"""
STUDIES = Path(__file__).resolve().parent.parent / "tcb_bench" / "studies"


@pytest.fixture
def task(tmp_path):
    for name, rows in {
        "d": [{"question": "1+1=", "a": "2"}, {"question": "2+2=", "a": "4"}],
        "t": [{"question": "5+5=", "a": "10"}],
    }.items():
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
    (tmp_path / "sums.yaml").write_text(YAML)
    return load_tasks(["sums"], TaskOptions(), [tmp_path]).tasks["sums"]


def prompts(task):
    task.build_all_requests(limit=None, rank=0, world_size=1)
    return [(request.doc["tcb_id"], request.args[0]) for request in task.instances]


OWN = [("0", "5+5= 10\n\n1+1="), ("1", "5+5= 10\n\n2+2=")]


def test_other_texts_are_those_of_the_question_and_of_the_examples(task):
    assert prompts(task) == OWN
    changed = task.changed(texts={"doc_to_text": "Q {{question}}", "description": "Add. "})
    assert prompts(changed) == [
        ("0", "Add. Q 5+5= 10\n\nQ 1+1="),
        ("1", "Add. Q 5+5= 10\n\nQ 2+2="),
    ]
    assert prompts(task) == OWN, "the task itself asks as before"


def test_other_documents_are_asked_with_the_same_examples(task):
    changed = task.changed(documents=[{"tcb_id": "0", "question": "7+7=", "a": "14"}])
    assert prompts(changed) == [("0", "5+5= 10\n\n7+7=")]
    assert changed.target(changed.eval_docs[0]) == "14"
    assert changed.dataset is task.dataset and prompts(task) == OWN


@pytest.mark.parametrize(
    ("n", "before"), [(0, ""), (2, "3+3= 6\n\n4+4= {question}\n\n")], ids=["none", "two"]
)
def test_other_examples_may_depend_on_the_document(task, n, before):
    def of(doc):
        own = {"question": "4+4=", "a": doc["question"]}
        return [{"question": "3+3=", "a": "6"}, own][:n]

    shown = prompts(task.showing(n, of))
    questions = ["1+1=", "2+2="]
    assert [text for _, text in shown] == [before.format(question=q) + q for q in questions]
    assert prompts(task) == OWN


def test_another_perturber_changes_a_condition_of_the_task(task):
    cell = task.in_condition(Condition({"edit": "double_spaces"}))
    upper = cell.changed(perturber=Editor(task.documents.perturber, "upper_case", 0))
    words = upper.changed(texts={"doc_to_text": "{{question}} say"})
    assert [text for _, text in prompts(words)] == [
        "5+5= say 10\n\n1+1= say",
        "5+5= say 10\n\n2+2= say",
    ]
    letters = words.changed(documents=[{"tcb_id": "0", "question": "one and one", "a": "2"}])
    assert prompts(letters) == [("0", "5+5= say 10\n\nONE AND ONE say")]
    assert letters.config.task == "sums|edit=double_spaces" and task.config.task == "sums"


def test_a_text_that_cannot_be_changed_is_named_with_the_nearest(task):
    with pytest.raises(UnknownName, match="did you mean 'doc_to_text'"):
        task.changed(texts={"doc_to_txt": "x"})


def test_no_study_reaches_into_the_private_fields_of_a_task():
    for path in STUDIES.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute) and node.attr.startswith("_"):
                is_own = isinstance(node.value, ast.Name) and node.value.id == "self"
                assert is_own or node.attr.startswith("__"), f"{path.name}:{node.lineno}"
