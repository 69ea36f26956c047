"""Every Eval Ever's ``metric_config``: what a number is called there, its direction and range."""

from __future__ import annotations

import math
from typing import Any

from tcb_bench.errors import DataError
from tcb_bench.leaderboards.export_numbers import Number, without_spread
from tcb_bench.metrics import METRICS

SHARED_IDS = {
    "acc": "accuracy",
    "em": "exact-match",
    "f1": "f1",
    "rouge1": "rouge-1",
    "rouge2": "rouge-2",
    "rougeL": "rouge-l",
}
"""Metrics that the format's registry of names has; all others are ``tcb-bench.<name>``."""

KINDS = {
    **dict.fromkeys(("acc", "acc_macro", "em"), "accuracy"),
    "f1": "f1",
    **dict.fromkeys(("rouge1", "rouge2", "rougeL"), "text_overlap"),
}
UNITS = {"share": "proportion", "probability": "proportion"}
ROUNDING = 1e-6  # a float32 quantity may be that far outside its range
FORMED = {
    "_median": "median over questions of the median over runs",
    "_mean": "mean over questions of the mean over runs",
    "_run_std": "standard deviation (ddof 1) over the runs of a question, mean over questions",
    "_question_std": "standard deviation (ddof 1) over questions of their mean over runs",
    "_cv": "mean standard deviation over runs divided by the mean",
}


def metric_config(number: Number, *, epsilon: float, vocabulary: int | None) -> dict[str, Any]:
    """What ``number`` is, for one of our own tasks.

    Args:
        number: with a value.
        epsilon: of delta_tcb.
        vocabulary: tokens of the model, V; None where the run does not say.

    Raises:
        DataError: the value is outside what its definition allows.
    """
    name, stem = number.name, stem_of(number.name)
    low, high = _checked(number, *bounds(name, vocabulary))
    parameters: dict[str, Any] = {"responses": _responses(number.filter)}
    if "delta" in stem:
        parameters["epsilon"] = epsilon
    found: dict[str, Any] = {
        "evaluation_description": f"{METRICS[stem].meaning}; {_formed(name)}",
        "metric_id": SHARED_IDS.get(name, f"tcb-bench.{name}"),
        "metric_name": name,
        "metric_unit": UNITS.get(str(number.unit), str(number.unit)),
        "metric_parameters": parameters,
        "lower_is_better": number.higher_is_better is False,
        "score_type": "continuous",
        "min_score": _written(low),
        "max_score": _written(high),
    }
    if kind := KINDS.get(name) or ("dispersion" if name != without_spread(name) else None):
        found["metric_kind"] = kind
    if number.higher_is_better is None:  # the format has no third answer to lower_is_better
        found["additional_details"] = {"polarity": "not_applicable"}
    return found


def stock_metric_config(number: Number) -> dict[str, Any]:
    """What a number of one of lm-eval's own tasks is: as much as lm-eval says of it."""
    details = {"bounds_status": "unknown"}
    if number.higher_is_better is None:
        details["polarity"] = "unknown"
    return {
        "evaluation_description": f"{number.name} as lm-eval computes it",
        "metric_id": SHARED_IDS.get(number.name, f"lm-evaluation-harness.{number.name}"),
        "metric_name": number.name,
        "metric_parameters": {"filter": number.filter},
        "lower_is_better": number.higher_is_better is False,
        "additional_details": details,
    }


def stem_of(name: str) -> str:
    """The quantity that an aggregate is of: ``delta_tcb`` for ``log10_delta_tcb_mean``."""
    stem = without_spread(name).removesuffix("_median").removesuffix("_mean")
    return stem if stem in METRICS else stem.removeprefix("log10_")


def bounds(name: str, vocabulary: int | None) -> tuple[float, float]:
    """The range that an aggregate can have by its definition; infinite where it has no end.

    A standard deviation (ddof 1) of values within a width w is at most w / sqrt(2): two values at
    the ends. delta_tcb, flip_radius and what is made of them have no upper end.

    >>> bounds("acc", None), bounds("delta_tcb_median", 49152), bounds("v_eff_mean", 49152)
    ((0.0, 1.0), (0.0, inf), (1.0, 49152.0))
    """
    score = without_spread(name)
    if score != name:
        low, high = bounds(score, vocabulary)
        return 0.0, math.inf if name.endswith("_cv") else (high - low) / math.sqrt(2)
    if name.startswith("log10_"):
        return -math.inf, math.inf
    size = math.inf if vocabulary is None else float(vocabulary)
    stem = stem_of(name)
    if stem.startswith("bertscore_"):  # of cosines
        return -1.0, 1.0
    own = {"p_top2": (0.0, 0.5), "v_eff": (1.0, size), "entropy": (0.0, math.log(size))}
    if stem in own:
        return own[stem]
    is_share = METRICS[stem].unit in UNITS or stem in ("f1", "rouge1", "rouge2", "rougeL")
    return 0.0, 1.0 if is_share else math.inf


def _checked(number: Number, low: float, high: float) -> tuple[float, float]:
    """The range, widened to a value that rounding has put just outside."""
    value = number.value or 0.0
    room = ROUNDING * max(1.0, abs(value))
    if not low - room <= value <= high + room:
        raise DataError(
            f"{number.task}: {number.name} is {value}, outside its range from {low:g} to {high:g}; "
            "`tcb-bench score RUN` computes it again"
        )
    return min(low, value), max(high, value)


def _written(bound: float) -> float | str:
    """A bound as the format has it: infinities as text."""
    return bound if math.isfinite(bound) else "Infinity" if bound > 0 else "-Infinity"


def _responses(filter_name: str) -> str:
    return "all" if filter_name == "none" else filter_name


def _formed(name: str) -> str:
    end = next((text for end, text in FORMED.items() if name.endswith(end)), FORMED["_mean"])
    return f"log10 of it, {end}" if name.startswith("log10_") and name.endswith("_mean") else end
