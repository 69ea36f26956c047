"""Oracle: rouge_score.rouge_scorer.RougeScorer with its own tokenizer, and hand computation."""

import pytest
from bert_score_models import hotpot_pairs
from rouge_score.rouge_scorer import RougeScorer

from tcb_bench.metrics.rouge import ROUGE_SIGNATURE, Rouge, rouge, rouge_signature

TYPES = ["rouge1", "rouge2", "rougeL"]


@pytest.mark.parametrize("stemmer", [True, False])
def test_real_pairs_score_exactly_as_by_rouge_score(shared_data, stemmer):
    pairs = hotpot_pairs(shared_data, 300)
    library = RougeScorer(TYPES, use_stemmer=stemmer)
    expected = [
        Rouge(*(library.score(reference, candidate)[name].fmeasure for name in TYPES))
        for candidate, reference in pairs
    ]
    assert rouge(pairs, stemmer=stemmer) == expected
    assert sum(score.rougeL > 0 for score in expected) > 100


def test_values_agree_with_hand_computation():
    # candidate 3 words, reference 4: unigrams 3, bigrams 2 of 2 and 3, subsequence 3
    assert rouge([("the cat sat", "The cat sat down.")]) == [Rouge(6 / 7, 4 / 5, 6 / 7)]
    # reversed: no bigram, a subsequence of one word
    [found] = rouge([("one two six", "six two one")])
    assert (found.rouge1, found.rouge2, found.rougeL) == (1, 0, pytest.approx(1 / 3))


def test_line_breaks_do_not_split_a_text():
    # rougeLsum would find both lines whole, 4 of 4; rougeL finds one subsequence of 2
    [found] = rouge([("red fox\nblue dog", "blue dog\nred fox")])
    assert found.rougeL == 0.5


def test_the_stemmer_joins_inflected_words_and_is_recorded():
    pair = [("walking houses", "walked house")]
    assert rouge(pair)[0].rouge1 == 1
    assert rouge(pair, stemmer=False)[0].rouge1 == 0
    assert "stemmer=porter" in ROUGE_SIGNATURE
    assert "stemmer=none" in rouge_signature(stemmer=False)
    assert "rouge-score=0.1.2" in ROUGE_SIGNATURE


@pytest.mark.parametrize("text", ["", " \n", "...", "日本語"])
def test_a_text_without_words_scores_0(text):
    nothing = Rouge(0, 0, 0)
    assert rouge([(text, "a city"), ("a city", text), (text, text)]) == [nothing] * 3


def test_repeated_pairs_keep_their_places():
    a, b = ("red fox", "red fox"), ("red fox", "blue dog")
    assert [score.rouge1 for score in rouge([a, b, a, a, b])] == [1, 0, 1, 1, 0]
    assert rouge([]) == []


@pytest.mark.parametrize("pair", [("a",), ("a", None), "abc"], ids=repr)
def test_a_pair_that_is_not_two_strings_is_named(pair):
    with pytest.raises(TypeError, match=r"pairs\[1\] must be"):
        rouge([("a", "b"), pair])
