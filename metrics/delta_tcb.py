"""Token Constraint Bound and its companions at next-token prediction points, on any device.

delta_tcb is a first-order average over directions, and not a safe radius: on a real 135M model the
exact flip_radius was 8 times smaller in the median. Both are given, side by side.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import Tensor

from tcb_bench.metrics.delta_tcb_head import Head, spans, weight_radius
from tcb_bench.metrics.delta_tcb_shards import (
    NEAR,
    Peak,
    Shard,
    Sums,
    Top,
    combine_sums,
    combine_top,
    distance_ratio,
)

__all__ = [
    "QUANTITIES",
    "Head",
    "TokenStability",
    "reference",
    "stability",
    "token_stability",
    "weight_radius",
]


@dataclass(frozen=True)
class TokenStability:
    """Stability quantities of N prediction points; tensors of (N,) in float32 or float64.

    Attributes:
        delta_tcb: eps / ‖J‖_F, a length in h-space, higher is more stable; inf if J = 0.
        log10_delta_tcb: its decimal logarithm, finite wherever J is not 0.
        v_eff: 1 / Σ o_i², effective vocabulary size, from 1 to V.
        logit_margin: z_k - z_j*, top-1 less top-2, >= 0; inf where V = 1.
        p_top1: o_k.
        p_top2: o_j*; 0 where V = 1.
        nll: -log o of the token asked for (or the top-1), in nats, >= 0; keeps its digits near 0.
        entropy: -Σ o_i log o_i, in nats, from 0 to log V; keeps its digits near 0.
        flip_radius: exact L2 distance from h to the nearest state with another top-1; inf if none.
        flip_token: int64, the top-1 there; -1 where there is none.
        h_norm: ‖h‖.
        relative_delta: delta_tcb / h_norm; inf where h = 0.
        relative_flip_radius: flip_radius / h_norm; inf where h = 0.
        top1_token: int64, k.
        choice_margin: best choice's logit less the next one's, >= 0, inf where there is no other;
            it and the next three are None if there are no choices.
        choice_flip_radius: exact L2 distance from h to the nearest state with another best choice;
            inf where there is none.
        choice_logprobs: (N, C) log o of the choices, in nats, in the order given.
        choice_mass: probability of the distinct choices together.
    """

    delta_tcb: Tensor
    log10_delta_tcb: Tensor
    v_eff: Tensor
    logit_margin: Tensor
    p_top1: Tensor
    p_top2: Tensor
    nll: Tensor
    entropy: Tensor
    flip_radius: Tensor
    flip_token: Tensor
    h_norm: Tensor
    relative_delta: Tensor
    relative_flip_radius: Tensor
    top1_token: Tensor
    choice_margin: Tensor | None = None
    choice_flip_radius: Tensor | None = None
    choice_logprobs: Tensor | None = None
    choice_mass: Tensor | None = None

    def row(self, i: int) -> dict[str, float | int | None]:
        """Plain numbers of point ``i`` by the names in ``QUANTITIES``.

        None where no choices were given; inf stays inf, for the caller to store with a reason.
        """
        values = {name: getattr(self, name) for name in QUANTITIES}
        return {name: None if v is None else v[i].item() for name, v in values.items()}


QUANTITIES = tuple(f.name for f in fields(TokenStability) if f.name != "choice_logprobs")


@torch.no_grad()
def token_stability(  # noqa: PLR0913 - the head's own settings are five of them
    hidden: Tensor,
    weight: Tensor | Head,
    *,
    tokens: Tensor | None = None,
    choices: Tensor | None = None,
    bias: Tensor | None = None,
    softcap: float | None = None,
    scale: float = 1.0,
    n_vocab: int | None = None,
    eps: float = 1.0,
    workspace_mib: float = 64,
) -> TokenStability:
    """How far final hidden states are from another prediction: to first order, and exactly.

    delta_tcb = eps / ‖J‖_F,  ‖J‖_F² = Σ_i o_i² ‖w_i - mu‖²,  o = softmax(W h),  mu = Σ_i o_i w_i
    flip_radius = min over j != k of (z_k - z_j) / ‖w_k - w_j‖

    With x = scale (W h + bias) and z = softcap tanh(x / softcap), the first line has D_i w_i for
    w_i, D_i = scale (1 - (z_i / softcap)²). The second has W h + bias for z: the cap is monotone.

    Args:
        hidden: (N, d) states as the head receives them, after the final norm; any float dtype.
        weight: (V, d) output embedding on the device of ``hidden``, any float dtype; or a ``Head``,
            which computes once what depends on the weights alone, and has the next four settings
            and the dtype itself.
        bias: (V,) or None.
        softcap: final soft-cap in logits, > 0, or None.
        scale: factor on W h + bias before the cap, > 0.
        n_vocab: rows of ``weight`` that are tokens; None = all. The others are padding.
        tokens: (N,) ids whose nll is wanted; None = the top-1.
        choices: ids of a closed set of answers, at least one: (C,), or (N, C).
        eps: allowed change of o in the L2 norm; dimensionless, > 0.
        workspace_mib: bound on temporaries, although one row of logits (V,) is always held.

    Returns:
        ``TokenStability`` of N rows. All arithmetic is float32, float64 where an input is float64.

    Raises:
        ValueError: shapes, devices or numbers do not fit, an id is no token, or a row of
            ``hidden`` or ``weight`` holds NaN or Inf.

    Cost: 3 N V d multiply-adds, three times the logits; 3 V d once per ``Head``.
    Source: arXiv:2602.10816, definition 1, proposition 1, equation 9; flip_radius is ours.
    Checked against: autograd's Jacobian in float64, moves of h across the flip, real states.

    >>> s = token_stability(torch.zeros(1, 2), torch.eye(2))  # J = [[1, -1], [-1, 1]] / 4
    >>> round(s.delta_tcb.item(), 5), s.v_eff.item()
    (2.0, 2.0)
    """
    if isinstance(weight, Head):
        if bias is not None or softcap is not None or scale != 1.0 or n_vocab is not None:
            raise ValueError("weight is a Head: give bias, softcap, scale and n_vocab to it only")
        head = weight
    else:
        dtype = torch.float64 if hidden.dtype == torch.float64 else None
        head = Head(weight, bias, softcap, scale, n_vocab, dtype=dtype)
    for name, value in (("eps", eps), ("workspace_mib", workspace_mib)):
        if not 0 < value < math.inf:
            raise ValueError(f"{name} must be a number > 0; got {value}")
    head.check_states(hidden)
    n, d = hidden.shape
    tokens = None if tokens is None else head.checked_ids("tokens", tokens, (n,))
    choices = None if choices is None else _choice_ids(choices, n, head)
    room = int(workspace_mib * 2**20)
    rows_held = 2 * NEAR + 8 + (0 if choices is None else 2 * choices.shape[1])
    row_bytes = (head.size + rows_held * d) * head.compute_dtype.itemsize
    parts = []
    for a, b in spans(n, max(1, room // 2 // row_bytes)):
        shard = Shard(hidden[a:b].to(head.compute_dtype), head, room * 3 // 8)
        asked = (None if ids is None else ids[a:b] for ids in (tokens, choices))
        parts.append(stability([shard], *asked, eps=eps))
    columns = {f.name: [getattr(part, f.name) for part in parts] for f in fields(TokenStability)}
    return TokenStability(**{k: torch.cat(c) for k, c in columns.items() if c[0] is not None})


def stability(
    shards: list[Shard],
    tokens: Tensor | None = None,
    choices: Tensor | None = None,
    *,
    eps: float = 1.0,
    exchange: Callable[[list[Any]], list[Any]] = list,
) -> TokenStability:
    """The quantities of R states from slices of the vocabulary, here or in several processes.

    ``token_stability`` is this with one slice. Under tensor parallelism every rank calls it with
    its own shard and an ``exchange`` that turns the rank's list of tensors, ``Top`` or ``Sums``
    into the list of all ranks. ``tokens`` is (R,), ``choices`` (R, C). The shards are used up.
    """
    head = shards[0].head
    top = combine_top(exchange([shard.top() for shard in shards]))
    k = top.ids[:, :1]
    wanted = torch.cat(
        [k if tokens is None else tokens[:, None], k[:, :0] if choices is None else choices], 1
    )
    x = torch.stack(exchange([shard.pre_cap(wanted) for shard in shards])).amax(0)
    row = torch.stack(exchange([shard.rows(k[:, 0]) for shard in shards])).sum(0)
    peak = Peak(top.x[:, 0], k[:, 0], row)
    sums = combine_sums(exchange([shard.sums(peak) for shard in shards]))
    values = _quantities(head, top, sums, math.log(eps / head.scale))
    z_k = head.logit(top.x[:, 0])
    if choices is not None:
        rows = torch.stack(exchange([shard.rows(choices) for shard in shards])).sum(0)
        values |= _choice_quantities(head, choices, x[:, 1:], rows, z_k + values["nll"])
    values["nll"] = values["nll"] + (z_k - head.logit(x[:, 0]))
    h_norm = torch.linalg.vector_norm(shards[0].hidden, dim=1)
    for name, length in (("relative_delta", "delta_tcb"), ("relative_flip_radius", "flip_radius")):
        values[name] = torch.where(h_norm > 0, values[length] / h_norm, torch.inf)
    return TokenStability(**values, h_norm=h_norm, top1_token=k[:, 0])


def _quantities(head: Head, top: Top, sums: Sums, log_eps: float) -> dict[str, Tensor]:
    """Everything that needs no more than the sums; ``nll`` is that of the top-1."""
    z_k, z_2 = head.logit(top.x).masked_fill(top.ids < 0, -torch.inf).unbind(1)
    lead = sums.ref - z_k
    nll = torch.log1p(sums.same[:, 0] + sums.e * lead.exp())
    p_top1, rho = torch.exp(-nll), torch.exp(lead - nll)
    square_sum = p_top1.square() * (1 + sums.same[:, 1]) + rho.square() * sums.s
    # the shift of mu against w_k, the others' distance from w_k, and their product
    norm2 = square_sum * sums.m.square().sum(1) + sums.b - 2 * rho * (sums.m * sums.q).sum(1)
    norm2 = norm2.clamp(min=0)  # a sum of squares; rounding may leave -1e-16 of an exact 0
    log_delta = log_eps - (lead - nll) - norm2.log() / 2
    return {
        "delta_tcb": log_delta.exp(),
        "log10_delta_tcb": log_delta / math.log(10),
        "v_eff": (1 / square_sum).clamp_(min=1),  # 1 / 1.0000001 is rounding
        "logit_margin": z_k - z_2,
        "p_top1": p_top1,
        "p_top2": torch.exp(z_2 - z_k - nll),
        "nll": nll,
        "entropy": nll + p_top1 * sums.same[:, 2] + rho * (sums.lag - _times(lead, sums.e)),
        "flip_radius": sums.flip / head.scale,
        "flip_token": sums.flip_ids,
    }


def _times(lead: Tensor, e: Tensor) -> Tensor:
    """``lead * e``, and 0 for -inf times 0: there is no other token."""
    return torch.where(e > 0, lead * e, 0)


def _choice_quantities(
    head: Head, ids: Tensor, x: Tensor, rows: Tensor, log_norm: Tensor
) -> dict[str, Tensor]:
    """The closed set ``ids`` (R, C), its x (R, C) and rows (R, C, d); log Σ exp z (R,) of all."""
    z, best = head.logit(x), x.argmax(1, keepdim=True)
    itself = ids == ids.gather(1, best)
    gap = torch.linalg.vector_norm(rows - rows.take_along_dim(best[..., None], 1), dim=-1)
    repeated = (ids[:, :, None] == ids[:, None]).tril(-1).any(2)
    return {
        "choice_margin": (z.gather(1, best) - z).masked_fill(itself, torch.inf).amin(1),
        "choice_flip_radius": distance_ratio(x.gather(1, best) - x, gap).amin(1) / head.scale,
        "choice_logprobs": z - log_norm[:, None],
        "choice_mass": torch.exp(z - log_norm[:, None]).masked_fill(repeated, 0).sum(1),
    }


def _choice_ids(choices: Tensor, n: int, head: Head) -> Tensor:
    if choices.dim() not in (1, 2) or choices.dim() == 2 and choices.shape[0] != n:
        raise ValueError(
            f"choices must be (C,) or ({n}, C), as hidden has {n} rows; got {tuple(choices.shape)}"
        )
    ids = head.checked_ids("choices", choices, tuple(choices.shape))
    ids = ids.expand(n, ids.shape[-1])
    if ids.shape[1] == 0:
        raise ValueError("choices must hold at least one id for every row; got none")
    return ids


def reference(
    hidden: Tensor,
    weight: Tensor,
    *,
    bias: Tensor | None = None,
    softcap: float | None = None,
    scale: float = 1.0,
    eps: float = 1.0,
) -> tuple[Tensor, Tensor]:
    """delta_tcb and flip_radius (N,) in float64, as the equations read; O(V d) memory per row.

    Rows are relative to w_k: no w_i - mu changes, and digits are left where o_k is 1 - 1e-60.
    """
    w, out = weight.double(), []
    for h in hidden.double():
        x = scale * (w @ h + (0 if bias is None else bias.double()))
        z = x if softcap is None else softcap * torch.tanh(x / softcap)
        slope = torch.full_like(x, scale) if softcap is None else scale * (1 - (z / softcap) ** 2)
        k = int(x.argmax())
        o = torch.softmax(z, 0)
        y = slope[:, None] * w - slope[k] * w[k]
        mu = o @ y
        j_norm = (o**2 @ ((y - mu) ** 2).sum(1)).sqrt()
        gap = (w - w[k]).norm(dim=1)
        flip = torch.where(gap > 0, (x[k] - x) / (scale * gap), torch.inf).min()
        out.append(torch.stack([eps / j_norm, flip]))
    delta, flip_radius = torch.stack(out).unbind(1)
    return delta, flip_radius
