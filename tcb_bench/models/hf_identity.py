"""What a transformers model is known by, in the store and in results."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers

from tcb_bench.metrics.delta_tcb import weight_radius

SAMPLES = 64  # values of a tensor that its digest sees
OPTIONS = ("peft", "delta", "gguf_file", "subfolder", "autogptq", "gptqmodel")
"""Arguments of HFLM that make another model of the same name."""


def weights_digest(model: torch.nn.Module) -> str:
    """16 hex digits over name, shape and up to 64 evenly spaced values of every tensor of a model.

    A checkpoint that was trained on or quantised otherwise has another digest, also under the same
    name; one changed number of a large tensor may go unseen.
    """
    digest = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        if not isinstance(tensor, torch.Tensor):
            continue
        digest.update(f"{name} {tuple(tensor.shape)} ".encode())
        if not tensor.is_meta:
            flat = tensor.detach().flatten()
            values = flat[:: max(1, flat.numel() // SAMPLES)][:SAMPLES]
            digest.update(values.float().cpu().numpy().astype(np.float32).tobytes())
    return digest.hexdigest()[:16]


def quantization_of(config: Any) -> dict[str, Any] | None:
    """The config's quantisation as JSON types, None for plain weights."""
    found = getattr(config, "quantization_config", None)
    if found is None:
        return None
    values = found if isinstance(found, dict) else found.to_dict()
    plain: dict[str, Any] = json.loads(json.dumps(values, default=str))
    return plain


def revision_of(pretrained: Any, revision: Any, config: Any) -> str | None:
    """The commit where the hub's cache knows it, else the revision asked for; None for a folder."""
    if not isinstance(pretrained, str) or Path(pretrained).expanduser().exists():
        return None
    return str(getattr(config, "_commit_hash", None) or revision)


def identity_of(lm: Any, weights: str) -> dict[str, Any]:
    """What two models must share for one to answer for the other, as JSON types.

    Args:
        lm: a ``tcb_bench.models.hf.HF``.
        weights: its ``weights_digest``.
    """
    identity: dict[str, Any] = {
        "backend": "hf",
        "model": lm.name,
        "revision": revision_of(lm.pretrained, lm.revision, lm.config),
        "dtype": str(lm.weights_dtype).removeprefix("torch."),
        "mixed_precision": str(lm.mixed_precision_dtype) if lm.mixed_precision_dtype else None,
        "quantization": quantization_of(lm.model.config),
        "weights_sha256": weights,
        "n_vocab": lm.head.size,
        "tokenizer": lm.tokenizer_given,
        "add_bos_token": lm.add_bos_token,
        "prefix_token_id": lm.custom_prefix_token_id,
        "max_length": lm.max_length,
        "think_end_token": lm.think_end_token,
    }
    return identity | {name: lm.options.get(name) or None for name in OPTIONS}


def info_of(lm: Any) -> dict[str, Any]:
    """What results say of a model: its identity and how it was run."""
    identity: dict[str, Any] = lm.identity
    return identity | {
        "device": str(lm.device),
        "transformers_version": transformers.__version__,
        "torch_version": torch.__version__,
        "n_parameters": sum(p.numel() for p in lm.model.parameters()),
        "vocab_rows": lm.head.weight.shape[0],
        "softcap": lm.head.softcap,
        "logit_scale": lm.head.scale,
        "weight_radius": weight_radius(lm.head.weight, lm.head.n_vocab),
    }
