"""Numbers as the pages show them, and as their tables sort by them."""

from __future__ import annotations

import math

NONE = "\u2013"  # what stands where there is no number
MINUS = "\u2212"
_MANY = 1e6  # from here on a number is shown with its power of ten


def decimal(value: float | None, digits: int) -> str:
    """A number with so many decimals; one that they would hide or stretch, by its leading digits.

    >>> decimal(0.4567, 3), decimal(-0.00012, 3), decimal(12345678.9, 1), decimal(None, 2)
    ('0.457', '−1.2e−4', '1.23e7', '–')
    """
    if value is None or math.isnan(value):
        return NONE
    is_hidden = value != 0 and abs(value) < 0.5 * 10.0**-digits
    if is_hidden or abs(value) >= _MANY:
        return _power(value, 2 if is_hidden else 3)
    return f"{value:.{digits}f}".replace("-", MINUS)


def significant(value: float | None, digits: int = 4) -> str:
    """A number by its leading digits.

    >>> significant(0.0062873), significant(46.45825), significant(134515008.0)
    ('0.006287', '46.46', '1.345e8')
    """
    if value is None or math.isnan(value):
        return NONE
    if value != 0 and not 1e-4 <= abs(value) < _MANY:
        return _power(value, digits)
    return f"{value:.{digits}g}".replace("-", MINUS)


def interval(low: float | None, high: float | None, digits: int) -> str:
    """Both ends of an interval; "" where there is none."""
    if low is None or high is None:
        return ""
    return f"{decimal(low, digits)} to {decimal(high, digits)}"


def sort_key(value: float | None) -> str:
    """What a table sorts by: nine digits, so that no rounding of a library shows; "" for none."""
    return "" if value is None or math.isnan(value) else f"{value:.9g}"


def count(number: int) -> str:
    """A count with its thousands apart.

    >>> count(79200)
    '79,200'
    """
    return f"{number:,}"


def ranks(low: int | None, high: int | None) -> str:
    """A range of ranks: "3", or "1–4" where intervals do not separate; "" without ranks."""
    if low is None or high is None:
        return ""
    return str(low) if low == high else f"{low}\u2013{high}"


def _power(value: float, digits: int) -> str:
    mantissa, exponent = f"{value:.{digits - 1}e}".split("e")
    return f"{mantissa}e{int(exponent)}".replace("-", MINUS)
