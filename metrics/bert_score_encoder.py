"""Contextual token vectors of texts, tokenised as bert-score does it, padded out of all results."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tcb_bench.metrics.bert_score_model import Checkpoint, find_checkpoint, layer_of, load

LIMIT_WHERE_NONE_IS_KNOWN = 512
"""Tokens of a text that count where neither tokenizer nor model states a limit."""

_UNCUT = 10**9  # more tokens than any text has, and few enough for the tokenizer's integers


@dataclass(frozen=True, eq=False)
class Tokens:
    """A text's token ids (L,) with special tokens; ``is_truncated`` where its end is missing."""

    ids: NDArray[np.int32]
    is_truncated: bool


class Encoder:
    """A transformer cut at one layer, with its tokenizer; float32, no gradients.

    Attributes:
        checkpoint: its files.
        layer: whose states are returned; 0 is the embedding.
        limit: most tokens of a text, special ones included; the rest is cut, as in bert-score.
        device: where it runs and where its states lie.
        width: D, numbers of a token's state.
        frame: ids of the tokens that stand around a text, to which bert-score gives no weight.
    """

    def __init__(self, model: str, *, num_layers: int | None, device: str | None) -> None:
        self.checkpoint: Checkpoint = find_checkpoint(model)
        self.layer = layer_of(self.checkpoint, num_layers)
        self._tokenizer, self._model = load(self.checkpoint, self.layer)
        self.device = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
        self._model.to(self.device)
        self.limit = _limit(self._tokenizer, self._model)
        self._tokenizer.model_max_length = self.limit
        self.width = int(self._model.config.hidden_size)
        self.frame = frozenset({self._tokenizer.sep_token_id, self._tokenizer.cls_token_id})

    def tokens(self, text: str) -> Tokens:
        """Return the tokens of ``text`` without blanks at its ends; none at all for a blank one."""
        from bert_score.utils import sent_encode

        if not text.strip():
            return Tokens(np.empty(0, np.int32), is_truncated=False)
        ids = sent_encode(self._tokenizer, text)
        is_truncated = False
        if len(ids) >= self.limit:
            self._tokenizer.model_max_length = _UNCUT
            is_truncated = len(sent_encode(self._tokenizer, text)) > self.limit
            self._tokenizer.model_max_length = self.limit
        return Tokens(np.asarray(ids, np.int32), is_truncated)

    def states(
        self, texts: Mapping[str, Tokens], batch_tokens: int
    ) -> Iterator[list[tuple[str, Tensor]]]:
        """Yield texts with their states (L, D) in batches of ``batch_tokens``, longest first.

        A text's states do not depend on the others of its batch but for rounding, some 1e-6. They
        are views of their batch: a caller who keeps some of them keeps the batch.
        """
        names, lengths = list(texts), [len(tokens.ids) for tokens in texts.values()]
        for chosen in token_batches(lengths, batch_tokens):
            states = self._run([texts[names[i]] for i in chosen])
            yield [(names[i], states[row, : lengths[i]]) for row, i in enumerate(chosen)]

    @torch.inference_mode()
    def _run(self, batch: Sequence[Tokens]) -> Tensor:
        """States (B, L, D) of B texts, L the longest; what lies beyond a text's end is void."""
        longest = max(len(tokens.ids) for tokens in batch)
        ids = torch.full((len(batch), longest), self._tokenizer.pad_token_id or 0)
        mask = torch.zeros_like(ids)
        for row, tokens in enumerate(batch):
            ids[row, : len(tokens.ids)] = torch.from_numpy(tokens.ids)
            mask[row, : len(tokens.ids)] = 1
        out = self._model(ids.to(self.device), attention_mask=mask.to(self.device))
        states: Tensor = out[0]
        return states


def token_batches(lengths: Sequence[int], most: int) -> list[list[int]]:
    """Return indices in batches, longest first, of at most ``most`` places with their padding.

    A length above ``most`` makes a batch of its own.

    >>> token_batches([2, 7, 3, 2], most=6)
    [[1], [2, 0], [3]]
    """
    batches: list[list[int]] = []
    for index in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        if batches and (len(batches[-1]) + 1) * lengths[batches[-1][0]] <= most:
            batches[-1].append(index)
        else:
            batches.append([index])
    return batches


def _limit(tokenizer: Any, model: Any) -> int:
    """The smaller of the tokenizer's limit and the model's count of positions."""
    limits = [tokenizer.model_max_length] if tokenizer.model_max_length < _UNCUT else []
    positions = getattr(model.config, "max_position_embeddings", None)
    if positions and positions > 0:
        table = getattr(getattr(model, "embeddings", None), "position_embeddings", None)
        padding = getattr(table, "padding_idx", None)  # RoBERTa counts positions from behind it
        limits.append(positions if padding is None else positions - padding - 1)
    return int(min(limits, default=LIMIT_WHERE_NONE_IS_KNOWN))
