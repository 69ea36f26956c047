"""A random model of Llama-3.1-8B's very shape, or a tiny one, and requests to it; no download."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import transformers
from lm_eval.api.instance import Instance
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from torch import Tensor

from tcb_bench.models.hf import HF

CHOICES = (" A", " B", " C", " D")
ROPE: dict[str, Any] = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}
ROPE_THETA = 500000.0
SPECIALS = ("<|begin_of_text|>", "<|end_of_text|>")  # the last 256 ids begin with them, as in Llama
LOGIT_SPREAD = 5.0  # a random head of this spread is as confident as a trained one, v_eff 1 to 30


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What a run asks of a model.

    Attributes:
        shape: sizes, as ``LlamaConfig`` takes them.
        n_parameters: what a model of this shape has.
        prompts: ``next_token`` requests; ``longest`` tokens at most.
        texts: prompts of ``generate_traced``, each at temperatures 0 and 1; ``new`` tokens each.
        least_speed: tokens/s of traced over plain greedy generation, at least.
        need_gib: free memory of the GPU.
    """

    shape: dict[str, int]
    n_parameters: int
    prompts: int
    longest: int
    texts: int
    new: int
    least_speed: float
    need_gib: float


FULL = Plan(
    shape={
        "vocab_size": 128256,
        "hidden_size": 4096,
        "intermediate_size": 14336,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
    },
    n_parameters=8_030_261_248,
    prompts=64,
    longest=256,
    texts=16,
    new=32,
    least_speed=0.2,
    need_gib=20,
)
TINY = Plan(
    shape={
        "vocab_size": 4003,
        "hidden_size": 128,
        "intermediate_size": 448,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
    },
    n_parameters=1_689_216,
    prompts=24,
    longest=96,
    texts=6,
    new=8,
    least_speed=0.02,
    need_gib=1,
)


def tokenizer_of(n_tokens: int) -> Any:
    """Bytes, " A" to " D", and words that no text has, up to ``n_tokens``."""
    merges = [("Ġ", choice[1]) for choice in CHOICES]
    words = [*sorted(pre_tokenizers.ByteLevel.alphabet()), *("".join(pair) for pair in merges)]
    words += [f"~{i}" for i in range(len(words), n_tokens)]
    words[n_tokens - 256 : n_tokens - 254] = SPECIALS
    backend = Tokenizer(models.BPE({word: i for i, word in enumerate(words)}, merges))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens([AddedToken(word, special=True) for word in SPECIALS])
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=backend,
        bos_token=SPECIALS[0],
        eos_token=SPECIALS[1],
        pad_token=SPECIALS[1],
    )


def config_of(shape: dict[str, int]) -> Any:
    """Llama-3.1's configuration in this shape."""
    n_tokens = shape["vocab_size"]
    return transformers.LlamaConfig(
        **shape,
        bos_token_id=n_tokens - 256,
        eos_token_id=n_tokens - 255,
        rope_theta=ROPE_THETA,
        rope_scaling=dict(ROPE),
        max_position_embeddings=131072,
        rms_norm_eps=1e-5,
        tie_word_embeddings=False,
    )


@torch.no_grad()
def random_model(shape: dict[str, int], dtype: torch.dtype, device: torch.device) -> Any:
    """The model made where it stays, in its dtype, from one seed."""
    config, before = config_of(shape), torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        with device:
            model = transformers.LlamaForCausalLM(config)
    finally:
        torch.set_default_dtype(before)
    generator = torch.Generator(device).manual_seed(0)
    width = shape["hidden_size"] ** 0.5
    for weight in model.parameters():
        if weight.dim() == 2:
            weight.normal_(0, 1.28 / width, generator=generator)  # 0.02 at d = 4096
    head = model.lm_head.weight
    head.normal_(0, LOGIT_SPREAD / width, generator=generator)
    head[config.bos_token_id : config.eos_token_id + 1] = 0  # no text ends early: times compare
    return model.eval().requires_grad_(False)


@dataclass(frozen=True)
class Row:
    """One prediction as the engine tells it: after ``ids``, log-probabilities of ``asked``."""

    ids: list[int]
    asked: list[int]
    logprobs: list[float]
    seen: dict[str, float]
    temperature: float | None = None  # of the text whose next token is ``asked``


class Bench:
    """A random model behind the engine, and requests to it."""

    def __init__(self, plan: Plan, dtype: torch.dtype, device: torch.device) -> None:
        self.plan, self.device = plan, device
        self.model = random_model(plan.shape, dtype, device)
        self.tokenizer = tokenizer_of(plan.shape["vocab_size"])
        self.hf = HF(self.model, tokenizer=self.tokenizer, device=str(device))
        self.head: Tensor = self.model.lm_head.weight
        rng = random.Random(0)
        lengths = [plan.longest * (i + 1) // plan.prompts for i in range(plan.prompts)]
        self.prompts = ["".join(rng.choices("abcdefghijklmnop", k=n)) for n in lengths]
        rng.shuffle(self.prompts)
        self.texts = self.prompts[: plan.texts]

    def next_token(self, prompts: Sequence[str]) -> list[Row]:
        """A row per prompt."""
        asked = [Instance("next_token", {}, (p, CHOICES), 0, ("verify", 0, 1)) for p in prompts]
        answers = [_sound(answer) for answer in self.hf.next_token(asked)]
        ids = [self.tokenizer(prompt)["input_ids"] for prompt in prompts]
        return [
            Row(i, a.choice_tokens, a.choice_logprobs, a.stability)
            for i, a in zip(ids, answers, strict=True)
        ]

    def traced(self, texts: Sequence[str], temperatures: Sequence[float] = (0, 1)) -> list[Row]:
        """A row per generated token of each text at each temperature, text by text."""
        neutral: dict[str, Any] = {
            "until": [],
            "max_gen_toks": self.plan.new,
            "top_p": 1.0,
            "top_k": 0,
            "min_p": 0.0,
            "repetition_penalty": 1.0,
            "stability_at": "all",
        }
        pairs = [
            (text, {**neutral, "temperature": float(t)}) for text in texts for t in temperatures
        ]
        for text, kwargs in pairs:
            kwargs["seed"] = self.prompts.index(text)
        asked = [Instance("generate_traced", {}, pair, 0, ("verify", 0, 1)) for pair in pairs]
        answers = [_sound(answer) for answer in self.hf.generate_traced(asked)]
        rows = []
        for (text, kwargs), a in zip(pairs, answers, strict=True):
            ids = self.tokenizer(text)["input_ids"]
            for i, token in enumerate(a.tokens):
                seen = {name: column[i] for name, column in a.stability.items()}
                before, t = [*ids, *a.tokens[:i]], kwargs["temperature"]
                rows.append(Row(before, [token], [-seen["nll"]], seen, t))
        return rows


def _sound(answer: Any) -> Any:
    if answer.kind == "failure":
        raise RuntimeError(f"the engine did not answer: {answer.reason}")
    return answer
