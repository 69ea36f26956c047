"""BERTScore's values. Oracle: bert-score 0.3.13 called one pair at a time, on real HotpotQA texts.

With MiniLM, and with a random-weight RoBERTa whose byte-level BPE is trained here. Empty texts crash
the library under transformers 5; there, and only there, its tokenizer gets back the lost method.
"""

import random

import pytest
import torch
from bert_score import BERTScorer
from bert_score_models import hotpot_pairs, one_by_one, random_roberta

from tcb_bench.metrics.bert_score import BertScorer, Limits
from tcb_bench.metrics.bert_score_match import Embedded, greedy_match, unit_vectors
from tcb_bench.metrics.bert_score_model import find_checkpoint

pytestmark = pytest.mark.slow

N_PAIRS = 510


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def real_pairs(shared_data):
    return hotpot_pairs(shared_data, N_PAIRS)


@pytest.fixture(scope="module")
def roberta_folder(real_pairs, tmp_path_factory):
    texts = [text for pair in real_pairs for text in pair]
    return random_roberta(tmp_path_factory.mktemp("encoders") / "roberta", texts)


@pytest.fixture(scope="module", params=["demo", "roberta"])
def both(request, roberta_folder):
    """(ours, the library) with the same encoder and layer."""
    demo = request.param == "demo"
    folder = find_checkpoint("demo").folder if demo else roberta_folder
    layers = 6 if demo else 3
    ours = BertScorer("demo" if demo else str(folder), num_layers=layers, device="cpu")
    return ours, BERTScorer(model_type=str(folder), num_layers=layers, device="cpu")


@pytest.fixture(scope="module")
def ours(both):
    return both[0]


def values(scores):
    return torch.tensor([[s.precision, s.recall, s.f1] for s in scores])


def difference(scores, expected):
    return (values(scores) - torch.as_tensor(expected)).abs().max().item()


def test_scores_are_the_librarys_of_one_pair_at_a_time(both, real_pairs):
    ours, library = both
    scores = ours.score(real_pairs)
    expected = one_by_one(library, real_pairs)
    assert len(scores) == N_PAIRS
    assert difference(scores, expected) < 1e-5
    assert torch.tensor(expected).std() > 0.05, "the pairs differ enough to tell"


def test_a_score_does_not_depend_on_the_others_of_its_batch(ours, real_pairs):
    together = ours.score(real_pairs)
    sample = random.Random(1).sample(range(N_PAIRS), 64)
    alone = [ours.score([real_pairs[i]])[0] for i in sample]
    in_64 = ours.score([real_pairs[i] for i in sample])
    order = random.Random(2).sample(range(N_PAIRS), N_PAIRS)
    permuted = dict(zip(order, ours.score([real_pairs[i] for i in order]), strict=True))
    assert difference(alone, values([together[i] for i in sample])) < 1e-5
    assert difference(in_64, values(alone)) < 1e-5
    assert difference([permuted[i] for i in range(N_PAIRS)], values(together)) < 1e-5


def test_limits_of_memory_change_no_score(real_pairs):
    pairs = real_pairs[:60] + [(c, r) for c, _ in real_pairs[:6] for _, r in real_pairs[:6]]
    wide = BertScorer("demo", device="cpu").score(pairs)
    narrow = Limits(batch_tokens=1, cache_mib=0.05)
    assert (
        difference(BertScorer("demo", device="cpu", limits=narrow).score(pairs), values(wide))
        < 1e-5
    )


def test_long_texts_are_cut_as_in_the_library_and_flagged(both):
    ours, library = both
    long = " ".join(f"the {i}th city of the river" for i in range(120))
    pairs = [(long, "a city"), ("a city", long), (long, long + " it is"), ("a city", "a river")]
    scores = ours.score(pairs)
    assert difference(scores, one_by_one(library, pairs)) < 1e-5
    cut = ("candidate_truncated", "reference_truncated")
    assert [score.flags for score in scores] == [cut[:1], cut[1:], cut, ()]


def test_a_text_of_exactly_the_limit_is_not_truncated():
    scorer = BertScorer("demo", device="cpu")
    assert not scorer.is_truncated("word " * 510)
    assert scorer.is_truncated("word " * 511)


@pytest.mark.parametrize("blank", ["", " ", "\n", "\u00a0\t"], ids=repr)
def test_blank_texts_score_0_as_in_the_library_and_are_flagged(both, blank, monkeypatch):
    ours, library = both
    tokenizer = library._tokenizer
    frame = [tokenizer.cls_token_id, tokenizer.sep_token_id]
    monkeypatch.setattr(
        type(tokenizer), "build_inputs_with_special_tokens", lambda self, ids: frame, raising=False
    )
    pairs = [(blank, "a city"), ("a city", blank), (blank, blank)]
    scores = ours.score(pairs)
    assert values(scores).tolist() == one_by_one(library, pairs) == [[0.0] * 3] * 3
    empty = ("empty_candidate", "empty_reference")
    assert [score.flags for score in scores] == [empty[:1], empty[1:], empty]


@pytest.mark.parametrize("text", [".", "[SEP] a", "\u200b!", "😀 é", "</s> x <mask>", "a\ud7ffb"])
def test_odd_texts_score_as_in_the_library(both, text):
    ours, library = both
    pairs = [(text, "A city."), ("A city.", text)]
    scores = ours.score(pairs)
    assert difference(scores, one_by_one(library, pairs)) < 1e-5
    assert [score.flags for score in scores] == [(), ()]


def test_a_text_of_special_tokens_alone_is_empty_not_nan():
    [score] = BertScorer("demo", device="cpu").score([("[SEP]", "a city")])
    assert (score.precision, score.recall, score.f1) == (0, 0, 0)
    assert score.flags == ("empty_candidate",)


def test_negative_similarities_are_not_lifted_by_padding():
    # by hand: x.y = -1 and -0.6, so P = R = F1; padded places must not offer 0
    x = Embedded(torch.tensor([[1.0, 0.0]]), torch.ones(1))
    y = Embedded(torch.tensor([[-1.0, 0.0]]), torch.ones(1))
    z = Embedded(torch.tensor([[-0.6, 0.8], [-1.0, 0.0], [-0.8, 0.6]]), torch.ones(3))
    alone, beside = greedy_match([x], [y]), greedy_match([x, x], [y, z])
    assert alone.tolist() == [[-1, -1, -1]]
    assert beside[0].tolist() == [-1, -1, -1]
    assert beside[1, 0].item() == pytest.approx(-0.6)
    assert beside[1, 1].item() == pytest.approx(-0.8)


def test_weights_enter_as_weights_of_a_mean():
    # by hand: P = (3 * 1 + 1 * 0.6) / 4, R = 1
    x = Embedded(unit_vectors(torch.tensor([[2.0, 0.0], [3.0, 4.0]])), torch.tensor([3.0, 1.0]))
    y = Embedded(unit_vectors(torch.tensor([[5.0, 0.0]])), torch.tensor([2.0]))
    [row] = greedy_match([x], [y]).tolist()
    assert row == pytest.approx([0.9, 1.0, 1.8 / 1.9], abs=1e-6)
