"""Delta-TCB over slices of the vocabulary: what one slice adds, and how slices are put together.

With k the top-1 token, y_i = D_i w_i the row of token i times the slope D_i of the soft-cap (1
without one), and t_i = exp(z_i - z_ref) its weight against the best runner-up, a slice sums over
all its i != k

    e = Σ t_i    s = Σ t_i²    b = Σ t_i² ‖y_i - y_k‖²
    m = Σ t_i (y_i - y_k)      q = Σ t_i² (y_i - y_k)      lag = Σ t_i (z_ref - z_i)

and with rho = o_ref, ‖J‖_F² = rho² [(o_k² + rho² s) ‖m‖² + b - 2 rho m·q]. Nothing in it cancels
when o_k goes to 1, and nothing underflows, because the largest t is 1. Rows equal to w_k add
nothing to m, q and b; they are kept out of ref too (``same`` counts them), or they would hide the
scale of the others. The entropy is -log o_k + rho [(z_k - z_ref) e + lag] and what ``same`` adds:
all its terms are positive.

One process with the whole vocabulary is one slice. Tensor parallelism is several: each rank runs
``Shard.top``, ``rows``, ``pre_cap`` and ``sums``, and between them the ranks exchange what these
return and combine it by ``combine_top``, addition, maximum and ``combine_sums``.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from tcb_bench.metrics.delta_tcb_head import Head, spans

CELLS = 2**20  # weights per step: few enough to stay in the cache, many enough for few steps
LOWEST = 1000.0  # exp(-LOWEST) is 0
NEAR = 16  # runners-up whose rows are differenced one by one; the others go through products


@dataclass(frozen=True)
class Top:
    """The two best tokens: ``x`` (R, 2) before the soft-cap and ``ids``; -inf and -1 if V = 1."""

    x: Tensor
    ids: Tensor


@dataclass(frozen=True)
class Peak:
    """The top-1 of all slices: ``x`` (R,) before the soft-cap, ``ids`` (R,), its ``row`` (R, d)."""

    x: Tensor
    ids: Tensor
    row: Tensor


@dataclass(frozen=True)
class Sums:
    """What a slice adds for R rows; formulas at the head of this file.

    Attributes:
        ref: (R,) logit of the best runner-up whose row is not w_k; -inf where there is none.
        e, s, b, lag: (R,) sums relative to ``ref``.
        m, q: (R, d) sums relative to ``ref``.
        same: (R, 3) Σ r, Σ r² and -Σ r log r, r = exp(z_i - z_k), over other tokens with the row of
            the top-1 (a bias sets them apart).
        flip: (R,) min (x_k - x_j) / ‖w_k - w_j‖, inf where every row is the top-1's.
        flip_ids: (R,) the j of that, -1 where there is none.
    """

    ref: Tensor
    e: Tensor
    s: Tensor
    b: Tensor
    lag: Tensor
    m: Tensor
    q: Tensor
    same: Tensor
    flip: Tensor
    flip_ids: Tensor


def distance_ratio(margin: Tensor, distance: Tensor) -> Tensor:
    """``margin / distance``, and inf where the two rows are one and the same point (0/0)."""
    return torch.where(distance > 0, margin / distance, torch.inf)


def combine_top(parts: Sequence[Top]) -> Top:
    """The two best tokens over all slices."""
    x, order = torch.cat([p.x for p in parts], 1).topk(2)
    return Top(x, torch.cat([p.ids for p in parts], 1).gather(1, order))


def combine_sums(parts: Sequence[Sums]) -> Sums:
    """The sums over all slices, relative to the best ``ref`` among them."""
    refs = torch.stack([p.ref for p in parts])
    ref = refs.amax(0)
    f = torch.exp(refs - _finite(ref))
    flip, best = torch.stack([p.flip for p in parts]).min(0)

    def total(name: str, weight: Tensor) -> Tensor:
        values = torch.stack([getattr(p, name) for p in parts])
        return (values * weight.view(weight.shape + (1,) * (values.dim() - weight.dim()))).sum(0)

    return Sums(
        ref=ref,
        e=total("e", f),
        s=total("s", f.square()),
        b=total("b", f.square()),
        lag=total("lag", f) + total("e", torch.special.entr(f)),
        m=total("m", f),
        q=total("q", f.square()),
        same=total("same", torch.ones_like(f)),
        flip=flip,
        flip_ids=torch.stack([p.flip_ids for p in parts]).gather(0, best[None])[0],
    )


class Shard:
    """A block of hidden states against one head or slice of a head.

    Holds x (R, V) of ``Head``. ``sums`` strikes out entries of x, so it is called last, and once.

    Args:
        hidden: (R, d) in the compute dtype of ``head``.
        head: the head, or this rank's slice of it.
        workspace: bytes for temporaries beside x (one step takes at least one vocabulary row).
    """

    def __init__(self, hidden: Tensor, head: Head, workspace: int = 2**24) -> None:
        n, d = hidden.shape
        size = hidden.element_size()
        self.head, self.hidden = head, hidden
        self.spread = head.spread  # its own temporaries are gone before x comes
        row_bytes = size * d if head.weight.dtype != head.compute_dtype else 0  # a converted row
        self.columns = max(1, min(CELLS // n, workspace // (size * 8 * n + row_bytes)))
        self.pairs = max(1, workspace // (size * 8 * d))
        self.x = hidden.new_empty(n, head.size)
        for a, b in spans(head.size, self.columns if row_bytes else head.size):
            torch.mm(hidden, head.rows(a, b).T, out=self.x[:, a:b])
            if head.bias is not None:
                self.x[:, a:b] += head.bias[a:b].to(hidden.dtype)
        if head.scale != 1.0:
            self.x *= head.scale
        self.best = self.x.topk(min(NEAR + 1, head.size))

    def top(self) -> Top:
        """The slice's two best tokens."""
        x, index = (best[:, :2] for best in self.best)
        pad = (0, 2 - x.shape[1])
        ids = torch.nn.functional.pad(index + self.head.first_id, pad, value=-1)
        return Top(torch.nn.functional.pad(x, pad, value=-torch.inf), ids)

    def rows(self, ids: Tensor) -> Tensor:
        """(..., d) weight rows of the token ids (...), zero where another slice owns the token."""
        local, absent = self._local(ids)
        return self.head.gather(local).masked_fill_(absent[..., None], 0)

    def pre_cap(self, ids: Tensor) -> Tensor:
        """(R, C) x of the token ids (R, C), -inf where another slice owns the token."""
        local, absent = self._local(ids)
        return self.x.gather(1, local).masked_fill_(absent, -torch.inf)

    def _local(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        local = ids - self.head.first_id
        absent = (local < 0) | (local >= self.head.size)
        return local.masked_fill(absent, 0), absent

    def sums(self, peak: Peak) -> Sums:
        """What this slice adds, given the top-1 over all slices."""
        x, index = self.best
        x = x.masked_fill(index + self.head.first_id == peak.ids[:, None], -torch.inf)
        sums, crowded = self._near(peak, x, index)
        if crowded.any():
            self.x.scatter_(1, index, x)
            struck = self._strike_copies(crowded, peak)
            x, index = self.x.topk(x.shape[1])
            sums, _ = self._near(peak, x, index)
            sums.same.add_(struck)
        self.x.scatter_(1, index, -torch.inf)
        self._add_rest(sums, peak)
        return sums

    def _near(self, peak: Peak, x: Tensor, index: Tensor) -> tuple[Sums, Tensor]:
        """Sums over the tokens ``index`` (R, M) by row differences, exact for nearly equal rows.

        Also (R,) where all of them are copies of w_k, so that ref is not known.
        """
        rows = self.head.gather(index)
        if self.head.softcap is None:
            gap = rows.sub_(peak.row[:, None])
            length = distance = torch.linalg.vector_norm(gap, dim=-1)
        else:
            distance = torch.linalg.vector_norm(rows - peak.row[:, None], dim=-1)
            y_k = self.head.slope(peak.x)[:, None] * peak.row
            gap = rows.mul_(self.head.slope(x)[..., None]).sub_(y_k[:, None])
            length = torch.linalg.vector_norm(gap, dim=-1)
        flip, best = distance_ratio(peak.x[:, None] - x, distance).min(1)
        flip_ids = index.gather(1, best[:, None])[:, 0] + self.head.first_id
        fresh, copy = (x > -torch.inf) & (length > 0), (x > -torch.inf) & (length == 0)
        z = self.head.logit(x)
        ref = z.masked_fill(~fresh, -torch.inf).amax(1)
        t = torch.exp(z - _finite(ref)[:, None]).masked_fill_(~fresh, 0)
        r = torch.exp(z - self.head.logit(peak.x)[:, None]).masked_fill_(~copy, 0)
        m, q = torch.bmm(torch.stack([t, t.square()], 1), gap).unbind(1)
        sums = Sums(
            ref=ref,
            e=t.sum(1),
            s=t.square().sum(1),
            b=(t * length).square().sum(1),
            lag=torch.special.entr(t).sum(1),
            m=m,
            q=q,
            same=_moments(r),
            flip=flip,
            flip_ids=flip_ids.where(flip < torch.inf, -1),
        )
        return sums, copy.any(1) & ~fresh.any(1)

    def _strike_copies(self, crowded: Tensor, peak: Peak) -> Tensor:
        """Strike every copy of w_k out of x in the rows ``crowded``; their ``Sums.same`` (R, 3)."""
        same = peak.row.new_zeros(len(peak.row), 3)
        for i in crowded.nonzero().flatten().tolist():
            x, y_k = self.x[i], self.head.slope(peak.x[i]) * peak.row[i]
            twin = x > -torch.inf
            for a, b in spans(self.head.size, self.pairs):
                y = self.head.slope(x[a:b, None]) * self.head.rows(a, b)
                twin[a:b] &= (y == y_k).all(1)
            r = torch.exp(self.head.logit(x[twin]) - self.head.logit(peak.x[i]))
            same[i] = _moments(r)
            x[twin] = -torch.inf
        return same

    def _add_rest(self, sums: Sums, peak: Peak) -> None:
        """Add to ``sums``, in place, every token that is not struck out of x."""
        head, (n, d) = self.head, peak.row.shape
        buffer = peak.row.new_empty(2 * n, self.columns)  # t above t²: one product for both
        products, b_rest = peak.row.new_zeros(2 * n, d), torch.zeros_like(sums.b)
        weight_sums = peak.row.new_zeros(2 * n)
        for start, stop in spans(head.size, self.columns):
            x, rows = self.x[:, start:stop], head.rows(start, stop)
            weights = buffer[:, : stop - start]
            t, t2 = weights[:n], weights[n:]
            # beyond -LOWEST t is 0 in any dtype, and 0 times -inf would be NaN
            torch.sub(head.logit(x), _finite(sums.ref)[:, None], out=t2).clamp_(min=-LOWEST)
            torch.exp(t2, out=t)
            if head.softcap is not None:
                t.masked_fill_(x == -torch.inf, 0)
            sums.lag.sub_(torch.linalg.vecdot(t, t2))
            torch.mul(t, t, out=t2)
            weight_sums += weights.sum(1)
            if head.softcap is None:
                b_rest += t2 @ self.spread[start:stop]
            else:
                slope = head.slope(x)
                t *= slope
                t2 *= slope
                b_rest += slope.mul_(t2) @ self.spread[start:stop]
            products.addmm_(weights, rows)
            self._tighten(sums, peak, x, rows, start)
        e, s = weight_sums[:n], weight_sums[n:]
        y_k = head.slope(peak.x)[:, None] * peak.row - head.center
        q = products[n:] - s[:, None] * head.center
        b_rest += s * y_k.square().sum(1) - 2 * (y_k * q).sum(1)
        sums.b.add_(b_rest.clamp_(min=0))
        sums.q.add_(q - s[:, None] * y_k)
        sums.m.add_(products[:n] - e[:, None] * (y_k + head.center))
        sums.e.add_(e)
        sums.s.add_(s)

    def _tighten(self, sums: Sums, peak: Peak, x: Tensor, rows: Tensor, start: int) -> None:
        """Lower ``sums.flip``, in place, by the tokens of one step.

        As ‖w_k - w_j‖ <= ‖w_k - c‖ + ‖w_j - c‖, only tokens that beat it at that distance can.
        """
        # inf times a zero radius would be NaN
        bound = sums.flip.clamp(max=torch.finfo(x.dtype).max)[:, None]
        radius = self.spread[start : start + x.shape[1]].sqrt()
        radius_k = torch.linalg.vector_norm(peak.row - self.head.center, dim=1)[:, None]
        hits = torch.addcmul(x, bound, radius) > peak.x[:, None] - bound * radius_k
        for pairs in hits.nonzero().split(self.pairs):
            i, j = pairs.unbind(1)
            distance = torch.linalg.vector_norm(rows[j] - peak.row[i], dim=1)
            ratio = distance_ratio(peak.x[i] - x[i, j], distance)
            before = sums.flip[i]
            sums.flip.scatter_reduce_(0, i, ratio, "amin")
            better = (ratio < before) & (ratio == sums.flip[i])
            sums.flip_ids[i[better]] = j[better] + (start + self.head.first_id)


def _moments(r: Tensor) -> Tensor:
    """(..., 3) Σ r, Σ r² and -Σ r log r over the last axis, 0 log 0 = 0."""
    return torch.stack([r.sum(-1), r.square().sum(-1), torch.special.entr(r).sum(-1)], -1)


def _finite(ref: Tensor) -> Tensor:
    """``ref`` without -inf, so that -inf - ref stays -inf instead of NaN."""
    return ref.clamp(min=torch.finfo(ref.dtype).min)
