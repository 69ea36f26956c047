"""The random part of the bootstrap: which rows each resample draws. What is drawn twice is kept."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_MAX_CELLS = 2**20  # of one block of resample counts: 8 MiB; larger ones are slower
_KEPT_CELLS = 2**24  # of counts that are kept for the next table of as many rows: 16 MiB


def resampled_sums(
    columns: Floats, *, resamples: int, seed: int | np.random.Generator = 0
) -> Floats:
    """(B, K) sums over n rows drawn with replacement from (n, K): counts (B, n) times columns."""
    n = len(columns)
    sums = np.zeros((resamples, columns.shape[1]))
    is_kept = isinstance(seed, int) and n * resamples <= _KEPT_CELLS
    blocks = _kept_counts(n, resamples, seed) if is_kept else _counts(n, resamples, seed)
    first = 0
    for counts in blocks:
        np.matmul(counts.astype(np.float64), columns, out=sums[first : first + len(counts)])
        first += len(counts)
    return sums


@lru_cache(maxsize=3)
def _kept_counts(n: int, resamples: int, seed: Any) -> list[NDArray[Any]]:
    """All blocks of `_counts`, in the smallest type that holds them."""
    return [
        counts.astype(np.min_scalar_type(counts.max())) for counts in _counts(n, resamples, seed)
    ]


def _counts(n: int, resamples: int, seed: Any) -> Iterator[NDArray[Any]]:
    """How often each resample draws each of n rows, (B, n) in blocks of ``_MAX_CELLS`` cells."""
    rng = np.random.default_rng(seed)
    step = max(1, _MAX_CELLS // max(n, 1))
    for first in range(0, resamples if n else 0, step):
        size = min(step, resamples - first)
        rows = rng.integers(0, n, size=(size, n))
        rows += n * np.arange(size)[:, None]
        yield np.bincount(rows.ravel(), minlength=rows.size).reshape(rows.shape)


@lru_cache(maxsize=64)
def median_ranks(n: int, resamples: int, seed: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Ranks of the one or two rows whose mean is the median of each resample of n rows."""
    rng = np.random.default_rng((seed, n))
    k = (n + 1) // 2
    lower = rng.beta(k, n - k + 1, resamples)
    upper = lower if n % 2 else lower + (1 - lower) * rng.beta(1, n - k, resamples)
    low, high = (np.minimum((n * u).astype(np.intp), n - 1) for u in (lower, upper))
    return low, high
