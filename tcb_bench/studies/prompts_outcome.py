"""A chosen prompt on the questions that are reported on, as numbers with intervals."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tcb_bench.metrics.paired import holm, sign_flip_p
from tcb_bench.metrics.robustness import (
    Robustness,
    accuracy_variance,
    robustness,
    robustness_differences,
    worst_accuracy,
)
from tcb_bench.metrics.statistics import Interval, mean_intervals, median_intervals
from tcb_bench.studies.prompts_ask import Measured, Measures, Question
from tcb_bench.studies.prompts_sets import AQ, VCQ, Sets
from tcb_bench.studies.prompts_space import Prompt, Space
from tcb_bench.studies.shown import LEVEL

Questions = Sequence[Question]


@dataclass(frozen=True, slots=True)
class Bootstrap:
    """Resamples of questions, and their seed."""

    resamples: int
    seed: int

    @property
    def options(self) -> dict[str, Any]:
        """As ``metrics`` takes them, with the level of every interval."""
        return {"resamples": self.resamples, "seed": self.seed, "level": LEVEL}


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """A strategy's prompt, clean and under each change; ``shots`` is empty without examples."""

    name: str
    prompt: Prompt
    clean: Measures
    varied: Mapping[str, Measures]
    shots: Mapping[str, Measures]

    def column(self, on: Questions, value: Callable[[Measured], float | None]) -> Any:
        """(n,) of the clean questions, NaN where there is no value."""
        return _floats([value(self.clean[question]) for question in on])

    def variants(self, on: Questions, *, is_shots: bool = False) -> Any:
        """(n, K) accuracy under each change, NaN where it left the prompt as it was."""
        table = self.shots if is_shots else self.varied
        cells = [[None if self._is_same(m[q], q) else m[q].acc for m in table.values()] for q in on]
        return _floats(cells).reshape(len(on), len(table))

    def _is_same(self, changed: Measured, question: Question) -> bool:
        return changed.prompt == self.clean[question].prompt


@dataclass(frozen=True, slots=True)
class Found:
    """What the loop has when it is through."""

    sets: Sets
    outcomes: Mapping[str, Outcome]
    trace: Sequence[Mapping[str, Any]]
    report: Sequence[Question]
    choose: Sequence[Question]
    perturbations: Sequence[str]

    def summary(self, space: Space, guided: Mapping[str, str]) -> dict[str, Any]:
        """Numbers and choices by name."""
        of = self.sets.of
        sizes = {
            name: {
                "all": sum(group == name for group in of.values()),
                "reported": sum(of[question] == name for question in self.report),
            }
            for name in (VCQ, AQ)
        }
        return {
            "thresholds": dict(self.sets.thresholds),
            "sets": sizes,
            "questions_choosing": ["/".join(q) for q in self.choose],
            "questions_reported": ["/".join(q) for q in self.report],
            "perturbations": list(self.perturbations),
            "variants": {
                name: {kind: _changed(outcome, m) for kind, m in outcome.varied.items()}
                for name, outcome in self.outcomes.items()
            },
            "objectives": dict(guided),
            "choices": {
                name: {**outcome.prompt.fields, "key": outcome.prompt.key}
                for name, outcome in self.outcomes.items()
            },
            "trace": [dict(step) for step in self.trace],
            "space": dict(space.content),
        }


def _changed(outcome: Outcome, measures: Measures) -> int:
    """How many questions this perturbation changed at all."""
    return sum(m.prompt != outcome.clean[question].prompt for question, m in measures.items())


def _floats(cells: Sequence[Any]) -> Any:
    return np.asarray(cells, dtype=np.float64)  # None becomes NaN


def acc(measured: Measured) -> float | None:
    """Whether it is right."""
    return measured.acc


def nll(measured: Measured) -> float | None:
    """-log P(target answer)."""
    return measured.nll


def quantity(name: str) -> Callable[[Measured], float | None]:
    """A stability quantity by name."""
    return lambda measured: measured.values.get(name)


def intervals(outcome: Outcome, on: Questions, how: Bootstrap) -> dict[str, Interval]:
    """Every number of tables 3 and 4 for one prompt on some questions."""
    means = {
        "delta": quantity("delta_tcb"),
        "log10_delta": quantity("log10_delta_tcb"),
        "v_eff": quantity("v_eff"),
        "margin": quantity("logit_margin"),
        "nll": nll,
    }
    table = np.column_stack([outcome.column(on, value) for value in means.values()])
    known = how.options
    found = dict(zip(means, mean_intervals(table, **known), strict=True))
    logs = outcome.column(on, quantity("log10_delta_tcb"))
    found["log10_delta"] = median_intervals(logs.reshape(-1, 1), **known)[0]
    found["ppl"] = _exp(found["nll"])
    return found | _named(robustness(outcome.column(on, acc), outcome.variants(on), **known))


def shot_intervals(outcome: Outcome, on: Questions, how: Bootstrap) -> dict[str, Interval]:
    """Accuracy under changes of the examples."""
    right, variants = outcome.column(on, acc), outcome.variants(on, is_shots=True)
    return _named(robustness(right, variants, **how.options))


def differences(
    first: Outcome, second: Outcome, on: Questions, how: Bootstrap
) -> dict[str, tuple[Interval, float | None]]:
    """Second minus first, paired by question: the interval, and p of a sign-flip test.

    p is None for PDR, which is no mean over questions, and where there is no pair.
    """
    known = how.options
    sides = [(one.column(on, acc), one.variants(on)) for one in (first, second)]
    robust = _named(robustness_differences(sides[0], sides[1], **known))
    values = {"log10_delta": quantity("log10_delta_tcb"), "nll": nll}
    gaps = {
        name: second.column(on, value) - first.column(on, value) for name, value in values.items()
    }
    means = {n: mean_intervals(gap.reshape(-1, 1), **known)[0] for n, gap in gaps.items()}
    gaps["acc"] = sides[1][0] - sides[0][0]
    gaps["acc_var"] = accuracy_variance(sides[1][1]) - accuracy_variance(sides[0][1])
    gaps["acc_worst"] = worst_accuracy(sides[1][1]) - worst_accuracy(sides[0][1])
    names = ("acc", "log10_delta", "nll", "acc_var", "pdr", "acc_worst")
    found = {**robust, **means}
    return {name: (found[name], _p(gaps.get(name), how)) for name in names}


def adjusted(p_values: Sequence[float | None]) -> list[float | None]:
    """Holm's correction over all tests; None stays None."""
    found = holm(_floats(p_values))
    return [None if np.isnan(p) else float(p) for p in found]


def _p(gap: Any, how: Bootstrap) -> float | None:
    if gap is None or np.isnan(gap).all():
        return None
    p = sign_flip_p(gap.reshape(-1, 1), resamples=how.resamples, seed=how.seed)[0]
    return float(p)


def _named(found: Robustness) -> dict[str, Interval]:
    names = {"acc": "accuracy", "acc_pert": "perturbed", "acc_var": "variance"}
    names |= {"pdr": "drop", "acc_worst": "worst"}
    return {name: getattr(found, field) for name, field in names.items()}


def _exp(interval: Interval) -> Interval:
    """PPL = exp(mean nll), its interval from the same resamples."""
    sides = (interval.value, interval.ci_low, interval.ci_high)
    value, low, high = (None if side is None else _power(side) for side in sides)
    return Interval(value, low, high, None, interval.n)


def _power(value: float) -> float:
    return math.exp(value) if value < 700 else math.inf
