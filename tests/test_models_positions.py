"""Rules of the critical token. Expected indices are counted by hand."""

import pytest

from tcb_bench.errors import UnknownName
from tcb_bench.metrics.answers import EXTRACTION_VERSION
from tcb_bench.models.positions import (
    RULES,
    critical_token,
    first_answer_token,
    rule_version,
)


def pieces(*texts):
    """(text, offsets) of tokens with these texts."""
    ends = [sum(map(len, texts[: i + 1])) for i in range(len(texts))]
    return "".join(texts), [[end - len(text), end] for text, end in zip(texts, ends, strict=True)]


def test_the_first_token_of_the_final_number_is_critical():
    assert critical_token("final_number", *pieces("3", " apples", " are", " ", "1", "8", ".")) == 4


def test_a_number_inside_a_token_makes_that_token_critical():
    assert critical_token("final_number", *pieces("cost", " $1", "8", ".")) == 1


def test_the_boxed_number_wins_over_a_later_one():
    assert critical_token("final_number", *pieces("\\boxed{", "18", "}", " in ", "3", " days")) == 1


def test_tokens_without_text_are_passed_over():
    assert critical_token("first", "ab", [[0, 0], [0, 1], [1, 2], [2, 2]]) == 1
    assert critical_token("last", "ab", [[0, 0], [0, 1], [1, 2], [2, 2]]) == 2


def test_the_first_token_of_a_character_of_several_tokens_is_critical():
    assert critical_token("last", "a😀", [[0, 1], [1, 2], [1, 2], [1, 2]]) == 1


@pytest.mark.parametrize("rule", RULES)
def test_an_empty_text_has_no_critical_token(rule):
    assert critical_token(rule, "", [[0, 0]]) is None


def test_a_text_without_a_number_has_no_critical_token():
    assert critical_token("final_number", *pieces("no", " idea")) is None


REASONED = pieces("So", " \\boxed{3}", "</t>", "\n\n", "It", " is", " 18", ".")


@pytest.mark.parametrize(("rule", "token"), [("final_number", 6), ("first", 4), ("last", 7)])
def test_a_rule_sees_only_the_answer_behind_the_reasoning(rule, token):
    text, offsets = REASONED
    assert critical_token(rule, text, offsets, start=text.index("It")) == token
    assert first_answer_token(offsets, text.index("It")) == 4
    assert critical_token("final_number", text, offsets) == 1


def test_a_token_that_reaches_from_the_reasoning_into_the_answer_is_of_the_answer():
    text, offsets = pieces("3", "</t>1", "8")
    start = text.index("18")
    assert critical_token("final_number", text, offsets, start=start) == 1
    assert first_answer_token(offsets, start) == 1


@pytest.mark.parametrize("rule", RULES)
def test_an_empty_answer_behind_a_number_has_no_critical_token(rule):
    text, offsets = pieces("so 3", "</t>")
    assert critical_token(rule, text, offsets, start=len(text)) is None
    assert first_answer_token(offsets, len(text)) == 2


def test_an_answer_without_a_number_has_no_critical_token_though_the_reasoning_has_one():
    text, offsets = pieces("so 3", "</t>", "none")
    assert critical_token("final_number", text, offsets, start=text.index("none")) is None


def test_without_reasoning_every_token_is_of_the_answer():
    assert first_answer_token([[0, 0], [0, 1]], 0) == 0


def test_the_version_of_the_extraction_is_the_version_of_its_rule():
    assert rule_version("final_number") == f"final_number/{EXTRACTION_VERSION}"
    assert rule_version("last") == "last/1"


def test_an_unknown_rule_is_refused_with_the_nearest_name():
    with pytest.raises(UnknownName, match="did you mean 'final_number'"):
        rule_version("final_numbers")
    with pytest.raises(UnknownName, match="position rule"):
        critical_token("middle", "a", [[0, 1]])
