"""Sampling parameters of one request, and how they turn logits into tokens row by row."""

from __future__ import annotations

import math
import os
from collections import defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import (
    LogitsProcessor,
    MinPLogitsWarper,
    RepetitionPenaltyLogitsProcessor,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from tcb_bench.errors import UnknownName, UsageError
from tcb_bench.models.positions import rule_version


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """Every parameter of one ``generate_traced`` request; nothing is left to a model's default.

    Attributes:
        until: stop strings.
        max_gen_toks: new tokens at most, >= 1.
        temperature: >= 0; 0 is greedy.
        top_p: in (0, 1]; 1 = off.
        top_k: >= 0; 0 = off.
        min_p: in [0, 1]; 0 = off.
        repetition_penalty: > 0; 1 = off. As in transformers it also counts the prompt's tokens.
        seed: >= 0; needed where temperature > 0.
        stability_at: ``none``, ``all``, or a rule of ``tcb_bench.models.positions``.
    """

    until: tuple[str, ...]
    max_gen_toks: int
    temperature: float
    top_p: float
    top_k: int
    repetition_penalty: float
    min_p: float = 0.0
    seed: int | None = None
    stability_at: str = "none"

    def __post_init__(self) -> None:
        checks = {
            "max_gen_toks": (_is_whole(self.max_gen_toks, 1), "a whole number >= 1"),
            "temperature": (0 <= self.temperature < math.inf, ">= 0"),
            "top_p": (0 < self.top_p <= 1, "in (0, 1]"),
            "top_k": (_is_whole(self.top_k, 0), "a whole number >= 0 (0 = off)"),
            "min_p": (0 <= self.min_p <= 1, "in [0, 1]"),
            "repetition_penalty": (0 < self.repetition_penalty < math.inf, "> 0"),
            "until": (all(self.until), "without an empty stop string"),
            "seed": (
                0 <= self.seed < 2**64 if self.seed is not None else self.temperature == 0,
                "from 0 to 2**64 - 1 where temperature > 0",
            ),
        }
        for name, (is_good, expected) in checks.items():
            if not is_good:
                raise UsageError(f"{name}={getattr(self, name)!r}: expected {expected}")
        if self.stability_at not in ("none", "all"):
            rule_version(self.stability_at)

    @classmethod
    def from_kwargs(cls, kwargs: Mapping[str, Any]) -> Sampling:
        """The parameters of a request's ``gen_kwargs``.

        Raises:
            UnknownName: a parameter nobody knows.
            UsageError: one is missing or out of range.
        """
        known = [field.name for field in fields(cls)]
        for name in kwargs:
            if name not in known:
                raise UnknownName("generation parameter", str(name), known)
        given = {name: value for name, value in kwargs.items() if value is not None}
        missing = [n for n in known if n not in (*given, "min_p", "seed", "stability_at")]
        if missing:
            raise UsageError(
                f"gen_kwargs lacks {', '.join(missing)}: every parameter is stated, none is left "
                "to a default of the model"
            )
        until = given["until"]
        return cls(**{**given, "until": (until,) if isinstance(until, str) else tuple(until)})


def _is_whole(value: float, least: int) -> bool:
    return value >= least and value == int(value)


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(min(16, os.cpu_count() or 1))


def gumbel(seed: int, position: int, size: int) -> np.ndarray[Any, Any]:
    """(size,) float64 standard Gumbel noise that depends on nothing but its arguments.

    The position is the highest word of Philox's counter: as the lowest one it would make the noise
    of a position that of the next one, shifted by a few tokens.
    """
    generator = np.random.Generator(np.random.Philox(key=seed, counter=[0, 0, 0, position]))
    noise = generator.standard_exponential(size)
    np.log(np.maximum(noise, np.finfo(np.float64).tiny, out=noise), out=noise)
    return np.negative(noise, out=noise)


class RowSampler(LogitsProcessor):  # type: ignore[misc]
    """Makes greedy decoding choose what each row's own parameters ask for.

    A row's scores are penalised, divided by its temperature, cut by its top-k, top-p and min-p, and
    Gumbel noise of (seed, position) is added: the argmax is then a sample of the softmax. A row's
    token so depends on its own logits alone, whatever else is in the batch.
    """

    def __init__(self, rows: Sequence[Sampling], lengths: Sequence[int], n_vocab: int) -> None:
        """``lengths`` are the prompts' without padding, ``n_vocab`` the rows that are tokens."""
        self.rows = rows
        self.width = max(lengths)
        self.starts = [self.width - length for length in lengths]
        self.n_vocab = n_vocab
        self.is_finite: Tensor | None = None  # (B,) False where the model once gave NaN or Inf
        self.warped: dict[tuple[int, float, float], list[int]] = defaultdict(list)
        for i, row in enumerate(rows):
            if row.temperature > 0:
                self.warped[row.top_k, row.top_p, row.min_p].append(i)

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        """(B, V) scores whose argmax is each row's next token; ``input_ids`` is left-padded."""
        scores = scores.float().clone()
        scores[:, self.n_vocab :] = -torch.inf
        is_finite = scores.amax(-1).isfinite()  # NaN and +Inf; a model may forbid tokens by -Inf
        self.is_finite = is_finite if self.is_finite is None else self.is_finite & is_finite
        for i, row in enumerate(self.rows):
            if row.repetition_penalty != 1:  # row by row, or padding would count as repeated
                penalty = RepetitionPenaltyLogitsProcessor(float(row.repetition_penalty))
                ids = input_ids[i : i + 1, self.starts[i] :]
                scores[i : i + 1] = penalty(ids, scores[i : i + 1])
        position = input_ids.shape[1] - self.width
        for warpers, members in self.warped.items():
            index = torch.tensor(members, device=scores.device)
            scores[index] = self._sample(input_ids, scores[index], warpers, members, position)
        return scores

    def _sample(
        self,
        input_ids: Any,
        scores: Any,
        warpers: tuple[int, float, float],
        members: list[int],
        position: int,
    ) -> Any:
        temperatures = torch.tensor([self.rows[i].temperature for i in members])
        scores = scores - scores.amax(-1, keepdim=True)  # or a small temperature overflows
        scores /= temperatures.to(scores)[:, None]
        top_k, top_p, min_p = warpers
        if top_k > 0:
            scores = TopKLogitsWarper(int(top_k))(input_ids, scores)
        if top_p < 1:
            scores = TopPLogitsWarper(top_p)(input_ids, scores)
        if min_p > 0:
            scores = MinPLogitsWarper(min_p)(input_ids, scores)
        size = min(self.n_vocab, scores.shape[1])
        seeds = [self.rows[i].seed or 0 for i in members]
        noise = list(_pool().map(lambda seed: gumbel(seed, position, size), seeds))
        scores[:, :size] += torch.from_numpy(np.stack(noise)).to(scores.device, torch.float32)
        return scores
