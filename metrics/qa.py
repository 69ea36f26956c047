"""Short answers against gold ones, as HotpotQA scores them, and whether a response holds them."""

from __future__ import annotations

import re
import string
from collections import Counter
from dataclasses import dataclass
from html import unescape
from typing import Literal

from tcb_bench.metrics.qa_refusal import names_missing_information

QA_VERSION = 1
"""Raised whenever a score of the same texts would come out differently."""

_CLOSED = ("yes", "no", "noanswer")  # HotpotQA: each is right as a whole or not at all
_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLES = re.compile(r"\b(a|an|the)\b")


@dataclass(frozen=True, slots=True)
class TokenScore:
    """Overlap of words in [0, 1], higher is better; f1 is the harmonic mean of the other two."""

    f1: float
    precision: float
    recall: float


def normalize(text: str) -> str:
    """Return ``text`` in lower case without ASCII punctuation, articles and superfluous blanks.

    Source: the normalisation of SQuAD, which HotpotQA's official evaluation takes over.

    >>> normalize("The  U.S. Army!")
    'us army'
    """
    bare = text.lower().translate(_PUNCTUATION)
    return " ".join(_ARTICLES.sub(" ", bare).split())


def exact_match(prediction: str, gold: str) -> bool:
    """Return whether both are the same after `normalize`."""
    return normalize(prediction) == normalize(gold)


def token_f1(prediction: str, gold: str) -> TokenScore:
    """Return the overlap of the words of both after `normalize`, each counted as often as in both.

    All is 0 where one of the two is yes, no or noanswer and the other is not the same, however many
    words they share; and where no word is shared, also if neither has any.

    Source: HotpotQA's official evaluation (Yang et al. 2018).

    >>> token_f1("yes, it is", "Yes")
    TokenScore(f1=0.0, precision=0.0, recall=0.0)
    """
    predicted, wanted = normalize(prediction), normalize(gold)
    if predicted != wanted and (predicted in _CLOSED or wanted in _CLOSED):
        return TokenScore(0.0, 0.0, 0.0)
    predicted_words, wanted_words = predicted.split(), wanted.split()
    shared = sum((Counter(predicted_words) & Counter(wanted_words)).values())
    if shared == 0:
        return TokenScore(0.0, 0.0, 0.0)
    precision, recall = shared / len(predicted_words), shared / len(wanted_words)
    return TokenScore(2 * precision * recall / (precision + recall), precision, recall)


def contains_answer(text: str, answer: str) -> bool:
    """Return whether a response gives the answer: the accuracy of tasks with free answers.

    The words of ``answer`` after `normalize` follow each other in those of ``text``; HTML entities
    are read as what they stand for. For the answers yes and no the first word decides: `yes_no`.
    Where normalisation leaves nothing of the answer ("!!!", "The"), it is searched as it stands.

    Raises:
        ValueError: ``answer`` is blank.

    >>> contains_answer("She was born in New York City.", "new york")
    True
    """
    if not answer.strip():
        raise ValueError("answer is blank; give the words that a right response holds")
    wanted = normalize(unescape(answer))
    if wanted in ("yes", "no"):
        return yes_no(text) == wanted
    if not wanted:
        return f" {' '.join(answer.split())} " in f" {' '.join(text.split())} "
    return f" {wanted} " in f" {normalize(unescape(text))} "


def yes_no(text: str) -> Literal["yes", "no"] | None:
    """Return the first word of a response if it is yes or no, None if it is another or none.

    The "No" of "No information is given" says that nothing is known, and is no answer.

    >>> yes_no("No, they were both born in Wales.")
    'no'
    """
    first = normalize(text).partition(" ")[0]
    if first == "yes":
        return "yes"
    return "no" if first == "no" and not names_missing_information(text) else None
