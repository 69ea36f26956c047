"""The output head of a transformers model: found, read, checked against the model's own logits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product
from typing import Any

from torch import Tensor, nn

from tcb_bench.errors import ModelError
from tcb_bench.metrics.delta_tcb import Head, token_stability

SOFTCAPS = ("final_logit_softcapping", "output_logit_soft_cap", "logits_soft_cap")
"""Config attributes of a final soft-cap (Gemma 2 to 4, NanoChat; xLSTM; RecurrentGemma)."""

SCALES: dict[str, int] = {
    "logit_scale": 1,  # Cohere multiplies
    "lm_head_multiplier": 1,  # Falcon-H1
    "output_multiplier": 1,  # Muse
    "logits_scaling": -1,  # Granite; but HyperCLOVA X multiplies, MiniCPM3 scales before the head
}
"""Config attributes of a factor on the logits, and the power in which most models take it."""


def find_head(model: Any) -> nn.Module:
    """The module that turns the final hidden state into logits.

    Raises:
        ModelError: there is none, or it is not a plain matrix in memory.
    """
    module: nn.Module | None
    try:
        module = model.get_output_embeddings()
    except (NotImplementedError, AttributeError):  # how transformers says that there is none
        module = None
    name = type(model).__name__
    if module is None:
        raise ModelError(
            f"{name} has no output embedding, and delta_tcb needs one; use a causal LM"
        )
    weight: Any = getattr(module, "weight", None)
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


def heads(module: Any, config: Any, n_vocab: int) -> list[Head]:
    """Readings of the head, the most likely first; only the check tells which one is the model's.

    A config states a soft-cap or a scale, but not whether the model applies it, nor to what: the
    same name multiplies in one architecture and divides in another.
    """
    weight, bias = module.weight, getattr(module, "bias", None)
    bias = bias if isinstance(bias, Tensor) else None
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
    if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
        return None
    return float(value)


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
        difference, allowed = head.misfit(hidden, logits)
        if not math.isfinite(allowed):
            raise ModelError("the model's logits are not finite (NaN or Inf); try dtype=float32")
        if difference <= allowed:
            return _usable(head, hidden)
        smallest = min(smallest, difference)
    raise ModelError(
        "the hidden states captured do not reproduce the model's logits "
        f"(max difference {smallest:.3g}); delta_tcb of this model would be wrong"
    )


def _usable(head: Head, hidden: Tensor) -> Head:
    """The head as the quantities take it, tried once, which also computes what it caches."""
    try:
        token_stability(hidden.to(head.weight.device), head)
    except ValueError as error:
        raise ModelError(f"the output head cannot be measured: {error}") from None
    return head
