"""The output head of a transformers model: found, read, and checked against the model's own logits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import torch
from torch import Tensor, nn

from tcb_bench.errors import ModelError
from tcb_bench.metrics.delta_tcb import Head, token_stability

COPY_ELEMENTS = 2**24  # of a head in half precision that are float32 copies at one time
SOFTCAPS = ("final_logit_softcapping", "output_logit_soft_cap", "logits_soft_cap")
"""Config attributes of a final soft-cap (Gemma 2 to 4, NanoChat; xLSTM; RecurrentGemma)."""

SCALES: dict[str, int] = {
    "logit_scale": 1,  # Cohere multiplies
    "lm_head_multiplier": 1,  # Falcon-H1
    "output_multiplier": 1,  # Muse
    "logits_scaling": -1,  # Granite divides; HyperCLOVA X multiplies, MiniCPM3 scales before the head
}
"""Config attributes of a factor on the logits, and the power in which most models take it."""


def find_head(model: Any) -> nn.Module:
    """The module that turns the final hidden state into logits.

    Raises:
        ModelError: there is none, or it is not a plain matrix in memory.
    """
    try:
        module = model.get_output_embeddings()
    except (NotImplementedError, AttributeError):
        module = None
    name = type(model).__name__
    if module is None:
        raise ModelError(
            f"{name} has no output embedding, and delta_tcb needs one; use a causal LM"
        )
    weight = getattr(module, "weight", None)
    shape = tuple(getattr(weight, "shape", ()))
    if type(weight) not in (nn.Parameter, Tensor) or len(shape) != 2:
        raise ModelError(
            f"the output head of {name} is a {type(module).__name__} without a plain weight matrix "
            "(V, d); load it unquantised and on one device"
        )
    if not weight.is_floating_point() or weight.is_meta:
        state = "offloaded" if weight.is_meta else f"stored as {weight.dtype}"
        raise ModelError(
            f"the output head of {name} is {state}; delta_tcb needs its numbers as floats"
        )
    return module


def heads(module: nn.Module, config: Any, n_vocab: int) -> list[Head]:
    """Readings of the head, the most likely first; only the check tells which one is the model's.

    A config states a soft-cap or a scale, but not whether the model applies it, nor to what: the
    same name multiplies in one architecture and divides in another.
    """
    weight, bias = module.weight, getattr(module, "bias", None)
    caps = [value for name in SOFTCAPS if (value := _number(config, name))]
    scales: list[float] = []
    for name, power in SCALES.items():
        if value := _number(config, name):
            scales += [value**power, value**-power]
    rows = min(n_vocab, weight.shape[0])
    return [
        Head(weight, bias, cap, scale, rows)
        for cap, scale in product([*caps, None], [*scales, 1.0])
    ]


def _number(config: Any, name: str) -> float | None:
    value = getattr(config, name, None)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and value > 0 else None


def head_logits(head: Head, hidden: Tensor) -> Tensor:
    """(N, V) logits of (N, d) hidden states in the head's compute dtype, rows that are tokens only."""
    states = hidden.to(head.weight.device, head.compute_dtype)
    step = max(1, COPY_ELEMENTS // states.shape[1])
    starts = range(0, head.size, step)
    parts = [states @ head.rows(a, min(a + step, head.size)).T for a in starts]
    x = torch.cat(parts, 1)
    if head.bias is not None:
        x += head.bias.detach()[: head.size].to(x)
    return head.logit(head.scale * x)


@dataclass
class Capture:
    """Hidden states (B, 1, d) of the last position as the head received them, per forward pass.

    Without ``keeps_all`` only the latest is held.
    """

    keeps_all: bool
    states: list[Tensor] = field(default_factory=list)

    def add(self, state: Tensor) -> None:
        """Takes the state of one more forward pass."""
        if not self.keeps_all:
            self.states.clear()
        self.states.append(state.detach())

    def last(self) -> Tensor:
        """(B, d) of the latest forward pass."""
        if not self.states:
            raise ModelError(
                "the forward pass does not call the output head, so no hidden state can be seen; "
                "this architecture is not supported"
            )
        return self.states[-1][:, -1]


@contextmanager
def capture(module: nn.Module, *, keeps_all: bool = True) -> Iterator[Capture]:
    """Within it, ``module`` sees only the last position of its input, and that is kept.

    So (B, T, V) logits never exist, also where a model has no ``logits_to_keep``.
    """
    captured = Capture(keeps_all)

    def hook(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if args:
            last = args[0][:, -1:]
            args = (last, *args[1:])
        else:
            name = next(iter(kwargs))
            last = kwargs[name][:, -1:]
            kwargs = {**kwargs, name: last}
        captured.add(last)
        return args, kwargs

    handle = module.register_forward_pre_hook(hook, with_kwargs=True)
    try:
        yield captured
    finally:
        handle.remove()


def checked_head(readings: Sequence[Head], hidden: Tensor, logits: Tensor) -> Head:
    """The first reading of the head that turns ``hidden`` into the model's own ``logits``.

    Args:
        readings: from ``heads``.
        hidden: (N, d) captured states.
        logits: (N, V) of the model, padded rows included.

    Raises:
        ModelError: none does within rounding, or weights or logits are not finite.
    """
    smallest = float("inf")
    for head in readings:
        truth = logits[:, : head.size].to(head.weight.device, head.compute_dtype)
        if not truth.isfinite().all():
            raise ModelError("the model's logits are not finite (NaN or Inf); try dtype=float32")
        difference = float((head_logits(head, hidden) - truth).abs().max())
        dtypes = (head.weight.dtype, hidden.dtype, logits.dtype)
        if difference <= tolerance(dtypes) * float(truth.abs().max()):
            return _usable(head, hidden)
        smallest = min(smallest, difference)
    raise ModelError(
        "the hidden states captured do not reproduce the model's logits "
        f"(max difference {smallest:.3g}); delta_tcb of this model would be wrong"
    )


def tolerance(dtypes: tuple[torch.dtype, ...]) -> float:
    """Share of the largest logit by which rounding may move one: 1e-3 in float32.

    In half precision up to four roundings (head, soft-cap and its two factors) of eps / 2 each.
    """
    eps = max(torch.finfo(dtype).eps for dtype in dtypes)
    return max(1e-3, 2 * eps)


def _usable(head: Head, hidden: Tensor) -> Head:
    """The head as the quantities take it, tried once, which also computes what it caches."""
    try:
        token_stability(hidden.to(head.weight.device), head)
    except ValueError as error:
        raise ModelError(f"the output head cannot be measured: {error}") from None
    return head
