"""Oracle: labels by hand on sentences of our own, tests/refusal_sentences.py."""

import pytest
from refusal_sentences import ANSWERS, REFUSALS

from tcb_bench.metrics.qa_refusal import is_refusal, names_missing_information


@pytest.mark.parametrize("text", REFUSALS)
def test_a_response_that_declines_is_a_refusal(text):
    assert is_refusal(text)


@pytest.mark.parametrize("text", ANSWERS)
def test_an_answer_is_no_refusal_however_negative(text):
    assert not is_refusal(text)


def test_the_labels_are_many_and_of_both_kinds():
    assert len(set(REFUSALS)) >= 30
    assert len(set(ANSWERS)) >= 30


@pytest.mark.parametrize("text", REFUSALS)
def test_blanks_and_bold_type_around_it_change_nothing(text):
    assert is_refusal(f"\n  {text}\n")
    assert is_refusal(f"**{text}**")


def test_a_no_that_names_missing_information_is_told_from_the_answer_no():
    assert names_missing_information("No information is given in the documents.")
    assert not names_missing_information("No, the information is wrong.")
    assert not names_missing_information("")


def test_long_texts_take_linear_time():
    import time

    text = "the given provided " * 2000 + "I can not " * 2000
    start = time.process_time()
    is_refusal(text)
    assert time.process_time() - start < 2
