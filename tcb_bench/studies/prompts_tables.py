"""The tables of the study: BC's 3 and 4 in their layout, the differences, the search."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tcb_bench.metrics.statistics import Interval
from tcb_bench.report.table import Column, Row, Table
from tcb_bench.studies.prompts_ask import Question
from tcb_bench.studies.prompts_outcome import (
    Bootstrap,
    Outcome,
    adjusted,
    differences,
    intervals,
    shot_intervals,
)
from tcb_bench.studies.prompts_paper import BASELINE, PAPER_3, PAPER_4
from tcb_bench.studies.prompts_sets import AQ, NAMES, VCQ
from tcb_bench.studies.shown import COVERAGE, PAPER_MODEL, interval_text

LABELS = {
    BASELINE: "Baseline",
    "delta": "delta-guided",
    "ppl": "PPL-guided",
    "random": "random search (control)",
}
NUMBERS = {
    "acc": ("Acc", 2),
    "delta": ("avg delta", 1),
    "log10_delta": ("median log10 delta", 2),
    "v_eff": ("avg v_eff", 2),
    "margin": ("avg margin", 2),
    "nll": ("nll", 2),
    "ppl": ("PPL", 2),
    "acc_var": ("AccVar_pert", 3),
    "pdr": ("PDR", 2),
    "acc_worst": ("Acc_worst", 2),
}
"""Name of a number -> its heading, and digits."""

IN_3 = ("acc", "delta", "log10_delta", "v_eff", "margin", "acc_var", "pdr", "acc_worst")
IN_4 = ("acc", "delta", "log10_delta", "nll", "ppl", "acc_worst")
PAIRS = (
    *((BASELINE, name) for name in ("delta", "ppl", "random")),
    ("ppl", "delta"),
    ("random", "delta"),
)
CODE = (
    "Prompts in short: I, D, R = number of the instruction, directive and reflection step in the "
    "space; 2 own/1 = two examples of the set own in its order 1."
)
COUNTED = "n counts questions with an Acc; another n stands with its number."
INTERVAL = (
    f"[{COVERAGE} bootstrap interval over questions]; the paper gives no n and no intervals. "
    f"{COUNTED}"
)
NO_ACC = "no PDR: nothing was right on the unperturbed questions (Acc_orig = 0)"


def table_3(
    outcomes: Mapping[str, Outcome],
    sets: Mapping[str, Sequence[Question]],
    how: Bootstrap,
    labels: Mapping[str, str],
) -> Table:
    """BC's table 3 on the questions reported on; ``labels``: model, benchmark, request, note."""
    rows: list[Row] = []
    for group in (VCQ, AQ):
        for name in (BASELINE, "delta", "random"):
            found = intervals(outcomes[name], sets[group], how)
            rows.append({**_where(labels, group, name), **cells(found, IN_3), **_empty(found)})
        for paper_set, name, printed in PAPER_3[labels["request"]]:
            if paper_set == group:
                names = [number for number in IN_3 if number != "log10_delta"]
                rows.append(
                    {**_where(labels, group, name, PAPER_MODEL), **_printed(names, printed)}
                )
    columns = [
        Column("source", "source"),
        Column("benchmark", "benchmark"),
        Column("set", "set"),
        Column("prompt", "prompt"),
        Column("n", "n"),
        *_columns(IN_3),
    ]
    title = "Very confident and ambiguous questions, before and after (BC table 3)"
    return Table("prompts_sets", title, labels["note"], columns, rows)


def _where(labels: Mapping[str, str], group: str, name: str, source: str = "") -> dict[str, Any]:
    return {
        "source": source or labels["model"],
        "benchmark": {"next_token": "MMLU", "generate_traced": "GSM8K"}[labels["request"]]
        if source
        else labels["benchmark"],
        "set": group,
        "prompt": "Enhanced" if source and name != BASELINE else LABELS[name],
    }


def table_4(
    outcomes: Mapping[str, Outcome],
    on: Sequence[Question],
    how: Bootstrap,
    model: str,
    codes: Mapping[str, str],
) -> Table:
    """BC's table 4 on all questions reported on; ``codes``: strategy -> its prompt in short."""
    rows: list[Row] = []
    for name, outcome in outcomes.items():
        found = intervals(outcome, on, how)
        rows.append(
            {
                "source": model,
                "strategy": LABELS[name],
                **cells(found, (*IN_4, "acc_var", "pdr")),
                **_empty(found),
                "prompt": codes[name],
                "prompt_text": str(outcome.prompt),
            }
        )
    for name, printed in PAPER_4:
        names = ("acc", "delta", "ppl", "acc_worst")
        rows.append({"source": PAPER_MODEL, "strategy": LABELS[name], **_printed(names, printed)})
    columns = [
        Column("source", "source"),
        Column("strategy", "strategy"),
        Column("n", "n"),
        *_columns(IN_4),
        Column("prompt", "prompt"),
    ]
    note = (
        f"All questions of the half that chose nothing. {CODE} PPL = exp(mean nll) of the target "
        "answer: its letter, or its number where the model writes its own. The average of "
        "delta_tcb is the paper's; one large value decides it, and not the median of log10. "
        f"{INTERVAL}"
    )
    return Table("prompts_strategies", "Prompt strategies (BC table 4)", note, columns, rows)


def difference_table(
    outcomes: Mapping[str, Outcome], on: Sequence[Question], how: Bootstrap
) -> Table:
    """Prompt against prompt, question by question."""
    rows: list[dict[str, Any]] = []
    for first, second in PAIRS:
        found = differences(outcomes[first], outcomes[second], on, how)
        for number, (interval, p) in found.items():
            label, digits = NUMBERS[number]
            label = "mean log10 delta" if number == "log10_delta" else label
            pair = f"{LABELS[second]} - {LABELS[first]}"
            row: dict[str, Any] = {"pair": pair, "first": first, "second": second, "number": number}
            row |= {"label": label, "n": interval.n, **_values("difference", interval)}
            rows.append({**row, "shown": interval_text(interval, digits, is_signed=True), "p": p})
    for row, holm in zip(rows, adjusted([row["p"] for row in rows]), strict=True):
        row["p_holm"] = holm
        if row["difference"] is None:
            row["reason"] = NO_ACC if row["number"] == "pdr" else "no question has both values"
    columns = [
        Column("pair", "pair"),
        Column("label", "number"),
        Column("n", "n"),
        Column("shown", "difference"),
        Column("p_holm", "p, Holm", 3),
    ]
    note = (
        "Paired by question, on the half that chose nothing: mean difference with its bootstrap "
        "interval; p of a sign-flip test, corrected over the whole table (none for PDR, which is "
        "no mean over questions)."
    )
    return Table("prompts_differences", "Prompt against prompt", note, columns, rows)


def shot_table(outcomes: Mapping[str, Outcome], on: Sequence[Question], how: Bootstrap) -> Table:
    """Accuracy where the examples are changed."""
    rows: list[Row] = []
    names = ("acc", "acc_pert", "acc_var", "pdr", "acc_worst")
    for name, outcome in outcomes.items():
        row: dict[str, Any] = {"strategy": LABELS[name], "n_shots": outcome.prompt.n_shots}
        if not outcome.shots:
            why = "the prompt shows no examples"
            rows.append({**row, "n": 0, **dict.fromkeys(names), "reason": why})
            continue
        found = shot_intervals(outcome, on, how)
        reason = "the changes left every prompt as it was" if not found["acc_pert"].n else None
        rows.append({**row, **cells(found, names), **_empty(found, reason)})
    columns = [
        Column("strategy", "strategy"),
        Column("n_shots", "examples"),
        Column("n", "n"),
        Column("acc_shown", "Acc"),
        Column("acc_pert_shown", "Acc, changed"),
        *_columns(("acc_var", "pdr", "acc_worst")),
    ]
    note = (
        "Examples reordered or replaced; a change that leaves the prompt as it was is no variant. "
        f"{COUNTED}"
    )
    return Table("prompts_shots", "Changes of the examples", note, columns, rows)


def search_table(trace: Sequence[Mapping[str, Any]], note: str) -> Table:
    """Every candidate of every guide."""
    columns = [
        Column("guide", "guide"),
        Column("step", "step"),
        Column("move", "move"),
        Column("acc", "acc", 3),
        Column("log10_delta", "log10 delta", 3),
        Column("nll", "nll", 3),
        Column("n", "n of acc"),
        Column("n_delta", "n of delta"),
        Column("n_nll", "n of nll"),
        Column("objective", "objective", 4),
        Column("is_accepted", "accepted"),
        Column("is_choice", "choice"),
        Column("prompt", "prompt"),
    ]
    return Table("prompts_search", "The search", f"{note} {CODE}", columns, trace)


def cells(found: Mapping[str, Interval], names: Sequence[str]) -> dict[str, Any]:
    """The values of a row, each with its interval and n, and the text that is shown.

    ``n`` counts the questions behind the accuracy; a number of others has its own n in its text.
    """
    row: dict[str, Any] = {"n": found["acc"].n}
    for name in names:
        text = interval_text(found[name], NUMBERS.get(name, ("", 2))[1])
        if text is not None and found[name].n != row["n"]:
            text += f", n = {found[name].n}"
        row |= {**_values(name, found[name]), f"{name}_shown": text}
    return row


def _values(name: str, interval: Interval) -> dict[str, Any]:
    return {
        name: interval.value,
        f"{name}_ci_low": interval.ci_low,
        f"{name}_ci_high": interval.ci_high,
        f"{name}_n": interval.n,
    }


def _empty(found: Mapping[str, Interval], why: str | None = None) -> dict[str, Any]:
    if why is None and not found["acc"].n:
        why = "no question of the half reported on is in this set"
    if why is None and found["pdr"].value is None:
        why = NO_ACC if found["acc_pert"].n else "no perturbation changed any question"
    if why is None and found["acc"].n == 1:
        why = "one question: no interval"
    return {"reason": why} if why else {}


def _printed(names: Sequence[str], values: Sequence[float]) -> dict[str, Any]:
    row: dict[str, Any] = {"n": None}
    for name, value in zip(names, values, strict=True):
        row |= {name: value, f"{name}_shown": f"{value:.{NUMBERS[name][1]}f}"}
    return row


def _columns(names: Sequence[str]) -> Iterator[Column]:
    return (Column(f"{name}_shown", NUMBERS[name][0]) for name in names)


def set_note(counts: Mapping[str, int], n: int, text: str) -> str:
    """How the sets were made, with their sizes in the half reported on."""
    sizes = ", ".join(f"{counts[group]} {NAMES[group]} ({group})" for group in (VCQ, AQ))
    return (
        f"{sizes} of {n} questions of the half that chose nothing. {text} "
        "BC prints PDR as a fraction for VCQ and in percent for AQ; here all are fractions. "
        f"{INTERVAL}"
    )
