"""Rows for made entries: the quantities of random states of a small softmax head, computed here.

Everything is plain numpy in float64 by the definitions of science.md section 1, then rounded to
float32 as a run's numbers are: what `leaderboard check` takes for true is true of them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tcb_bench.selection import stable_hash

VOCABULARY, WIDTH = 24, 12
LETTERS = "ABCD"
Floats = NDArray[np.float64]


class Head:
    """An output embedding W of 24 tokens in 12 dimensions; the first four are the letters."""

    def __init__(self, seed: int) -> None:
        """``seed`` decides W, and how right the model is (``skill`` from 0.3 to 0.9)."""
        rng = np.random.default_rng(seed)
        self.seed, self.skill = seed, float(rng.uniform(0.3, 0.9))
        self.weight = rng.normal(size=(VOCABULARY, WIDTH))
        self.gaps = np.linalg.norm(self.weight[:, None] - self.weight[None], axis=-1)
        centred = self.weight - self.weight.mean(axis=0)
        self.radius = float(np.linalg.norm(centred, axis=1).max())

    def points(self, n: int, name: str) -> list[dict[str, Any]]:
        """``n`` points: ``stability``, ``choice_logprobs`` and ``greedy_is_choice`` of each."""
        rng = np.random.default_rng((self.seed, stable_hash(name)))
        hidden = rng.normal(size=(n, WIDTH)) * rng.uniform(0.1, 1.2, size=(n, 1))
        z = hidden @ self.weight.T
        logprobs = z - np.log(np.exp(z).sum(axis=1, keepdims=True))
        columns = self._quantities(hidden, z, logprobs) | self._choices(z, logprobs)
        names = list(columns)
        table = np.stack([columns[key] for key in names], axis=1).astype(np.float32)
        letters = np.round(logprobs[:, :4].astype(np.float32).astype(np.float64), 6)
        return [
            {
                "stability": dict(zip(names, map(float, table[i]), strict=True)),
                "choice_logprobs": letters[i].tolist(),
                "greedy_is_choice": float(z[i].argmax() < 4),
                "luck": float(rng.random()),
            }
            for i in range(n)
        ]

    def _quantities(self, hidden: Floats, z: Floats, logprobs: Floats) -> dict[str, Floats]:
        p = np.exp(logprobs)
        mu = p @ self.weight
        norms = (self.weight**2).sum(axis=1)
        distances = norms - 2 * mu @ self.weight.T + (mu**2).sum(axis=1, keepdims=True)
        delta = 1 / np.sqrt((p**2 * distances).sum(axis=1))
        order = np.argsort(-z, axis=1)
        every = np.arange(len(z))
        top, second = order[:, 0], order[:, 1]
        with np.errstate(divide="ignore", invalid="ignore"):
            ratios = (z[every, top][:, None] - z) / self.gaps[top]
        ratios[every, top] = np.inf
        flip, norm = ratios.min(axis=1), np.linalg.norm(hidden, axis=1)
        return {
            "delta_tcb": delta,
            "log10_delta_tcb": np.log10(delta),
            "v_eff": 1 / (p**2).sum(axis=1),
            "logit_margin": z[every, top] - z[every, second],
            "p_top1": p[every, top],
            "p_top2": p[every, second],
            "nll": -logprobs[every, top],
            "entropy": -(p * logprobs).sum(axis=1),
            "flip_radius": flip,
            "flip_token": ratios.argmin(axis=1).astype(np.float64),
            "h_norm": norm,
            "relative_delta": delta / norm,
            "relative_flip_radius": flip / norm,
            "top1_token": top.astype(np.float64),
        }

    def _choices(self, z: Floats, logprobs: Floats) -> dict[str, Floats]:
        letters = z[:, :4]
        best = letters.argmax(axis=1)
        lead = letters.max(axis=1, keepdims=True) - letters
        lead[np.arange(len(z)), best] = np.inf
        with np.errstate(divide="ignore", invalid="ignore"):
            radii = lead / self.gaps[best, :4]
        return {
            "choice_margin": lead.min(axis=1),
            "choice_flip_radius": np.where(np.isinf(lead), np.inf, radii).min(axis=1),
            "answer_mass": np.exp(logprobs[:, :4]).sum(axis=1),
        }


def base_row(head: Head, point: dict[str, Any], doc_id: str, *, is_choice: bool) -> dict[str, Any]:
    """A row of MMLU (``is_choice``) or of GSM8K; right answers are luck, by skill and question."""
    luck = point["luck"]
    is_right = luck < (head.skill + _ease(doc_id)) / 2
    row: dict[str, Any] = {"repeat": 0, "state": "scored", "acc": float(is_right)}
    stability = point["stability"]
    gold = stable_hash("gold", doc_id)
    if is_choice:
        best = (gold + (0 if is_right else 1 + stable_hash(luck) % 3)) % 4
        logprobs = list(point["choice_logprobs"])
        at = int(np.argmax(logprobs))
        logprobs[at], logprobs[best] = logprobs[best], logprobs[at]
        row |= {"answer": LETTERS[best], "reason": None, "stability": stability}
        row |= {"choice_logprobs": logprobs, "greedy_is_choice": point["greedy_is_choice"]}
        return row | {"prompt_tokens": 60}
    return row | {
        "answer": str(gold % 100 + (not is_right)),
        "reason": None,
        "stability": _of_text(stability),
        "finish_reason": "stop",
        "completion_tokens": 100,
        "prompt_tokens": 700,
    }


def text_row(
    head: Head, point: dict[str, Any], doc_id: str, *, temperature: float, context: str
) -> dict[str, Any]:
    """A row of HotpotQA: quality falls with temperature and with what the context lacks."""
    loss = {"original": 0.0, "replace_half": 0.1, "remove_half": 0.08, "ner": 0.05}[context]
    luck = point["luck"]
    quality = 0.2 + 0.6 * head.skill + 0.1 * _ease(doc_id) - loss - 0.08 * temperature**2
    quality = min(0.99, max(0.01, quality + 0.1 * (luck - 0.5) * (1 + temperature)))
    row: dict[str, Any] = {"repeat": 0, "state": "scored", "acc": float(quality > 0.5)}
    usage = {"completion_tokens": 20, "prompt_tokens": 150}
    if luck < 0.02 * temperature:
        zeros = dict.fromkeys(SCORE_NAMES, 0.0)
        row |= {"state": "empty", "acc": 0.0, "answer": None, "reason": "no first token"}
        row |= {"stability": {}, "scores": zeros, "score_flags": ["empty_candidate"]}
        return row | {"finish_reason": "stop", **usage, "completion_tokens": 1}
    cut = luck > 1 - 0.1 * temperature
    precision, recall = np.float32(quality), np.float32(min(1.0, quality * 1.05))
    scores = {"em": 0.0, "f1": quality, "rouge1": quality, "rouge2": quality / 2}
    scores |= {"rougeL": quality * 0.9, "refusal": 0.0, "garbled": 0.0}
    scores |= {"bertscore_precision": float(precision), "bertscore_recall": float(recall)}
    scores["bertscore_f1"] = float(2 * precision * recall / (precision + recall))
    row |= {"state": "truncated" if cut else "scored", "answer": None, "reason": None}
    row |= {"stability": _of_text(point["stability"]), "scores": scores}
    return row | {"finish_reason": "length" if cut else "stop", **usage}


SCORE_NAMES = (
    *("em", "f1", "rouge1", "rouge2", "rougeL", "refusal", "garbled"),
    *("bertscore_precision", "bertscore_recall", "bertscore_f1"),
)


def _of_text(stability: dict[str, float]) -> dict[str, float]:
    """Without the quantities of given answers, and with the token they were measured at."""
    names = ("choice_margin", "choice_flip_radius", "answer_mass")
    found = {name: value for name, value in stability.items() if name not in names}
    return found | {"critical_token": 0.0}


def _ease(doc_id: str) -> float:
    """How easy a question is for every model, from 0 to 1."""
    return (stable_hash("ease", doc_id) % 1000) / 1000
