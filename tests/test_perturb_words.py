"""Changes of single words. Oracle: the words and their places counted by hand or by Counter.

What stays byte for byte is checked by taking the change back: without the inserted words, or with
the words cut out, the original is left.
"""

import random
import re
from collections import Counter
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tcb_bench.perturb import tokens, words

steady = settings(deadline=None)  # a busy machine is no fault of the code

SYNONYMS = {"big": ("large",), "car": ("auto", "motorcar"), "film": ("movie",), "old": ("aged",)}
ANTONYMS = {"hot": ("cold",), "old": ("young", "new")}
LEXICON = SimpleNamespace(
    synonyms=lambda word: SYNONYMS.get(word, ()), antonyms=lambda word: ANTONYMS.get(word, ())
)
TOOLS = SimpleNamespace(wordnet=lambda: LEXICON)
KINDS = [
    words.word_reordering,
    words.synonym,
    words.antonym,
    words.random_noise,
    words.typos,
]
ODD = [
    "", " ", "\u00a0", "...", "?!", "\N{GRINNING FACE}", "&amp;", "&quot;Yes&quot;", "_", "1,234.5",
    "it\u2019s a\u00a0big   car\n", "ein gro\u00dfes Haus", "\u0928\u092e\u0938\u094d\u0924\u0947 x", "\u4f60\u597d",
]  # fmt: skip
SOME_WORDS = st.sampled_from(
    [
        "big",
        "car",
        "Old",
        "old",
        "hot",
        "film",
        "1,234.5",
        "not",
        "an",
        "$5.",
        "(two)",
        "O'Neil",
        "&",
    ]
)
TEXTS = (
    st.text(max_size=60) | st.sampled_from(ODD) | st.lists(SOME_WORDS, max_size=25).map(" ".join)
)


def run(kind, text, seed=0, argument=None):
    return kind(text, random.Random(seed), TOOLS, argument)


def found(text):
    return [word.text for word in tokens.words(text)]


def skeleton(text):
    """The text with each word cut out."""
    return tokens.replaced(text, {word: "\0" for word in tokens.words(text)})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Did O'Neil pay $1,234.50, or 3/4?", ["Did", "O'Neil", "pay", "1,234.50", "or", "3/4"]),
        ("&quot;Yes&quot; &amp; AT&amp;T", ["Yes", "AT&amp;T"]),
        ("a\u00a0b\u2003c", ["a", "b", "c"]),
        ("(AC/DC), U.S. [MASK]", ["AC/DC", "U.S", "MASK"]),
        ("\u0928\u092e\u0938\u094d\u0924\u0947!", ["\u0928\u092e\u0938\u094d\u0924\u0947"]),
        ("cafe\u0301, x", ["cafe\u0301", "x"]),
        ("-- ... _ \N{GRINNING FACE}", []),
    ],
)
def test_words_are_found_without_the_punctuation_at_their_ends(text, expected):
    assert found(text) == expected


@steady
@given(st.text(max_size=80))
def test_places_of_words_are_those_of_their_text_and_hold_no_white_space(text):
    for word in tokens.words(text):
        assert text[word.start : word.end] == word.text
        assert not any(map(str.isspace, word.text))


@pytest.mark.parametrize("text", ["a!" * 20_000, "!" * 40_000, "&" * 40_000, "a" * 40_000 + "!"])
def test_finding_words_takes_linear_time(text):
    assert len(tokens.words(text)) <= 1  # quadratic time would be minutes


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@steady
@given(text=TEXTS, seed=st.integers(0, 3), argument=st.none() | st.integers(1, 4))
def test_every_kind_is_a_function_of_text_and_seed_and_flags_what_it_left_alone(
    kind, text, seed, argument
):
    if kind is words.word_reordering:
        argument = None
    change = run(kind, text, seed, argument)
    assert change == run(kind, text, seed, argument)
    assert ("unchanged" in change.flags) == (change.value == text)


@steady
@given(text=TEXTS, seed=st.integers(0, 3))
def test_reordering_moves_words_and_nothing_else(text, seed):
    change = run(words.word_reordering, text, seed)
    assert Counter(found(change.value)) == Counter(found(text))
    assert skeleton(change.value) == skeleton(text)
    assert (found(change.value) != found(text)) == (len(set(found(text))) > 1)


def test_reordering_keeps_punctuation_and_white_space_in_place():
    text = "One,  two;\u00a0(three)!"
    assert re.fullmatch(r"\w+,  \w+;\u00a0\(\w+\)!", run(words.word_reordering, text).value)


def test_synonyms_replace_the_number_of_keywords_asked_for():
    text = "The film shows a big car and an old film."
    assert run(words.synonym, text).counts == {"replaced": 2}
    assert run(words.synonym, text, argument=9).counts == {"replaced": 4}
    assert run(words.synonym, text, argument=9).value in (
        "The movie shows a large motorcar and an aged movie.",
        "The movie shows a large auto and an aged movie.",
    )


def test_names_numbers_negations_and_possessives_are_no_keywords():
    text = "Big Old CAR, not big5 and two film's"
    lexicon = SimpleNamespace(synonyms=lambda word: ("other",))
    change = words.synonym(text, random.Random(0), SimpleNamespace(wordnet=lambda: lexicon), 9)
    assert change.value == text
    assert change.flags == ("unchanged",)


def test_a_synonym_keeps_the_article_before_it_right():
    texts = {run(words.synonym, "He has a car", seed, 1).value for seed in range(20)}
    assert texts == {"He has a motorcar"}
    texts = {run(words.synonym, "He has the car", seed, 1).value for seed in range(20)}
    assert texts == {"He has the motorcar", "He has the auto"}


@steady
@given(text=TEXTS, seed=st.integers(0, 3), argument=st.integers(1, 4))
def test_synonyms_touch_only_words_that_have_one(text, seed, argument):
    change = run(words.synonym, text, seed, argument)
    pairs = list(zip(found(text), found(change.value), strict=True))
    different = {(old, new) for old, new in pairs if old != new}
    assert skeleton(change.value) == skeleton(text)
    assert all(new in SYNONYMS[old] for old, new in different)
    assert len(different) == change.counts["replaced"] <= argument


def test_antonyms_replace_one_word_unless_more_are_asked_for():
    assert run(words.antonym, "The hot soup was hot.").value == "The cold soup was cold."
    assert run(words.antonym, "hot old", argument=2).value.startswith("cold ")
    assert run(words.antonym, "Nothing here").flags == ("unchanged",)


@steady
@given(text=TEXTS, seed=st.integers(0, 3), argument=st.none() | st.integers(1, 120))
def test_without_the_noise_words_the_text_is_the_original(text, seed, argument):
    change = run(words.random_noise, text, seed, argument)
    left = re.sub(rf"\b(?:{'|'.join(words.NOISE_WORDS)}) ", "", change.value)
    left = re.sub(rf"(?: (?:{'|'.join(words.NOISE_WORDS)})\b)+(?=\s*\Z)", "", left)
    assert left == text
    expected = max(1, len(text.split()) // 10) if argument is None else argument
    assert change.counts["inserted"] == (expected if text.split() else 0)
    assert len(change.value.split()) == len(text.split()) + change.counts["inserted"]


def test_noise_words_are_different_and_stand_before_between_and_behind():
    text = "alpha beta gamma"
    values = [run(words.random_noise, text, seed, 3).value.split() for seed in range(60)]
    inserted = [[word for word in value if word in words.NOISE_WORDS] for value in values]
    assert all(len(set(new)) == 3 for new in inserted)
    assert any(value[0] in words.NOISE_WORDS for value in values)
    assert any(value[-1] in words.NOISE_WORDS for value in values)
    assert any(value[1] in words.NOISE_WORDS and value[0] == "alpha" for value in values)


def test_noise_goes_before_a_number_and_its_currency_not_between():
    assert all("$5" in run(words.random_noise, "$5", seed, 2).value for seed in range(20))


def distance_one_or_swap(a, b):
    """Whether b is a with one letter dropped, doubled or replaced, or two neighbours swapped."""
    drops = {a[:i] + a[i + 1 :] for i in range(len(a))}
    doubles = {a[: i + 1] + a[i:] for i in range(len(a))}
    swaps = {a[:i] + a[i + 1] + a[i] + a[i + 2 :] for i in range(len(a) - 1)}
    replaced = len(a) == len(b) and sum(x != y for x, y in zip(a, b, strict=True)) == 1
    return a != b and (b in drops | doubles | swaps or replaced)


@steady
@given(word=st.text("abcdefghijkmnopqrstuvwxyz", min_size=4, max_size=9), seed=st.integers(0, 99))
def test_a_typo_is_one_edit_behind_the_first_letter(word, seed):
    new = words.mistyped(word, random.Random(seed))
    assert new[0] == word[0]
    assert distance_one_or_swap(word, new)


def test_all_four_kinds_of_typo_occur():
    made = {words.mistyped("seat", random.Random(seed)) for seed in range(300)}
    assert {"seta", "set", "seeat", "sear"} <= made
    assert all(words.mistyped("NASA", random.Random(seed)).isupper() for seed in range(50))


@steady
@given(text=TEXTS, seed=st.integers(0, 3), argument=st.integers(1, 5))
def test_typos_spare_numbers_negations_and_short_words(text, seed, argument):
    change = run(words.typos, text, seed, argument)
    assert Counter(re.findall(r"\d", change.value)) == Counter(re.findall(r"\d", text))
    pairs = list(zip(found(text), found(change.value), strict=True))
    different = [(old, new) for old, new in pairs if old != new]
    assert len(different) == change.counts["edits"] <= argument
    assert all(len(old) >= 4 and old.isalpha() for old, _ in different)


def test_number_words_and_negations_get_no_typo():
    assert run(words.typos, "three hundred never without Seven", argument=5).flags == ("unchanged",)


def test_one_typo_for_each_ten_words():
    assert run(words.typos, "several words here").counts == {"edits": 1}
    assert run(words.typos, " ".join(["word"] * 39)).counts == {"edits": 3}
