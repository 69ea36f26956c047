"""Rules of the critical token. Expected indices are counted by hand."""

import pytest

from tcb_bench.errors import UnknownName
from tcb_bench.metrics.answers import EXTRACTION_VERSION
from tcb_bench.models.positions import RULES, critical_token, rule_version


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


def test_the_version_of_the_extraction_is_the_version_of_its_rule():
    assert rule_version("final_number") == f"final_number/{EXTRACTION_VERSION}"
    assert rule_version("last") == "last/1"


def test_an_unknown_rule_is_refused_with_the_nearest_name():
    with pytest.raises(UnknownName, match="did you mean 'final_number'"):
        rule_version("final_numbers")
    with pytest.raises(UnknownName, match="position rule"):
        critical_token("middle", "a", [[0, 1]])
