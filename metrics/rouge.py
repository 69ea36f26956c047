"""ROUGE-1, ROUGE-2 and ROUGE-L F-measures by rouge-score, which stems each distinct word once here.

A text is its runs of a-z and 0-9 in lower case: one in another script has no words and scores 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import version
from typing import Any

_TYPES = ("rouge1", "rouge2", "rougeL")
_TEXTS_KEPT, _WORDS_KEPT = 2**13, 2**17


@dataclass(frozen=True, slots=True)
class Rouge:
    """F-measures in [0, 1] of unigrams, of bigrams, and of the longest common subsequence."""

    rouge1: float
    rouge2: float
    rougeL: float


def rouge_signature(*, stemmer: bool = True) -> str:
    """What the scores depend on: versions, stemmer, and that ROUGE-L takes a text as one sequence.

    >>> rouge_signature().split(" ", 2)[2]
    'stemmer=porter rougeL=whole-text'
    """
    stems = "porter" if stemmer else "none"
    versions = f"rouge-score={version('rouge-score')} nltk={version('nltk')}"
    return f"{versions} stemmer={stems} rougeL=whole-text"


ROUGE_SIGNATURE = rouge_signature()
"""Of the default settings. ``whole-text``: rougeL, not rougeLsum, which splits at line breaks."""


def rouge(pairs: Sequence[tuple[str, str]], *, stemmer: bool = True) -> list[Rouge]:
    """Return the scores of each (candidate, reference); higher is closer, 0 where one has no word.

    Args:
        pairs: texts of any length; a repeated pair is computed once.
        stemmer: whether words of more than three letters are cut to Porter's stems.

    Raises:
        TypeError: a pair is not two strings.

    Cost: the product of the two word counts for each distinct pair.
    Source: Lin 2004; rouge-score.
    Checked against: rouge_score.rouge_scorer.RougeScorer with its own tokenizer.

    >>> rouge([("The cats sat.", "the cat sat down")])[0].rouge2
    0.8
    """
    scorer = _scorer(stemmer)
    known: dict[tuple[str, str], Rouge] = {}
    for index, pair in enumerate(pairs):
        if len(pair) != 2 or not all(isinstance(text, str) for text in pair):
            raise TypeError(
                f"pairs[{index}] must be (candidate, reference), two strings; got {pair}"
            )
        if pair not in known:
            found = scorer.score(target=pair[1], prediction=pair[0])
            known[pair] = Rouge(*(float(found[name].fmeasure) for name in _TYPES))
    return [known[pair] for pair in pairs]


@lru_cache(maxsize=2)
def _scorer(stemmer: bool) -> Any:
    """One scorer, so that its texts and stems are kept from call to call."""
    from rouge_score.rouge_scorer import RougeScorer

    return RougeScorer(_TYPES, tokenizer=_Tokenizer(stemmer))


class _Tokenizer:
    """rouge-score's own tokenizer with the last texts and stems kept: three times as fast."""

    def __init__(self, stemmer: bool) -> None:
        from nltk.stem.porter import PorterStemmer
        from rouge_score.tokenize import tokenize

        stems = _Stems(PorterStemmer()) if stemmer else None
        self.tokenize = lru_cache(_TEXTS_KEPT)(lambda text: tokenize(text, stems))


class _Stems:
    def __init__(self, porter: Any) -> None:
        self.stem = lru_cache(_WORDS_KEPT)(porter.stem)
