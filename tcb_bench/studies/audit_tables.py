"""The audit's tables and what they say in words."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tcb_bench.metrics.association import spearman
from tcb_bench.metrics.statistics import Interval, mean_intervals, median_intervals
from tcb_bench.report.table import Column, Table
from tcb_bench.studies.shown import interval_cells

Rows = Sequence[Mapping[str, Any]]
KINDS = {
    "random": "random",
    "worst": "steepest",
    "nearest": "nearest token",
}
EMPTY = Interval(None, None, None, None, 0)


def moves_table(states: Rows, settings: Mapping[str, Any]) -> Table:
    """True change against the first-order one, and flips, by direction and multiple of delta."""
    rows = []
    for kind, label in KINDS.items():
        for c, multiple in enumerate(settings["multiples"]):
            rows.append(_moves(states, kind, c, settings) | {"direction": label, "c": multiple})
    return Table(
        "moves",
        "Hidden states moved by c x delta_tcb: what is foretold, and what happens",
        "delta_tcb = 1 / ‖J‖_F promises, to first order, a change of o of c in L2 when h moves by "
        "c x delta_tcb. Directions: random ones; the steepest (top singular vector of J, the sign "
        "with the larger change); straight to the nearest other token. foretold: the first-order "
        "change of these very directions, median over states (root mean square over random ones). "
        "ratio: true / foretold, median. to c / sqrt d: true change against the foretold mean over "
        "all directions. No change can exceed sqrt 2 = 1.41. flipped: share of moves after which "
        "another token is the top-1. Intervals: bootstrap over states, exact binomial limits where "
        "a share is 0 or 1.",
        [
            Column("direction", "direction"),
            Column("c", "c"),
            Column("n", "states"),
            Column("change", "true change", 4),
            Column("foretold", "foretold", 4),
            Column("ratio_shown", "ratio"),
            Column("ratio_mean", "to c / sqrt d", 2),
            Column("flipped_shown", "flipped"),
        ],
        rows,
    )


def _moves(states: Rows, kind: str, c: int, settings: Mapping[str, Any]) -> dict[str, Any]:
    known = [s for s in states if not s.get("reason")]
    if not known:
        return {"n": 0, "reason": "no state was measured"}
    multiple = settings["multiples"][c]
    change = np.array([s[kind]["change"][c] for s in known])
    foretold = np.array([_length(s, multiple) * s[kind]["slope"] for s in known])
    flipped = [s[kind]["flipped"][c] for s in known]
    ratio = median(_over(change, foretold), settings)
    row: dict[str, Any] = {"n": len(known), "change": float(np.median(change)), "reason": None}
    row |= {"foretold": float(np.median(foretold))}
    row |= interval_cells("ratio", ratio) | interval_cells(
        "flipped", share(flipped, settings), 0, is_percent=True
    )
    if kind == "random":
        on_average = np.array([multiple / math.sqrt(s["width"]) for s in known])
        row["ratio_mean"] = float(np.median(_over(change, on_average)))
    return row


def radii_table(states: Rows, settings: Mapping[str, Any]) -> Table:
    """The three lengths beside each other, and how often delta_tcb is beyond the flip radius."""
    parts = {
        "all": states,
        "p_top1 >= 0.9": [s for s in states if s.get("p_top1", -1) >= 0.9],
        "p_top1 < 0.9": [s for s in states if 0 <= s.get("p_top1", -1) < 0.9],
    }
    return Table(
        "radii",
        "delta_tcb, its worst-case version, and the exact flip radius",
        "delta: 1 / ‖J‖_F; spectral: 1 / ‖J‖_2 (power iteration; states where it did not converge "
        "are left out of its columns). delta / flip: median of the ratio; above 1, the top-1 can "
        "change inside the delta_tcb ball. order kept: Spearman's rank correlation of delta and "
        "flip radius over states: whether delta at least ranks predictions as the exact distance "
        "does. Lengths of one model; not comparable between models.",
        [
            Column("states", "states of"),
            Column("n", "n"),
            Column("delta", "delta", 2),
            Column("spectral", "spectral", 2),
            Column("flip", "flip radius", 3),
            Column("ratio_shown", "delta / flip"),
            Column("beyond_shown", "delta > flip"),
            Column("spectral_beyond", "spectral > flip", is_percent=True),
            Column("order_shown", "order kept"),
            Column("n_spectral", "n spectral"),
        ],
        [{"states": name} | _radii(part, settings) for name, part in parts.items()],
    )


def _radii(states: Rows, settings: Mapping[str, Any]) -> dict[str, Any]:
    known = [s for s in states if not s.get("reason")]
    if not known:
        return {"n": 0, "reason": "no state of this kind was measured"}
    delta = np.array([10 ** s["log10_delta_tcb"] for s in known])
    flip = np.array([s["flip_radius"] for s in known])
    spectral = np.array([_or_nan(s["spectral"]["log10_delta"]) for s in known])
    is_there = ~np.isnan(spectral)
    worst = 10 ** spectral[is_there]
    row: dict[str, Any] = {"n": len(known), "n_spectral": int(is_there.sum()), "reason": None}
    row |= {"delta": float(np.median(delta)), "flip": float(np.median(flip))}
    row["spectral"] = float(np.median(worst)) if len(worst) else None
    row["spectral_beyond"] = float((worst > flip[is_there]).mean()) if len(worst) else None
    row |= interval_cells("ratio", median(_over(delta, flip), settings))
    row |= interval_cells("beyond", share(delta > flip, settings), 0, is_percent=True)
    return row | interval_cells("order", spearman(delta, flip, **_bootstrap(settings)))


def foretold_table(rows: Rows, settings: Mapping[str, Any]) -> Table:
    """Which quantity of the unchanged prompt foretells that the answer will change."""
    return Table(
        "foretold",
        "Does a low value foretell that the answer changes when the prompt is changed?",
        "AUROC of each quantity (small lengths, margins and probabilities, large entropies and "
        "v_eff) for the event that at least one changed prompt of the group gives another answer: "
        "0.5 says nothing, below 0.5 the order is wrong. less delta: the difference to delta_tcb "
        "on the same questions and resamples; its interval holds for this one comparison, not for "
        "all together. rate: Spearman's correlation of the quantity, signed alike, with the share "
        "of changed prompts that changed the answer. choice quantities and choice_entropy: of the "
        "choices alone, made to sum to 1; entropy and v_eff: of the whole vocabulary. No AUROC "
        f"below {settings['min_changed']} changed or unchanged answers.",
        [
            Column("event", "event"),
            Column("predictor", "quantity"),
            Column("n", "questions"),
            Column("n_changed", "changed"),
            Column("auroc_shown", "AUROC"),
            Column("less_delta_shown", "less delta"),
            Column("rate_shown", "rate"),
        ],
        rows,
    )


def changes_table(questions: Rows, settings: Mapping[str, Any]) -> Table:
    """Per kind of change: prompts that it changed, and answers."""
    edits = dict.fromkeys(v["edit"] for q in questions for v in q["variants"])
    return Table(
        "changes",
        "Answers changed by each change of the prompt",
        "prompts: asked and comparable. no change: the rule found nothing to change, or made a "
        "prompt that this question had already. lost: no answer, cut off, or nothing to compare "
        "with. acc before and after: on the comparable prompts; reordered options are compared by "
        "their text. Intervals: bootstrap over questions.",
        [
            Column("edit", "change"),
            Column("group", "group"),
            Column("n", "prompts"),
            Column("same", "no change"),
            Column("lost", "lost"),
            Column("cut", "cut off"),
            Column("n_changed", "answers changed"),
            Column("changed_shown", "share"),
            Column("acc_before", "acc before"),
            Column("acc_after", "acc after"),
        ],
        [_changes(questions, edit, settings) for edit in edits],
    )


def _changes(questions: Rows, edit: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    pairs = [(q, v) for q in questions for v in q["variants"] if v["edit"] == edit]
    known = [(q, v) for q, v in pairs if v["changed"] is not None]
    same = sum(v["state"] == "same prompt" for _, v in pairs)
    row: dict[str, Any] = {
        "edit": edit,
        "group": pairs[0][1]["group"],
        "n": len(known),
        "same": same,
    }
    row |= {
        "lost": len(pairs) - len(known) - same,
        "cut": sum(v["state"] == "truncated" for _, v in known),
        "n_changed": sum(v["changed"] for _, v in known),
    }
    if not known:
        return row | {"reason": "no prompt of this kind can be compared"}
    shares: dict[str, list[float]] = {}
    for q, v in known:
        shares.setdefault(q["id"], []).append(v["changed"])
    both = [(q["acc"], v["acc"]) for q, v in known if None not in (q["acc"], v["acc"])]
    row |= {"acc_before": _mean(a for a, _ in both), "acc_after": _mean(b for _, b in both)}
    found = share([np.mean(s) for s in shares.values()], settings)
    return row | interval_cells("changed", found, 0, is_percent=True)


def baseline_table(questions: Rows, settings: Mapping[str, Any]) -> Table:
    """Accuracy on the unchanged prompts, and how evenly the answers are spread."""
    known = [q for q in questions if q["reason"] is None]
    lost = Counter(q["reason"] for q in questions if q["reason"] is not None)
    letters = Counter(q["choice"] for q in known if any("choice" in k for k in q["predictors"]))
    row: dict[str, Any] = {
        "prompts": "unchanged",
        "n": len(known),
        "lost": len(questions) - len(known),
        "cut": sum(q["state"] == "truncated" for q in known),
        "answers": ", ".join(f"{k} {n}" for k, n in sorted(letters.items())) or None,
        "largest": max(letters.values()) / len(known) if letters else None,
        "reason": "; ".join(f"{n}: {why}" for why, n in sorted(lost.items())) or None,
    }
    right = [math.nan if q["acc"] is None else q["acc"] for q in known]
    return Table(
        "baseline",
        "The unchanged prompts",
        "cut off: texts that reached their limit of tokens; where they are kept, the number in "
        "them counts as their answer. answers: how often each letter was chosen; largest: share "
        "of the most frequent one. A model that always says one letter cannot be foretold by "
        "anything.",
        [
            Column("prompts", "prompts"),
            Column("n", "questions"),
            Column("lost", "left out"),
            Column("cut", "cut off"),
            Column("acc_shown", "acc"),
            Column("answers", "answers"),
            Column("largest", "largest", is_percent=True),
        ],
        [row | interval_cells("acc", share(right, settings))],
    )


def median(values: Any, settings: Mapping[str, Any]) -> Interval:
    """The median with its interval by the study's settings."""
    column = np.asarray(values, dtype=np.float64)[:, None]
    return median_intervals(column, **_bootstrap(settings))[0]


def mean(values: Any, settings: Mapping[str, Any]) -> Interval:
    """The mean with its interval by the study's settings."""
    column = np.asarray(values, dtype=np.float64)[:, None]
    return mean_intervals(column, **_bootstrap(settings))[0] if len(column) else EMPTY


def share(values: Any, settings: Mapping[str, Any]) -> Interval:
    """The mean of shares in [0, 1]; where all are 0, or all 1, with the exact binomial limit.

    No resample of them varies, and an interval without width would claim too much.
    """
    found, n = mean(values, settings), len(values)
    limit = ((1 - settings["level"]) / 2) ** (1 / max(n, 1))
    if n < 2 or found.value not in (0.0, 1.0):
        return found
    ends = {"ci_high": 1 - limit} if found.value == 0 else {"ci_low": limit}
    return replace(found, **ends)


def _bootstrap(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {name: settings[name] for name in ("resamples", "level", "seed")}


def _over(a: Any, b: Any) -> Any:
    """The quotients, NaN where b is 0."""
    return np.divide(a, b, out=np.full(len(a), np.nan), where=np.asarray(b) > 0)


def _length(state: Mapping[str, Any], multiple: float) -> float:
    return float(multiple * 10 ** state["log10_delta_tcb"])


def _mean(values: Any) -> float | None:
    found = list(values)
    return float(np.mean(found)) if found else None


def _or_nan(value: float | None) -> float:
    return math.nan if value is None else value
