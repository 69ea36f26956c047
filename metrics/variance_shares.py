"""Which factor moves the scores: shares of variance by classical sums of squares (eta squared)."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tcb_bench.metrics.statistics import Interval, percentile_interval, resampled_sums

Floats = NDArray[np.float64]

FACTORS = ("question type", "temperature", "context")
SOURCES = (
    *("temperature", "context", "question type"),
    *("temperature x context", "question type x temperature", "question type x context"),
    "question type x temperature x context",
    *("question", "question x condition", "run"),
)
"""Sources of variance; together they are all of it."""


@dataclass(frozen=True, slots=True)
class VarianceShares:
    """Shares by source, in the order of `SOURCES`; they sum to 1.

    Attributes:
        shares: source -> share in [0, 1] with its interval; None where the scores do not vary.
        n: questions used; ``n_left_out``: questions without a score in every condition and run.
    """

    shares: dict[str, Interval]
    n: int
    n_left_out: int


def variance_shares(
    groups: Sequence[ArrayLike],
    *,
    weights: Sequence[ArrayLike] | None = None,
    resamples: int = 2_000,
    level: float = 0.95,
    seed: int = 0,
) -> VarianceShares:
    """Return each source's share of the total sum of squares, eta^2 = SS_source / SS_total.

    y[k, t, c, q, r]: question q nested in type k, crossed with temperature t and context c, with
    runs r inside. All types have the same T x C x R cells, so frequencies are proportional and the
    decomposition is orthogonal, whatever the number of questions of a type: no order of entry
    matters. ``question`` is the spread of question means within their type, ``question x
    condition`` what conditions do differently to single questions, ``run`` the spread of runs
    within a cell. Noise alone gives a source with f degrees of freedom about f / (N - 1) of all.

    Args:
        groups: one (T, C, Q_k, R) array per question type, with T, C and R alike; NaN = no score.
            Only questions with every score enter; the others are counted.
        weights: per group (Q_k,) > 0; None = all alike.
        resamples: bootstrap resamples of questions within their type.
        level: coverage of the intervals.
        seed: >= 0.

    Returns:
        Shares; None throughout where nothing varies or a group has no complete question.

    Raises:
        ValueError: no group, or groups that differ in T, C or R.

    Source: Searle, Casella and McCulloch 1992, Variance Components, chapter 4 (balanced data).
    Checked against: brute-force projections of every source onto the full array.
    """
    tables = [np.asarray(group, dtype=np.float64) for group in groups]
    if not tables or any(t.ndim != 4 or _cells(t) != _cells(tables[0]) for t in tables):
        shapes = [t.shape for t in tables]
        raise ValueError(f"groups must be (T, C, Q, R), alike but for Q; got shapes {shapes}")
    kept = [np.asarray(~np.isnan(table).any(axis=(0, 1, 3))) for table in tables]
    n, n_all = sum(int(k.sum()) for k in kept), sum(len(k) for k in kept)
    if min(int(k.sum()) for k in kept) == 0:
        nothing = {source: Interval(None, None, None, None, n) for source in SOURCES}
        return VarianceShares(nothing, n, n_all - n)
    parts = [
        (table[:, :, keep], np.ones(int(keep.sum())) if weights is None else np.asarray(w)[keep])
        for table, keep, w in zip(tables, kept, weights or kept, strict=True)
    ]
    centre = np.mean([table.mean() for table, _ in parts])  # so that squares do not cancel
    columns = [_columns(table - centre, w) for table, w in parts]
    cells = _cells(tables[0])
    value = _sums_of_squares([c.sum(axis=0, keepdims=True) for c in columns], cells)
    rng = np.random.default_rng(seed)
    draws = _sums_of_squares(
        [resampled_sums(c, resamples=resamples, seed=rng) for c in columns], cells
    )
    return VarianceShares(_intervals(value, draws, n, level), n, n_all - n)


def _cells(table: Floats) -> tuple[int, int, int]:
    t, c, _, r = table.shape
    return t, c, r


def _columns(table: Floats, w: Floats) -> Floats:
    """(Q, TC + 4) per question: w m_tc, w, w m^2 (over cells), w m_tc^2 summed, w run squares."""
    m = table.mean(axis=3)  # (T, C, Q)
    runs = ((table - m[..., None]) ** 2).sum(axis=(0, 1, 3))
    flat = m.reshape(-1, m.shape[2])
    rows = [flat, np.ones((1, len(w))), [flat.mean(axis=0) ** 2], [(flat**2).sum(axis=0)], [runs]]
    return (np.concatenate(rows) * w).T


def _sums_of_squares(sums: Sequence[Floats], cells: tuple[int, int, int]) -> dict[str, Floats]:
    """Source -> (B,) sums of squares, from each type's (B, TC + 4) weighted sums."""
    n_t, n_c, n_r = cells
    tc = n_t * n_c
    total = np.stack([s[:, tc] for s in sums], axis=1)  # (B, K) weight of each type
    means = np.stack([s[:, :tc] / s[:, [tc]] for s in sums], axis=1)  # (B, K, TC)
    level, squares, runs = (np.stack([s[:, tc + i] for s in sums], axis=1) for i in (1, 2, 3))
    question = tc * (level - total * means.mean(axis=2) ** 2)
    within = squares - total * (means**2).sum(axis=2)  # of cell means about their type's
    found = {
        "question": n_r * question.sum(axis=1),
        "question x condition": n_r * (within - question).sum(axis=1),
        "run": runs.sum(axis=1),
    }
    shape = (*total.shape, n_t, n_c)
    effects = _effects(means.reshape(shape), (total / total.sum(axis=1, keepdims=True)))
    weight = n_r * np.broadcast_to(total[:, :, None, None], shape)
    for source, effect in effects.items():
        found[source] = (weight * effect**2).sum(axis=(1, 2, 3))
    return {source: np.maximum(found[source], 0.0) for source in SOURCES}


def _effects(means: Floats, share: Floats) -> dict[str, Floats]:
    """Factorial effects of (B, K, T, C) cell means, types weighing as ``share`` (B, K)."""
    grand = (means * share[:, :, None, None]).sum(axis=1, keepdims=True).mean((2, 3), keepdims=True)
    found: dict[tuple[int, ...], Floats] = {(): grand}
    for size in (1, 2, 3):
        for axes in combinations((1, 2, 3), size):
            margin = means
            if 1 not in axes:
                margin = (margin * share[:, :, None, None]).sum(axis=1, keepdims=True)
            over = tuple(axis for axis in (2, 3) if axis not in axes)
            margin = margin.mean(axis=over, keepdims=True) if over else margin
            lower = [effect for other, effect in found.items() if set(other) < set(axes)]
            found[axes] = margin - sum(lower)
    del found[()]
    return {" x ".join(FACTORS[axis - 1] for axis in axes): e for axes, e in found.items()}


def _intervals(
    value: dict[str, Floats], draws: dict[str, Floats], n: int, level: float
) -> dict[str, Interval]:
    total = float(sum(v[0] for v in value.values()))
    if total <= 0:
        return {source: Interval(None, None, None, None, n) for source in SOURCES}
    totals = sum(draws.values())
    with np.errstate(invalid="ignore"):
        return {
            source: percentile_interval(
                float(value[source][0]) / total, draws[source] / totals, n=n, level=level
            )
            for source in SOURCES
        }
