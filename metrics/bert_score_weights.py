"""How much each token of a text counts in its BERTScore: alike, or by rarity (idf)."""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Sequence

import torch
from torch import Tensor

from tcb_bench.metrics.bert_score_encoder import Encoder, Tokens


class TokenWeights:
    """Weight of every token id: 1, or log((n + 1) / (c + 1)) for c of n texts with that token.

    Special tokens around a text weigh 0. ``digest`` names the texts of an idf, None without.

    Args:
        encoder: whose tokens are weighed.
        idf_texts: n texts, a repeated one counts again; none = every token weighs 1.

    Raises:
        ValueError: one of the texts is blank.

    Checked against: bert_score.utils.get_idf_dict.
    """

    def __init__(self, encoder: Encoder, idf_texts: Sequence[str] = ()) -> None:
        self._of_id: dict[int, float] = {}
        self._default = 1.0
        self.digest: str | None = None
        if idf_texts:
            self._count(encoder, idf_texts)
        self._of_id |= dict.fromkeys(encoder.frame, 0.0)

    def of(self, tokens: Tokens) -> Tensor:
        """Return the weights (L,) of the tokens of one text, on the CPU."""
        return torch.tensor([self._of_id.get(i, self._default) for i in tokens.ids.tolist()])

    def is_empty(self, tokens: Tokens) -> bool:
        """Return whether no token of the text has a weight, so that there is nothing to match."""
        return not any(self._of_id.get(i, self._default) for i in tokens.ids.tolist())

    def _count(self, encoder: Encoder, texts: Sequence[str]) -> None:
        counts: Counter[int] = Counter()
        digest = hashlib.sha256()
        for index, text in enumerate(texts):
            if not text.strip():
                raise ValueError(f"idf_texts[{index}] is blank; give texts with words")
            counts.update(set(encoder.tokens(text).ids.tolist()))
            digest.update(text.encode("utf-8", "surrogatepass") + b"\0")
        n = len(texts)
        self._of_id = {i: math.log((n + 1) / (c + 1)) for i, c in counts.items()}
        self._default = math.log(n + 1)
        self.digest = digest.hexdigest()[:16]
