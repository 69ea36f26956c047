"""Additions to a question. Oracle: the original is what is left when the addition is cut off."""

import random
from types import SimpleNamespace

from hypothesis import given, settings
from hypothesis import strategies as st

from tcb_bench.perturb import queries
from tcb_bench.perturb.tokens import NEGATIONS, NUMBER_WORDS

steady = settings(deadline=None)  # a busy machine is no fault of the code

SYNONYMS = {"film": ("movie",)}
TOOLS = SimpleNamespace(
    wordnet=lambda: SimpleNamespace(synonyms=lambda word: SYNONYMS.get(word, ()))
)
TEXTS = st.text(max_size=60) | st.sampled_from(
    ["", "\u00a0", "?!", "&quot;Who?&quot;", "Who made the film Heat? ", "not two of the"]
)


def run(kind, text, seed=0, argument=None):
    return kind(text, random.Random(seed), TOOLS, argument)


@steady
@given(text=TEXTS, seed=st.integers(0, 9))
def test_a_prefix_stands_before_the_untouched_text(text, seed):
    change = run(queries.prefix_injection, text, seed)
    assert change == run(queries.prefix_injection, text, seed)
    if text.strip():
        assert change.value.removesuffix(f" {text}") in queries.PREFIXES
    else:
        assert (change.value, change.flags) == (text, ("unchanged",))


def test_every_prefix_is_drawn_and_holds_no_number_or_negation():
    drawn = {run(queries.prefix_injection, "x", seed).value for seed in range(200)}
    assert drawn == {f"{prefix} x" for prefix in queries.PREFIXES}
    held = {word.strip(",:").lower() for prefix in queries.PREFIXES for word in prefix.split()}
    assert not held & (NEGATIONS | NUMBER_WORDS)
    assert not any(letter.isdigit() for prefix in queries.PREFIXES for letter in prefix)


@steady
@given(text=TEXTS, seed=st.integers(0, 9), argument=st.none() | st.integers(1, 4))
def test_terms_stand_behind_the_untouched_text(text, seed, argument):
    change = run(queries.term_augmentation, text, seed, argument)
    assert change == run(queries.term_augmentation, text, seed, argument)
    kept = text.rstrip()
    assert change.value.startswith(kept)
    assert change.value.endswith(text[len(kept) :])
    added = change.value[len(kept) : len(change.value) - len(text) + len(kept)].split()
    assert len(added) == change.counts["added"] <= (argument or 2)
    assert ("unchanged" in change.flags) == (not added)


def test_terms_are_content_words_of_the_question_or_their_synonyms():
    text = "Who directed the film Heat in 1995?\n"
    values = {run(queries.term_augmentation, text, seed, 9).value for seed in range(30)}
    assert {tuple(sorted(value.split("?")[1].split())) for value in values} == {
        ("Heat", "directed", "movie")
    }
    assert run(queries.term_augmentation, text, 0, 9).counts == {"added": 3, "synonyms": 1}
    assert len(run(queries.term_augmentation, text).value.split()) == len(text.split()) + 2


def test_a_question_without_content_words_gets_no_term():
    assert run(queries.term_augmentation, "Who is not the first of 7?").flags == ("unchanged",)
