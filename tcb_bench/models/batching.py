"""Batches by length: sorted, cut by a token budget, halved where memory does not suffice."""

from __future__ import annotations

import gc
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import psutil  # type: ignore[import-untyped]
import torch

from tcb_bench.responses import Failure, Response

AUTO_ROWS = {"cpu": 16, "mps": 32}  # a CPU gains nothing from more, and loses more when killed
AUTO_ROWS_GPU = 256
TOKENS = (1024, 2**18)  # bounds of an automatic budget
OUT_OF_MEMORY = (
    "out of memory with this request alone in its batch; use a larger device, a smaller dtype, "
    "or shorter prompts and fewer new tokens"
)


@dataclass
class Batcher:
    """Cuts requests into batches and shrinks them when memory runs out; keeps what it learned.

    Attributes:
        max_rows: requests in one batch, at most.
        max_tokens: padded tokens in one batch (prompt and new ones), at most, but one request
            always goes, however long; halved each time memory runs out.
    """

    max_rows: int
    max_tokens: float = float("inf")

    def run(
        self,
        lengths: Sequence[int],
        keys: Sequence[Hashable],
        compute: Callable[[list[int]], Sequence[Response]],
        deliver: Callable[[int, Response], None],
    ) -> None:
        """Answers all requests, longest first within a key.

        Args:
            lengths: tokens of each request, padding aside.
            keys: requests of different keys never share a batch.
            compute: indices of one batch -> its answers, in that order.
            deliver: called with (index, answer) as soon as a batch is done.
        """
        rank = {key: i for i, key in enumerate(dict.fromkeys(keys))}
        order = sorted(range(len(lengths)), key=lambda i: (rank[keys[i]], -lengths[i]))
        while order:
            rows = self._take(order, lengths, keys)
            answers = self._attempt(rows, compute)
            if answers is None and len(rows) > 1:
                self.max_tokens = max(1, len(rows) * lengths[rows[0]] // 2)
                continue
            order = order[len(rows) :]
            for row, answer in zip(rows, answers or [Failure(OUT_OF_MEMORY)], strict=True):
                deliver(row, answer)

    def _take(
        self, order: list[int], lengths: Sequence[int], keys: Sequence[Hashable]
    ) -> list[int]:
        longest, key = max(1, lengths[order[0]]), keys[order[0]]
        size = int(max(1, min(self.max_rows, self.max_tokens // longest, len(order))))
        rows = order[:size]
        return [row for row in rows if keys[row] == key]

    @staticmethod
    def _attempt(
        rows: list[int], compute: Callable[[list[int]], Sequence[Response]]
    ) -> Sequence[Response] | None:
        """The batch's answers, None where memory did not suffice (its tensors are freed then)."""
        try:
            return compute(rows)
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
        gc.collect()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        return None


def is_out_of_memory(error: BaseException) -> bool:
    """Whether torch reports that memory ran out, on whichever device."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    text = str(error).lower()
    signs = ("out of memory", "can't allocate memory", "cublas_status_alloc_failed")
    return any(sign in text for sign in signs)


def auto_batcher(device: torch.device, token_bytes: int, max_rows: int | None = None) -> Batcher:
    """The batcher of ``batch_size=auto``: what half the free memory holds.

    Args:
        device: where the model lies.
        token_bytes: memory of one token of one row; see ``bytes_per_token``.
        max_rows: at most so many rows; None = what suits the device.
    """
    low, high = TOKENS
    tokens = int(min(high, max(low, _free_bytes(device) // 2 // token_bytes)))
    return Batcher(max_rows or AUTO_ROWS.get(device.type, AUTO_ROWS_GPU), tokens)


def _free_bytes(device: torch.device) -> int:
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    return int(psutil.virtual_memory().available)


def bytes_per_token(config: Any, element_size: int) -> int:
    """Estimate of a token's memory: its keys and values in all layers, and one layer's activations.

    Attributes that a config lacks count as those of a small model; an estimate too low costs one
    retry, no result.
    """
    width = int(getattr(config, "hidden_size", None) or 1024)
    layers = int(getattr(config, "num_hidden_layers", None) or 24)
    heads = int(getattr(config, "num_attention_heads", None) or 16)
    kv_heads = int(getattr(config, "num_key_value_heads", None) or heads)
    inner = int(getattr(config, "intermediate_size", None) or 4 * width)
    cache = 2 * layers * kv_heads * (width // heads)
    return (cache + 8 * width + 4 * inner) * element_size
