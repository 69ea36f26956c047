"""The statistical forms of delta_tcb in the Beyond Confidence paper, beside the exact value."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from tcb_bench.metrics.delta_tcb_head import Head, spans
from tcb_bench.metrics.delta_tcb_shards import Peak, Shard


@dataclass(frozen=True)
class Approximations:
    """log10 of the approximated delta_tcb of N prediction points; tensors of (N,).

    Attributes:
        refined: rows of W taken as independent noise of variance sigma².
        diffuse: the same, and no token weighs much.
        peaked: the top-1 has nearly all weight, so that mu is its row; W as it is.
    """

    refined: Tensor
    diffuse: Tensor
    peaked: Tensor


@torch.no_grad()
def approximations(
    hidden: Tensor,
    head: Head,
    *,
    mean_square: float | None = None,
    eps: float = 1.0,
    workspace_mib: float = 64,
) -> Approximations:
    """Three simpler formulas for delta_tcb, in logarithms, so that nothing overflows.

    With S_n = Σ o_i^n, k the top-1, y_i the rows of W, sigma² the mean of all squared entries of W

        refined  eps / sqrt(d sigma² (S_2 - 2 S_3 + S_2²))
        diffuse  eps sqrt(v_eff / (d sigma²)),  v_eff = 1 / S_2
        peaked   eps / sqrt(Σ_{j != k} o_j² ‖y_j - y_k‖²)

    A scale s and a soft-cap make s D_i w_i of row i, as in ``token_stability``. For independent
    rows E‖M D W‖² = d sigma² Σ_i D_i² o_i² (1 - 2 o_i + S_2), M = diag(o) - o oᵀ: this is the
    refined form then, d sigma² Σ D_i² o_i² the diffuse one's square, and D = 1 gives those above.
    The peaked form leaves out the top-1's own term o_k² ‖y_k - mu‖², which is of the same order as
    the terms that it keeps: near v_eff = 1 it is too large, by sqrt(2) with one competitor.
    S_2 - 2 S_3 + S_2² is summed from terms without cancellation, the top-1's as o_k² ((1 - o_k)² +
    Σ_{i != k} o_i²), and relative to the runner-up.

    Args:
        hidden: (N, d) states as the head receives them, after the final norm; any float dtype.
        head: the output head; padded rows are left out everywhere.
        mean_square: sigma² where it is known, of ``mean_square``; None = computed here.
        eps: as in ``token_stability``.
        workspace_mib: bound on temporaries, although one row of logits (V,) is always held twice.

    Returns:
        ``Approximations`` of N rows in the head's compute dtype (float32, or float64); +inf where
        a form's norm is 0 (one token, rows all alike).

    Raises:
        ValueError: as ``token_stability``.

    Cost: that of ``token_stability``, and one pass over W for sigma²; no (N, V, d) temporary.
    Source: arXiv:2602.10816, equation 24 and its appendix; the form under a soft-cap is ours.
    Checked against: the formulas over explicit vectors in float64.

    >>> a = approximations(torch.zeros(1, 2), Head(torch.eye(2)))  # o = 1/2, sigma² = 1/2
    >>> [round(10**x.item(), 4) for x in (a.refined, a.diffuse, a.peaked)]
    [2.0, 1.4142, 1.4142]
    """
    head.check_states(hidden)
    noise = mean_square_of(head) if mean_square is None else mean_square
    log_noise = math.log(noise * hidden.shape[1]) / 2 if noise > 0 else -math.inf
    room = int(workspace_mib * 2**20)
    row_bytes = 4 * head.size * head.compute_dtype.itemsize
    parts = []
    for a, b in spans(len(hidden), max(1, room // 2 // row_bytes)):
        shard = Shard(hidden[a:b].to(head.compute_dtype), head, room // 2)
        norms = _log_norms(shard)
        norms[:2] += log_noise
        parts.append((math.log(eps / head.scale) - norms) / math.log(10))
    return Approximations(*torch.cat(parts, 1).unbind(0))


def mean_square_of(head: Head) -> float:
    """sigma², the mean of the squared entries of W over its real rows, without bias or scale."""
    step = max(1, 2**19 // head.weight.shape[1])
    total = sum(float(head.rows(*span).square().sum()) for span in spans(head.size, step))
    return total / (head.size * head.weight.shape[1])


def _log_norms(shard: Shard) -> Tensor:
    """(3, R) natural logarithms of the norms, the first two for d sigma² = 1."""
    head, top = shard.head, shard.top()
    k = top.ids[:, :1]
    slope_k = head.slope(top.x[:, 0])
    z_k, ref = head.logit(top.x).unbind(1)
    ref = ref.clamp(min=torch.finfo(ref.dtype).min)  # a vocabulary of one has no runner-up
    t = torch.exp(head.logit(shard.x).scatter_(1, k, -torch.inf) - ref[:, None])
    weight = t.square() * head.slope(shard.x).square_()
    e, s = t.sum(1), t.square().sum(1)
    a2, a3 = weight.sum(1), (weight * t).sum(1)
    del t, weight
    nll = torch.log1p(e * torch.exp(ref - z_k))
    log_rho = ref - z_k - nll
    o_k, rho = torch.exp(-nll), torch.exp(log_rho)
    s_2 = o_k.square() + rho.square() * s
    refined = (slope_k * o_k).square() * (e.square() + s) + (1 + s_2) * a2 - 2 * rho * a3
    diffuse = (slope_k * o_k).square() + rho.square() * a2
    sums = shard.sums(Peak(top.x[:, 0], k[:, 0], shard.rows(k[:, 0])))
    log_peak = sums.ref - z_k - nll
    return torch.stack(
        [log_rho + refined.log() / 2, diffuse.log() / 2, log_peak + sums.b.log() / 2]
    )
