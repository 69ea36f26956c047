"""Tables 3 and 4 as the paper prints them (arXiv:2602.10816); nothing is fitted to them."""

from __future__ import annotations

from tcb_bench.studies.prompts_sets import AQ, VCQ

BASELINE = "baseline"

Printed = tuple[float, ...]

PAPER_3: dict[str, tuple[tuple[str, str, Printed], ...]] = {
    "next_token": (
        (VCQ, BASELINE, (0.90, 771.5, 1.08, 4.5, 0.05, 0.10, 0.80)),
        (VCQ, "delta", (0.95, 1025.2, 1.03, 6.0, 0.02, 0.03, 0.90)),
        (AQ, BASELINE, (0.40, 1983.0, 1.01, 1.5, 0.15, 0.30, 0.15)),
        (AQ, "delta", (0.70, 2734.0, 1.00, 4.0, 0.07, 0.10, 0.30)),
    ),
    "generate_traced": (
        (VCQ, BASELINE, (0.85, 2407.0, 1.01, 4.2, 0.06, 0.12, 0.75)),
        (VCQ, "delta", (0.92, 4410.8, 1.05, 5.8, 0.03, 0.05, 0.85)),
        (AQ, BASELINE, (0.35, 3412.8, 1.04, 1.2, 0.18, 0.35, 0.10)),
        (AQ, "delta", (0.65, 6625.5, 1.02, 3.8, 0.08, 0.12, 0.45)),
    ),
}
"""Request kind (MMLU, GSM8K) -> set, prompt, and Acc, delta, v_eff, margin, AccVar_pert, PDR,
Acc_worst. PDR is a fraction here: the paper prints 0.10 for VCQ and 30 (percent) for AQ."""

PAPER_4: tuple[tuple[str, Printed], ...] = (
    (BASELINE, (0.55, 15.4, 3.2, 0.25)),
    ("ppl", (0.70, 18.2, 1.9, 0.40)),
    ("delta", (0.72, 35.8, 2.4, 0.65)),
)
"""Strategy, and Acc, delta, PPL, Acc_worst."""
