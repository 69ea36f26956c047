"""What BERTScore computes how often, what it keeps, and its embeddings.

Oracles: counts of forward passes; a plain forward pass by transformers; hand computation.
"""

import math

import pytest
import torch
from transformers import AutoModel, AutoTokenizer

from tcb_bench.metrics import bert_score_encoder
from tcb_bench.metrics.bert_score import BertScorer, Limits
from tcb_bench.metrics.bert_score_cache import ReferenceCache
from tcb_bench.metrics.bert_score_encoder import token_batches
from tcb_bench.metrics.bert_score_match import Embedded
from tcb_bench.metrics.bert_score_model import find_checkpoint

REFERENCES = [f"City {i} lies on the river, says the mayor." for i in range(6)]
ANSWERS = [f"It is city {i}." for i in range(8)]


@pytest.fixture(scope="module")
def demo():
    return BertScorer("demo", device="cpu")


@pytest.fixture
def embedded(monkeypatch):
    """Collects how many texts reach each forward pass of the encoder."""
    counts = []
    run = bert_score_encoder.Encoder._run

    def counting(self, batch):
        counts.append(len(batch))
        return run(self, batch)

    monkeypatch.setattr(bert_score_encoder.Encoder, "_run", counting)
    return counts


def all_pairs():
    return [(answer, reference) for reference in REFERENCES for answer in ANSWERS] * 2


def test_each_distinct_text_is_embedded_once(embedded):
    BertScorer("demo", device="cpu").score(all_pairs())
    assert sum(embedded) == len(REFERENCES) + len(ANSWERS)


def test_references_are_kept_from_call_to_call(embedded):
    scorer = BertScorer("demo", device="cpu")
    scorer.score(all_pairs())
    embedded.clear()
    scorer.score([("Another answer.", reference) for reference in REFERENCES])
    assert sum(embedded) == 1


def test_with_a_small_cache_candidates_are_embedded_once_for_each_part(embedded):
    scorer = BertScorer("demo", device="cpu", limits=Limits(cache_mib=0.05))
    scorer.score(all_pairs())
    parts = 3  # by hand: a reference has 13 tokens of 385 floats, 20 KiB, so two fit in 51 KiB
    assert len(scorer._encoder.tokens(REFERENCES[0]).ids) == 13
    assert sum(embedded) == len(REFERENCES) + parts * len(ANSWERS)


def test_the_cache_keeps_the_latest_within_its_budget():
    calls = []

    def embed(texts):
        calls.append(list(texts))
        return [(text, Embedded(torch.zeros(1, 255), torch.zeros(1))) for text in texts]

    cache = ReferenceCache(embed, mib=3 / 1024)  # three texts of 1 KiB
    sizes = dict.fromkeys("abcdefg", 1024)
    assert list(cache.parts(sizes)) == [["a", "b", "c"], ["d", "e", "f"], ["g"]]
    cache.fetch(["a", "b", "c"], sizes)
    cache.fetch(["a", "d"], sizes)  # drops b, the one used longest ago
    cache.fetch(["c", "a"], sizes)
    cache.fetch(["b"], sizes)
    assert calls == [["a", "b", "c"], ["d"], [], ["b"]]
    assert list(cache.parts({"huge": 9999, "a": 1})) == [["huge"], ["a"]]


def test_scores_are_handed_over_batch_by_batch(demo, embedded):
    heard, passes_at = {}, []

    def hear(index, score):
        heard[index] = score
        passes_at.append(len(embedded))

    pairs = [*all_pairs(), ("", REFERENCES[0])]
    scorer = BertScorer("demo", device="cpu", limits=Limits(batch_tokens=20))
    scores = scorer.score(pairs, hear)
    assert [heard[i] for i in range(len(pairs))] == scores
    assert passes_at[0] < passes_at[len(pairs) // 2] < passes_at[-1] == len(embedded)


def test_no_pairs_are_no_scores(demo):
    assert demo.score([]) == []
    assert demo.embed([]).shape == (0, 384)


@pytest.mark.parametrize("pair", [("a",), ("a", None), ("a", "b", "c"), (["a"], "b")], ids=repr)
def test_a_pair_that_is_not_two_strings_is_named(demo, pair):
    with pytest.raises(TypeError, match=r"pairs\[1\] must be"):
        demo.score([("a", "b"), pair])


@pytest.mark.parametrize("limits", [{"batch_tokens": 0}, {"cache_mib": 0}, {"cache_mib": math.nan}])
def test_limits_out_of_range_are_refused(limits):
    with pytest.raises(ValueError, match="must be >= 1"):
        Limits(**limits)


def test_batches_hold_every_text_once_within_the_limit_longest_first():
    lengths = [(7 * i) % 23 + 1 for i in range(100)]
    batches = token_batches(lengths, most=60)
    assert sorted(i for batch in batches for i in batch) == list(range(100))
    assert all(len(batch) * max(lengths[i] for i in batch) <= 60 for batch in batches)
    longest = [lengths[batch[0]] for batch in batches]
    assert longest == sorted(longest, reverse=True)
    assert len(batches) < 100 / 2


def test_embeddings_are_means_over_the_tokens_of_a_plain_forward_pass(demo):
    folder = find_checkpoint("demo").folder
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder)
    texts = ["A short one.", "The [MASK] of Paris, a somewhat longer text!", "A short one."]
    found = demo.embed(texts)
    for row, text in zip(found, texts, strict=True):
        inputs = tokenizer(text, return_tensors="pt", padding=False)
        with torch.no_grad():
            states = model(**inputs).last_hidden_state[0, 1:-1]
        assert torch.allclose(row, states.mean(0), atol=1e-5)
    assert torch.equal(found[0], found[2])
    assert torch.cosine_similarity(found[0], found[1], dim=0) < 0.8


def test_a_blank_text_has_no_embedding(demo):
    found = demo.embed(["Paris", " "])
    assert found.isnan().all(1).tolist() == [False, True]
