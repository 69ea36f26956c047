"""Which request, position and token each row of a step belongs to, for vLLM's two model runners."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor


def rows_v1(
    runner: Any, spec: Any, sampled: Tensor
) -> tuple[Sequence[str], list[int], Tensor, Tensor]:
    """Request ids, rows of each, positions and tokens of a step of runner V1; token -1: not taken.

    Without speculation a request has one row; with it one per draft token and one more, of which
    those behind a rejected draft have token -1.
    """
    batch = runner.input_batch
    n = int(batch.num_reqs)
    device = sampled.device
    unfinished = np.array(runner.discard_request_mask.np[:n])  # parts of prompts predict nothing
    if spec is None:
        counts = [1] * n
        index = runner.query_start_loc.gpu[1 : n + 1].long() - 1
        tokens = sampled[:n, 0]
    else:
        counts = [int(drafts) + 1 for drafts in spec.num_draft_tokens]
        index = spec.logits_indices.long()
        tokens = sampled[:n][_request_and_offset(counts, device)]
        unfinished = np.repeat(unfinished, counts)
    if unfinished.any():
        tokens = tokens.masked_fill(_on(device, unfinished), -1)
    positions = getattr(runner.positions, "gpu", runner.positions)
    return batch.req_ids[:n], counts, positions[index], tokens


def rows_v2(
    batch: Any, sampled: Tensor, n_sampled: Tensor
) -> tuple[Sequence[str], list[int], Tensor, Tensor]:
    """As ``rows_v1`` for runner V2, which counts the tokens it took of every request."""
    counts = np.diff(batch.cu_num_logits_np[: batch.num_reqs + 1]).tolist()
    request, offset = _request_and_offset(counts, sampled.device)
    taken = offset < n_sampled.long()[request]
    last = sampled.shape[1] - 1
    tokens = sampled[request, offset.clamp(max=last)].masked_fill(~taken, -1)
    positions = batch.positions[batch.logits_indices.long()]
    return batch.req_ids[: batch.num_reqs], counts, positions, tokens


def _request_and_offset(counts: list[int], device: torch.device) -> tuple[Tensor, Tensor]:
    """Per row the index of its request, and how many rows of that come before it."""
    repeats = np.asarray(counts, dtype=np.int64)
    request = np.repeat(np.arange(len(counts)), repeats)
    offset = np.arange(len(request)) - np.repeat(np.cumsum(repeats) - repeats, repeats)
    return _on(device, request), _on(device, offset)


def _on(device: torch.device, values: Any) -> Tensor:
    """A numpy array on the device, without waiting for what that has to do."""
    tensor = torch.from_numpy(values)
    if device.type == "cuda":
        tensor = tensor.pin_memory()
    return tensor.to(device, non_blocking=True)
