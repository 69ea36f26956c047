"""Clauses and sentences. Oracle: results written by hand, and multisets of words by Counter."""

import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tcb_bench.perturb import clauses
from tcb_bench.perturb.tokens import NEGATIONS, NUMBER_WORDS, words

steady = settings(deadline=None)  # a busy machine is no fault of the code

PIECES = st.sampled_from(
    [
        "If it rains today", ", ", "; ", ". ", "? ", " and he ", ", and ", "Tom has 1,000 apples",
        "the (old, very old) man", "he sold 3.5 tons", ' said "Go. Now, please," ', "Dr. J. Smith",
        "\u00a0", "&amp;", "\n", "!", "May", "I", "\N{GRINNING FACE}", "\u00df",
    ]
)  # fmt: skip
TEXTS = st.text(max_size=60) | st.lists(PIECES, max_size=14).map("".join)


def run(kind, text, seed=0):
    return kind(text, random.Random(seed), None)


def outcomes(text):
    return {run(clauses.clause_reordering, text, seed).value for seed in range(30)}


def spoken(text):
    return Counter(word.text.lower() for word in words(text))


@pytest.mark.parametrize(
    ("text", "others"),
    [
        (
            "If he sells three more, how many are left?",
            {"How many are left, if he sells three more?"},
        ),
        (
            "Ann bought 1,000 red pens, and she sold 3.5 tons of tea.",
            {"She sold 3.5 tons of tea, and Ann bought 1,000 red pens."},
        ),
        (
            "The man left early but he came back later",
            {"He came back later but the man left early"},
        ),
        (
            "Tom &amp; his old dog ran, and she sat down again.",
            {"She sat down again, and Tom &amp; his old dog ran."},
        ),
        (
            "I had two cats; May had two dogs.",
            {"May had two dogs; I had two cats."},
        ),
        (
            "Which film is older, Kill Bill Two or Pulp Fiction?  You say it now, my dear friend.",
            {
                "Kill Bill Two or Pulp Fiction, which film is older?  My dear friend, you say it now."
            },
        ),
        (
            "Tom has pens. Ann has 3. Bob has 4 (or 5). How many pens are there?",
            {"Tom has pens. Bob has 4 (or 5). Ann has 3. How many pens are there?"},
        ),
    ],
)
def test_clauses_change_places_as_written_by_hand(text, others):
    assert outcomes(text) == others


@pytest.mark.parametrize(
    "text",
    [
        "Tom and Jerry went to school.",
        "In 1990, he moved to Paris.",
        "She has apples, pears, plums and a dog.",
        "The old man (who was very old, and who was ill) slept.",
        'Who said "I came to Rome, and I saw the city"?',
        "He bought ten of the pens, which cost four dollars.",
        "Ann has pens. How many pens?",
        "Tom has pens. Ann has 3. How many pens are there?",
        "",
        "?!",
    ],
)
def test_what_has_one_clause_stays(text):
    change = run(clauses.clause_reordering, text)
    assert (change.value, change.flags) == (text, ("unchanged",))


def test_three_clauses_take_every_other_order():
    assert len(outcomes("Ann has two cats; Bob has two dogs; Cem has two cows.")) == 5


def test_counts_say_what_was_reordered():
    one = run(clauses.clause_reordering, "If he sells three more, how many are left? Why is it so?")
    two = run(clauses.clause_reordering, "Tom ran. Ann sat. Bob ate. Who sat?")
    assert (one.counts, two.counts) == ({"clauses": 2}, {"sentences": 2})


@steady
@given(text=TEXTS, seed=st.integers(0, 4))
def test_reordering_keeps_all_words_and_characters_but_for_capitals(text, seed):
    change = run(clauses.clause_reordering, text, seed)
    assert change == run(clauses.clause_reordering, text, seed)
    assert spoken(change.value) == spoken(text)
    assert Counter(change.value.lower()) == Counter(text.lower())
    assert ("unchanged" in change.flags) == (change.value == text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("One. Two! Three? Four", ["One.", "Two!", "Three?", "Four"]),
        ("Dr. J. Smith met Mr. Lee. He left.", ["Dr. J. Smith met Mr. Lee.", "He left."]),
        (
            "He said \u201cGo.\u201d Then 3.5 tons fell... and more.",
            ["He said \u201cGo.\u201d", "Then 3.5 tons fell... and more."],
        ),
        ("  It costs 1.50 now.\n\n5 remain. ", ["It costs 1.50 now.", "5 remain."]),
        (" \u00a0", []),
    ],
)
def test_sentences_are_parted_as_by_hand(text, expected):
    assert [text[slice(*span)] for span in clauses.sentences(text)] == expected


@pytest.mark.parametrize(
    "text", ["a" * 40_000, ". " * 20_000, "\u201c" * 40_000, " " * 40_000 + "x"]
)
def test_parting_takes_linear_time(text):
    assert len(clauses.sentences(text)) <= 1  # quadratic time would be minutes
    run(clauses.clause_reordering, text)


@steady
@given(text=TEXTS, seed=st.integers(0, 9))
def test_without_the_distractor_the_text_is_the_original(text, seed):
    change = run(clauses.distractor_sentence, text, seed)
    assert change == run(clauses.distractor_sentence, text, seed)
    added = [d for d in clauses.DISTRACTORS if f"{d} " in change.value]
    if text.strip():
        assert change.value.replace(f"{added[0]} ", "") == text
        assert change.value.rindex(added[0]) <= clauses.sentences(text)[-1][0]
    else:
        assert (change.value, change.flags) == (text, ("unchanged",))


def test_the_distractor_takes_every_boundary_before_the_question():
    text = "Tom has 3 pens. Ann has 4. How many?"
    seen = {run(clauses.distractor_sentence, text, seed).value for seed in range(300)}
    starts = (0, text.index("Ann"), text.index("How"))
    assert seen == {f"{text[:at]}{d} {text[at:]}" for at in starts for d in clauses.DISTRACTORS}


def test_distractors_hold_no_number_and_no_negation():
    held = {word.text.lower() for text in clauses.DISTRACTORS for word in words(text)}
    assert not held & (NEGATIONS | NUMBER_WORDS)
    assert not any(letter.isdigit() for text in clauses.DISTRACTORS for letter in text)
