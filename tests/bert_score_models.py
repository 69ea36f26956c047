"""Encoders and real pairs for the tests of BERTScore, and the library they are compared with."""

import json
import random
from pathlib import Path

from tokenizers import ByteLevelBPETokenizer
from transformers import RobertaConfig, RobertaModel, RobertaTokenizerFast


def random_roberta(folder, texts):
    """A RoBERTa with random weights and a byte-level BPE trained on ``texts``, saved to a folder."""
    import torch

    bpe = ByteLevelBPETokenizer()
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    bpe.train_from_iterator(texts, vocab_size=3000, special_tokens=special)
    folder.mkdir(parents=True, exist_ok=True)
    bpe.save_model(str(folder))
    tokenizer = RobertaTokenizerFast(
        vocab=str(folder / "vocab.json"), merges=str(folder / "merges.txt"), model_max_length=80
    )
    tokenizer.save_pretrained(folder)
    torch.manual_seed(0)
    sizes = {"hidden_size": 48, "num_hidden_layers": 4, "num_attention_heads": 4}
    sizes |= {"intermediate_size": 96, "max_position_embeddings": 82}
    # a wide spread, so that similarities are of both signs
    config = RobertaConfig(vocab_size=bpe.get_vocab_size(), initializer_range=0.3, **sizes)
    RobertaModel(config).save_pretrained(folder)
    return folder


def hotpot_pairs(shared_data, n):
    """(candidate, reference) of sentences of the same real records, and questions, seeded."""
    rng, pairs = random.Random(0), []
    lines = Path(shared_data / "hotpotqa" / "hotpot.jsonl").read_text(encoding="utf-8").split("\n")
    for record in map(json.loads, rng.sample(lines[:-1], n // 3)):
        sentences = [
            s for part in record["context"]["sentences"] for s in part if 3 < len(s.split()) < 18
        ]
        first, second = rng.sample(sentences, 2)
        pairs += [(first, second), (record["question"], first), (record["answer"], second)]
    return pairs


def one_by_one(library, pairs):
    """[P, R, F1] of each pair by bert-score, called once for each."""
    return [[float(v) for v in library.score([c], [r])] for c, r in pairs]
