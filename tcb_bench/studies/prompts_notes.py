"""What the study says in words: objectives, thresholds, and how the guides compare."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tcb_bench.report.table import Table
from tcb_bench.studies.prompts_ask import Asker
from tcb_bench.studies.prompts_outcome import Found
from tcb_bench.studies.prompts_tables import LABELS, NUMBERS
from tcb_bench.studies.prompts_task import takes_first

CLAIM = ("acc_worst", "pdr", "acc", "log10_delta", "nll")
"""What BC says a delta-guided prompt is better at, and what it pays."""
SIGNIFICANT = 0.05


def objectives(delta_weight: float) -> dict[str, str]:
    """Guide -> what it maximises."""
    return {
        "delta": f"acc + {delta_weight:g} * median log10 delta",
        "ppl": "- mean nll of the answer",
        "random": "acc",
    }


def set_text(settings: Mapping[str, Any], limits: Mapping[str, float | None]) -> str:
    """The thresholds that were used."""
    scale = "log10 delta_tcb" if settings["delta_scale"] == "log10" else "delta_tcb"
    used = {name: "none" if value is None else f"{value:.3g}" for name, value in limits.items()}
    quantiles = ", ".join(f"{n} = {used[n]} (quantile {settings[n]:g})" for n in used)
    return (
        f"Sets are by {settings['seeds']} variants of the baseline, the baseline itself not among "
        f"them. VCQ: mean acc >= {settings['vcq_acc']:g}, variance <= {settings['vcq_acc_var']:g}, "
        f"{scale} above T_H, its variance below V_L. AQ: mean acc < {settings['aq_acc']:g}, or "
        f"variance > {settings['aq_acc_var']:g}, or {scale} below T_L, or its variance above V_H. "
        f"{quantiles}."
    )


def notes(differences: Table, found: Found, asker: Asker) -> list[str]:
    """Sentences on what the numbers say."""
    winner = asker.session.settings["winner"]
    return [
        *_kept(found),
        *_claims(differences),
        _variants(found),
        "Sets chosen by a prompt's own answers would regress to the mean: any other prompt would "
        "look better on AQ and worse on VCQ. Baseline and enhanced prompts alike chose no set, and "
        "the random search shows what is left of it.",
        *_examples(asker),
        f"winner.yaml holds the prompt of the {winner} guide ({found.outcomes[winner].prompt}); it "
        "was loaded again and gives the very prompts that were scored.",
    ]


def _kept(found: Found) -> list[str]:
    """Guides that found nothing better than the baseline: a difference of 0 is no result then."""
    own = found.outcomes["baseline"].prompt
    names = [LABELS[name] for name, one in found.outcomes.items() if one.prompt == own]
    return [f"Kept the baseline, for want of a better candidate: {', '.join(names[1:])}."] * (
        len(names) > 1
    )


def _claims(differences: Table) -> list[str]:
    by = {(row["first"], row["second"], row["number"]): row for row in differences.rows}
    said = []
    for first in ("baseline", "ppl", "random"):
        parts = []
        for number in CLAIM:
            row = by[first, "delta", number]
            name = NUMBERS[number][0].replace("median", "mean")
            parts.append(f"{name} {row['shown'] or 'unknown'}{_verdict(row)}")
        said.append(f"delta-guided minus {LABELS[first]}: {'; '.join(parts)}.")
    return said


def _verdict(row: Mapping[str, Any]) -> str:
    """Whether a difference stands: by its interval, and by Holm's p where there is a test."""
    low, high, p = (row[key] for key in ("difference_ci_low", "difference_ci_high", "p_holm"))
    if row["difference"] is None or low is None:
        return ""
    if low == high == 0:
        return " (the same)"
    is_open = low <= 0 <= high or (p is not None and p >= SIGNIFICANT)
    return " (undecided)" if is_open else ""


def _variants(found: Found) -> str:
    baseline = found.outcomes["baseline"]
    counts = {
        kind: sum(m.prompt != baseline.clean[q].prompt for q, m in measures.items())
        for kind, measures in baseline.varied.items()
    }
    listed = ", ".join(f"{kind} {count}" for kind, count in counts.items()) or "none"
    return (
        f"Questions changed, of {len(found.report)}: {listed}; a change that leaves the question "
        "as it was is no variant. Each is the same under every prompt."
    )


def _examples(asker: Asker) -> Sequence[str]:
    """Where all prompts show fixed examples though the task draws some for each document."""
    drawn = [
        base.name
        for base in asker.bases
        if base.task.config.num_fewshot and not takes_first(base.config)
    ]
    if not drawn:
        return []
    return [
        f"{', '.join(drawn)}: the task draws examples for each document; here every prompt shows "
        "the same ones for all."
    ]
