"""BERTScore's greedy matching of token vectors; padded places take no part in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence


@dataclass(frozen=True, eq=False)
class Embedded:
    """A text for matching: unit vectors (L, D) of its tokens, and their weights (L,), >= 0."""

    vectors: Tensor
    weights: Tensor

    @property
    def nbytes(self) -> int:
        """Size in memory."""
        return self.vectors.nbytes + self.weights.nbytes


def unit_vectors(states: Tensor) -> Tensor:
    """Return ``states`` (..., D) divided by their L2 norms."""
    units: Tensor = states / torch.linalg.vector_norm(states, dim=-1, keepdim=True)
    return units


@torch.inference_mode()
def greedy_match(candidates: Sequence[Embedded], references: Sequence[Embedded]) -> Tensor:
    """Return precision, recall and F1 (N, 3) of N pairs of texts, in float32.

    P = sum_i v_i max_j x_i y_j / sum_i v_i,  R = sum_j w_j max_i x_i y_j / sum_j w_j,
    F1 = 2 P R / (P + R), 0 where P + R = 0; x, v of the candidate's tokens, y, w the reference's.
    P and R are in [-1, 1]; so is F1 where both have one sign, else it means nothing.
    Weightless tokens can be what another token is matched with, as in bert-score.

    Args:
        candidates: N texts, each with a positive sum of weights.
        references: their N partners, likewise.

    Cost: N times the longest candidate times the longest reference times D.
    Source: Zhang et al. 2020 (arXiv:1904.09675), section 3.
    Checked against: bert-score 0.3.13 called one pair at a time. Its batches differ by up to 1e-3,
    because it lets padded places take part with similarity 0.
    """
    x, v, x_is_token = _padded(candidates)
    y, w, y_is_token = _padded(references)
    similarity = torch.bmm(x, y.transpose(1, 2))
    similarity.masked_fill_(~(x_is_token.unsqueeze(2) & y_is_token.unsqueeze(1)), -torch.inf)
    # the best of a padded place is -inf, and -inf times its weight 0 would be NaN
    best_of_x = similarity.amax(2).masked_fill(~x_is_token, 0.0)
    best_of_y = similarity.amax(1).masked_fill(~y_is_token, 0.0)
    precision = (best_of_x * v).sum(1) / v.sum(1)
    recall = (best_of_y * w).sum(1) / w.sum(1)
    both = precision + recall
    f1 = torch.where(both == 0, 0.0, 2 * precision * recall / both)
    return torch.stack([precision, recall, f1], dim=1)


def _padded(texts: Sequence[Embedded]) -> tuple[Tensor, Tensor, Tensor]:
    """Vectors (N, L, D), weights (N, L) with 0 in padding, and where a token is (N, L)."""
    vectors = pad_sequence([text.vectors for text in texts], batch_first=True)
    weights = pad_sequence([text.weights for text in texts], batch_first=True)
    lengths = torch.tensor([len(text.weights) for text in texts], device=weights.device)
    places = torch.arange(weights.shape[1], device=weights.device)
    return vectors, weights, places < lengths.unsqueeze(1)
