"""Tables of the study ``layers``: sensitivity over depth, and the check at the normed state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tcb_bench.metrics.statistics import Interval, median_intervals
from tcb_bench.report.table import Column, Table
from tcb_bench.studies.shown import COVERAGE, LEVEL

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Series:
    """One kind of perturbation.

    Attributes:
        name, title: ``last`` or ``all``, and in words.
        norm: (n, L + 2) log10 ‖J_l‖_F per prompt; NaN where J is 0.
        relative: the same times the length of the state.
        error: standard error of ``norm`` from the probes.
        seed: of the bootstrap.
    """

    name: str
    title: str
    norm: Floats
    relative: Floats
    error: Floats
    seed: int

    @cached_property
    def norm_intervals(self) -> list[Interval]:
        """Median over prompts of every layer."""
        return median_intervals(self.norm, level=LEVEL, seed=self.seed)

    @cached_property
    def relative_intervals(self) -> list[Interval]:
        """Median over prompts of every layer."""
        return median_intervals(self.relative, level=LEVEL, seed=self.seed)


def names_of(n: int) -> list[str]:
    """What the ``n`` states are called, in order."""
    return ["embeddings", *(f"block {i}" for i in range(1, n - 1)), "normed state"]


def depth_table(one: Series, exact: Floats, settings: Mapping[str, Any]) -> Table:
    """One row per state, and the closed form below.

    Args:
        one: kind of perturbation.
        exact: (n,) log10 ‖J‖ at the normed state by the closed form.
        settings: of the study.
    """
    names = names_of(one.norm.shape[1])
    rows = [{"layer": name, **_cells(one, i)} for i, name in enumerate(names)]
    [closed] = median_intervals(exact[:, None], level=LEVEL, seed=one.seed)
    rows.append({"layer": "closed form", "n": closed.n, **_interval("norm", closed)})
    columns = [
        Column("layer", "state"),
        Column("norm", "log10 ‖J‖", 3),
        Column("norm_interval", COVERAGE),
        Column("probe_error_text", "error"),
        Column("relative", "log10 relative", 3),
        Column("relative_interval", COVERAGE),
    ]
    if any(row["n"] < len(one.norm) for row in rows):
        columns.insert(1, Column("n", "n"))
    note = (
        "‖J‖ is the Frobenius norm of the derivative of the next-token distribution by the "
        f"residual stream at {one.title}; relative: ‖J‖ times the length of the state, comparable "
        f"over depth. Medians of n = {len(one.norm)} prompts, {COVERAGE} intervals over prompts. "
        "Error: standard error of one prompt's log10 ‖J‖ from its probes, the median of them "
        f"({settings['probes']} random probes, {settings['directions']} exact directions). The "
        "last block's row includes the final norm's derivative; only at the normed state is "
        "there a closed form, 1 / delta_tcb."
    )
    title = f"Sensitivity of the prediction over depth, perturbed at {one.title}"
    return Table(f"layers_{one.name}", title, note, columns, rows)


def _cells(one: Series, i: int) -> dict[str, Any]:
    norm = one.norm_intervals[i]
    errors = one.error[:, i][~np.isnan(one.error[:, i])]
    lost = len(one.norm) - norm.n
    error = float(np.median(errors)) if len(errors) else None
    return {
        "n": norm.n,
        "probe_error": error,
        "probe_error_text": None if error is None else f"{error:.1e}",
        "reason": f"for {lost} prompts the derivative is 0, which has no log" if lost else None,
        **_interval("norm", norm),
        **_interval("relative", one.relative_intervals[i]),
    }


def _interval(name: str, interval: Interval) -> dict[str, Any]:
    low, high = interval.ci_low, interval.ci_high
    text = None if low is None or high is None else f"{low:.2f}..{high:.2f}"
    return {
        name: interval.value,
        f"{name}_ci_low": low,
        f"{name}_ci_high": high,
        f"{name}_interval": text,
    }


def agreement(probed: Floats, error: Floats, exact: Floats, rounding: float) -> dict[str, Any]:
    """Probes against the closed form at the normed state; None where no prompt has both.

    Args:
        probed: (n,) log10 ‖J‖ by the probes; NaN where it is 0.
        error: (n,) standard error of it.
        exact: (n,) log10 ‖J‖ by the closed form.
        rounding: difference in log10 that the arithmetic explains; part of the denominator of z.
    """
    has = np.isfinite(probed) & np.isfinite(exact)
    difference = (probed - exact)[has]
    if not len(difference):
        return {"n": 0}
    z = np.abs(difference) / np.hypot(np.nan_to_num(error[has]), rounding)
    [middle] = median_intervals(difference[:, None], level=LEVEL)
    return {
        "n": len(z),
        "difference": middle.value,
        "difference_ci_low": middle.ci_low,
        "difference_ci_high": middle.ci_high,
        "largest": float(np.abs(difference).max()),
        "probe_error": float(np.median(error[has])),
        "rounding": rounding,
        "within": int((z <= 2).sum()),
        "z_largest": float(z.max()),
    }


CHECKED = {
    "n": "prompts",
    "difference": "log10 probes - log10 closed form, median",
    "difference_ci_low": f"its {COVERAGE} interval, from",
    "difference_ci_high": "to",
    "largest": "largest difference",
    "probe_error": "probe error, median",
    "rounding": "rounding allowed",
    "within": "prompts with |z| <= 2",
    "z_largest": "largest |z|",
}


def check_table(found: Mapping[str, Any]) -> Table:
    """What ``agreement`` found."""
    rows: list[dict[str, Any]] = []
    for key, label in CHECKED.items():
        value = found.get(key)
        text = f"{value:.3g}" if isinstance(value, float) else value
        why = None if value is not None else "needs more prompts whose derivative is not 0"
        rows.append({"quantity": label, "shown": text, "value": value, "reason": why})
    note = (
        "At the normed state ‖J‖ is eps / delta_tcb, so the probes must find it. "
        "z = difference / (probe error² + rounding²)^(1/2); 95 % within 2 are expected, fewer with "
        "a handful of probes, more where rounding is the larger."
    )
    columns = [Column("quantity", "normed state"), Column("shown", "value")]
    return Table("layers_check", "Check: probes against the closed form", note, columns, rows)


def summarised(series: Sequence[Series]) -> dict[str, Any]:
    """Medians over depth as lists, for readers of ``study.json``."""
    return {
        one.name: {
            "layers": names_of(one.norm.shape[1]),
            "log10_norm": [interval.value for interval in one.norm_intervals],
            "log10_relative": [interval.value for interval in one.relative_intervals],
        }
        for one in series
    }
