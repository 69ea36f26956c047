"""BERTScore that does not depend on what else is scored, in bounded memory.

Encoder, layer, tokenizer and hash string are those of the bert-score library; the batching is ours.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from itertools import chain

import torch
from torch import Tensor

from tcb_bench.metrics.bert_score_cache import ReferenceCache
from tcb_bench.metrics.bert_score_encoder import Encoder, Tokens, token_batches
from tcb_bench.metrics.bert_score_match import Embedded, greedy_match, unit_vectors
from tcb_bench.metrics.bert_score_model import baseline
from tcb_bench.metrics.bert_score_weights import TokenWeights

BERT_SCORE_VERSION = 1
"""Raised whenever the score of the same pair under the same settings would come out differently."""

Pair = tuple[str, str]
OnScored = Callable[[int, "BertScore"], None]

_FLOAT_BYTES = 4
_CPU_BATCH, _OTHER_BATCH = 2048, 16384


@dataclass(frozen=True, slots=True)
class BertScore:
    """Precision, recall and F1 of a candidate, 1 at best; higher is closer to its reference.

    ``flags``: of ``empty_candidate``, ``empty_reference`` (no token with weight; the values are 0,
    before rescaling), ``candidate_truncated`` and ``reference_truncated`` (longer than the encoder
    reads; the values are those of what is left).
    """

    precision: float
    recall: float
    f1: float
    flags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Limits:
    """What scoring may take beyond the encoder and the texts; no value depends on it.

    Attributes:
        batch_tokens: tokens that are encoded or matched at once, padding included; None = 2048 on
            the CPU, whose caches more of them leave, and 16384 elsewhere.
        cache_mib: size of the reference vectors that are kept, also from call to call.
    """

    batch_tokens: int | None = None
    cache_mib: float = 256.0

    def __post_init__(self) -> None:
        batch = 1 if self.batch_tokens is None else self.batch_tokens
        if batch < 1 or not self.cache_mib > 0:
            raise ValueError(f"batch_tokens must be >= 1 and cache_mib > 0; got {self}")


class BertScorer:
    """BERTScore with one encoder.

    Args:
        model: a name of the hub (``name@revision``), a folder, or ``demo`` for MiniLM.
        num_layers: layer that is compared; None = that of bert-score's table (roberta-large: 17).
        device: of the encoder; None = ``cuda`` where there is one.
        rescale: map bert-score's baseline of unrelated English sentences to 0.
        idf_texts: weigh tokens by log((n + 1) / (c + 1)), c the number of these n texts with the
            token; none = every token weighs 1. Here as there, special tokens weigh 0.
        limits: bounds of memory.

    Raises:
        ValueError: the model cannot be had, has no layer in the table and none is given, or has no
            baseline to rescale with (a folder never has one); an idf text is blank.
    """

    def __init__(
        self,
        model: str = "roberta-large",
        *,
        num_layers: int | None = None,
        device: str | None = None,
        rescale: bool = False,
        idf_texts: Sequence[str] = (),
        limits: Limits | None = None,
    ) -> None:
        limits = limits or Limits()
        self._encoder = Encoder(model, num_layers=num_layers, device=device)
        usual = _CPU_BATCH if self._encoder.device.type == "cpu" else _OTHER_BATCH
        self._batch_tokens = limits.batch_tokens or usual
        self._weights = TokenWeights(self._encoder, idf_texts)
        base = baseline(self._encoder.checkpoint, self._encoder.layer) if rescale else None
        self._baseline = None if base is None else torch.tensor(base)
        self._cache = ReferenceCache(self._embed_references, limits.cache_mib)

    @property
    def signature(self) -> str:
        """bert-score's hash string, and what it leaves out: revision, length limit, idf's texts."""
        from bert_score.utils import get_hash

        encoder, idf_texts = self._encoder, self._weights.digest
        settings = (idf_texts is not None, self._baseline is not None, False, False)
        theirs: str = get_hash(encoder.checkpoint.name, encoder.layer, *settings)
        parts = [theirs, f"bert-score={version('bert-score')}"]  # the hash of 0.3.13 says 0.3.12
        parts += [f"revision={encoder.checkpoint.revision}", f"tokens<={encoder.limit}"]
        parts += [f"idf_texts={idf_texts}"] if idf_texts else []
        return " ".join([*parts, f"tcb-bench={BERT_SCORE_VERSION}"])

    def score(self, pairs: Sequence[Pair], on_scored: OnScored | None = None) -> list[BertScore]:
        """Return the score of each (candidate, reference); higher is closer.

        A pair's score is the same, to some 1e-6, whatever else is scored, in whichever order.
        Each distinct text is embedded once; where the references exceed ``limits.cache_mib`` they
        are taken in parts that do not, and a candidate once for each part that it has to do with.

        Args:
            pairs: candidates and references; may be blank, too long, or repeated.
            on_scored: called with index and score of every pair, batch by batch as they come (not
                in the order of ``pairs``), so that work can be stored before all is done.

        Raises:
            TypeError: a pair is not two strings.

        Source and what it was checked against: see `greedy_match`.
        """
        places: dict[Pair, list[int]] = {}
        for index, pair in enumerate(pairs):
            places.setdefault(_checked(pair, index), []).append(index)
        tokens = self._tokens(chain.from_iterable(places))
        found: dict[int, BertScore] = {}
        for pair, (precision, recall, f1) in self._values(places, tokens):
            flags = self._flags(tokens[pair[0]], tokens[pair[1]])
            score = BertScore(precision, recall, f1, flags)
            for index in places[pair]:
                found[index] = score
                if on_scored is not None:
                    on_scored(index, score)
        return [found[index] for index in range(len(pairs))]

    def embed(self, texts: Sequence[str]) -> Tensor:
        """Return the mean state (N, D) of each text's tokens but the special ones, on the CPU.

        The layer is that of the scores. A row is NaN where a text has no such token. What is beyond
        the encoder's limit of tokens does not count: see `is_truncated`.
        """
        frame = self._encoder.frame
        tokens = self._tokens(texts)
        means = {text: torch.full((self._encoder.width,), math.nan) for text in tokens}
        known = {text: t for text, t in tokens.items() if not frame.issuperset(t.ids.tolist())}
        for batch in self._encoder.states(known, self._batch_tokens):
            for text, states in batch:
                ids = tokens[text].ids.tolist()
                inner = [place for place, token in enumerate(ids) if token not in frame]
                means[text] = states[inner].mean(0).cpu()
        rows = [means[text] for text in texts]
        return torch.stack(rows) if rows else torch.empty(0, self._encoder.width)

    def is_truncated(self, text: str) -> bool:
        """Return whether ``text`` is longer than the encoder reads."""
        return self._encoder.tokens(text).is_truncated

    def _values(
        self, pairs: Iterable[Pair], tokens: Mapping[str, Tokens]
    ) -> Iterator[tuple[Pair, list[float]]]:
        """Each pair with its P, R, F1; the pairs with an empty text first."""
        candidates: dict[str, list[str]] = {}
        for candidate, reference in pairs:
            if any(self._weights.is_empty(tokens[text]) for text in (candidate, reference)):
                yield (candidate, reference), self._rescaled(torch.zeros(1, 3))[0]
            else:
                candidates.setdefault(reference, []).append(candidate)
        row_bytes = _FLOAT_BYTES * (self._encoder.width + 1)
        sizes = {text: row_bytes * len(tokens[text].ids) for text in candidates}
        for part in self._cache.parts(sizes):
            partners: dict[str, list[str]] = {}
            for reference in part:
                for candidate in candidates[reference]:
                    partners.setdefault(candidate, []).append(reference)
            yield from self._matched(partners, self._cache.fetch(part, sizes), tokens)

    def _matched(
        self,
        partners: Mapping[str, list[str]],
        references: Mapping[str, Embedded],
        tokens: Mapping[str, Tokens],
    ) -> Iterator[tuple[Pair, list[float]]]:
        """The pairs of some candidates, each embedded, matched and forgotten batch by batch."""
        chosen = {candidate: tokens[candidate] for candidate in partners}
        for batch in self._encoder.states(chosen, self._batch_tokens):
            embedded = {text: self._embedded(states, tokens[text]) for text, states in batch}
            pairs = [(text, reference) for text in embedded for reference in partners[text]]
            lengths = [max(len(tokens[text].ids) for text in pair) for pair in pairs]
            for indices in token_batches(lengths, self._batch_tokens):
                some = [pairs[i] for i in indices]
                values = greedy_match(
                    [embedded[candidate] for candidate, _ in some],
                    [references[reference] for _, reference in some],
                )
                yield from zip(some, self._rescaled(values.cpu()), strict=True)

    def _embed_references(self, texts: Sequence[str]) -> Iterator[tuple[str, Embedded]]:
        tokens = self._tokens(texts)
        for batch in self._encoder.states(tokens, self._batch_tokens):
            for text, states in batch:
                yield text, self._embedded(states.clone(), tokens[text])

    def _embedded(self, states: Tensor, tokens: Tokens) -> Embedded:
        weights = self._weights.of(tokens).to(states.device)
        return Embedded(unit_vectors(states), weights)

    def _tokens(self, texts: Iterable[str]) -> dict[str, Tokens]:
        return {text: self._encoder.tokens(text) for text in dict.fromkeys(texts)}

    def _rescaled(self, values: Tensor) -> list[list[float]]:
        if self._baseline is not None:
            values = (values - self._baseline) / (1 - self._baseline)
        rows: list[list[float]] = values.tolist()
        return rows

    def _flags(self, candidate: Tokens, reference: Tokens) -> tuple[str, ...]:
        flags: list[str] = []
        for name, tokens in (("candidate", candidate), ("reference", reference)):
            flags += [f"empty_{name}"] if self._weights.is_empty(tokens) else []
            flags += [f"{name}_truncated"] if tokens.is_truncated else []
        return tuple(flags)


def _checked(pair: Pair, index: int) -> Pair:
    if len(pair) != 2 or not all(isinstance(text, str) for text in pair):
        raise TypeError(f"pairs[{index}] must be (candidate, reference), two strings; got {pair!r}")
    return pair[0], pair[1]
