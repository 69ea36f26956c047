"""Probes of the softmax's Jacobian: cotangents at the logits, whose pull-backs sum to ‖J‖_F²."""

import math
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from scipy import stats
from torch import Tensor

from tcb_bench.metrics.delta_tcb_head import Head

Floats = NDArray[np.float64]

CANDIDATES = 256  # most probable tokens among which leading directions are looked for
LN10 = math.log(10)


@dataclass(frozen=True)
class SquaredNorm:
    """Estimates of ‖J‖_F², each in its own unit.

    Attributes:
        value: exact part plus mean of the random part.
        stderr: standard error of that mean.
        low, high: ends of the interval; ``low`` is never below the exact part.
    """

    value: Floats
    stderr: Floats
    low: Floats
    high: Floats


def softmax_cotangents(logits: Tensor, probes: Tensor) -> tuple[Tensor, float]:
    """Pull probes of the distribution back to the logits: v -> (diag(o) - o o^T) v / rho.

    o = softmax(z), rho = o of the runner-up. With s = sum_{j != k} o_j (v_j - v_k):
    (o_i / rho) (v_i - v_k - s) for i != k, and for k what makes the sum 0, so that no digit is lost
    where o_k is 1 - 1e-60.

    Args:
        logits: (V,) finite, V >= 2, padded rows left out.
        probes: (P, V) v, any float dtype.

    Returns:
        (P, V) float64, of the size of the probes however confident the prediction is; and log rho
        in nats, to be added to the log of every norm that comes of them.

    Raises:
        ValueError: the shapes do not fit, or there is one token only (J is 0).

    Cost: O(P V) in float64.
    Checked against: autograd's Jacobian of softmax in float64.

    >>> cotangents, log_rho = softmax_cotangents(torch.zeros(2), torch.tensor([[1.0, 0.0]]))
    >>> cotangents.tolist(), round(log_rho, 4)
    ([[0.5, -0.5]], -0.6931)
    """
    n = logits.shape[-1]
    if logits.dim() != 1 or probes.dim() != 2 or probes.shape[1] != n or n < 2:
        raise ValueError(
            "logits must be (V,), V >= 2, and probes (P, V); "
            f"got {tuple(logits.shape)} and {tuple(probes.shape)}"
        )
    z, v = logits.double(), probes.double()
    (_, second), (k, _) = torch.topk(z, 2)
    log_rho = float(second - torch.logsumexp(z, 0))
    t = torch.exp(z - second)
    t[k] = 0  # the runner-up's scale would overflow for the top-1
    lead = v - v[:, k, None]
    shift = math.exp(log_rho) * (lead @ t)
    cotangents = t * (lead - shift[:, None])
    cotangents[:, k] = -cotangents.sum(1)
    return cotangents, log_rho


def leading_directions(logits: Tensor, head: Head, n: int) -> Tensor:
    """Orthonormal directions of the distribution along which J = d o / d h is large.

    The leading left singular vectors of J's rows o_i (w_i - mu), of the 256 most probable tokens.
    Any orthonormal set keeps the estimate of ``output_probes`` unbiased; these make its error
    small.

    Args:
        logits: (V,) finite.
        head: gives the rows w_i.
        n: directions wanted, >= 0; no more than V or d.

    Returns:
        (n, V) float64 on the device of ``logits``.

    Cost: a singular value decomposition of (256, d).
    """
    z = logits.double()
    size = min(CANDIDATES, len(z))
    values, ids = torch.topk(z, size)
    rows = head.gather(ids.to(head.weight.device)).to(z)
    if head.softcap is not None:
        rows *= 1 - (values[:, None] / head.softcap) ** 2
    share = torch.softmax(values, 0)
    scaled = torch.exp(values - values[1])[:, None] * (rows - share @ rows)
    scaled[0] = -scaled[1:].sum(0)  # J's rows sum to 0; as written it would overflow
    left = torch.linalg.svd(scaled, full_matrices=False)[0][:, :n]
    directions = torch.zeros(left.shape[1], len(z), dtype=z.dtype, device=z.device)
    directions[:, ids] = left.T
    return directions


def output_probes(directions: Tensor, n_random: int, seed: int) -> Tensor:
    """Probes v of the distribution for an unbiased ‖J‖_F².

    ‖J‖_F² = sum_a ‖J^T q_a‖² + E ‖J^T (1 - Q Q^T) v‖², v_i = +-1 with equal chance (Hutchinson):
    the first sum is exact, and only what the directions leave is sampled.

    Args:
        directions: (r, V) orthonormal q_a, r >= 0; with r = 0 it is plain Hutchinson.
        n_random: P >= 2.
        seed: >= 0; the same probes on every device.

    Returns:
        (r + P, V) float64: the directions, then the random probes.

    Raises:
        ValueError: P < 2, from which there is no error.

    Source: Hutchinson 1989; Meyer, Musco, Musco, Woodruff 2021 (Hutch++) for the exact part.
    Checked against: the mean over many seeds; the exact norm.
    """
    if n_random < 2:
        raise ValueError(f"n_random must be >= 2, to have an error; got {n_random}")
    generator = torch.Generator().manual_seed(seed)
    size = (n_random, directions.shape[1])
    v = torch.randint(0, 2, size, generator=generator).to(directions) * 2 - 1
    return torch.cat([directions, v - (v @ directions.T) @ directions])


def squared_norm(pulled: ArrayLike, n_exact: int, *, level: float = 0.95) -> SquaredNorm:
    """Put the pull-backs of ``output_probes`` together.

    value = sum over the exact ones + mean over the P random ones; stderr = sd(ddof 1) / sqrt(P);
    the interval is Student's t with P - 1 degrees of freedom, and begins no lower than the exact
    part.

    Args:
        pulled: (n_exact + P, ...) ‖J^T v‖² of each probe.
        n_exact: how many of them are directions.
        level: coverage of the interval.

    Raises:
        ValueError: fewer than two random ones.
    """
    values = np.asarray(pulled, dtype=np.float64)
    exact, random = values[:n_exact].sum(0), values[n_exact:]
    if len(random) < 2:
        raise ValueError(f"pulled must hold two random probes at least; got {len(random)}")
    value = exact + random.mean(0)
    stderr = random.std(0, ddof=1) / math.sqrt(len(random))
    reach = float(stats.t.ppf((1 + level) / 2, len(random) - 1)) * stderr
    return SquaredNorm(value, stderr, np.maximum(value - reach, exact), value + reach)
