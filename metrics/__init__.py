"""Metrics as pure functions of tensors, arrays and strings; nothing of the engine is imported here."""

from __future__ import annotations

from typing import NamedTuple


class Metric(NamedTuple):
    """What a number means: its unit, which way is better (None: neither), and a sentence."""

    unit: str
    higher_is_better: bool | None
    meaning: str


METRICS: dict[str, Metric] = {
    "acc": Metric("share", True, "answers that are right"),
    "acc_macro": Metric("share", True, "mean of the subjects' acc, each subject weighed alike"),
    "delta_tcb": Metric("length in h-space", True, "eps / ||J||_F: first-order, average-direction reach of the next-token distribution"),
    "log10_delta_tcb": Metric("log10 of a length", True, "the same in log10, finite where delta overflows"),
    "flip_radius": Metric("length in h-space", True, "exact distance to the nearest hidden state with another top token"),
    "relative_delta": Metric("1", True, "delta_tcb / ||h||, comparable between models"),
    "relative_flip_radius": Metric("1", True, "flip_radius / ||h||, comparable between models"),
    "choice_margin": Metric("logits", True, "logit lead of the best of the given answers over the next"),
    "choice_flip_radius": Metric("length in h-space", True, "exact distance to another of the given answers"),
    "answer_mass": Metric("probability", True, "probability on the given answers together"),
    "greedy_is_choice": Metric("share", True, "predictions whose top token is one of the given answers"),
    "v_eff": Metric("tokens", False, "effective vocabulary 1 / sum o_i^2, 1 .. V"),
    "logit_margin": Metric("logits", True, "z of the top token minus z of the second"),
    "p_top1": Metric("probability", True, "probability of the top token"),
    "p_top2": Metric("probability", False, "probability of the second token"),
    "nll": Metric("nats", False, "-log probability of the token predicted or generated"),
    "h_norm": Metric("length in h-space", None, "norm of the hidden state"),
}  # fmt: skip
"""Every quantity of a result by its stem; aggregates add _median, _mean or log10_..._mean."""
