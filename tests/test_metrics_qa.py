"""EM and F1 in HotpotQA's normalisation, and answers held by responses.

Oracles: hand computation; the overlap counted word by word with lists; properties over real answers.
"""

import json
from fractions import Fraction

import pytest

from tcb_bench.metrics.qa import (
    TokenScore,
    contains_answer,
    exact_match,
    normalize,
    token_f1,
    yes_no,
)

NOTHING = TokenScore(0, 0, 0)


@pytest.fixture(scope="module")
def records(shared_data):
    path = shared_data / "hotpotqa" / "hotpot.jsonl"
    return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n")[:-1]]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The  U.S. Army!", "us army"),
        ("An apple, a pear & the fig", "apple pear fig"),
        ("theatre another", "theatre another"),
        ("state-of-the-art", "stateoftheart"),
        ("1,500\u00a0m", "1500 m"),
        ("9–10 March", "9–10 march"),  # the dash is no ASCII punctuation
        ("A", ""),
        (" \n", ""),
    ],
)
def test_normalisation_follows_the_official_steps(text, expected):
    assert normalize(text) == expected


def test_exact_match_is_after_normalisation():
    assert exact_match("the Walt Disney Company.", "Walt Disney company")
    assert not exact_match("Walt Disney", "Walt Disney Company")


@pytest.mark.parametrize(
    ("prediction", "gold", "expected"),
    [
        # 2 of 4 words predicted are among the 3 wanted: P = 1/2, R = 2/3, F1 = 4/7
        ("born in New York", "New York City", TokenScore(4 / 7, 1 / 2, 2 / 3)),
        # a word counts as often as it stands in both: P = 2/3, R = 2/2
        ("new new new", "new new", TokenScore(4 / 5, 2 / 3, 1)),
        ("Paris", "the Paris", TokenScore(1, 1, 1)),
        ("Rome", "Paris", NOTHING),
        ("", "Paris", NOTHING),
        ("the", "a", NOTHING),
    ],
)
def test_token_f1_agrees_with_hand_computation(prediction, gold, expected):
    found = token_f1(prediction, gold)
    assert (found.f1, found.precision, found.recall) == pytest.approx(
        (expected.f1, expected.precision, expected.recall)
    )


@pytest.mark.parametrize("closed", ["yes", "no", "noanswer", "Yes.", "No!"])
def test_yes_no_and_noanswer_are_right_as_a_whole_or_not_at_all(closed):
    assert token_f1(closed, closed) == TokenScore(1, 1, 1)
    assert token_f1(f"{closed} they are", closed) == NOTHING
    assert token_f1(closed, f"{closed} they are") == NOTHING


def test_token_f1_agrees_with_counting_by_lists_on_real_answers(records):
    answers = [record["answer"] for record in records][:300]
    for prediction, gold in zip(answers, [r["question"] for r in records], strict=False):
        predicted, wanted = normalize(prediction).split(), normalize(gold).split()
        rest, shared = list(wanted), 0
        for word in predicted:
            if word in rest:
                rest.remove(word)
                shared += 1
        closed = normalize(prediction) in ("yes", "no")
        expected = 0 if closed else Fraction(2 * shared, len(predicted) + len(wanted))
        assert token_f1(prediction, gold).f1 == pytest.approx(float(expected))


@pytest.mark.parametrize(
    ("text", "answer", "expected"),
    [
        ("She was born in New York City.", "new york", True),
        ("She was born in york, new.", "new york", False),
        ("Newark", "New", False),
        ("It is Texas A&M.", "Texas A&amp;M", True),
        ("The band !!! is from Sacramento.", "!!!", True),
        ("The band is from Sacramento!", "!!!", False),
        ("The winner is Washington D.C. again", "Washington, D.C.", True),
        ("", "Paris", False),
        ("Yes, both are.", "yes", True),
        ("No, yes is wrong.", "yes", False),
        ("It is yes.", "yes", False),
        ("No one knows.", "no", True),
    ],
)
def test_a_response_holds_the_answer_as_a_run_of_whole_words(text, answer, expected):
    assert contains_answer(text, answer) is expected


def test_a_blank_answer_is_refused():
    with pytest.raises(ValueError, match="answer is blank"):
        contains_answer("Paris", " ")


def test_every_real_answer_is_held_by_a_sentence_around_it(records):
    for record in records:
        answer = record["answer"]
        closed = answer.lower() in ("yes", "no")
        sentence = f"{answer}, so it is." if closed else f"I think ( {answer} ) is right."
        assert contains_answer(sentence, answer), answer
        assert not contains_answer("Something else entirely, xyzzy.", answer)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Yes, they are.", "yes"),
        ("**No.**", "no"),
        ("  the no", "no"),
        ("Yesterday", None),
        ("Not at all", None),
        ("The answer is yes.", None),
        ("No information is given in the documents.", None),
        ("No, no information is given in the documents.", "no"),
        ("", None),
    ],
)
def test_the_first_word_says_yes_or_no(text, expected):
    assert yes_no(text) == expected
