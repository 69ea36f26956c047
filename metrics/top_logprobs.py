"""What the log-probabilities of the likeliest tokens say of the whole distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence


def top_quantities(logprobs: Sequence[float]) -> dict[str, float]:
    """Quantities of a next-token distribution of which only the K likeliest tokens are known.

    With p_i = exp(logprob_i), known mass m = sum p_i, rest r = max(0, 1 - m), S = sum p_i^2: no
    unknown token is likelier than p_K, so their squares add up to at most r min(r, p_K), and

        1 / (S + r min(r, p_K))  <=  v_eff = 1 / sum_all o_i^2  <=  1 / S.

    Args:
        logprobs: (K,) natural log-probabilities of the K likeliest tokens, in any order; -inf is
            probability 0.

    Returns:
        ``p_top1`` and ``top_mass`` (m, in (0, 1]), ``v_eff_low`` and ``v_eff_high`` (tokens, >= 1),
        and where K >= 2 ``p_top2`` and ``logit_margin`` (z_k - z_j* = log p_1 - log p_2, exact:
        the logsumexp cancels; inf where p_2 is 0).

    Raises:
        ValueError: no log-probability, or one that is NaN or above 0 by more than rounding.

    >>> found = top_quantities([math.log(0.5), math.log(0.25)])
    >>> round(found["v_eff_low"], 4), round(found["v_eff_high"], 4)
    (2.6667, 3.2)

    Source: science.md section 1 (v_eff, logit_margin); the bounds are ours.
    Checked against: whole distributions in float64 (tests/test_metrics_top_logprobs.py).
    """
    ordered = sorted(map(float, logprobs), reverse=True)
    if not ordered or not all(value <= 1e-3 for value in ordered):
        shown = ordered[0] if ordered else "none"
        raise ValueError(f"log-probabilities must be at most 0 and at least one; got {shown}")
    p = [math.exp(min(value, 0.0)) for value in ordered]
    rest = max(0.0, 1.0 - math.fsum(p))
    squares = math.fsum(value * value for value in p)
    found = {
        "p_top1": p[0],
        "top_mass": min(1.0, math.fsum(p)),
        "v_eff_low": max(1.0, 1 / (squares + rest * min(rest, p[-1]))),
        "v_eff_high": max(1.0, 1 / squares) if squares > 0 else math.inf,
    }
    if len(p) > 1:
        found |= {"p_top2": p[1], "logit_margin": ordered[0] - ordered[1]}
    return found
