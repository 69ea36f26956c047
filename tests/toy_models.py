"""Tiny random models and tokenizers, so that many architectures can be tested in a second."""

import torch
import transformers
from lm_eval.api.instance import Instance
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers
from tokenizers.processors import TemplateProcessing

SPECIALS = ["<s>", "</s>", "<|end|>"]
TINY = {
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
    "vocab_size": 300,
    "bos_token_id": 0,
    "eos_token_id": 1,
    "pad_token_id": 1,
}


def byte_tokenizer(adds_bos=False, more_merges=()):
    """GPT-2 style: 256 bytes, ' A' to ' D' merged; 263 tokens, fewer than the models' 300 rows."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    merges = [*(("Ġ", letter) for letter in "ABCD"), *more_merges]
    words = [*SPECIALS, *alphabet, *("".join(pair) for pair in merges)]
    backend = Tokenizer(models.BPE({word: i for i, word in enumerate(words)}, merges))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    return _wrap(backend, adds_bos)


def llama_tokenizer(adds_bos=True):
    """Llama-2 style: a first space is put in and stripped again, unknown characters become bytes."""
    words = [*SPECIALS, *(f"<0x{i:02X}>" for i in range(256)), "▁", *"abcdeA", "▁a", "▁b", "▁A"]
    merges = [("▁", "a"), ("▁", "b"), ("▁", "A")]
    vocab = {word: i for i, word in enumerate(words)}
    backend = Tokenizer(models.BPE(vocab, merges, byte_fallback=True))
    backend.normalizer = normalizers.Sequence(
        [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    )
    backend.decoder = decoders.Sequence(
        [
            decoders.Replace("▁", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    return _wrap(backend, adds_bos)


def _wrap(backend, adds_bos):
    backend.add_special_tokens([AddedToken(word, special=True) for word in SPECIALS])
    if adds_bos:
        backend.post_processor = TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 0)])
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=backend, bos_token="<s>", eos_token="</s>", pad_token="</s>"
    )


def toy(architecture="Llama", seed=0, spread=1.0, **config):
    """A random model in float32; ``spread`` scales the head's rows, so that logits are not tiny."""
    torch.manual_seed(seed)
    settings = getattr(transformers, f"{architecture}Config")(**{**TINY, **config})
    suffix = "LMHeadModel" if architecture == "GPT2" else "ForCausalLM"
    model = getattr(transformers, architecture + suffix)(settings).eval()
    head = model.get_output_embeddings()
    with torch.no_grad():
        head.weight.normal_(0, spread)
        if getattr(head, "bias", None) is not None:
            head.bias.normal_(0, spread)
    return model


def ask(kind, *arguments):
    """A request as lm-eval sends it."""
    return Instance(kind, {}, arguments, 0, ("toy", 0, 1))


def generation(**changes):
    """gen_kwargs with every parameter stated, greedy and neutral unless changed."""
    neutral = {
        "until": [],
        "max_gen_toks": 8,
        "temperature": 0.0,
        "top_p": 1.0,
        "top_k": 0,
        "min_p": 0.0,
        "repetition_penalty": 1.0,
        "seed": None,
        "stability_at": "none",
    }
    return neutral | changes
