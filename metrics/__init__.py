"""Metrics: pure functions of tensors, arrays and strings; nothing of the engine is imported."""

from __future__ import annotations

from typing import NamedTuple


class Metric(NamedTuple):
    """What a number means: its unit, which way is better (None: neither), and a sentence."""

    unit: str
    higher_is_better: bool | None
    meaning: str


_LENGTH = "length in h-space"

METRICS: dict[str, Metric] = {
    "acc": Metric("share", True, "answers that are right"),
    "acc_macro": Metric("share", True, "mean of the subjects' acc, each subject weighed alike"),
    "delta_tcb": Metric(_LENGTH, True, "eps / ||J||_F: first-order reach of the distribution"),
    "log10_delta_tcb": Metric("log10 of a length", True, "finite where delta_tcb overflows"),
    "flip_radius": Metric(_LENGTH, True, "exact distance to the nearest h with another top token"),
    "relative_delta": Metric("1", True, "delta_tcb / ||h||, comparable between models"),
    "relative_flip_radius": Metric("1", True, "flip_radius / ||h||, comparable between models"),
    "choice_margin": Metric("logits", True, "logit lead of the best given answer over the next"),
    "choice_flip_radius": Metric(_LENGTH, True, "exact distance to another of the given answers"),
    "answer_mass": Metric("probability", True, "probability on the given answers together"),
    "greedy_is_choice": Metric("share", True, "predictions whose top token is a given answer"),
    "v_eff": Metric("tokens", None, "effective vocabulary 1 / sum o_i^2, from 1 to V"),
    "v_eff_low": Metric("tokens", None, "v_eff at least, by the likeliest tokens an API shows"),
    "v_eff_high": Metric("tokens", None, "v_eff at most, by the likeliest tokens an API shows"),
    "top_mass": Metric("probability", None, "probability of the likeliest tokens an API shows"),
    "logit_margin": Metric("logits", True, "z of the top token minus z of the second"),
    "p_top1": Metric("probability", None, "probability of the top token"),
    "p_top2": Metric("probability", None, "probability of the second token"),
    "nll": Metric("nats", None, "-log probability of the token predicted or generated"),
    "entropy": Metric("nats", None, "-sum o_i log o_i of the next-token distribution, to log V"),
    "bertscore_f1": Metric("1", True, "BERTScore F1 of the answer against its reference"),
    "bertscore_precision": Metric("1", True, "BERTScore of the answer's tokens in the reference"),
    "bertscore_recall": Metric("1", True, "BERTScore of the reference's tokens in the answer"),
    "rouge1": Metric("1", True, "ROUGE-1 F1 against the reference, stemmed"),
    "rouge2": Metric("1", True, "ROUGE-2 F1 against the reference, stemmed"),
    "rougeL": Metric("1", True, "ROUGE-L F1 against the reference, stemmed, one sequence"),
    "em": Metric("share", True, "answers equal to the short answer, by HotpotQA's normalisation"),
    "f1": Metric("1", True, "token F1 against the short answer, by HotpotQA's normalisation"),
    "yes_no": Metric("share", True, "yes/no questions answered rightly by the first word"),
    "refusal": Metric("share", None, "answers that say the documents do not tell"),
    "garbled": Metric("share", False, "answers that are no language (high temperature)"),
    "h_norm": Metric(_LENGTH, None, "norm of the hidden state"),
}
"""Every quantity of a result by its stem; aggregates add _median, _mean or log10_..._mean."""

METRIC_VERSION = 1
"""Raised whenever a stability quantity of the same hidden state would come out differently."""
