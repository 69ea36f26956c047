"""Hidden states from plain forward passes of transformers, and what they mean in float64."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

ROWS = 4096  # of the head that are float64 at one time: 128 MiB at d = 4096


@dataclass(frozen=True)
class Truth:
    """What N states mean; all float64, on the states' device.

    Attributes:
        log10_delta: (N,) decimal logarithm of delta_tcb.
        flip: (N,) flip_radius.
        top1: (N,) token ids.
        logits: (N, 2) the two largest.
        logprobs: (N, V) log softmax.
    """

    log10_delta: Tensor
    flip: Tensor
    top1: Tensor
    logits: Tensor
    logprobs: Tensor

    def asked(self, tokens: Sequence[Sequence[int]]) -> Tensor:
        """Log-probabilities of each state's tokens, one after the other, on the CPU."""
        index = torch.tensor([(i, t) for i, row in enumerate(tokens) for t in row])
        return self.logprobs[index[:, 0], index[:, 1]].cpu()


@torch.no_grad()
def last_states(model: Any, sequences: Sequence[Sequence[int]]) -> Tensor:
    """(N, d) states that the output head receives after the last token of each, in one batch."""
    width, device = max(map(len, sequences)), model.lm_head.weight.device
    ids = torch.zeros(len(sequences), width, dtype=torch.long)
    mask = torch.zeros_like(ids)
    for i, tokens in enumerate(sequences):
        ids[i, width - len(tokens) :] = torch.tensor(tokens)
        mask[i, width - len(tokens) :] = 1
    seen: list[Tensor] = []
    hook = model.lm_head.register_forward_pre_hook(lambda _, args: seen.append(args[0][:, -1]))
    try:
        model(
            input_ids=ids.to(device),
            attention_mask=mask.to(device),
            position_ids=(mask.cumsum(1) - 1).clamp(min=0).to(device),
            use_cache=False,
            logits_to_keep=1,
        )
    finally:
        hook.remove()
    return seen[0]


@torch.no_grad()
def truth(hidden: Tensor, weight: Tensor, rows: int = ROWS) -> Truth:
    """What states (N, d) mean under the head ``weight`` (V, d), by the equations as they read.

    J_F² = sum_i o_i² |w_i - mu|², the rows taken relative to w_k; ``rows`` of the head at a time,
    since in float64 a head of 128256 x 4096 takes 4 GiB, and each step of the equation again.
    """
    found = [_truth(h, weight, rows) for h in hidden.double()]
    return Truth(*(torch.stack(column) for column in zip(*found, strict=True)))


def _truth(h: Tensor, weight: Tensor, rows: int) -> tuple[Tensor, ...]:
    spans = [slice(a, a + rows) for a in range(0, len(weight), rows)]
    z = torch.cat([weight[span].double() @ h for span in spans])
    logprobs, (top, ids) = z.log_softmax(0), z.topk(2)
    o, k = logprobs.exp(), ids[0]
    w_k = weight[k].double()
    mu, norm2, flip = torch.zeros_like(h), h.new_zeros(()), h.new_tensor(torch.inf)
    for span in spans:
        mu += o[span] @ (weight[span].double() - w_k)
    for span in spans:
        y = weight[span].double() - w_k
        gap = y.norm(dim=1)
        ratio = torch.where(gap > 0, (z[k] - z[span]) / gap, torch.inf)
        flip = torch.minimum(flip, ratio.min())
        norm2 += o[span] ** 2 @ ((y - mu) ** 2).sum(1)
    return -norm2.log10() / 2, flip, k, top, logprobs
