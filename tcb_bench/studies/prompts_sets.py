"""Very confident and ambiguous questions (VCQ, AQ), by the thresholds of BC C.4.2."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tcb_bench.errors import UsageError
from tcb_bench.studies.prompts_ask import Measures, Question

VCQ, AQ = "VCQ", "AQ"
NAMES = {VCQ: "very confident questions", AQ: "ambiguous questions"}


@dataclass(frozen=True, slots=True)
class Sets:
    """Question -> VCQ, AQ or neither (None), the thresholds used, and a record per question."""

    of: Mapping[Question, str | None]
    thresholds: Mapping[str, float | None]
    records: Mapping[Question, dict[str, Any]]


def find_sets(
    runs: Sequence[Measures], questions: Sequence[Question], settings: Mapping[str, Any]
) -> Sets:
    """Sorts the questions by mean and variance, over runs, of accuracy and stability.

    VCQ: mean acc >= vcq_acc, acc variance <= vcq_acc_var, mean delta > T_H, delta variance < V_L.
    AQ: mean acc < aq_acc, or acc variance > aq_acc_var, or mean delta < T_L, or variance > V_H.
    Variances have ddof 0. T and V are quantiles of the observed means and variances; a question
    without a delta is never VCQ, and AQ by its accuracy only.

    Raises:
        UsageError: quantiles out of range or order, or an unknown delta_scale.
    """
    check_sets(settings)
    scale = settings["delta_scale"]
    name = "log10_delta_tcb" if scale == "log10" else "delta_tcb"
    acc = _table([[run[q].acc for run in runs] for q in questions], len(runs))
    delta = _table([[run[q].values.get(name) for run in runs] for q in questions], len(runs))
    known = {
        "mean_acc": _over(np.nanmean, acc),
        "acc_var": _over(np.nanvar, acc),
        "mean_delta": _over(np.nanmean, delta),
        "delta_var": _over(np.nanvar, delta),
    }
    limits = {
        key: _quantile(known["mean_delta" if key[0] == "T" else "delta_var"], settings[key])
        for key in ("T_H", "T_L", "V_L", "V_H")
    }
    of: dict[Question, str | None] = {}
    records: dict[Question, dict[str, Any]] = {}
    for i, question in enumerate(questions):
        values = {key: float(column[i]) for key, column in known.items()}
        of[question] = _set_of(values, limits, settings)
        shown = {key: None if np.isnan(value) else value for key, value in values.items()}
        records[question] = {**shown, "set": of[question], "runs": int((~np.isnan(acc[i])).sum())}
    return Sets(of, {k: None if np.isnan(v) else v for k, v in limits.items()}, records)


def _set_of(
    values: Mapping[str, float], limits: Mapping[str, float], settings: Mapping[str, Any]
) -> str | None:
    """A comparison with NaN is false: what is unknown makes a question neither VCQ nor AQ."""
    if (
        values["mean_acc"] >= settings["vcq_acc"]
        and values["acc_var"] <= settings["vcq_acc_var"]
        and values["mean_delta"] > limits["T_H"]
        and values["delta_var"] < limits["V_L"]
    ):
        return VCQ
    is_ambiguous = (
        values["mean_acc"] < settings["aq_acc"]
        or values["acc_var"] > settings["aq_acc_var"]
        or values["mean_delta"] < limits["T_L"]
        or values["delta_var"] > limits["V_H"]
    )
    return AQ if is_ambiguous else None


def check_sets(settings: Mapping[str, Any]) -> None:
    """Refuses quantiles out of range or order, and an unknown delta_scale.

    Raises:
        UsageError: as said.
    """
    for low, high in (("T_L", "T_H"), ("V_L", "V_H")):
        if not 0 <= settings[low] <= settings[high] <= 1:
            raise UsageError(
                f"{low}={settings[low]}, {high}={settings[high]}: expected quantiles in [0, 1], "
                f"{low} at most {high}"
            )
    if settings["delta_scale"] not in ("log10", "raw"):
        raise UsageError(f"delta_scale={settings['delta_scale']!r}: expected log10 or raw")


def _table(rows: Sequence[Sequence[float | None]], n_runs: int) -> Any:
    cells = [[np.nan if cell is None else cell for cell in row] for row in rows]
    return np.asarray(cells, dtype=np.float64).reshape(len(rows), n_runs)


def _over(function: Any, table: Any) -> Any:
    """Over the runs that have a value; NaN for a question that has none."""
    found = np.full(len(table), np.nan)
    some = ~np.isnan(table).all(axis=1)
    found[some] = function(table[some], axis=1) if some.any() else np.nan
    return found


def _quantile(values: Any, share: float) -> float:
    known = values[~np.isnan(values)]
    return float(np.quantile(known, share)) if len(known) else float("nan")
