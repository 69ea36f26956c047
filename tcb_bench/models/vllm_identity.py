"""What a model run by vLLM is known by, in the store and in results."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
import vllm
from huggingface_hub import snapshot_download
from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError
from vllm.platforms import current_platform

from tcb_bench.models.hf_identity import quantization_of, revision_of

SPEED_ONLY = frozenset(
    "tensor_parallel_size gpu_memory_utilization kv_cache_memory_bytes max_num_seqs "
    "max_num_batched_tokens enable_prefix_caching enable_chunked_prefill enforce_eager "
    "disable_log_stats trust_remote_code download_dir seed cpu_offload_gb max_logprobs "
    "distributed_executor_backend compilation_config async_scheduling block_size "
    "num_gpu_blocks_override cudagraph_capture_sizes max_cudagraph_capture_size "
    "disable_custom_all_reduce max_parallel_loading_workers shutdown_timeout "
    "batch_size max_batch_size".split()
)
"""Arguments that change how fast a response comes, not which model gives it."""

NAMED = frozenset(
    "revision dtype tokenizer add_bos_token prefix_token_id think_end_token max_model_len "
    "max_length lora_local_path".split()
)
WEIGHTS = ("*.safetensors", "*.bin", "*.pt", "*.gguf")
BLOCKS, BLOCK = 64, 4096  # of a weight file, evenly spaced: how many are read, bytes of each


def checkpoint_digest(files: Iterable[Path]) -> str:
    """16 hex digits over name, size and some 64 evenly spaced blocks of every weight file.

    A checkpoint that was trained on has another digest, also under the same name; one changed
    number may go unseen.
    """
    digest = hashlib.sha256()
    for path in sorted(files):
        size = path.stat().st_size
        digest.update(f"{path.name} {size} ".encode())
        with path.open("rb") as file:
            for start in range(0, size, max(BLOCK, size // BLOCKS)):
                file.seek(start)
                digest.update(file.read(BLOCK))
    return digest.hexdigest()[:16]


def weight_files(pretrained: str, revision: str | None, cache: str | None = None) -> list[Path]:
    """The checkpoint's files where they lie on this machine; none where they cannot be found."""
    folder = Path(pretrained).expanduser()
    if not folder.is_dir():
        try:
            found = snapshot_download(
                pretrained, revision=revision, cache_dir=cache, local_files_only=True
            )
        except (LocalEntryNotFoundError, HFValidationError, OSError):
            return []
        folder = Path(found)
    return [path for pattern in WEIGHTS for path in folder.glob(pattern)]


def _public(name: str | None) -> str | None:
    """A hub id, or the last part of a local path: where it lies is this machine's affair."""
    return Path(name).name if name and Path(name).expanduser().exists() else name


def identity_of(lm: Any) -> dict[str, Any]:
    """What two models must share for one to answer for the other, as JSON types.

    Args:
        lm: a ``tcb_bench.models.vllm.VLLM``.
    """
    model = lm.model.llm_engine.model_config
    files = weight_files(model.model, model.revision, lm.options.get("download_dir"))
    adapter = lm.options.get("lora_local_path")
    left = {k: v for k, v in lm.options.items() if k not in SPEED_ONLY | NAMED}
    identity: dict[str, Any] = {
        "backend": "vllm",
        "model": lm.name,
        "revision": revision_of(lm.pretrained, model.revision, lm._config),
        "dtype": str(model.dtype).removeprefix("torch."),
        "quantization": model.quantization or quantization_of(lm._config),
        "weights_sha256": checkpoint_digest(files) if files else None,
        "n_vocab": lm.engine.about["n_vocab"],
        "tokenizer": _public(lm.options.get("tokenizer")),
        "add_bos_token": lm.add_bos_token,
        "prefix_token_id": lm.custom_prefix_token_id,
        "max_length": lm.max_length,
        "think_end_token": lm.think_end_token,
        "seeds_requests": lm.seeds_requests,
        "adapter": _public(adapter),
        "adapter_sha256": checkpoint_digest(weight_files(adapter, None)) if adapter else None,
    }
    return identity | {"engine_args": json.loads(json.dumps(left, default=str, sort_keys=True))}


def info_of(lm: Any) -> dict[str, Any]:
    """What results say of a model: its identity and how it was run."""
    config = lm.model.llm_engine.vllm_config
    about = lm.engine.about
    identity: dict[str, Any] = lm.identity
    return identity | {
        "device": current_platform.device_type,
        "vllm_version": vllm.__version__,
        "torch_version": torch.__version__,
        "runner": about["runner"],
        "tensor_parallel_size": config.parallel_config.tensor_parallel_size,
        "vocab_rows": about["vocab_rows"],
        "softcap": about["softcap"],
        "logit_scale": about["logit_scale"],
        "weight_radius": about["weight_radius"],
        "max_logit_difference": about["max_logit_difference"],
    }
