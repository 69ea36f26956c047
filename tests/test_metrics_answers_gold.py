"""Gold answers, equality and letters. Expected by hand; GSM8K's golds by its README's form."""

import json
from decimal import Decimal

import pytest

from tcb_bench.metrics.answers import (
    EXTRACTION_VERSION,
    choice_letter,
    final_number,
    gsm8k_gold,
    same_number,
)


def test_numbers_are_equal_by_value_and_exactly():
    assert same_number(Decimal("18.0"), Decimal(18))
    assert not same_number(Decimal(11), Decimal(711))
    assert not same_number(final_number("1/3").value, Decimal("0.3333"))
    assert not same_number(Decimal("0.1") + Decimal("1e-25"), Decimal("0.1"))
    assert not same_number(None, Decimal(18))
    assert not same_number(None, None)


@pytest.mark.parametrize(
    ("answer", "gold"),
    [("6*3 = 18\n#### 18", 18), ("#### 5\n#### 70,000", 70000), ("#### -10", -10), ("####3", 3)],
)
def test_the_gold_number_stands_after_the_last_hashes(answer, gold):
    assert gsm8k_gold(answer) == gold


@pytest.mark.parametrize("answer", ["", "18", "#### none", "#### 18 ####"])
def test_a_gold_answer_without_its_number_is_refused_with_its_text(answer):
    with pytest.raises(ValueError) as caught:
        gsm8k_gold(answer)
    assert repr(answer) in str(caught.value)


def test_letters_number_the_options_of_a_question():
    assert [choice_letter(i) for i in (0, 1, 2, 3, 25)] == ["A", "B", "C", "D", "Z"]
    for index in (-1, 26):
        with pytest.raises(ValueError, match=str(index)):
            choice_letter(index)


def test_the_rules_of_extraction_have_a_version():
    assert EXTRACTION_VERSION == 1


def test_every_gold_solution_of_gsm8k_ends_in_its_own_answer(shared_data):
    answers = [
        json.loads(line)["answer"]
        for split in ("train", "test")
        for line in (shared_data / "gsm8k" / f"{split}.jsonl").read_bytes().splitlines()
    ]
    assert len(answers) == 8792
    for answer in answers:
        written = answer[answer.rindex("####") + 4 :]  # by README: digits, commas, a minus
        gold = int(written.replace(",", ""))
        assert gsm8k_gold(answer) == gold
        assert final_number(answer).value == gold
