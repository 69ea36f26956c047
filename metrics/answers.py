r"""The final number of a worked solution (GSM8K) and the letters of multiple choice (MMLU).

A number is a run of digits of any script, with thousands in groups of three after ``,`` ``{,}``
``\,`` or a no-break or thin space, a decimal point, an exponent (``1e3``); or a fraction (``1/2``,
``\frac{1}{2}``, mixed ``3 1/2``), which counts as its quotient; a date (``3/4/2024``) is none.
``-`` or U+2212 is a minus only where a value can begin: not in ``10-20``, ``5 - 3``, ``COVID-19``.
Superscripts and subscripts (``m^2``, ``x_1``) are no numbers. All else is taken as it stands:
``60%`` is 60, ``$2 million`` is 2, and ``12,5``, ``2:30`` and ``10 000`` are two numbers each.
"""

import re
from bisect import bisect_left
from dataclasses import dataclass
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal
from itertools import pairwise
from string import ascii_uppercase

EXTRACTION_VERSION: int = 1  # raise it with every change of what `final_number` returns

_DIVISION = Context(prec=28, Emax=MAX_EMAX, Emin=MIN_EMIN, traps=[])  # n/0 is not finite, no error
_MINUS, _CURRENCY = "-\u2212\ufe63\uff0d", "$€£¥₹"
_COMMA = r"(?:,(?:\\!)?|\{,\}|\\,|[\u00a0\u2009\u202f])"
# Atomic (?>) and possessive (++, ?+) parts are never given back, so that the search is linear.
_DIGITS = rf"(?>(?!0)\d{{1,3}}(?:{_COMMA}\d{{3}})+(?!\d)|\d++)(?:\.\d++)?+"
_NUMBER = re.compile(
    rf"""(?P<script> (?: \^ | (?<=[^\W\d_])_ ) \{{? [{_MINUS}]? \d[\d.]*+ )
    | (?P<sign> (?: (?<=[{{=]) | (?<==\ ) ) [{_MINUS}]\ ?
              | (?<![^\s=(\[{{<>*~:;,+/|"'“‘×÷·≈&_`{_CURRENCY}]) (?<![\d)}}%]\ ) [{_MINUS}] )?+
      (?(sign) (?:\\?[{_CURRENCY}])?+ )
      (?: (?: (?P<whole>\d++)\ ?)? \\[dt]?frac \{{(?P<top>{_DIGITS})\}} \{{(?P<bottom>{_DIGITS})\}}
        | (?<!/) (?: (?P<mixed>\d++)\ )? (?P<over>{_DIGITS}) / (?P<under>{_DIGITS}) (?![\d/])
        | (?P<plain> {_DIGITS} (?:[eE][+-]?\d{{1,3}}(?!\w))? | (?<![\w.])\.\d++ ) )""",
    re.VERBOSE,
)
_BRACES = re.compile(r"(?P<box>\\\\?boxed\s*\{)|\\[{}\\]|(?P<open>\{)|(?P<close>\})")
# Blanks and mark-up that may stand between a marker and its number.
_DRESSING = r"""[\s:=≈*_$€£~`"'\\()\[\]{}]*+"""
_PHRASE = re.compile(rf"final\s+answer(?:\s+is\b|[\s*_]*[:=]){_DRESSING}", re.IGNORECASE)
_HASHES = re.compile(rf"\#{{4,}}{_DRESSING}")
_LIST_LABEL = re.compile(r"[.):][ \t]+\S")  # as in the heading "#### 1. Count the eggs"
_ORDINAL = re.compile(r"(?:st|nd|rd|th)\b")
_EQUALS = re.compile(r"=|≈|\\approx")
_ANY = re.compile(r"(?s:.*)")
_PAD = rf"(?:[^\S\n]|[{_CURRENCY}%<>\\(){{}}])*+"  # no line break: "18\n- 3 left" is no term
_OPERATION = r"(?:[-+*/×÷·−=≈]|(?:x|times|div|cdot|approx)(?![^\W\d_]))"
_UNITS = rf"(?:{_PAD}(?!{_OPERATION})[^\W\d_]++){{0,3}}+"  # as in "3 bags of eggs * 6"
_OPERATOR = re.compile(rf"(?:{_UNITS}{_PAD}{_OPERATION})++{_PAD}")


@dataclass(frozen=True)
class Number:
    """A number in a text: ``text`` is its characters ``start`` to ``end``, ``value`` their value.

    The span holds sign, thousands separators and decimals (``9{,}500``), or a whole fraction; no
    currency (save one behind the sign, ``-$7``), ``%``, full stop, parenthesis or LaTeX around it.
    """

    text: str
    value: Decimal
    start: int
    end: int


def final_number(text: str) -> Number | None:
    r"""Return the number that ``text`` gives as its final answer, or None if it holds no number.

    1. The last ``\boxed{...}`` that holds a number: of ``x = 5`` or ``3 \times 24 = 72`` the last
       side that is one number, else the first number in the box.
    2. The last "final answer is" or "final answer:" (any case) with a number on its line (the first
       line behind it that is not blank): the first number there, or the result of the equation
       whose left side it begins (``20 - 2 = 18``, ``3 bags * 6 eggs = 18 eggs``).
    3. The first ``####`` directly before a number (but for a list label, ``#### 1. Count``), else
       the last with a number on its line; then as in 2.
    4. The last number; an ordinal (``3rd``) only where there is nothing else.

    Never raises; time is linear in the length of ``text``. `EXTRACTION_VERSION` names these rules.
    Source: the GSM8K protocol of Liu et al. 2026 (arXiv:2602.10816), which boxes the answer; the
    fall-backs are ours.

    >>> final_number(r"So \boxed{\$9{,}500} in all.")
    Number(text='9{,}500', value=Decimal('9500'), start=12, end=19)
    """
    numbers = [number for number in map(_read, _NUMBER.finditer(text)) if number]
    if not numbers:
        return None
    found = (
        _in_box(text, numbers)
        or _on_last_line(text, numbers, list(_PHRASE.finditer(text)))
        or _after_hashes(text, numbers)
    )
    if found:
        return found
    cardinals = (n for n in reversed(numbers) if not _ORDINAL.match(text, n.end))
    return next(cardinals, numbers[-1])


def same_number(a: Decimal | None, b: Decimal | None) -> bool:
    """Return whether both are there and equal, exactly: 18.0 is 18, 0.3333 is not 1/3."""
    return a is not None and b is not None and a == b


def gsm8k_gold(answer: str) -> Decimal:
    """Return the number after the last ``####`` of a GSM8K gold answer, thousands commas allowed.

    Raises:
        ValueError: there is no ``####`` or no number behind the last one.
    """
    _, marker, tail = answer.rpartition("####")
    number = next(filter(None, map(_read, _NUMBER.finditer(tail))), None)
    if not marker or number is None:
        raise ValueError(f"a GSM8K gold answer ends in '#### <number>'; got {answer!r}")
    return number.value


def choice_letter(index: int) -> str:
    """Return the letter of option ``index``: 0 is "A", 25 is "Z".

    Raises:
        ValueError: ``index`` is not in 0..25.
    """
    if not 0 <= index < len(ascii_uppercase):
        raise ValueError(f"index must be 0..25, one letter an option; got {index}")
    return ascii_uppercase[index]


def _read(match: re.Match[str]) -> Number | None:
    if match["script"]:
        return None
    value = _decimal(match["top"] or match["over"] or match["plain"])
    if below := match["bottom"] or match["under"]:
        whole = _decimal(match["whole"] or match["mixed"] or "0")
        value = _DIVISION.add(whole, _DIVISION.divide(value, _decimal(below)))
    if not value.is_finite():
        return None
    # copy_negate, since unary minus would round to the precision of the caller's decimal context
    return Number(match[0], value.copy_negate() if match["sign"] else value, *match.span())


def _decimal(digits: str) -> Decimal:
    return Decimal("".join(c for c in digits if c.isdecimal() or c in ".eE+-"))


def _in_box(text: str, numbers: list[Number]) -> Number | None:
    for start, end in reversed(_boxes(text)):
        inside = numbers[_index(numbers, start) : _index(numbers, end)]
        if inside:
            return _last_single(_sides(text, inside, gap=_ANY))
    return None


def _boxes(text: str) -> list[tuple[int, int]]:
    """Spans of what stands in each closed box, in the order in which they close."""
    boxes, opened = [], []
    for brace in _BRACES.finditer(text):
        if brace["box"] or brace["open"]:
            opened.append(brace)
        elif brace["close"] and opened:
            opening = opened.pop()
            if opening["box"]:
                boxes.append((opening.end(), brace.start()))
    return boxes


def _after_hashes(text: str, numbers: list[Number]) -> Number | None:
    markers = list(_HASHES.finditer(text))
    for marker in markers:
        i = _index(numbers, marker.end())
        is_direct = i < len(numbers) and numbers[i].start == marker.end()
        if is_direct and not _LIST_LABEL.match(text, numbers[i].end):
            return _result(text, numbers[i:])
    return _on_last_line(text, numbers, markers)


def _on_last_line(text: str, numbers: list[Number], markers: list[re.Match[str]]) -> Number | None:
    breaks = [newline.start() for newline in re.finditer("\n", text)] if markers else []
    for marker in reversed(markers):
        i = _index(numbers, marker.end())
        line = bisect_left(breaks, marker.end())
        end = breaks[line] if line < len(breaks) else len(text)
        if i < len(numbers) and numbers[i].start < end:
            return _result(text, numbers[i:])
    return None


def _index(numbers: list[Number], position: int) -> int:
    return bisect_left(numbers, position, key=lambda number: number.start)


def _result(text: str, numbers: list[Number]) -> Number:
    """The first number, or the result of the equation whose left side it begins."""
    sides = _sides(text, numbers, gap=_OPERATOR)
    return numbers[0] if len(sides[0]) == 1 else _last_single(sides)


def _sides(text: str, numbers: list[Number], *, gap: re.Pattern[str]) -> list[list[Number]]:
    """The numbers of each side of an equation; it ends where ``gap`` is not between two of them."""
    sides = [[numbers[0]]]
    for left, right in pairwise(numbers):
        between = text[left.end : right.start]
        if not gap.fullmatch(between):
            break
        if _EQUALS.search(between):
            sides.append([right])
        else:
            sides[-1].append(right)
    return sides


def _last_single(sides: list[list[Number]]) -> Number:
    return next((side[0] for side in reversed(sides) if len(side) == 1), sides[0][0])
