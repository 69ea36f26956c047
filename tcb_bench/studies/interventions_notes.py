"""What the interventions say about the paper's claims, in sentences."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from tcb_bench.metrics.robustness import CASES
from tcb_bench.metrics.statistics import Interval
from tcb_bench.studies.interventions_tables import Facts

YES, NO, OPEN = "yes", "no", "open"


def notes(facts: Facts) -> list[str]:
    """Headline first, then what else a reader must know."""
    return [*_headline(facts), *_largest(facts), _conflicts(facts), *_single(facts), *_about(facts)]


def _headline(facts: Facts) -> Iterator[str]:
    number = facts.interventions.headline
    if number is None:
        return
    before, after = facts.rows[0], facts.rows[number - 1]
    change = next(c for c in facts.changes if c["row"] == number)
    alpha = 1 - facts.settings["level"]
    acc, acc_said = _falls(before["acc"], change["acc"], change["acc_p"], alpha)
    delta, delta_said = _rises(change["log10_delta_tcb"], change["log10_delta_tcb_p"], alpha)
    if NO in (acc, delta):
        verdict = "does not hold for this model"
    elif (acc, delta) == (YES, YES):
        verdict = "holds for this model"
    else:
        verdict = "is neither shown nor refuted for this model"
    yield (
        "The paper's headline (the clarification lowers accuracy and raises delta_tcb; 100 % to "
        f"0 %, 8.20 to 46.97 there) {verdict}. Row {number} against row 1: accuracy "
        f"{_number(before['acc'].value)} to {_number(after['acc'].value)} "
        f"(change {_interval(change['acc'])}): {acc_said}. Median delta_tcb "
        f"{_number(before['delta_tcb_median'].value)} to "
        f"{_number(after['delta_tcb_median'].value)}, log10 delta_tcb changes by "
        f"{_interval(change['log10_delta_tcb'])}: {delta_said}; by pairs it rises in "
        f"{change['n_delta_rises']} of {change['n_delta']} pairs."
    )


def _falls(before: Interval, change: Interval, p: float | None, alpha: float) -> tuple[str, str]:
    if change.value is None or before.value is None or p is None:
        return OPEN, "unknown"
    if before.value == 0:
        return OPEN, "row 1 is never right, so nothing can fall"
    if change.value >= 0:
        return NO, "it does not fall"
    return _sure("falls" if p <= alpha else "is lower, not for certain", p, alpha)


def _rises(change: Interval, p: float | None, alpha: float) -> tuple[str, str]:
    if change.value is None or p is None:
        return OPEN, "unknown, too few answers have a number"
    if change.value <= 0:
        return NO, "it does not rise"
    return _sure("rises" if p <= alpha else "is higher, not for certain", p, alpha)


def _sure(said: str, p: float, alpha: float) -> tuple[str, str]:
    return (YES if p <= alpha else OPEN), f"it {said} (one-sided sign-flip p = {p:.3f})"


def _number(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.3g}"


def _interval(found: Interval) -> str:
    if found.value is None:
        return "unknown, n = 0"
    if found.ci_low is None:
        return f"{found.value:+.3f}, n = {found.n}, no interval"
    return f"{found.value:+.3f} [{found.ci_low:+.3f}, {found.ci_high:+.3f}], n = {found.n}"


def _largest(facts: Facts) -> Iterator[str]:
    theirs = {i: row.paper.get("delta_tcb") for i, row in enumerate(facts.interventions.rows, 1)}
    paper = {i: value for i, value in theirs.items() if value is not None}
    ours = {r["row"]: r["delta_tcb_median"].value for r in facts.rows}
    known = {row: value for row, value in ours.items() if value is not None}
    if not paper or not known:
        return
    most, their_most = max(known, key=known.__getitem__), max(paper, key=paper.__getitem__)
    row = facts.rows[most - 1]
    yield (
        f"The paper's largest delta_tcb is row {their_most}'s ({paper[their_most]:g}); here it is "
        f"row {most}'s (median {known[most]:.4g}, v_eff {_number(row['v_eff_median'].value)}, "
        f"accuracy {_number(row['acc'].value)}; row {their_most}: median "
        f"{_number(ours.get(their_most))})."
    )


def _conflicts(facts: Facts) -> str:
    found = sorted(
        (CASES.index(label), record["row"])
        for record in facts.rows
        for label in (record["case_accuracy"], record["case_confidence"])
        if label in CASES
    )
    parts = [
        f"{CASES[case].replace('_', ' ')}: rows {', '.join(str(row) for _, row in members)}"
        for case, members in groupby(found, key=lambda pair: pair[0])
    ]
    at = facts.threshold
    value = "unknown" if at.value is None else f"{at.value:.4g}"
    said = "; ".join(parts) or "none"
    return f"Conflict cases (stable from {at.quantity} {value} on, {at.origin}): {said}."


def _single(facts: Facts) -> Iterator[str]:
    alike = [str(r["row"]) for r in facts.rows if r["n_prompts"] == len(facts.items)]
    if alike and facts.settings["seeds"] > 1 and not facts.settings["temperature"]:
        yield (
            f"Row {', '.join(alike)}: nothing varies with the seed at T = 0, so each item has one "
            "prompt and one answer."
        )


def _about(facts: Facts) -> Iterator[str]:
    file = facts.interventions
    if file.written_for in facts.items and file.note:
        yield file.note
    others = [item for item in facts.items if item != file.written_for]
    if file.written_for and others:
        yield (
            f"{file.name} is written for {file.written_for}: in {', '.join(others[:5])}"
            f"{' and others' if len(others) > 5 else ''} its added sentences and hyper-specific "
            "examples are about something else."
        )
    if len(facts.items) == 1:
        yield (
            "One item says nothing about others: its intervals are over orders of the examples. "
            "For intervals over items give several, --item test/811,test/5,..."
        )
