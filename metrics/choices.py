"""Which of the given answers a text names, where no log-probabilities say it."""

from __future__ import annotations

import re
from collections.abc import Sequence

CHOICE_VERSION: int = 1  # raise it with every change of what `chosen_letter` returns

_DRESSING = r"[\s*_`\"'({\[\\$]*"
_MARKERS = (
    rf"\\boxed\s*\{{{_DRESSING}(?:\\text\s*\{{)?({{letters}})\b",
    rf"\banswer(?:\s+is|\s*[:=])?{_DRESSING}(?:option|choice)?{_DRESSING}({{letters}})\b(?!['’])",
)


def chosen_letter(text: str, letters: Sequence[str]) -> int | None:
    r"""Index of the letter that a reply to a multiple-choice question names.

    In this order: the last ``\boxed{X}``; the last "answer is X" or "answer: X"; a letter that
    opens the reply and stands alone ("B", "(B) ...", "**B.** ..."), or is all of its last line. A
    letter elsewhere in running text ("A man ...") names nothing.

    Args:
        text: the reply.
        letters: the choices' own letters, matched in this case.

    Returns:
        The index in ``letters``, or None where the reply names none.

    >>> chosen_letter("The answer is **(C)**, since A and B are false.", ["A", "B", "C", "D"])
    2
    """
    either = "|".join(re.escape(letter) for letter in letters)
    for marker in _MARKERS:
        found = re.findall(marker.replace("{letters}", either), text, re.IGNORECASE)
        named = [letter for letter in found if letter in letters]
        if named:
            return list(letters).index(named[-1])
    lines = [line for line in text.strip().splitlines() if line.strip()]
    opening = rf"{_DRESSING}({either})(?:[\s*_`\"'}}\])]*$|[*_`\"'}}\]]*[.):,])"
    for line in [*lines[:1], *lines[-1:]]:
        match = re.match(opening, line)
        if match:
            return list(letters).index(match[1])
    return None
