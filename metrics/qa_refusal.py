"""Responses that decline: the answer is said not to be in the documents, or not to be known.

English only. The rules are ours, and conservative: a response that declines in unusual words is not
found, and one that goes on to offer an answer ("... but it was probably Paris") is none. Words must
be in lower case but for the first letter of a clause, and outside double quotes, so that titles
("I Can't Tell You Why") and quotations are not taken for the model's own words.
"""

from __future__ import annotations

import re

REFUSAL_VERSION = 1
"""Raised whenever another response would count as a refusal."""

_ADJECTIVES = "(?:(?:specific|further|relevant|explicit|direct|clear|other|such|additional|any) )*"
_KNOWLEDGE = "(?:information|mention|details?|data|indication|references?|answers?|context)"
_SOURCE = (
    "(?:documents?|passages?|contexts?|texts?|sources?|articles?|paragraphs?|excerpts?|snippets?"
    "|sentences?|information|materials?|references?)"
)
_GIVEN = "(?:provided|given|supplied|available|above|below|here)"
_THE_SOURCE = (
    f"(?:the|these|this|those|any|your) (?:(?:{_GIVEN}|two|three|four|retrieved|cited) )*{_SOURCE}"
    "(?: (?:(?:that|which) )?(?:(?:you|I|we) )?(?:(?:have|has|was|were|is|are) )?(?:been )?"
    f"{_GIVEN})?"
)
_TELL = (
    "(?:provide|mention|state|specify|specifie|contain|include|give|say|indicate|reveal|tell|name"
    "|disclose|identify|identifie|discuss|offer|answer|address|list|describe|clarify|explain)s?"
)
_TOLD = (
    "(?:mentioned|provided|specified|stated|given|disclosed|included|listed|found|identified"
    "|discussed|described|present|indicated|available|named|clear)"
)
_FIND_OUT = (
    "(?:determine|answer|find|provide|say|tell|identify|confirm|verify|conclude|infer|locate"
    "|establish|ascertain|give|assist|help|know|deduce)"
)
_FOUND_OUT = (
    "(?:determined|answered|inferred|ascertained|verified|concluded|identified|confirmed"
    "|established|deduced)"
)
_QUESTION = "(?:who|whose|what|when|where|which|why|how|whether|if|the|that)"

_MISSING = (
    f"no {_ADJECTIVES}(?:{_KNOWLEDGE}|evidence) (?:(?:is|was|are|were) {_TOLD}(?: (?:in|by|about|on"
    rf"|for|regarding)\b|\W*$)|about\b|on\b|regarding\b|concerning\b|(?:in|from) {_THE_SOURCE})"
)
_RULES = (
    # the documents do not say
    rf"{_THE_SOURCE} (?:(?:do|does|did) not|fails? to) {_TELL}\b",
    rf"\b(?:none|neither) of {_THE_SOURCE} {_TELL}\b",
    rf"\b(?:nothing|nowhere) in {_THE_SOURCE}",
    rf"{_THE_SOURCE} (?:makes? no mention|lacks?\b|(?:is|are) (?:silent|insufficient))",
    rf"{_THE_SOURCE} (?:contain|provide|give|offer|include|have|has)s? "
    rf"(?:no|not enough|insufficient) {_ADJECTIVES}(?:{_KNOWLEDGE}|evidence)\b",
    rf"\b(?:is|are|was|were) not {_TOLD} (?:in|by|from|within|among) {_THE_SOURCE}",
    r"\b(?:is|are|was|were) not (?:mentioned|specified|stated|provided|disclosed)\W*$",
    rf"^not {_TOLD} (?:in|by|from|within|among) {_THE_SOURCE}",
    # there is no information
    rf"^{_MISSING}",
    rf"\bthere (?:is|was|are|were) (?:no|not enough|insufficient|not sufficient|not) {_ADJECTIVES}"
    rf"(?:{_KNOWLEDGE}\b|evidence (?:in|from) {_THE_SOURCE})",
    rf"^(?:not enough|insufficient) {_ADJECTIVES}{_KNOWLEDGE}\b",
    rf"\b{_KNOWLEDGE} (?:is|was) (?:insufficient|not sufficient|not enough|lacking|missing)\b",
    r"\b(?:more|further|additional) (?:information|context|details) (?:is|are|would be) "
    r"(?:needed|required|necessary)",
    # it cannot be found out
    rf"\b(?:I|we) (?:(?:can|could) not|(?:am|are|was|were) (?:unable|not able) to) {_FIND_OUT}\b",
    rf"^(?:unable|not able|impossible|not possible) to {_FIND_OUT}\b",
    rf"\bit is (?:not possible|impossible) to {_FIND_OUT}\b",
    rf"\bit is (?:not clear|unclear) (?:from {_THE_SOURCE}|{_QUESTION}\b)",
    rf"\b(?:can|could) not be {_FOUND_OUT}(?:\W*$| (?:from|based on|with|using|given|by|in) "
    rf"{_THE_SOURCE})",
    # I do not know
    rf"\b(?:I|we) do not know(?:\W*$| (?:{_QUESTION}|about|based|from)\b)",
    rf"\b(?:I|we) do not (?:have|see|find|possess) {_ADJECTIVES}"
    rf"(?:enough|sufficient|access|the|that|{_KNOWLEDGE})\b",
    r"\bI am (?:not sure|unsure|uncertain|sorry|afraid)\b",
    r"^(?:sorry|I apologi[sz]e)\b",
)
_REFUSES = re.compile("|".join(f"(?:{rule})" for rule in _RULES))
_NO_INFORMATION = re.compile(rf"^{_MISSING}")
_WHOLE = re.compile(
    r"\W*(?:n/a|unknown|unanswerable|undetermined|unsure|no answer"
    rf"|not (?:{_TOLD}|known|sure|applicable))\W*",
    re.IGNORECASE,
)

_QUOTED = re.compile(r'"[^"\n]*"|“[^”\n]*”')
_DRESSING = re.compile(r"[*_`#>]+")
_ADVERBS = re.compile(
    r"\b(?:explicitly|specifically|directly|clearly|actually|currently|even|also|really|simply"
    r"|definitively|conclusively|unfortunately,?)\s+",
    re.IGNORECASE,
)
_CONTRACTIONS = (
    (re.compile(r"\b[Cc](?:annot|an't)\b"), "can not"),
    (re.compile(r"n't\b"), " not"),
    (re.compile(r"\bI'm\b"), "I am"),
    (re.compile(r"\b([Ii]t|[Tt]here)'s\b"), r"\1 is"),
)
_CLAUSE_END = re.compile(r"(?<=[.!?:])\s+|\n+|;\s*|,?\s+(?=(?:but|however|yet)\b)")
_CONCESSION = re.compile(r"^(?:although|though|while|even though|even if)\b[^,]*,\s*")
_OFFERS = re.compile(
    r"^(?:but|however|nevertheless|nonetheless|still|yet|that said|instead|based on|given|assuming"
    r"|likely|probably|presumably|possibly|perhaps|it is (?:likely|possible|probable)"
    r"|(?:so|thus|therefore|hence),? the answer|the answer)\b"
)
_OFFERS_NOTHING = re.compile(
    r"\b(?:please|if you|more|further|additional|need|consult|help|(?:they|it|documents?|passages?"
    rf"|context|texts?) (?:(?:do|does) )?(?:only )?{_TELL})\b"
)


def is_refusal(text: str) -> bool:
    """Return whether a response declines to answer and offers no answer after that.

    >>> is_refusal("The documents do not provide the year."), is_refusal("He cannot swim.")
    (True, False)
    """
    if _WHOLE.fullmatch(text):
        return True
    clauses = _clauses(text)
    refuses = [_REFUSES.search(clause) is not None for clause in clauses]
    if not any(refuses):
        return False
    last = max(place for place, found in enumerate(refuses) if found)
    after = clauses[last + 1 :]
    return not any(_OFFERS.search(c) and not _OFFERS_NOTHING.search(c) for c in after)


def names_missing_information(text: str) -> bool:
    """Return whether a response begins with "No information is given" or words to that effect."""
    clauses = _clauses(text)
    return bool(clauses and _NO_INFORMATION.search(clauses[0]))


def _clauses(text: str) -> list[str]:
    """Clauses without quotations, mark-up, adverbs and contractions, each begun in lower case."""
    plain = _QUOTED.sub('""', text.replace("’", "'"))
    plain = _ADVERBS.sub("", _DRESSING.sub("", plain))
    for contracted, full in _CONTRACTIONS:
        plain = contracted.sub(full, plain)
    clauses = (clause.strip() for clause in _CLAUSE_END.split(plain))
    return [_CONCESSION.sub("", _begun_small(clause)) for clause in clauses if clause]


def _begun_small(clause: str) -> str:
    return clause if clause.startswith(("I ", "I'")) else clause[0].lower() + clause[1:]
