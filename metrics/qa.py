"""Scores of a free answer against a short one: EM, token F1, containment, yes/no, refusal."""

from __future__ import annotations

import re
import string
from collections import Counter

REFUSAL_VERSION = 1
"""Raised whenever ``is_refusal`` would judge a text differently."""

_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)
_CLOSED = ("yes", "no", "noanswer")
_YES_NO = re.compile(r"\W*(yes|no)\b", re.IGNORECASE)

_SOURCE = (
    r"(?:the |these |those |your |any of the |provided |given |available |retrieved |supplied )*"
    r"(?:documents?|contexts?|passages?|texts?|information|sources?|articles?|paragraphs?)"
    r"(?: (?:provided|given|above|available|here|supplied|you (?:gave|provided)))*"
)
_LACKS = (
    r"(?:do(?:es)? not|don't|doesn't|did not|didn't|cannot|can't|fails? to|never) "
    r"(?:\w+ )?(?:provide|contain|mention|say|state|specify|include|give|tell|indicate|reveal|"
    r"answer|describe|identify|list|offer|show|explain|disclose|name)"
)
_NOT_SAID = (
    r"(?:is|are|was|were) (?:not|never|n't) (?:\w+ )?"
    r"(?:mentioned|provided|given|specified|stated|known|available|disclosed|included|"
    r"described|indicated|answered|identified|clear)\b"
)
_REFUSALS = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"\b{_SOURCE} {_LACKS}",
        rf"\b{_NOT_SAID}[^.;]{{0,60}}\b(?:in|by|from) {_SOURCE}",
        rf"\b(?:not|never) (?:mentioned|provided|given|specified|stated|found|included|described)"
        rf" (?:anywhere )?(?:in|by|from) {_SOURCE}",
        r"\b(?:there is|there's|i have|i found|i see|we have) (?:no|not enough|insufficient|"
        r"not sufficient) (?:\w+ ){0,2}(?:information|context|details?|mention)\b",
        r"\bi(?: am|'m) (?:not able|unable) to (?:answer|determine|find|say|tell|identify|provide|"
        r"confirm|give)",
        r"\b(?:i|we) (?:can ?not|can't|could not|couldn't) (?:\w+ )?"
        r"(?:answer|determine|find|say|tell|identify|provide|confirm|conclude|infer|give)\b",
        r"\bit is (?:not possible|impossible|unclear|not clear|unknown)\b"
        r"(?:[^.;]{0,80}\b(?:from|based|given|with|without)\b| (?:to (?:say|tell|determine|know|"
        r"answer)|which|what|who|where|when|whether|how))",
        r"\b(?:can ?not|can't|could not) be (?:\w+ )?(?:determined|answered|inferred|identified|"
        r"established|concluded)\b",
        r"\bi (?:do not|don't) (?:know|have (?:\w+ ){0,3}(?:information|access|details?|answer))",
        r"^\W*(?:unknown|not (?:specified|mentioned|provided|stated|enough information|given)|"
        r"no (?:information|answer|mention)|insufficient (?:information|context))\b",
    )
)


def normalised(text: str) -> str:
    """The text in HotpotQA's form: lower case, no punctuation, no a/an/the, single blanks.

    >>> normalised("The  Salt-Museum, at last!")
    'saltmuseum at last'
    """
    bare = text.lower().translate(_PUNCTUATION)
    return " ".join(_ARTICLES.sub(" ", bare).split())


def exact_match(text: str, answer: str) -> bool:
    """Whether both are the same in normalised form."""
    return normalised(text) == normalised(answer)


def token_f1(text: str, answer: str) -> float:
    """F1 of the normalised words, as HotpotQA's official evaluation counts it.

    F1 = 2 P R / (P + R) over words as a multiset. Where either side is yes, no or noanswer and the
    other is anything else, it is 0: half of "no" is not right.

    Returns:
        [0, 1], higher is closer; 0 where either side has no word.

    Source: Yang et al. 2018 (HotpotQA), the normalisation of SQuAD.

    >>> token_f1("the old salt museum", "Salt Museum")
    0.8
    """
    own, gold = normalised(text), normalised(answer)
    if own != gold and (own in _CLOSED or gold in _CLOSED):
        return 0.0
    left, right = own.split(), gold.split()
    common = sum((Counter(left) & Counter(right)).values())
    if common == 0:
        return 0.0
    precision, recall = common / len(left), common / len(right)
    return 2 * precision * recall / (precision + recall)


def yes_no(text: str) -> str | None:
    """``yes`` or ``no`` where that is the first word, else None.

    >>> yes_no(" No, it is older."), yes_no("Northern")
    ('no', None)
    """
    found = _YES_NO.match(text)
    return found[1].lower() if found else None


def contains_answer(text: str, answer: str) -> bool:
    """Whether a text gives the short answer.

    For an answer of yes or no the first word decides; any other has to stand in the text as a run of
    whole words, both normalised. An answer without a word (only punctuation) is never contained.

    >>> contains_answer("It stood in Brenvik until 1981.", "brenvik")
    True
    """
    gold = normalised(answer)
    if gold in ("yes", "no"):
        return yes_no(text) == gold
    return bool(gold) and f" {gold} " in f" {normalised(text)} "


def is_refusal(text: str) -> bool:
    """Whether an English text says that the documents do not tell, or that it cannot answer.

    A list of phrases about sources and about knowing, kept narrow: what is said of the world ("he
    cannot swim", "the bridge is not mentioned in the will") is no refusal. Other languages and
    unusual wordings are missed, so a share of refusals is a lower bound.
    """
    flat = " ".join(text.replace("\u2019", "'").split())
    return any(pattern.search(flat) for pattern in _REFUSALS)
