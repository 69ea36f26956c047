"""How accuracy and confidence stand to stability: the four conflict cases."""

import math
from typing import NamedTuple

CASES = (
    "accurate_but_unstable",
    "inaccurate_but_stable",
    "confident_but_unstable",
    "uncertain_but_stable",
)
CONSISTENT_CASES = (
    "consistent_accurate_stable",
    "consistent_inaccurate_unstable",
    "consistent_confident_stable",
    "consistent_uncertain_unstable",
)


class ConflictCase(NamedTuple):
    """One label an axis, of `CASES` or `CONSISTENT_CASES`; None where an input is unknown."""

    accuracy: str | None
    confidence: str | None


def conflict_case(
    *,
    correct: bool | None,
    p_top1: float | None,
    stability: float | None,
    stable_at: float,
    confident_at: float = 0.5,
) -> ConflictCase:
    """Label a prediction by accuracy against stability and by confidence against stability.

    The paper's four cases lie on these two axes, and one prediction can be in two of them: right,
    sure of itself and unstable is cases 1 and 3. Hence a label for each axis.

    Args:
        correct: whether the answer is right; None = not known.
        p_top1: probability of the top token, in [0, 1]; None = not known.
        stability: any quantity that rises with stability, such as ``relative_flip_radius``; +inf is
            allowed; None = not known, and then neither axis has a label.
        stable_at: stable is ``stability >= stable_at``.
        confident_at: confident is ``p_top1 >= confident_at``.

    Returns:
        The two labels: "but" names a conflict, "consistent" that there is none.

    Raises:
        ValueError: ``p_top1`` is no probability, or ``stability`` or a threshold is NaN.

    Source: Liu et al. 2026, arXiv:2602.10816, section 4.3 and appendix D.1; thresholds are ours.

    >>> conflict_case(correct=True, p_top1=0.95, stability=0.01, stable_at=0.1)
    ConflictCase(accuracy='accurate_but_unstable', confidence='confident_but_unstable')
    """
    if p_top1 is not None and not 0 <= p_top1 <= 1 + 1e-6:  # float32 may round above 1
        raise ValueError(f"p_top1 must be in [0, 1], or None if unknown; got {p_top1}")
    if any(math.isnan(number) for number in (stable_at, confident_at, stability or 0.0)):
        raise ValueError(
            "stability and the thresholds must not be NaN (None = unknown stability); "
            f"got {stability=}, {stable_at=}, {confident_at=}"
        )
    if stability is None:
        return ConflictCase(None, None)
    is_stable = stability >= stable_at
    is_confident = None if p_top1 is None else p_top1 >= confident_at
    return ConflictCase(
        _label(correct, is_stable, ("inaccurate", "accurate")),
        _label(is_confident, is_stable, ("uncertain", "confident")),
    )


def _label(is_good: bool | None, is_stable: bool, words: tuple[str, str]) -> str | None:
    if is_good is None:
        return None
    word, state = words[int(is_good)], ("unstable", "stable")[int(is_stable)]
    return f"consistent_{word}_{state}" if is_good == is_stable else f"{word}_but_{state}"
