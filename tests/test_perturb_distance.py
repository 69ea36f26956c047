"""How far a text went. Oracle: fractions counted by hand, and numpy for the cosine."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tcb_bench.perturb.distance import Distance, cosine, distance, token_overlap

steady = settings(deadline=None)  # a busy machine is no fault of the code

NUMBERS = st.floats(-1e3, 1e3).filter(lambda x: abs(x) > 1e-3)


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ("The cat saw the dog.", "the dog", 2 / 5),
        ("to be or not to be", "to be", 2 / 6),
        ("Hot soup!", "soup, hot", 1.0),
        ("one two", "three four", 0.0),
        ("", "", 1.0),
        ("?!", "...", 1.0),
        ("word", "", 0.0),
        ("a a b", "a b b", 2 / 4),
        ("$1,000 now", "1000 now", 1 / 3),
    ],
)
def test_token_overlap_is_the_jaccard_index_of_multisets(a, b, expected):
    assert token_overlap(a, b) == pytest.approx(expected, abs=1e-15)


@steady
@given(a=st.text(max_size=40), b=st.text(max_size=40))
def test_overlap_is_symmetric_in_range_and_one_for_equal_texts(a, b):
    assert token_overlap(a, b) == token_overlap(b, a)
    assert 0 <= token_overlap(a, b) <= 1
    assert token_overlap(a, a) == 1


def test_without_an_embedding_nothing_is_said_of_relevance():
    assert distance("a b", "a") == Distance(0.5, None, None)


def test_a_similarity_at_the_threshold_is_relevant():
    assert distance("a b", "a", similarity=0.85) == Distance(0.5, 0.85, True)
    assert distance("a b", "a", similarity=0.8499) == Distance(0.5, 0.8499, False)
    assert distance("a b", "a", similarity=-0.2, threshold=-0.5).is_pseudo_relevant is True


@pytest.mark.parametrize("wrong", [math.nan, math.inf, 1.01, -1.01])
def test_what_is_no_cosine_is_refused(wrong):
    with pytest.raises(ValueError, match="similarity must be in"):
        distance("a", "a", similarity=wrong)
    with pytest.raises(ValueError, match="threshold must be in"):
        distance("a", "a", similarity=1.0, threshold=wrong)


def test_rounding_beyond_one_is_no_error():
    assert distance("a", "a", similarity=1 + 1e-6).is_pseudo_relevant is True


@steady
@given(st.lists(st.tuples(NUMBERS, NUMBERS), min_size=1, max_size=20))
def test_cosine_is_that_of_numpy(pairs):
    a, b = (np.array(side) for side in zip(*pairs, strict=True))
    expected = a @ b / (np.linalg.norm(a) * np.linalg.norm(b))
    assert cosine(a.tolist(), b.tolist()) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(
    ("a", "b"), [([1.0], [1.0, 2.0]), ([0.0, 0.0], [1.0, 0.0]), ([], []), ([math.nan], [1.0])]
)
def test_vectors_without_an_angle_are_refused(a, b):
    with pytest.raises(ValueError, match="vectors"):
        cosine(a, b)


def test_vectors_of_the_largest_numbers_have_a_cosine():
    assert cosine([1e200, 1e200], [1e200, 0.0]) == pytest.approx(math.sqrt(0.5), abs=1e-15)
