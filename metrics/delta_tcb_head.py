"""The output head as the stability quantities see it; what depends on it alone is computed once."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

COPY_ELEMENTS = 2**24  # of a head in half precision that are float32 copies at one time


@dataclass(frozen=True, eq=False)
class Head:
    """An output head, or one slice of it, with what depends on the weights alone computed once.

    x = scale (W h + bias); the logits are z = softcap tanh(x / softcap), or x without a soft-cap.

    Attributes:
        weight: (V, d) output embedding; any float dtype, converted piece by piece.
        bias: (V,) or None.
        softcap: the cap in logits, > 0, or None.
        scale: multiplies W h + bias before the cap, > 0.
        n_vocab: rows that are tokens, counted from the first; None = all. The others are padding.
        first_id: token id of the first row, where ``weight`` is a slice of a larger vocabulary.
        dtype: float32 or float64; None = float64 for float64 weights, else float32.

    Raises:
        ValueError: a shape or a number is out of range; on first use, ``weight`` is not finite.
    """

    weight: Tensor
    bias: Tensor | None = None
    softcap: float | None = None
    scale: float = 1.0
    n_vocab: int | None = None
    first_id: int = 0
    dtype: torch.dtype | None = None

    def __post_init__(self) -> None:
        shape = tuple(self.weight.shape)
        if len(shape) != 2 or 0 in shape or not self.weight.is_floating_point():
            raise ValueError(f"weight must be (V, d) floats; got {shape} of {self.weight.dtype}")
        if self.bias is not None and tuple(self.bias.shape) != shape[:1]:
            raise ValueError(
                f"bias must be ({shape[0]},), as weight is {shape}; got {tuple(self.bias.shape)}"
            )
        if self.softcap is not None and not 0 < self.softcap < float("inf"):
            raise ValueError(f"softcap must be None or a number > 0; got {self.softcap}")
        if not 0 < self.scale < float("inf"):
            raise ValueError(f"scale must be a number > 0; got {self.scale}")
        if self.n_vocab is not None and not 1 <= self.n_vocab <= shape[0]:
            raise ValueError(
                f"n_vocab must be from 1 to the {shape[0]} rows of weight; got {self.n_vocab}"
            )

    @property
    def size(self) -> int:
        """Number of tokens V in this head or slice."""
        return self.n_vocab or self.weight.shape[0]

    @property
    def compute_dtype(self) -> torch.dtype:
        """Dtype of the logits, the softmax and the sums."""
        return self.dtype or torch.promote_types(self.weight.dtype, torch.float32)

    def rows(self, start: int, stop: int) -> Tensor:
        """(stop - start, d) rows in the compute dtype; no copy where they already are."""
        return self.weight.detach()[start:stop].to(self.compute_dtype)

    def gather(self, index: Tensor) -> Tensor:
        """(..., d) rows of the local indices (...), in the compute dtype."""
        picked = self.weight.detach().index_select(0, index.flatten()).to(self.compute_dtype)
        return picked.view(*index.shape, -1)

    def logit(self, x: Tensor) -> Tensor:
        """The logits z of x."""
        return x if self.softcap is None else self.softcap * torch.tanh(x / self.softcap)

    def slope(self, x: Tensor) -> Tensor:
        """D = dz/dx; as 1/cosh², since 1 - (z/c)² has no digits left where the cap saturates."""
        if self.softcap is None:
            return torch.ones_like(x)
        return torch.cosh(x / self.softcap).pow_(-2)

    def logits(self, hidden: Tensor) -> Tensor:
        """(N, V) logits of (N, d) hidden states in the compute dtype, without padded rows."""
        states = hidden.to(self.weight.device, self.compute_dtype)
        step = max(1, COPY_ELEMENTS // states.shape[1])
        parts = [states @ self.rows(*span).T for span in spans(self.size, step)]
        x = torch.cat(parts, 1)
        if self.bias is not None:
            x += self.bias.detach()[: self.size].to(x)
        return self.logit(self.scale * x)

    def misfit(self, hidden: Tensor, logits: Tensor) -> tuple[float, float]:
        """How far these states are from making a model's own ``logits``.

        Args:
            hidden: (N, d) states that the head received.
            logits: (N, V or more) what the model made of them; padded rows may follow.

        Returns:
            the largest difference of a logit, and the largest that rounding explains: a share of
            the largest logit, 1e-3 in float32, and in half precision four roundings (head, soft-cap
            and its two factors) of eps / 2 each. NaN where logits are not finite.
        """
        truth = logits[:, : self.size].to(self.weight.device, self.compute_dtype)
        difference = (self.logits(hidden) - truth).abs().max()
        dtypes = (self.weight.dtype, hidden.dtype, logits.dtype)
        share = max(1e-3, 2 * max(torch.finfo(dtype).eps for dtype in dtypes))
        return float(difference), share * float(truth.abs().max())

    def _spans(self) -> Iterator[tuple[int, int]]:
        return spans(self.size, max(1, 2**19 // self.weight.shape[1]))  # 2 MiB of float32

    def check_states(self, hidden: Tensor) -> None:
        """Raise ValueError unless ``hidden`` is (N, d), N >= 1, finite, on the weights' device."""
        shape, weight = tuple(hidden.shape), self.weight
        fits = len(shape) == 2 and shape[0] > 0 and shape[1] == weight.shape[1]
        if not fits or not hidden.is_floating_point():
            raise ValueError(
                f"hidden must be (N, {weight.shape[1]}) floats, N >= 1, as weight is "
                f"{tuple(weight.shape)}; got {shape} of {hidden.dtype}"
            )
        if hidden.device != weight.device:
            raise ValueError(
                f"hidden must be on {weight.device}, as weight is; got {hidden.device}"
            )
        finite = hidden.isfinite().all(1)
        if not finite.all():
            row = int(finite.logical_not().nonzero()[0])
            raise ValueError(f"hidden must be finite; row {row} holds NaN or Inf")

    def checked_ids(self, name: str, ids: Tensor, shape: tuple[int, ...]) -> Tensor:
        """``ids`` as int64 on the weights' device; ValueError unless tokens and of ``shape``."""
        if tuple(ids.shape) != shape:
            raise ValueError(f"{name} must be {shape}, as hidden has; got {tuple(ids.shape)}")
        if ids.is_floating_point() or ids.dtype == torch.bool:
            raise ValueError(f"{name} must be integer ids; got {ids.dtype}")
        first, last = self.first_id, self.first_id + self.size - 1
        wrong = ids[(ids < first) | (ids > last)]
        if wrong.numel():
            raise ValueError(f"{name} must be ids from {first} to {last}; got {int(wrong[0])}")
        return ids.to(self.weight.device, torch.int64)

    @cached_property
    def center(self) -> Tensor:
        """(d,) mean row, taken off before rows are squared; 0 with a soft-cap, where it matters."""
        total = torch.zeros_like(self.rows(0, 1)[0])
        if self.softcap is None:
            for span in self._spans():
                total += self.rows(*span).sum(0)
        return total / self.size

    @cached_property
    def spread(self) -> Tensor:
        """(V,) squared distance of every row from ``center``."""

        def squares(center: Tensor) -> Tensor:
            mode = "donot_use_mm_for_euclid_dist"  # differences first, and no copy for them
            parts = [
                torch.cdist(self.rows(*s), center[None], compute_mode=mode) for s in self._spans()
            ]
            return torch.cat(parts)[:, 0].square_()

        spread = squares(self.center)
        if not spread.isfinite().all():
            row = int(squares(torch.zeros_like(self.center)).isfinite().logical_not().nonzero()[0])
            raise ValueError(f"weight must be finite; row {row} holds NaN or Inf")
        return spread


def weight_radius(weight: Tensor, n_vocab: int | None = None) -> float:
    """R = max_i ‖w_i - mean(W)‖, the radius of the vocabulary.

    Without soft-cap and scale, delta_tcb >= eps sqrt(v_eff) / (2 R) and
    flip_radius >= logit_margin / (2 R): mu lies in the hull of the rows.

    Args:
        weight: (V, d) output embedding, any float dtype, computed in float32 (float64 stays).
        n_vocab: rows that are tokens, counted from the first; None = all.

    Returns:
        R in the units of the rows' L2 norm, >= 0.

    Raises:
        ValueError: ``weight`` is not (V, d) or not finite, or ``n_vocab`` is out of range.

    Cost: two passes over ``weight``, never a copy of it.
    Source: ours.
    Checked against: direct differences in float64 (tests/test_metrics_delta_tcb.py).

    >>> weight_radius(torch.tensor([[3.0, 4.0], [-3.0, -4.0]]))
    5.0
    """
    return float(Head(weight, n_vocab=n_vocab).spread.max().sqrt())


def spans(total: int, step: int) -> Iterator[tuple[int, int]]:
    """(start, stop) pairs that cut ``total`` in pieces of ``step``.

    >>> list(spans(5, 2))
    [(0, 2), (2, 4), (4, 5)]
    """
    return ((start, min(start + step, total)) for start in range(0, total, step))
