"""Paraphrases. Oracle: transformers' own generate called by hand, and texts judged by hand.

Models: SmolLM2 as a chat model, and a random T5 with a tokenizer trained here, whose paraphrases
are nonsense: they show that the path works, not that it is any good.
"""

import random
from types import SimpleNamespace

import pytest
import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

from tcb_bench.errors import ModelError
from tcb_bench.perturb import paraphrase as module
from tcb_bench.perturb.paraphrase import Paraphraser, load, paraphrase
from tcb_bench.perturb.survival import lost

CORPUS = ["the cat saw a dog", "two dogs ran home", "paraphrase: who saw the cat?", "a home, a hat"]
SEEDS = [2, 5]  # those with which the random T5 comes to an end within 40 tokens
TEXT = "who saw the two dogs?"


@pytest.fixture(scope="module")
def t5(tmp_path_factory):
    """Folder of a T5 with random weights; its vocabulary is small, so that it ends by chance."""
    folder = tmp_path_factory.mktemp("t5")
    backend = Tokenizer(models.BPE(unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.Metaspace()
    backend.decoder = decoders.Metaspace()
    specials = ["<pad>", "</s>", "<unk>"]
    backend.train_from_iterator(CORPUS, trainers.BpeTrainer(vocab_size=60, special_tokens=specials))
    backend.post_processor = processors.TemplateProcessing(
        single="$A </s>", special_tokens=[("</s>", 1)]
    )
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=backend, pad_token="<pad>", eos_token="</s>", unk_token="<unk>"
    )
    torch.set_num_threads(1)
    torch.manual_seed(0)
    config = transformers.T5Config(
        vocab_size=len(tokenizer), d_model=16, d_kv=8, d_ff=32, num_layers=1, num_heads=2,
        decoder_start_token_id=0, pad_token_id=0, eos_token_id=1, initializer_factor=0.05,
    )  # fmt: skip
    transformers.T5ForConditionalGeneration(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def seq2seq(t5):
    return load(f"hf/{t5}", "cpu")


@pytest.fixture(scope="module")
def chat(smollm2):
    torch.set_num_threads(1)
    return Paraphraser("demo", *smollm2, "demo")


def prompts_of(paraphraser, text):
    """What the model reads, decoded with its special tokens."""
    seen = []

    def generate(input_ids, **_):
        seen.append(paraphraser.tokenizer.decode(input_ids[0]))
        return torch.tensor([[*input_ids[0], paraphraser.tokenizer.eos_token_id]])

    model = SimpleNamespace(
        generate=generate,
        device=torch.device("cpu"),
        config=paraphraser.model.config,
        generation_config=paraphraser.model.generation_config,
    )
    Paraphraser("x", model, paraphraser.tokenizer, "x").paraphrase([text], [0])
    return seen


def test_a_seq2seq_model_is_told_by_its_config_and_paraphrases_as_generate_does(seq2seq):
    assert isinstance(seq2seq.model, transformers.T5ForConditionalGeneration)
    tokens = seq2seq.tokenizer("paraphrase: " + TEXT, return_tensors="pt")
    expected = []
    for seed in (1, 2, 5):
        torch.manual_seed(seed)
        ids = seq2seq.model.generate(
            tokens["input_ids"], do_sample=True, temperature=0.7, top_p=0.95, top_k=0,
            max_new_tokens=40,
        )[0].tolist()  # fmt: skip
        text = seq2seq.tokenizer.decode(ids, skip_special_tokens=True).strip()
        expected.append(text if ids[-1] == 1 else "")
    assert seq2seq.paraphrase([TEXT] * 3, [1, 2, 5], max_new_tokens=40) == expected
    assert len(set(expected)) > 2


def test_a_paraphrase_depends_on_text_and_seed_only(seq2seq):
    torch.manual_seed(5)
    state = torch.get_rng_state()
    one, two = seq2seq.paraphrase([TEXT, "the hat"], SEEDS, max_new_tokens=40)
    assert len({one, two, ""}) == 3
    again = seq2seq.paraphrase(["the hat", TEXT], SEEDS[::-1], max_new_tokens=40)
    assert again == [two, one]
    assert torch.equal(torch.get_rng_state(), state)


def test_what_does_not_come_to_an_end_is_empty(seq2seq):
    assert seq2seq.paraphrase([TEXT, TEXT], SEEDS, max_new_tokens=2) == ["", ""]


def test_texts_and_seeds_are_of_one_length(seq2seq):
    with pytest.raises(ValueError, match="zip"):
        seq2seq.paraphrase([TEXT], [])


def test_prompts_hold_the_text_once_and_no_doubled_special_token(seq2seq, chat, monkeypatch):
    assert prompts_of(seq2seq, "the cat") == ["paraphrase: the cat</s>"]
    [prompt] = prompts_of(chat, TEXT)
    assert prompt.count(TEXT) == 1
    assert prompt.endswith(f"\n\n{TEXT}<|im_end|>\n<|im_start|>assistant\n")
    assert prompt.count("<|im_start|>system") == 1
    monkeypatch.setattr(chat.tokenizer, "chat_template", None)
    assert prompts_of(chat, TEXT) == [f"{module.INSTRUCTION}\n\n{TEXT}\n\nIn other words:"]


@pytest.mark.slow
def test_a_real_causal_model_gives_a_repeatable_line(chat):
    text = "The two old trains left the station early."
    one, two = chat.paraphrase([text, text], [3, 4], max_new_tokens=40)
    assert [one] == chat.paraphrase([text], [3], max_new_tokens=40)
    assert one != two
    assert "\n" not in one + two
    assert "train" in one + two


def test_the_version_names_the_weights(seq2seq, t5):
    assert seq2seq.version == load(str(t5), "cpu").version
    name, digest = seq2seq.version.split()
    assert name == t5.name
    assert len(digest) >= 8


@pytest.mark.parametrize("name", ["no/such-model", "./nowhere", "hf/"])
def test_a_model_that_is_not_there_is_refused_in_one_line(name):
    with pytest.raises(ModelError, match="paraphraser .* cannot be loaded") as error:
        load(name)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("original", "new", "expected"),
    [
        ("Ann has 1,000 pens.", "There are 1000 pens that Ann has.", ()),
        ("Ann has three pens.", "Ann owns 3 pens.", ()),
        ("He has 3 pens.", "He has 4 pens.", ("number",)),
        ("He has 3 pens.", "He has pens.", ("number",)),
        ("He has half of it.", "He has some of it.", ("number",)),
        ("Pens cost $1.50.", "Pens cost $150.", ("number",)),
        ("He isn't here.", "He is not here.", ()),
        ("He isn\u2019t here.", "He is here.", ("negation",)),
        ("He is here.", "He is never here.", ("negation",)),
        ("Who met Tom Hanks?", "Tom Hanks was met by whom?", ()),
        ("Who met Tom Hanks?", "Who met Tom?", ("name",)),
        ("Who met him in May?", "Who met him in spring?", ()),  # "may" is a function word, too
        ("Is this Ann's pen?", "Does this pen belong to Ann?", ()),
        ("Which film is it?", "Which film by Spielberg is it?", ("name",)),
        ("NASA flew here.", "An agency flew here.", ("name",)),
        ("Dogs ran home.", "Home is where the dogs ran.", ()),
        ("Is it a dog?", "It is a dog.", ("question",)),
        ('Who said "I go"?', "Who was it that said \u201cI go?\u201d", ()),
        ("Has Ann 3 pens?", "Bob has no pens.", ("number", "negation", "name", "question")),
    ],
)
def test_what_is_lost_in_a_paraphrase_is_named(original, new, expected):
    assert lost(original, new) == expected


class Scripted:
    """A paraphraser that answers what it is told to, and records the seeds."""

    def __init__(self, answer):
        self.answer, self.seeds = answer, []

    def paraphrase(self, texts, seeds):
        self.seeds += seeds
        return [self.answer] * len(texts)


def changed(text, answer, seed=0):
    scripted = Scripted(answer)
    tools = SimpleNamespace(paraphraser=lambda: scripted)
    return paraphrase(text, random.Random(seed), tools), scripted.seeds


@pytest.mark.parametrize(
    ("answer", "counts"),
    [
        ("", {"rejected_empty": 1}),
        ("?!", {"rejected_empty": 1}),
        ("ann has 3 pens", {"rejected_same": 1}),
        ("Ann has pens.", {"rejected_number": 1}),
        ("He hasn't pens.", {"rejected_number": 1, "rejected_negation": 1}),
        ("Are there 3 pens?", {"rejected_question": 1}),
        ("Bob and Tim have 3 pens.", {"rejected_name": 1}),
    ],
)
def test_a_paraphrase_that_loses_something_is_counted_and_the_text_kept(answer, counts):
    change, _ = changed("Ann has 3 pens.", answer)
    assert (change.value, change.flags, change.counts) == ("Ann has 3 pens.", ("rejected",), counts)


def test_a_kept_paraphrase_is_marked_unverified_and_drawn_by_the_generator():
    change, seeds = changed("Ann has 3 pens.", "There are 3 pens with Ann.")
    assert (change.value, change.flags) == ("There are 3 pens with Ann.", ("unverified",))
    assert seeds == changed("Ann has 3 pens.", "x", seed=0)[1] != changed("Ann has 3.", "x", 1)[1]


@pytest.mark.parametrize("text", ["", "\u00a0", "?!", "\N{GRINNING FACE}", "&amp;"])
def test_a_text_without_words_is_not_asked_about(text):
    change, seeds = changed(text, "x")
    assert (change.value, change.flags, seeds) == (text, ("unchanged",), [])
