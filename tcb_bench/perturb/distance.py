"""How far a perturbed text lies from its original (TP 2.1: similarity and a threshold on it)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from tcb_bench.perturb.tokens import words

THRESHOLD = 0.85
_SLACK = 1e-5  # a cosine in float32 may lie this far beyond 1


@dataclass(frozen=True, slots=True)
class Distance:
    """How much of a text is left after a change.

    Attributes:
        token_overlap: see ``token_overlap``; 0 to 1, 1 = the same words.
        embedding_similarity: cosine of the two texts' embeddings, -1 to 1; None = not computed.
        is_pseudo_relevant: whether the similarity reaches the threshold, so that the changed text
            still counts as relevant; None without a similarity: overlap does not stand in for it.
    """

    token_overlap: float
    embedding_similarity: float | None = None
    is_pseudo_relevant: bool | None = None


def distance(
    original: str, changed: str, *, similarity: float | None = None, threshold: float = THRESHOLD
) -> Distance:
    """The distance between a text and what became of it. Source: TP 2.1; the threshold is ours.

    Args:
        original: the text before.
        changed: the text after.
        similarity: cosine of the two texts' mean-pooled encoder states, where there are any.
        threshold: least similarity of a pseudo-relevant text, -1 to 1.

    Raises:
        ValueError: ``similarity`` or ``threshold`` is not in -1..1.
    """
    for name, value in (("similarity", similarity), ("threshold", threshold)):
        if value is not None and not abs(value) <= 1 + _SLACK:  # NaN is refused too
            raise ValueError(f"{name} must be in -1..1, got {value}")
    relevant = None if similarity is None else similarity >= threshold
    return Distance(token_overlap(original, changed), similarity, relevant)


def token_overlap(a: str, b: str) -> float:
    """Jaccard index of the two multisets of lower-cased words; 1 where neither text has a word.

    sum_w min(n_a(w), n_b(w)) / sum_w max(n_a(w), n_b(w)). The order of words does not matter.

    >>> token_overlap("The cat saw the dog.", "the dog")
    0.4
    """
    first, second = (Counter(word.text.lower() for word in words(text)) for text in (a, b))
    union = (first | second).total()
    return (first & second).total() / union if union else 1.0


def cosine(a: Sequence[float], b: Sequence[float]) -> float:
    """Cosine of the angle between two vectors, -1 to 1 up to rounding.

    Raises:
        ValueError: the lengths differ, or a vector is all zeros, not finite, or empty.
    """
    if len(a) != len(b):
        raise ValueError(f"two vectors of one length are needed, got {len(a)} and {len(b)} numbers")
    norms = math.hypot(*a), math.hypot(*b)
    if not all(0 < norm < math.inf for norm in norms):
        raise ValueError(f"both vectors must be finite and not zero, got lengths {norms}")
    return math.fsum(x / norms[0] * (y / norms[1]) for x, y in zip(a, b, strict=True))
