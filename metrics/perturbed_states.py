"""What really happens to a prediction when its hidden state is moved: no first order, no bound."""

from dataclasses import dataclass

import torch
from torch import Tensor

from tcb_bench.metrics.delta_tcb_head import Head, spans
from tcb_bench.metrics.spectral import pre_cap, products

CELLS = 2**22  # of one (directions, V) table in float64: 32 MiB


@dataclass(frozen=True)
class MovedStates:
    """N states moved along M directions by C lengths each; float64.

    Attributes:
        change: (N, M, C) ‖o' - o‖, in [0, sqrt 2].
        flipped: (N, M, C) bool, whether another token has the largest logit.
        slope: (N, M) ‖J u‖: to first order the change is length x slope.
    """

    change: Tensor
    flipped: Tensor
    slope: Tensor


@torch.no_grad()
def moved(hidden: Tensor, head: Head, directions: Tensor, lengths: Tensor) -> MovedStates:
    """The prediction behind h + r u, for every direction u and length r of each state.

    o' = softmax(z(h + r u));  z(h + r u) = cap(x + r scale W u): one product W u serves all r.

    W h and W u are computed in the head's dtype, the rest in float64 and relative to the top-1 k:
    o'_k - o_k is the negated sum of the others' changes, so nothing cancels when o_k goes to 1.

    Args:
        hidden: (N, d) states as the head receives them.
        head: the output head.
        directions: (N, M, d) unit vectors.
        lengths: (N, C) finite, >= 0, in the units of the states' norm.

    Returns:
        ``MovedStates``.

    Raises:
        ValueError: shapes do not fit, a direction is no unit vector, a length is not finite.

    Cost: N (M + 1) V d multiply-adds and N M C V exponentials; memory N M V beside W.
    Source: ours.
    Checked against: softmaxes of moved states by Decimal with 60 digits; autograd's Jacobian for
    ``slope``; moves by 0.999 and 1.001 of the flip radius.

    >>> there = torch.tensor([[[1.0, 0.0]]])
    >>> out = moved(torch.tensor([[0.0, 1.0]]), Head(torch.eye(2)), there, torch.tensor([[2.0]]))
    >>> out.flipped.item(), round(out.change.item(), 4)
    (True, 0.6535)
    """
    head.check_states(hidden)
    _check(hidden, directions, lengths)
    n, m, _ = directions.shape
    states = hidden.to(head.compute_dtype)
    x = pre_cap(head, states)
    step = max(1, CELLS // head.size)
    change = torch.zeros(n, m, lengths.shape[1], dtype=torch.float64, device=x.device)
    flipped = torch.zeros_like(change, dtype=torch.bool)
    slope = torch.zeros(n, m, dtype=torch.float64, device=x.device)
    for row in range(n):
        start = _Start(head, x[row].double())
        for a, b in spans(m, step):
            shift = head.scale * products(head, directions[row, a:b].to(states)).double()
            slope[row, a:b] = start.slope(shift)
            for c, length in enumerate(lengths[row].tolist()):
                change[row, a:b, c], flipped[row, a:b, c] = start.moved(length * shift)
    return MovedStates(change, flipped, slope)


def random_directions(n: int, count: int, width: int, seed: int) -> Tensor:
    """(n, count, width) unit vectors in float32, isotropic: the same for a seed on every device."""
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.randn(n, count, width, generator=generator)
    return torch.nn.functional.normalize(drawn, dim=-1)


class _Start:
    """One prediction: its x (V,) in float64, top-1 k, and o."""

    def __init__(self, head: Head, x: Tensor) -> None:
        self.head, self.x, self.k = head, x, int(x.argmax())
        self.o = torch.softmax(head.logit(x), 0)

    def moved(self, shift: Tensor) -> tuple[Tensor, Tensor]:
        """(M,) ‖o' - o‖ and whether the top-1 is another, for (M, V) changes of x."""
        x = self.x + shift
        difference = torch.softmax(self.head.logit(x), 1) - self.o
        return self._length(difference), x.amax(1) > x[:, self.k]

    def slope(self, shift: Tensor) -> Tensor:
        """(M,) ‖J u‖ for (M, V) scale W u: o_i (dz_i - Σ o dz), relative to dz_k."""
        dz = self.head.slope(self.x) * shift
        relative = dz - dz[:, self.k : self.k + 1]
        mean = relative @ self.o
        return self._length(self.o * (relative - mean[:, None]))

    def _length(self, difference: Tensor) -> Tensor:
        """(M,) norms of differences that sum to 0: the top-1's is taken from the others'."""
        difference[:, self.k] = 0.0
        difference[:, self.k] = -difference.sum(1)
        length: Tensor = torch.linalg.vector_norm(difference, dim=1)
        return length


def _check(hidden: Tensor, directions: Tensor, lengths: Tensor) -> None:
    n, d = hidden.shape
    fits = directions.dim() == 3 and (directions.shape[0], directions.shape[2]) == (n, d)
    if not fits or lengths.dim() != 2 or lengths.shape[0] != n:
        raise ValueError(
            f"expected directions ({n}, M, {d}) and lengths ({n}, C), as hidden is {(n, d)}; "
            f"got {tuple(directions.shape)} and {tuple(lengths.shape)}"
        )
    off = (torch.linalg.vector_norm(directions.double(), dim=-1) - 1).abs().max()
    if not off < 1e-4:
        raise ValueError(f"directions must be unit vectors; one is off by {float(off):.3g}")
    if not (lengths.isfinite() & (lengths >= 0)).all():
        raise ValueError("lengths must be finite and >= 0")
