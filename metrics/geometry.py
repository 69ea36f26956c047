"""delta_tcb after the top-1's competitors were moved, the prediction held fixed, W never copied."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from tcb_bench.metrics.delta_tcb_head import Head, spans
from tcb_bench.metrics.delta_tcb_shards import NEAR, Peak, Shard, Sums

Move = tuple[int, float]
"""(K, a): the K best competitors go the share a of their way to the top-1; a < 0 is away."""


@dataclass(frozen=True)
class MovedCompetitors:
    """delta_tcb of N prediction points before and after each of M moves, float64 on the CPU.

    Attributes:
        log10_delta: (N,) before; +inf where J = 0.
        log10_moved: (N, M) after each move, in the order asked for.
        v_eff: (N,) 1 / Σ o_i², the same before and after.
        p_top1: (N,) o_k.
        top1_token: (N,) int64, k.
    """

    log10_delta: Tensor
    log10_moved: Tensor
    v_eff: Tensor
    p_top1: Tensor
    top1_token: Tensor


@torch.no_grad()
def moved_competitors(
    hidden: Tensor,
    head: Head,
    moves: Sequence[Move],
    *,
    eps: float = 1.0,
    workspace_mib: float = 64,
) -> MovedCompetitors:
    """delta_tcb with the rows of the K best competitors moved along the line to the top-1's row.

        w_j' = w_j + a (w_k - w_j), the K tokens j != k of highest logit; h and o as they were
        delta' = eps / sqrt(Σ_i o_i² ‖w_i' - mu'‖²),  mu' = Σ_i o_i w_i'

    a = alpha is the paper's cluster, a = -beta its disperse. o is that of the original W: the
    softmax is not run again. Under a scale s and a soft-cap the row is s D_i w_i as in
    ``token_stability``, D_i at the original logits; the weights w_i are what is moved.

    With L the largest K asked for, the tokens fall into k, the L best competitors, and the rest.
    The rest is summed once, relative to w_k and to its own best logit (``Shard``); each move then
    adds its L rows. Nothing is subtracted from a sum that it was part of, so that no digits are
    lost where the moved rows carry nearly all of it.

    Args:
        hidden: (N, d) states as the head receives them, after the final norm; any float dtype.
        head: the whole output head; padded rows are no competitors.
        moves: M pairs (K, a), K from 1 to V - 1, a finite.
        eps: as in ``token_stability``.
        workspace_mib: bound on temporaries, although one row of logits (V,) is always held.

    Returns:
        ``MovedCompetitors``. Logits and the sums over the rest are in the head's compute dtype, the
        rest of the arithmetic in float64.

    Raises:
        ValueError: a K or a is out of range, or as ``token_stability``.

    Cost: that of ``token_stability`` on the original W, and N M L d multiply-adds.
    Source: arXiv:2602.10816, appendix C.4.1 and table 2.
    Checked against: an explicit copy of W in float64, autograd's Jacobian times that copy.

    >>> m = moved_competitors(torch.zeros(1, 2), Head(torch.eye(2)), [(1, 0.5), (1, -1.0)])
    >>> [round(10**x, 4) for x in (m.log10_delta.item(), *m.log10_moved[0].tolist())]
    [2.0, 4.0, 1.0]
    """
    head.check_states(hidden)
    check_moves(moves, head.size)
    most = max((count for count, _ in moves), default=1)
    room = int(workspace_mib * 2**20)
    size = head.compute_dtype.itemsize
    row_bytes = 2 * size * head.size + (3 * 8 + size) * (most + 1) * head.weight.shape[1]
    parts = [
        _moved(hidden[a:b].to(head.compute_dtype), head, moves, most, room // 2)
        for a, b in spans(len(hidden), max(1, room // 2 // row_bytes))
    ]
    log_delta = (math.log(eps / head.scale) - torch.cat([p[0] for p in parts])) / math.log(10)
    s_2, p_top1, top1 = (torch.cat([part[i] for part in parts]) for i in (1, 2, 3))
    v_eff = (1 / s_2).clamp_(min=1)
    return MovedCompetitors(log_delta[:, 0], log_delta[:, 1:], v_eff, p_top1, top1)


def check_moves(moves: Sequence[Move], size: int) -> None:
    """Raise ValueError unless each (K, a) can be made in a vocabulary of ``size`` tokens."""
    for count, share in moves:
        if not 1 <= count < size:
            raise ValueError(
                f"K must be from 1 to {size - 1}, as there are {size} tokens; got {count}"
            )
        if not math.isfinite(share):
            raise ValueError(f"the share of the way must be a finite number; got {share}")


def _moved(
    states: Tensor, head: Head, moves: Sequence[Move], most: int, room: int
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """(R, 1 + M) log norms, without the head's scale; (R,) S_2, o_k and k."""
    shard = Shard(states, head, room)
    x, ids = shard.x.topk(most + 1)
    peak = Peak(x[:, 0], ids[:, 0], head.gather(ids[:, 0]))
    shard.x.scatter_(1, ids, -torch.inf)
    shard.best = shard.x.topk(min(NEAR + 1, head.size))
    rest = shard.sums(peak)
    z, slope = head.logit(x).cpu().double(), head.slope(x).cpu().double()
    w = head.gather(ids).cpu().double()
    y_k = slope[:, :1] * w[:, 0]
    pull = slope[:, 1:, None] * (w[:, :1] - w[:, 1:])  # of row j per unit of a
    gap = slope[:, 1:, None] * w[:, 1:] - y_k[:, None]
    fixed = _Fixed.of(z, rest)
    norms = [fixed.log_norm(gap)]
    for count, share in moves:
        place = gap.clone()
        place[:, :count] += share * pull[:, :count]
        norms.append(fixed.log_norm(place))
    return torch.stack(norms, 1), fixed.s_2, fixed.o_k, ids[:, 0].cpu()


@dataclass(frozen=True)
class _Fixed:
    """What no move changes, in float64, weights relative to the best token but the top-1.

    ``log_rho`` (R,) is that token's log o, ``t`` (R, L) the competitors' weights; ``m``, ``q``
    (R, d) and ``b`` (R,) are the sums over the rest; ``o_k`` and ``s_2`` (R,) of all tokens.
    """

    log_rho: Tensor
    o_k: Tensor
    s_2: Tensor
    t: Tensor
    m: Tensor
    q: Tensor
    b: Tensor

    @classmethod
    def of(cls, z: Tensor, rest: Sums) -> "_Fixed":
        """From the logits (R, 1 + L) of top-1 and competitors, and the sums over all others."""
        ref, e, s, b, m, q, same = (
            value.cpu().double()
            for value in (rest.ref, rest.e, rest.s, rest.b, rest.m, rest.q, rest.same)
        )
        lead = z[:, 1:] - z[:, :1]
        rest_lead = ref - z[:, 0]  # -inf where there is no rest
        odds = lead.exp().sum(1) + same[:, 0] + e * rest_lead.exp()
        nll = torch.log1p(odds)
        squares = lead.exp().square().sum(1) + same[:, 1] + s * (2 * rest_lead).exp()
        o_k = torch.exp(-nll)
        best = torch.maximum(lead[:, 0], rest_lead)
        f = torch.exp(rest_lead - best)
        return cls(
            log_rho=best - nll,
            o_k=o_k,
            s_2=o_k.square() * (1 + squares),
            t=torch.exp(lead - best[:, None]),
            m=m * f[:, None],
            q=q * f.square()[:, None],
            b=b * f.square(),
        )

    def log_norm(self, gap: Tensor) -> Tensor:
        """(R,) log ‖J‖_F with the competitors' rows (R, L, d) at ``gap`` from the top-1's."""
        t = self.t[..., None]
        m = self.m + (t * gap).sum(1)
        q = self.q + (t.square() * gap).sum(1)
        b = self.b + (t * gap).square().sum((1, 2))
        rho = self.log_rho.exp()
        square = self.s_2 * m.square().sum(1) + b - 2 * rho * (m * q).sum(1)
        return self.log_rho + square.clamp(min=0).log() / 2
