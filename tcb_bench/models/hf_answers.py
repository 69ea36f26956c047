"""One batch of requests through the engine, and its answers."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from tcb_bench.metrics.delta_tcb import QUANTITIES, TokenStability
from tcb_bench.models.drafts import draft, stop_rule
from tcb_bench.models.encoding import Prompt
from tcb_bench.models.hf_engine import Engine
from tcb_bench.models.sampling import RowSampler, Sampling
from tcb_bench.models.text import RowText, TextBuilder
from tcb_bench.responses import Failure, Generation, NextToken, Plain

NOT_FINITE = Failure(
    "the model's final hidden state or logits are not finite (NaN or Inf); try dtype=float32",
    state="unscored",
)


@dataclass(frozen=True)
class Job:
    """One ``generate_traced`` request: prompt, parameters, and how many new tokens fit."""

    prompt: array[int]
    sampling: Sampling
    room: int


def next_tokens(
    engine: Engine, prompts: Sequence[Prompt], tokenizer: Any
) -> list[NextToken | Failure]:
    """Answers of one batch; all prompts have the same number of choices."""
    states, _ = engine.last_states([prompt.ids for prompt in prompts])
    good = states.isfinite().all(1).nonzero().flatten().tolist()
    answers: list[NextToken | Failure] = [NOT_FINITE] * len(prompts)
    if not good:
        return answers
    states = states[good]
    choices = torch.tensor([prompts[i].choices for i in good], device=states.device).long()
    stability = engine.stability(states, choices=choices if choices.shape[1] else None)
    columns = _columns(stability)
    found = stability.choice_logprobs
    logprobs = [[]] * len(good) if found is None else found.tolist()
    for row, i in enumerate(good):
        quantities = {name: column[row] for name, column in columns.items()}
        token = int(quantities["top1_token"])
        answers[i] = NextToken(
            stability=quantities,
            choice_logprobs=logprobs[row],
            choice_tokens=list(prompts[i].choices),
            token=token,
            token_text=tokenizer.decode([token]),
            prompt_tokens=len(prompts[i].ids),
        )
    return answers


def measured(
    engine: Engine,
    prompts: Sequence[Sequence[int]],
    measure: Callable[[Tensor], Sequence[Any]],
) -> list[Plain | Failure]:
    """What ``measure`` makes of one batch's last states; it sees finite ones only."""
    states, _ = engine.last_states(prompts)
    good = states.isfinite().all(1).nonzero().flatten().tolist()
    answers: list[Plain | Failure] = [NOT_FINITE] * len(prompts)
    if good:
        for i, value in zip(good, measure(states[good]), strict=True):
            answers[i] = Plain(value)
    return answers


def generations(
    engine: Engine, jobs: Sequence[Job], tokenizer: Any, think_end: int | str | None
) -> list[Generation | Failure]:
    """Answers of one batch; all jobs have the same room."""
    sampler = RowSampler(
        [job.sampling for job in jobs], [len(job.prompt) for job in jobs], engine.head.size
    )
    rows = [
        RowText(
            TextBuilder(tokenizer, job.prompt),
            stop_rule(tokenizer, job.sampling.until, engine.eos, think_end),
        )
        for job in jobs
    ]
    keeps = any(job.sampling.stability_at != "none" for job in jobs)
    prompts = [job.prompt for job in jobs]
    states = engine.generate(prompts, sampler, rows, jobs[0].room, keeps)
    drafts = [
        draft(len(job.prompt), row, job.sampling.stability_at)
        for job, row in zip(jobs, rows, strict=True)
    ]
    is_finite = [True] * len(jobs) if sampler.is_finite is None else sampler.is_finite.tolist()
    return _scored(engine, drafts, states, is_finite)


def _scored(
    engine: Engine, drafts: list[Generation], states: list[Tensor], is_finite: list[bool]
) -> list[Generation | Failure]:
    """The drafts with the stability of their positions, all computed together."""
    columns, sound = _measure(engine, drafts, states)
    answers: list[Generation | Failure] = []
    start = 0
    for begun, is_good in zip(drafts, is_finite, strict=True):
        own = slice(start, start + len(begun.positions))
        start = own.stop
        if not is_good or not all(sound[own]):
            answers.append(NOT_FINITE)
        elif not begun.positions:
            answers.append(begun)
        else:
            stability = {name: column[own] for name, column in columns.items()}
            answers.append(replace(begun, stability=stability))
    return answers


def _measure(
    engine: Engine, drafts: list[Generation], states: list[Tensor]
) -> tuple[dict[str, list[float]], list[bool]]:
    """Quantities at all positions of all drafts in a row, and whether each state was finite."""
    places = [(t, b) for b, begun in enumerate(drafts) for t in begun.positions]
    if not places:
        return {}, []
    device = engine.head.weight.device
    picked = torch.stack([states[t][b, -1] for t, b in places]).to(device)
    sound = picked.isfinite().all(1).tolist()
    tokens = torch.tensor([drafts[b].tokens[t] for t, b in places], device=device)
    return _columns(engine.stability(picked.nan_to_num(), tokens=tokens)), sound


def _columns(stability: TokenStability) -> dict[str, list[float]]:
    """Name -> one number per row, of the quantities that there are."""
    values = {name: getattr(stability, name) for name in QUANTITIES}
    return {name: value.tolist() for name, value in values.items() if value is not None}
