"""The axes of a sweep and --where. Oracle: values written out by hand."""

import pytest

from tcb_bench.conditions import conditions
from tcb_bench.errors import UnknownName, UsageError
from tcb_bench.task_spec import tcb_spec
from tcb_bench.task_sweep import narrowed, sweep_axes

PLAIN = tcb_spec({"tcb": {"request": "generate"}}, "here")
RAG = tcb_spec(
    {
        "tcb": {
            "request": "generate",
            "columns": {"documents": "context"},
            "axes": {"question_type": "type"},
        }
    },
    "here",
)


def axes(sweep, spec=RAG):
    return sweep_axes({"sweep": sweep}, spec, "here")


def ids(found):
    return [condition.id for condition in conditions(found)]


def test_axes_keep_the_order_of_the_yaml_and_their_own_types():
    found = axes({"top_k": [0, 5], "temperature": [0, 1.5]}, PLAIN)
    assert list(found.items()) == [("top_k", (0, 5)), ("temperature", (0.0, 1.5))]
    assert sweep_axes({}, PLAIN, "here") == {}


def test_a_range_steps_in_decimals_so_that_three_steps_of_0_2_are_0_6():
    found = axes({"temperature": {"start": 0.0, "stop": 2.0, "step": 0.2}})
    assert found["temperature"] == (0.0, 0.2, 0.4, 0.6, 0.8, 1.0, 1.2, 1.4, 1.6, 1.8, 2.0)
    assert ids(found)[3] == "temperature=0.6"
    assert axes({"top_k": {"start": 1, "stop": 5, "step": 2}})["top_k"] == (1, 3, 5)


def test_whole_and_decimal_numbers_of_a_yaml_give_the_same_ids():
    assert ids(axes({"temperature": [0, 1]})) == ids(axes({"temperature": [0.0, 1.0]}))


def test_perturbations_and_the_tasks_own_columns_are_axes():
    found = axes({"context": ["ner", "remove:1+3"], "query": ["typos"], "question_type": ["x"]})
    assert ids(found) == [
        "context=ner,query=typos,question_type=x",
        "context=remove:1+3,query=typos,question_type=x",
    ]


@pytest.mark.parametrize(
    ("sweep", "message"),
    [
        ({"context": ["nre"]}, "did you mean 'ner'"),
        ({"context": ["remove"]}, "give the numbers"),
        ({"query": ["ner"]}, "no query perturbation 'ner'"),
        ({"temperature": {"start": 0, "stop": 1}}, "step > 0"),
        ({"temperature": {"start": 0, "stop": 1, "step": 0}}, "step > 0"),
        ({"temperature": {"start": 0, "stop": 3, "step": 1}}, "numbers from 0 to 2"),
        ({"temperature": {"stat": 0}}, "did you mean 'start'"),
        ({"context": {"start": 0, "stop": 1, "step": 1}}, "for a sampling parameter"),
        ({"question_type": ["a,b"]}, "without a comma"),
        ({"question_typ": ["a"]}, "did you mean 'question_type'"),
    ],
    ids=str,
)
def test_a_wrong_axis_or_value_is_named(sweep, message):
    with pytest.raises(UsageError, match=f"^here: .*{message}"):
        axes(sweep)


def test_documents_are_an_axis_of_tasks_with_documents_only():
    with pytest.raises(UsageError, match="no key 'context' in sweep"):
        axes({"context": ["ner"]}, PLAIN)


GIVEN = {"temperature": (0.0, 0.6), "context": ("original", "ner"), "question_type": ("a", "b")}


def test_where_takes_a_part_in_the_order_of_the_yaml():
    found = narrowed(GIVEN, {"context": ["ner"], "temperature": ["0.6", "0.0"]}, "t")
    assert found == {"temperature": (0.0, 0.6), "context": ("ner",), "question_type": ("a", "b")}
    assert narrowed(GIVEN, {}, "t") == GIVEN


def test_where_may_name_values_that_the_yaml_does_not_list():
    found = narrowed(GIVEN, {"context": ["none", "original"], "temperature": ["0.30", "0"]}, "t")
    assert found["context"] == ("original", "none")
    assert found["temperature"] == (0.0, 0.3)


@pytest.mark.parametrize(
    ("where", "error", "message"),
    [
        ({"contxt": ["ner"]}, UsageError, "did you mean 'context'"),
        ({"context": ["nre"]}, UnknownName, "did you mean 'ner'"),
        ({"temperature": ["hot"]}, UsageError, "numbers from 0 to 2"),
        ({"temperature": ["7"]}, UsageError, "numbers from 0 to 2"),
        ({"question_type": ["c"]}, UnknownName, "question_type"),
    ],
    ids=str,
)
def test_where_refuses_what_the_task_cannot_do(where, error, message):
    with pytest.raises(error, match=message):
        narrowed(GIVEN, where, "t")
