"""Every score of one free answer that needs no model: ROUGE, EM, F1, yes/no, its looks."""

from __future__ import annotations

import functools
from dataclasses import asdict

from tcb_bench.metrics.qa import QA_VERSION, exact_match, token_f1, yes_no
from tcb_bench.metrics.qa_garbled import GARBLED_VERSION, is_garbled
from tcb_bench.metrics.qa_refusal import REFUSAL_VERSION, is_refusal
from tcb_bench.metrics.rouge import ROUGE_SIGNATURE, rouge

TEXT_SCORES_SIGNATURE = (
    f"{ROUGE_SIGNATURE} qa={QA_VERSION} refusal={REFUSAL_VERSION} garbled={GARBLED_VERSION}"
).replace(" ", "_")
"""Settings and versions of these scores, for a result's signature."""


@functools.lru_cache(maxsize=1 << 16)
def _scores(text: str, answer: str, reference: str) -> tuple[tuple[str, float], ...]:
    own = answer.strip().lower()
    is_yes_no = own in ("yes", "no")
    return (
        ("em", float(exact_match(text, answer))),
        ("f1", token_f1(text, answer).f1),
        *asdict(rouge([(text, reference)])[0]).items(),
        *([("yes_no", float(yes_no(text) == own))] if is_yes_no else []),
        ("refusal", float(is_refusal(text))),
        ("garbled", float(is_garbled(text))),
    )


def text_scores(text: str, answer: str, reference: str) -> dict[str, float]:
    """The scores of an answer; equal answers (greedy repeats) are scored once.

    Args:
        text: the answer part of what the model wrote; an empty text scores 0 everywhere.
        answer: the short gold answer, for em, f1 and yes_no.
        reference: the text that ROUGE compares with.

    Returns:
        ``em``, ``f1``, ``rouge1``, ``rouge2``, ``rougeL``, ``refusal``, ``garbled``, all in [0, 1],
        and ``yes_no`` where the answer is yes or no.
    """
    return dict(_scores(text, answer, reference))
