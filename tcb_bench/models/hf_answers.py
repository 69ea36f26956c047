"""One batch of requests through the engine, and its answers."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from tcb_bench.metrics.delta_tcb import QUANTITIES, TokenStability
from tcb_bench.models.encoding import Prompt
from tcb_bench.models.hf_engine import Engine
from tcb_bench.models.hf_head import head_logits
from tcb_bench.models.positions import critical_token, rule_version
from tcb_bench.models.sampling import RowSampler, Sampling
from tcb_bench.models.text import RowText, StopRule, TextBuilder
from tcb_bench.responses import Failure, Generation, NextToken

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
    has_margin = choices.shape[1] > 1
    columns = _columns(engine.stability(states, choices=choices if has_margin else None))
    logits = head_logits(engine.head, states)
    logprobs = (logits.gather(1, choices) - logits.logsumexp(1, keepdim=True)).tolist()
    for row, i in enumerate(good):
        stability = {name: column[row] for name, column in columns.items()}
        token = int(stability["top1_token"])
        answers[i] = NextToken(
            stability=stability,
            choice_logprobs=logprobs[row],
            choice_tokens=list(prompts[i].choices),
            token=token,
            token_text=tokenizer.decode([token]),
            prompt_tokens=len(prompts[i].ids),
        )
    return answers


def generations(
    engine: Engine, jobs: Sequence[Job], tokenizer: Any, think_end: int | str | None
) -> list[Generation | Failure]:
    """Answers of one batch; all jobs have the same room."""
    sampler = RowSampler(
        [job.sampling for job in jobs], [len(job.prompt) for job in jobs], engine.head.size
    )
    rows = [
        RowText(TextBuilder(tokenizer, job.prompt), _stop_rule(engine, job, tokenizer, think_end))
        for job in jobs
    ]
    keeps = any(job.sampling.stability_at != "none" for job in jobs)
    prompts = [job.prompt for job in jobs]
    states = engine.generate(prompts, sampler, rows, jobs[0].room, keeps)
    drafts = [_draft(job, row) for job, row in zip(jobs, rows, strict=True)]
    is_finite = [True] * len(jobs) if sampler.is_finite is None else sampler.is_finite.tolist()
    return _scored(engine, drafts, states, is_finite)


def _stop_rule(engine: Engine, job: Job, tokenizer: Any, think_end: int | str | None) -> StopRule:
    """Stop strings that are special tokens never show in the text; they stop as tokens."""
    special = {
        stop: tokenizer.convert_tokens_to_ids(stop)
        for stop in job.sampling.until
        if stop in tokenizer.all_special_tokens
    }
    strings = tuple(stop for stop in job.sampling.until if stop not in special)
    return StopRule(frozenset((*engine.eos, *special.values())), strings, think_end)


def _draft(job: Job, row: RowText) -> Generation:
    text, tokens, offsets = row.result()
    rule = job.sampling.stability_at
    if rule == "all":
        positions = list(range(len(tokens)))
    elif rule == "none":
        positions = []
    else:
        token = critical_token(rule, text, offsets)
        positions = [] if token is None else [token]
        rule = rule_version(rule)
    return Generation(
        text=text,
        tokens=tokens,
        offsets=offsets,
        finish_reason="stop" if row.is_done else "length",
        prompt_tokens=len(job.prompt),
        positions=positions,
        rule=rule,
    )


def _scored(
    engine: Engine, drafts: list[Generation], states: list[Tensor], is_finite: list[bool]
) -> list[Generation | Failure]:
    """The drafts with the stability of their positions, all computed together."""
    columns, sound = _measure(engine, drafts, states)
    answers: list[Generation | Failure] = []
    start = 0
    for draft, is_good in zip(drafts, is_finite, strict=True):
        own = slice(start, start + len(draft.positions))
        start = own.stop
        if not is_good or not all(sound[own]):
            answers.append(NOT_FINITE)
        elif not draft.positions:
            answers.append(draft)
        else:
            stability = {name: column[own] for name, column in columns.items()}
            answers.append(replace(draft, stability=stability))
    return answers


def _measure(
    engine: Engine, drafts: list[Generation], states: list[Tensor]
) -> tuple[dict[str, list[float]], list[bool]]:
    """Quantities at all positions of all drafts in a row, and whether each state was finite."""
    places = [(t, b) for b, draft in enumerate(drafts) for t in draft.positions]
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
