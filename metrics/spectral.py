"""The spectral norm of J = (diag(o) - o oᵀ) W by power iteration, without forming J.

With k the top-1, y_i = D_i w_i - D_k w_k (D_i the slope of the soft-cap, 1 without one),
t_i = exp(z_i - z_j*) for i != k, rho = o_j* and m = Σ t_i y_i, the rows of J / (rho scale) are

    t_i (y_i - rho m)  for i != k,     -o_k m  for i = k

so that nothing cancels when o_k goes to 1, and nothing underflows, because the largest t is 1.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from tcb_bench.metrics.delta_tcb_head import COPY_ELEMENTS, Head, spans

CELLS = 2**24  # of one (states, block, V) product: 64 MiB of float32


@dataclass(frozen=True)
class SpectralNorm:
    """Spectral norms of the Jacobians of N states; tensors of (N,) but for ``direction``.

    Attributes:
        log10_norm: log10 ‖J‖_2; -inf where J is 0.
        direction: (N, d) unit vector that J stretches most; its sign means nothing.
        residual: ‖JᵀJ v - s v‖ / s at the end: s = ‖J v‖² is within this share of an eigenvalue.
        iterations: how many were made.
        converged: whether ``residual`` reached the tolerance; else the norm is a lower bound.
    """

    log10_norm: Tensor
    direction: Tensor
    residual: Tensor
    iterations: Tensor
    converged: Tensor


@dataclass(frozen=True)
class Jacobian:
    """J / (rho scale) of R states, as products. ``t`` (R, V) holds 0 at the top-1, ``k`` (R,)."""

    head: Head
    k: Tensor
    t: Tensor
    slope: Tensor | None
    rho: Tensor
    log10_scale: Tensor
    p_top1: Tensor
    top_row: Tensor
    m: Tensor

    @staticmethod
    def at(head: Head, hidden: Tensor) -> "Jacobian":
        """That of (R, d) states in the compute dtype."""
        x = pre_cap(head, hidden)
        z, slope = head.logit(x), None if head.softcap is None else head.slope(x)
        best, ids = z.topk(min(2, head.size))
        k, rows = ids[:, 0], torch.arange(len(z), device=z.device)
        lead = best[:, -1] - best[:, 0]
        t = torch.exp(z - best[:, -1:])
        t[rows, k] = 0.0
        nll = torch.log1p(t.sum(1) * lead.exp())
        top_row = head.gather(k)
        if slope is not None:
            top_row = top_row * slope[rows, k][:, None]
        m = _weighted_rows(head, t if slope is None else t * slope) - t.sum(1, True) * top_row
        log_scale = lead - nll + torch.log(torch.tensor(head.scale, dtype=z.dtype))
        return Jacobian(
            head=head,
            k=k,
            t=t,
            slope=slope,
            rho=torch.exp(lead - nll),
            log10_scale=log_scale / torch.log(torch.tensor(10.0, dtype=z.dtype)),
            p_top1=torch.exp(-nll),
            top_row=top_row,
            m=m,
        )

    def times(self, v: Tensor) -> Tensor:
        """(R, V, p) = J / (rho scale) times (R, d, p)."""
        r, d, p = v.shape
        flat = products(self.head, v.transpose(1, 2).reshape(r * p, d))
        s = flat.view(r, p, -1).transpose(1, 2)
        if self.slope is not None:
            s = s * self.slope[..., None]
        shift = torch.einsum("rd,rdp->rp", self.top_row, v)
        mean = torch.einsum("rd,rdp->rp", self.m, v)
        out = (s - (shift + self.rho[:, None] * mean)[:, None]) * self.t[..., None]
        out[torch.arange(r, device=v.device), self.k] = -self.p_top1[:, None] * mean
        return out

    def transposed_times(self, a: Tensor) -> Tensor:
        """(R, d, p) = (J / (rho scale))ᵀ times (R, V, p)."""
        r, n, p = a.shape
        at_top = a[torch.arange(r, device=a.device), self.k]
        ta = a * self.t[..., None]
        total = ta.sum(1)
        if self.slope is not None:
            ta = ta * self.slope[..., None]
        flat = _weighted_rows(self.head, ta.transpose(1, 2).reshape(r * p, n))
        out = flat.view(r, p, -1).transpose(1, 2) - self.top_row[..., None] * total[:, None]
        mean = self.rho[:, None] * total + self.p_top1[:, None] * at_top
        return out - self.m[..., None] * mean[:, None]


@torch.no_grad()
def spectral_norm(  # noqa: PLR0913 - three of them stop the iteration
    hidden: Tensor,
    head: Head,
    *,
    tolerance: float = 1e-4,
    max_iterations: int = 200,
    block: int = 4,
    seed: int = 0,
) -> SpectralNorm:
    """The largest change of o that a unit step of h can make, to first order, and its direction.

    ‖J‖_2 = max over unit v of ‖J v‖;  eps / ‖J‖_2 is delta_tcb for the worst direction.

    Block power iteration on JᵀJ: ``block`` vectors, made orthonormal each time, the best
    combination of them taken by Rayleigh and Ritz. It stops where the residual of the best one is
    below ``tolerance``. ‖J‖_2 <= ‖J‖_F, so that eps / ‖J‖_2 >= delta_tcb.

    Args:
        hidden: (N, d) states as the head receives them; computed in the head's compute dtype.
        head: the output head.
        tolerance: of the residual, relative; the norm's own error is of its half or smaller.
        max_iterations: >= 1, each two products with W per vector.
        block: vectors iterated together, >= 1, at most d are used.
        seed: >= 0, of the first vectors.

    Returns:
        ``SpectralNorm`` of N rows. Where the two best tokens share one row of W and all others are
        below exp(-43) of them, float32 has no digits left: J = 0, and not converged.

    Raises:
        ValueError: states or numbers do not fit.

    Cost: iterations x 2 N block V d multiply-adds; N block V numbers beside W, at most 64 MiB.
    Source: ours; Golub and Van Loan 2013, Matrix Computations, section 8.2.4.
    Checked against: numpy's SVD of J in float64, also of real states, autograd's Jacobian.

    >>> found = spectral_norm(torch.zeros(1, 2), Head(torch.eye(2)))  # J = [[1, -1], [-1, 1]] / 4
    >>> round(10 ** found.log10_norm.item(), 5)
    0.5
    """
    head.check_states(hidden)
    if not 0 < tolerance < 1 or max_iterations < 1 or block < 1:
        raise ValueError(
            "expected tolerance in (0, 1), max_iterations and block >= 1; got "
            f"{tolerance}, {max_iterations} and {block}"
        )
    states = hidden.to(head.compute_dtype)
    width = min(block, states.shape[1])
    generator = torch.Generator().manual_seed(seed)
    start = torch.randn(states.shape[1], width, generator=generator, dtype=torch.float64)
    start = torch.linalg.qr(start)[0].to(states)
    step = max(1, CELLS // (head.size * width))
    parts = [
        _iterate(Jacobian.at(head, states[a:b]), start, tolerance, max_iterations)
        for a, b in spans(len(states), step)
    ]
    return SpectralNorm(
        **{name: torch.cat([getattr(p, name) for p in parts]) for name in vars(parts[0])}
    )


def _iterate(j: Jacobian, start: Tensor, tolerance: float, limit: int) -> SpectralNorm:
    q = start.expand(len(j.k), *start.shape)
    residual = torch.full_like(j.rho, torch.inf)
    value, direction = torch.zeros_like(j.rho), q[..., 0]
    used = torch.zeros_like(j.k)
    for _ in range(limit):
        open_ = residual > tolerance
        if not open_.any():
            break
        used += open_
        y = j.times(q)
        g = j.transposed_times(y)
        ritz, turn = torch.linalg.eigh((y.transpose(1, 2) @ y).double())
        turn = turn.flip(2).to(q)  # the best combination first
        best, coefficients = ritz[:, -1].to(q), turn[..., :1]
        v, gv = (q @ coefficients)[..., 0], (g @ coefficients)[..., 0]
        off = torch.linalg.vector_norm(gv - best[:, None] * v, dim=1)
        now = torch.where(best > 0, off / best, torch.where(off > 0, torch.inf, 0.0))
        value, residual = (torch.where(open_, a, b) for a, b in ((best, value), (now, residual)))
        direction = torch.where(open_[:, None], v, direction)
        q = torch.linalg.qr(g @ turn)[0]
    return SpectralNorm(
        log10_norm=value.log10() / 2 + j.log10_scale,
        direction=direction,
        residual=residual,
        iterations=used,
        converged=(residual <= tolerance) & ((value > 0) | (j.head.size == 1)),
    )


def products(head: Head, vectors: Tensor) -> Tensor:
    """(N, V) products of the rows of W with (N, d) vectors, in the head's compute dtype."""
    step = max(1, COPY_ELEMENTS // vectors.shape[1])
    return torch.cat([vectors @ head.rows(*span).T for span in spans(head.size, step)], 1)


def pre_cap(head: Head, hidden: Tensor) -> Tensor:
    """(N, V) scale (W h + bias), the logits before a soft-cap."""
    x = products(head, hidden)
    if head.bias is not None:
        x += head.bias.detach()[: head.size].to(x)
    return x if head.scale == 1.0 else x * head.scale


def _weighted_rows(head: Head, weights: Tensor) -> Tensor:
    """(N, d) sums of the rows of W with (N, V) weights."""
    total = weights.new_zeros(len(weights), head.weight.shape[1])
    for a, b in spans(head.size, max(1, COPY_ELEMENTS // head.weight.shape[1])):
        total += weights[:, a:b] @ head.rows(a, b)
    return total
