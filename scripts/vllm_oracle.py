"""What an engine of vLLM tells of mixed prompts, and what transformers says of the same tokens."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from lm_eval.api.instance import Instance
from torch import Tensor
from transformers import AutoModelForCausalLM

from tcb_bench.metrics.delta_tcb import token_stability
from tcb_bench.models.resolve import resolve, running

TOKENS = 12
TOPICS = ("rivers", "bread", "the moon", "chess", "iron", "a small town", "bees", "winter")
STARTS = (
    "Write about {}:",
    "The best thing about {} is",
    "Question: what is known about {}?\nAnswer:",
    "List three facts on {}.\n1.",
    "def {}(x):\n    return",
    "{}, {}, {},",
    "Here is a long story. It goes on for many years, as stories of this kind do, with rain and "
    "sun, with friends and foes, and it begins with {}, until one day",
    "2 + 2 = 4, 3 + 3 = 6, 4 + 4 = 8, and this is why {}",
)
CHOICES = (" A", " B", " C", " D")


@dataclass
class Answers:
    """What one engine told, and what it was.

    Attributes:
        prompts: token ids per request.
        greedy: per prompt at T = 0; ``again``: the same asked in another order, cache filled.
        sampled: per prompt at T = 1; ``alone`` are the first of them once more, one at a time.
        next_token: per prompt.
    """

    prompts: list[list[int]]
    greedy: list[Any]
    sampled: list[Any]
    again: list[Any]
    next_token: list[Any]
    repeated: list[Any] = field(default_factory=list)
    alone: list[Any] = field(default_factory=list)
    info: dict[str, Any] = field(default_factory=dict)
    about: dict[str, Any] = field(default_factory=dict)
    graphs: str = ""
    is_eager: bool = False
    caches: bool = False
    folder: str = ""
    revision: str | None = None


def texts(n: int) -> list[str]:
    """``n`` of 64 prompts of 3 to 50 tokens, of every kind."""
    every = [start.replace("{}", topic) for topic in TOPICS for start in STARTS]
    return every[:n]


def request(kind: str, *arguments: Any) -> Any:
    """A request as lm-eval sends it."""
    return Instance(kind, {}, arguments, 0, ("verify", 0, 1))


def traced(lm: Any, prompts: Sequence[str], temperature: float) -> list[Any]:
    """Texts of every prompt with all tokens measured; the seed is the prompt's length."""
    given = {
        "until": [],
        "max_gen_toks": TOKENS,
        "temperature": temperature,
        "top_p": 1.0,
        "top_k": 0,
        "min_p": 0.0,
        "repetition_penalty": 1.0,
        "stability_at": "all",
    }
    asks = [
        request("generate_traced", text, {**given, "seed": len(text) if temperature else None})
        for text in prompts
    ]
    answers: list[Any] = lm.generate_traced(asks)
    bad = [answer for answer in answers if not hasattr(answer, "tokens")]
    if bad:
        raise RuntimeError(f"{len(bad)} of {len(answers)} requests failed: {bad[0]}")
    return answers


def ask(model: str, arguments: str, dtype: str, prompts: list[str], log: Path) -> Answers:
    """Starts an engine, asks everything, ends it."""
    with running(resolve(f"vllm/{model}", arguments, dtype=dtype), log) as lm:
        config = lm.model.llm_engine.vllm_config
        answers = Answers(
            prompts=[list(row) for row in lm._encoder.encode(prompts)],
            greedy=traced(lm, prompts, 0.0),
            sampled=traced(lm, prompts, 1.0),
            again=traced(lm, prompts[::-1], 0.0)[::-1],
            next_token=lm.next_token([request("next_token", text, CHOICES) for text in prompts]),
            info=lm.info,
            about=dict(lm.engine.about),
            graphs=getattr(config.compilation_config.cudagraph_mode, "name", "NONE"),
            caches=bool(config.cache_config.enable_prefix_caching),
            is_eager=bool(config.model_config.enforce_eager),
            folder=lm.pretrained,
            revision=config.model_config.revision,
        )
        if lm.seeds_requests:
            answers.repeated = traced(lm, prompts[::-1], 1.0)[::-1]
            answers.alone = [traced(lm, [text], 1.0)[0] for text in prompts[:8]]
    return answers


def states(model: Any, sequences: Sequence[list[int]]) -> list[Tensor]:
    """Per sequence the (T, d) states that transformers' own head receives, one pass for each."""
    seen: list[Tensor] = []
    head = model.get_output_embeddings()
    hook = head.register_forward_pre_hook(lambda _, args: seen.append(args[0][0]))
    try:
        with torch.no_grad():
            for tokens in sequences:
                model(torch.tensor([tokens], device=head.weight.device), use_cache=False)
    finally:
        hook.remove()
    return seen


class Oracle:
    """What transformers says of the same tokens: states in the engine's dtype, then float64."""

    def __init__(self, answers: Answers, dtype: str, device: str) -> None:
        model: Any = AutoModelForCausalLM.from_pretrained(
            answers.folder, revision=answers.revision, dtype=dtype
        )
        model.eval().to(device)
        told = [*answers.greedy, *answers.sampled]
        pairs = list(zip(answers.prompts * 2, (a.tokens for a in told), strict=True))
        every = states(model, [[*p, *t] for p, t in pairs])
        rows = [s[len(p) - 1 : len(p) - 1 + len(t)] for s, (p, t) in zip(every, pairs, strict=True)]
        self.hidden = torch.cat(rows)
        self.starts = torch.stack([row[0] for row in rows[: len(answers.prompts)]])
        self.tokens = torch.tensor([t for a in told for t in a.tokens], device=device)
        head = model.get_output_embeddings()
        self.weight, self.bias = head.weight.detach(), getattr(head, "bias", None)
        self.head: dict[str, Any] = {
            "softcap": getattr(model.config, "final_logit_softcapping", None),
            "scale": float(answers.about["logit_scale"]),
        }
        self.n_vocab = int(answers.about["n_vocab"])

    def truth(self, hidden: Tensor, tokens: Tensor | None = None) -> Any:
        """All quantities in float64."""
        weight = self.weight.double()
        bias = None if self.bias is None else self.bias.double()
        return token_stability(
            hidden.double(), weight, tokens=tokens, bias=bias, n_vocab=self.n_vocab, **self.head
        )


def column(answers: Sequence[Any], name: str) -> Tensor:
    """One quantity of all tokens of all answers, in float64."""
    found = [x for a in answers for x in a.stability[name]]
    return torch.tensor(found, dtype=torch.float64)


def relative(ours: Tensor, true: Tensor) -> Tensor:
    """(N,) relative difference."""
    true = true.double().cpu()
    return (ours - true).abs() / true.abs()
