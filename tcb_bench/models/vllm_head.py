"""The output head of a model inside a vLLM worker: found, read, and shared between ranks."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import torch
from torch import Tensor
from vllm.distributed import get_tp_group
from vllm.model_executor.layers.logits_processor import LogitsProcessor

from tcb_bench.metrics.delta_tcb import Head


class Refusal(Exception):
    """Why this engine's states cannot be measured truthfully."""


def head_of(processor: Any, lm_head: Any, bias: Any, hidden: Tensor, n_vocab: int) -> Head:
    """This rank's slice of the output head, with the processor's soft-cap and scale.

    vLLM scales after the cap: s c tanh(W h / c), which is the ``Head`` with scale s and cap s c.
    """
    shard = getattr(lm_head, "shard_indices", None)
    start = int(shard.org_vocab_start_index) if shard else 0
    size = int(shard.num_org_elements) if shard else int(processor.org_vocab_size)
    size = min(size, n_vocab - start)
    if size < 1:
        raise Refusal(f"rank {get_tp_group().rank_in_group} has no token of the vocabulary")
    weight = head_weight(lm_head, hidden)
    scale, cap = float(processor.scale), processor.soft_cap
    bias = None if bias is None else bias.detach()[: len(weight)]
    cap = None if cap is None else scale * float(cap)
    return Head(weight, bias, cap, scale, size, first_id=start)


def head_weight(lm_head: Any, hidden: Tensor) -> Tensor:
    """(V, d) weights of an output head, also of a quantised one, by pushing the identity through.

    The check at the start tells whether the head is that linear map for real states too.
    """
    weight: Any = getattr(lm_head, "weight", None)
    is_plain = type(lm_head.quant_method).__name__.startswith("Unquantized")
    if is_plain and isinstance(weight, Tensor) and weight.dim() == 2 and weight.itemsize > 1:
        return weight.detach()
    identity: Any = torch.eye(hidden.shape[1], dtype=hidden.dtype, device=hidden.device)
    pieces = [lm_head.quant_method.apply(lm_head, part) for part in identity.split(256)]
    return torch.cat(pieces).T.contiguous()


def exchange(parts: list[Any]) -> list[Any]:
    """This rank's part (a tensor, or a dataclass of tensors) -> those of all ranks, in order."""
    group = get_tp_group()
    if group.world_size == 1:
        return parts
    (part,) = parts
    if isinstance(part, Tensor):
        return _gather(part, group)
    names = [f.name for f in fields(part)]
    columns = [_gather(getattr(part, name), group) for name in names]
    return [type(part)(**dict(zip(names, row, strict=True))) for row in zip(*columns, strict=True)]


def _gather(tensor: Tensor, group: Any) -> list[Tensor]:
    tensor = tensor.contiguous()
    found = [torch.empty_like(tensor) for _ in range(group.world_size)]
    torch.distributed.all_gather(found, tensor, group=group.device_group)
    return found


def processor_of(model: Any) -> Any:
    """The one module that turns states into logits; under LoRA the one wrapped round it."""
    found = [m for m in model.modules() if isinstance(m, LogitsProcessor)]
    inner = {id(m) for m in found}
    wrapped = [m for m in model.modules() if id(getattr(m, "base_layer", None)) in inner]
    modules = wrapped or found
    if len(modules) != 1:
        raise Refusal(
            f"the model has {len(modules)} LogitsProcessor modules, expected one; "
            "delta_tcb needs a causal language model with one output head"
        )
    if modules[0].logits_as_input:
        raise Refusal("the model computes its logits outside vLLM's output head")
    return modules[0]


def has_adapter(processor: Any) -> bool:
    """Whether a LoRA adapter has weights for the output head."""
    stacked = getattr(processor, "lora_b_stacked", ())
    tensors = [stacked] if isinstance(stacked, Tensor) else list(stacked)
    return any(bool(tensor.any()) for tensor in tensors)
