r"""Inequalities that the quantities of one prediction point obey whatever the model, with proofs.

Notation: logits z of the top token k and of the others, o = softmax(z), p1 = o_k, p2 = the next
probability, w_i the rows of the head's W, mu = sum o_i w_i, J the Jacobian of o by h, v = v_eff,
H = entropy, f = flip_radius, R = weight_radius. ||J||^2 = sum o_i^2 ||w_i - mu||^2.

Slack. All quantities are computed in float32 (24 bits, unit u = 6e-8) from logits in float32, also
where the weights are bfloat16: rounding of weights or states changes which point is measured, not
how its quantities hang together. A logit near 100 and its logarithms carry some 100 u = 6e-6, and
sums over a vocabulary the same again; exp turns that into a relative error. ``RELATIVE`` = 1e-4 is
science.md's own requirement on delta_tcb, ten times that. Quotients of two rounded numbers have
3 u; ``QUOTIENT`` = 1e-6.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

Values = Mapping[str, float | None]

RELATIVE = 1e-4
QUOTIENT = 1e-6
TINY = 1e-30  # below it float32 loses digits (its smallest normal number is 1e-38)
TOKENS = ("flip_token", "top1_token", "critical_token")
SHARES = ("p_top1", "p_top2", "answer_mass")
LENGTHS = (
    *("delta_tcb", "flip_radius", "h_norm", "relative_delta", "relative_flip_radius"),
    *("logit_margin", "nll", "entropy", "choice_margin", "choice_flip_radius"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One prediction point of an entry: its quantities and what they are measured with.

    Attributes:
        values: quantity -> value; None or absent = not known, and what needs it is not checked.
        epsilon: eps of delta_tcb.
        radius: R of the output head; None = not known, and bounds with R are not applied.
        choices: natural log-probability of each given answer, where there are choices.
        is_greedy_choice: whether the top token is a given answer; None = not known.
    """

    values: Values
    epsilon: float = 1.0
    radius: float | None = None
    choices: Sequence[float] | None = None
    is_greedy_choice: bool | None = None


def violations(point: Point) -> Iterator[str]:
    """What cannot be true of a point, a line each: the inequality and both sides.

    Where a value is outside its own range, the other inequalities are not asked.
    """
    wrong = list(ranges(point))
    yield from wrong
    if not wrong:
        for check in CHECKS:
            yield from check(point)


def ranges(point: Point) -> Iterator[str]:
    """Every quantity within its own range: lengths >= 0, probabilities to 1, v_eff >= 1, ids whole.

    By definition (science.md section 1); p + rounding may be 1 + 1e-6.
    """
    values = point.values
    for name in LENGTHS:
        if (value := values.get(name)) is not None and value < 0:
            yield f"{name} = {value:g} < 0"
    for name in SHARES:
        if (value := values.get(name)) is not None and not 0 <= value <= 1 + 1e-6:
            yield f"{name} = {value:g} is no probability"
    if (value := values.get("v_eff")) is not None and value < 1:
        yield f"v_eff = {value:g} < 1"
    for name in TOKENS:
        value = values.get(name)
        if value is not None and (value != int(value) or value < -1):
            yield f"{name} = {value:g} is no token id"


def definitions(point: Point) -> Iterator[str]:
    """log10_delta_tcb is the logarithm of delta_tcb, relative_* the length over h_norm.

    By definition. The logarithm is rounded itself, u |log10 delta|, and so is exp of it: 1e-6 of
    max(1, |log10 delta|) is ten times that.
    """
    values = point.values
    delta, log10 = values.get("delta_tcb"), values.get("log10_delta_tcb")
    if delta and log10 is not None and not _near(math.log10(delta), log10, 1e-6):
        yield f"log10_delta_tcb = {log10:g}, but log10 of delta_tcb = {math.log10(delta):g}"
    norm = values.get("h_norm")
    for name, length in (("relative_delta", "delta_tcb"), ("relative_flip_radius", "flip_radius")):
        ratio, value = values.get(name), values.get(length)
        if norm and ratio is not None and value is not None:
            if not math.isclose(ratio, value / norm, rel_tol=QUOTIENT, abs_tol=TINY):
                yield f"{name} = {ratio:g}, but {length} / h_norm = {value / norm:g}"


def probabilities(point: Point) -> Iterator[str]:
    """p_top1 / p_top2 = exp(logit_margin), p1^2 + p2^2 <= 1/v <= p1^2 + p2 (1 - p1), p1 + p2 <= 1.

    The first is softmax's definition. 1/v = sum o_i^2 holds p1^2 + p2^2 and only terms >= 0 more;
    every i but k has o_i <= p2, so that its sum is at most p2 sum_{i != k} o_i = p2 (1 - p1). With
    p2 <= p1 that is <= p1, as science.md has it. Where p2 is below what float32 holds, the margin
    has to be large and nothing more is asked.
    """
    get = point.values.get
    p1, p2, margin, v_eff = get("p_top1"), get("p_top2"), get("logit_margin"), get("v_eff")
    if p1 is None or p2 is None:
        return
    if p2 > p1 * (1 + QUOTIENT) or p1 + p2 > 1 + 1e-5:
        yield f"p_top1 = {p1:g} and p_top2 = {p2:g}: expected p_top2 <= p_top1, and a sum <= 1"
    if margin is not None and p2 < TINY:
        if p1 > TINY and margin < math.log(p1 / TINY) - 1:
            yield f"logit_margin = {margin:g}, but p_top1 / p_top2 > {p1 / TINY:g}"
    elif margin is not None and p1 >= p2 and not _near(math.log(p1 / p2), margin, 2e-5):
        yield f"logit_margin = {margin:g}, but log(p_top1 / p_top2) = {math.log(p1 / p2):g}"
    if v_eff:
        low, high = p1 * p1 + p2 * p2, p1 * p1 + p2 * max(0.0, 1 - p1)
        if not low * (1 - RELATIVE) <= 1 / v_eff <= high * (1 + RELATIVE) + 1e-7:
            yield f"1 / v_eff = {1 / v_eff:g} is not from {low:g} to {high:g} (p_top1, p_top2)"


def entropies(point: Point) -> Iterator[str]:
    """Log v <= H, p1 (-log p1) + (1 - p1) (-log p2) <= H, and what the nll of a token can be.

    log v is the Renyi entropy of order 2, which is at most Shannon's (Jensen: -log sum o_i o_i <=
    -sum o_i log o_i). Every i but k has -log o_i >= -log p2. The token predicted is the top one, so
    that nll = -log p1, or another, so that nll >= -log p2.
    """
    get = point.values.get
    p1, p2, v_eff = get("p_top1"), get("p_top2"), get("v_eff")
    entropy, nll = get("entropy"), get("nll")
    if entropy is not None and v_eff and math.log(v_eff) > entropy + _slack(entropy):
        yield f"entropy = {entropy:g} < log v_eff = {math.log(v_eff):g}"
    if not p1 or p2 is None or p2 < TINY:
        return
    low, next_nll = -math.log(p1), -math.log(p2)
    if entropy is not None:
        least = p1 * low + max(0.0, 1 - p1 - 2e-7) * next_nll
        if least > entropy + _slack(entropy):
            yield f"entropy = {entropy:g} < {least:g}, the least for p_top1 and p_top2"
    if nll is not None and not _near(nll, low, 2e-5) and nll < next_nll - 2e-5 * max(1, next_nll):
        yield f"nll = {nll:g} is neither -log p_top1 = {low:g} nor at least {next_nll:g}"


def radii(point: Point) -> Iterator[str]:
    """delta_tcb >= eps sqrt(v) / (2 R), flip_radius >= logit_margin / (2 R), and with choices too.

    mu lies in the hull of the w_i, all within R of their mean: ||w_i - mu|| <= 2 R and
    ||J||^2 <= 4 R^2 / v. f is some (z_k - z_j) / ||w_k - w_j|| with z_k - z_j >= logit_margin and
    ||w_k - w_j|| <= 2 R. For the given answers the same with choice_margin. A soft-cap c tanh(x/c)
    only shrinks margins, and slopes D_i <= 1 of it are no part of R: a head with a soft-cap or a
    scale above 1 has R = None here.
    """
    radius = point.radius
    if not radius or radius <= 0:
        return
    get = point.values.get
    v_eff, delta = get("v_eff"), get("delta_tcb")
    pairs = [("flip_radius", "logit_margin"), ("choice_flip_radius", "choice_margin")]
    if v_eff and delta is not None:
        least = point.epsilon * math.sqrt(v_eff) / (2 * radius)
        if delta < least * (1 - RELATIVE):
            yield f"delta_tcb = {delta:g} < eps sqrt(v_eff) / (2 R) = {least:g}"
    for name, margin_name in pairs:
        flip, margin = get(name), get(margin_name)
        if flip is not None and margin is not None:
            least = margin / (2 * radius)
            if flip < least * (1 - RELATIVE) - TINY:
                yield f"{name} = {flip:g} < {margin_name} / (2 R) = {least:g}"


def reach(point: Point) -> Iterator[str]:
    """flip_radius <= (delta_tcb / eps) (sqrt(p1 K / e) + K / sqrt(v)), K = H + log p1; with no R.

    f is the least (z_k - z_j) / ||w_k - w_j||, so ||w_k - w_j|| <= log(p1 / o_j) / f for all j.
    Hence ||w_k - mu|| <= sum o_j ||w_k - w_j|| <= K / f, since sum o_j log(p1 / o_j) = H + log p1.
    By Minkowski ||J|| <= sqrt(sum o_i^2 ||w_i - w_k||^2) + sqrt(1 / v) ||w_k - mu||. In the first
    sum o_i log(p1 / o_i) <= p1 / e (x log(1/x) <= 1/e), so it is <= (p1 / e) K / f^2. Together
    ||J|| <= (sqrt(p1 K / e) + K / sqrt(v)) / f, and delta = eps / ||J||. A longer flip radius would
    have been a longer delta. Not for a head with a soft-cap, whose slopes are in J alone. K is a
    difference: 1e-6 more is allowed.
    """
    get = point.values.get
    flip, delta, p1 = get("flip_radius"), get("delta_tcb"), get("p_top1")
    entropy, v_eff = get("entropy"), get("v_eff")
    if not (flip and delta and p1 and v_eff) or entropy is None or point.radius is None:
        return
    excess = max(0.0, entropy + math.log(p1)) + 1e-6 + RELATIVE * entropy
    most = math.sqrt(p1 * excess / math.e) + excess / math.sqrt(v_eff)
    limit = delta / point.epsilon * most
    if flip > limit * (1 + RELATIVE):
        yield f"flip_radius = {flip:g} > {limit:g}, the most for delta_tcb, p_top1 and entropy"


def choices(point: Point) -> Iterator[str]:
    """Log-probabilities of given answers against the margin, the mass and the top token.

    choice_margin is the best logit less the next one's, and logits differ as log-probabilities do;
    answer_mass is the sum of the probabilities, each token once. If the top token is an answer, it
    is the best one: exp(best) = p1, and any state with another best answer has another top token,
    so choice_flip_radius >= flip_radius. If not, exp(best) <= p2. Log-probabilities are stored to
    six digits behind the point; answers with the same token have equal ones.
    """
    logprobs, get = point.choices, point.values.get
    if not logprobs:
        return
    ordered = sorted(logprobs, reverse=True)
    best, mass = ordered[0], get("answer_mass")
    if best > 1e-5:
        yield f"choice_logprobs: {best:g} > 0"
        return
    total = math.fsum(map(math.exp, ordered))
    are_apart = all(a - b > 1e-4 for a, b in zip(ordered, ordered[1:], strict=False))
    if mass is not None and (
        mass > total * (1 + RELATIVE) + TINY or are_apart and mass < total * (1 - RELATIVE) - TINY
    ):
        yield f"answer_mass = {mass:g}, but the choices have {total:g} together"
    margin = get("choice_margin")
    if margin is not None and are_apart and len(ordered) > 1:
        lead = ordered[0] - ordered[1]
        if not _near(margin, lead, 1e-4, abs(best) + abs(ordered[1])):
            yield f"choice_margin = {margin:g}, but choice_logprobs lead by {lead:g}"
    yield from _best_choice(point, best)


def _best_choice(point: Point, best: float) -> Iterator[str]:
    get = point.values.get
    p1, p2 = get("p_top1"), get("p_top2")
    if p1 is None or p2 is None:
        return
    likely = math.exp(best)
    if point.is_greedy_choice:
        if not math.isclose(likely, p1, rel_tol=RELATIVE):
            yield f"the top token is an answer, but p_top1 = {p1:g} and the best has {likely:g}"
        flip, to_other = get("flip_radius"), get("choice_flip_radius")
        if flip is not None and to_other is not None and to_other < flip * (1 - RELATIVE):
            yield f"choice_flip_radius = {to_other:g} < flip_radius = {flip:g}"
    elif likely > (p1 if point.is_greedy_choice is None else p2) * (1 + RELATIVE) + TINY:
        yield f"the best answer has {likely:g}, more than p_top1 = {p1:g} or p_top2 = {p2:g} allow"


def _near(a: float, b: float, slack: float, size: float = 1.0) -> bool:
    """Whether two logarithms agree to ``slack`` of the largest of 1, ``size`` and themselves."""
    return abs(a - b) <= slack * max(1.0, size, abs(a), abs(b))


def _slack(entropy: float) -> float:
    return 1e-6 + RELATIVE * entropy


CHECKS: tuple[Callable[[Point], Iterator[str]], ...] = (
    *(definitions, probabilities, entropies, radii, reach),
    choices,
)
