"""The tables of interventions: the paper's layout, all quantities, conflict cases, changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tcb_bench.metrics.statistics import Interval
from tcb_bench.report.table import Column, Table
from tcb_bench.studies.interventions_file import Interventions
from tcb_bench.studies.interventions_rows import Settings, Threshold
from tcb_bench.studies.shown import PAPER_MODEL

Record = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What tables, notes and figures show.

    Attributes:
        interventions: the file.
        items: the document ids.
        rows: of ``interventions_summary.summary``.
        changes: of ``interventions_summary.differences``.
        threshold: from where on an answer is stable.
        settings: of the study.
    """

    interventions: Interventions
    items: tuple[str, ...]
    rows: Sequence[Record]
    changes: Sequence[Record]
    threshold: Threshold
    settings: Settings


def tables(facts: Facts) -> list[Table]:
    """In the order of a page."""
    return [
        _paper(facts),
        _accuracy(facts),
        _delta(facts),
        _flip(facts),
        _changes(facts),
        _cases(facts),
    ]


def flat(record: Record) -> dict[str, Any]:
    """A record with each interval as ``name``, ``name_ci_low``, ``name_ci_high`` and ``name_n``."""
    found: dict[str, Any] = {}
    for key, value in record.items():
        if isinstance(value, Interval):
            found[key] = value.value
            found |= {f"{key}_ci_low": value.ci_low, f"{key}_ci_high": value.ci_high}
            found[f"{key}_n"] = value.n
        else:
            found[key] = value
    return found


def _rows(records: Sequence[Record], *, has_intervals: bool = True) -> list[dict[str, Any]]:
    """Rows of a table, numbered as texts, with the reason of what they lack."""
    rows = [{**flat(record), "row": str(record["row"])} for record in records]
    for row in rows:
        if not has_intervals and row["log10_delta_tcb_mean_n"]:
            row["reason"] = None  # an interval is missing, and this table shows none
    return rows


def _with_interval(key: str, label: str, digits: int) -> list[Column]:
    limits = (("low", "from"), ("high", "to"))
    return [Column(key, label, digits), *(Column(f"{key}_{k}", s, digits) for k, s in limits)]


def _paper(facts: Facts) -> Table:
    rows = []
    own = _rows(facts.rows, has_intervals=False)
    for record, intervention in zip(own, facts.interventions.rows, strict=True):
        rows.append({**record, "acc_percent": _percent(record["acc"])})
        if paper := intervention.paper:
            theirs = {f"{key}_mean": value for key, value in paper.items() if key != "acc"}
            acc = {"acc_percent": _percent(paper.get("acc"))}
            rows.append({"row": record["row"], "description": PAPER_MODEL, **acc, **theirs})
    columns = [
        Column("row", "#"),
        Column("description", "intervention"),
        Column("acc_percent", "Acc (%)", 1),
        Column("delta_tcb_mean", "delta_tcb", 2),
        Column("v_eff_mean", "v_eff", 2),
        Column("logit_margin_mean", "margin", 2),
        Column("n", "n"),
    ]
    title = f"Prompt interventions on {_shown(facts.items)}, in the layout of BC's table 5"
    return Table("interventions", title, _paper_note(facts), columns, rows)


def _percent(share: float | None) -> float | None:
    return None if share is None else 100 * share


def _shown(items: Sequence[str]) -> str:
    return ", ".join(items) if len(items) <= 3 else f"{len(items)} items"


def _paper_note(facts: Facts) -> str:
    sampled = ", and its own sampling" if facts.settings["temperature"] else ""
    unit = "answers to different prompts" if len(facts.items) == 1 else "items, each over its seeds"
    return (
        "Arithmetic means, as in the paper: one huge delta_tcb decides such a mean, so read the "
        f"medians and mean logarithms below. {facts.settings['seeds']} seeds, each with its own "
        f"order of the examples{sampled}, the same in all rows with one set; n: {unit}. All "
        "quantities stand just before the first token of the final number. Rows marked "
        f"{PAPER_MODEL} are the paper's, of another model, whose lengths have another scale."
    )


def _accuracy(facts: Facts) -> Table:
    rows = _rows(facts.rows)
    for row in rows:
        row["truncated"] = row["states"]["truncated"]
    columns = [
        Column("row", "#"),
        *_with_interval("acc", "acc", 2),
        Column("acc_n", "n"),
        Column("v_eff_median", "v_eff, median", 2),
        Column("logit_margin_median", "margin, median", 2),
        Column("p_top1_median", "p_top1, median", 2),
        Column("truncated", "truncated"),
        Column("no_number", "no number"),
    ]
    note = (
        f"Interval of acc ({facts.settings['level']:.0%}): Wilson's where n counts single answers, "
        "else a bootstrap over items. truncated: answers cut off, right or wrong by their last "
        "number. no number: answers without a final number, wrong and without stability."
    )
    return Table("interventions_accuracy", "Accuracy and confidence", note, columns, rows)


def _delta(facts: Facts) -> Table:
    columns = [
        Column("row", "#"),
        *_with_interval("delta_tcb_median", "delta_tcb, median", 2),
        *_with_interval("log10_delta_tcb_mean", "log10 delta_tcb, mean", 2),
        Column("log10_delta_tcb_mean_n", "n"),
    ]
    note = (
        f"{facts.settings['level']:.0%} percentile bootstrap intervals; of five values they are "
        "narrower than they should be: read them as the spread. n: values with a number in the "
        "answer."
    )
    rows = _rows(facts.rows)
    return Table("interventions_delta", "delta_tcb, higher is more stable", note, columns, rows)


def _flip(facts: Facts) -> Table:
    columns = [
        Column("row", "#"),
        *_with_interval("flip_radius_median", "flip_radius, median", 3),
        *_with_interval("relative_flip_radius_median", "relative_flip_radius, median", 4),
        Column("flip_radius_median_n", "n"),
    ]
    note = (
        "The exact distance of the hidden state to one with another top-1 token, and the same as "
        "a share of the state's length. Intervals as for delta_tcb."
    )
    title = "flip_radius, higher is more stable"
    return Table("interventions_flip", title, note, columns, _rows(facts.rows))


def _cases(facts: Facts) -> Table:
    settings, at = facts.settings, facts.threshold
    rows = _rows(facts.rows, has_intervals=False)
    for row in rows:
        row["stability"] = row[f"{at.quantity}_median"]
        row["cases"] = ", ".join(f"{n} {case}" for case, n in row["cases"].items())
        for key in ("case_accuracy", "case_confidence"):
            row[key] = (row[key] or "").replace("_", " ") or None
    columns = [
        Column("row", "#"),
        Column("acc", "acc", 2),
        Column("stability", f"{at.quantity}, median", 4),
        Column("p_top1_median", "p_top1, median", 2),
        Column("case_accuracy", "accuracy and stability"),
        Column("case_confidence", "confidence and stability"),
    ]
    value = "unknown (no answer has a number)" if at.value is None else f"{at.value:.6g}"
    note = (
        f"A row is stable where its median {at.quantity} is at least {value} ({at.origin}), "
        f"accurate where its accuracy is at least {settings['accurate_at']:g}, confident where its "
        f"median p_top1 is at least {settings['confident_at']:g}. {_origin_note(facts)}The paper "
        "gives no thresholds. The cases of single answers stand in samples.jsonl."
    )
    title = "The four conflict cases (BC 4.3, D.1)"
    return Table("interventions_cases", title, note, columns, rows)


def _origin_note(facts: Facts) -> str:
    if facts.settings["stable_at"] is not None:
        return ""
    return (
        "A quantile of the study's own answers calls a fixed share of them stable, whatever the "
        "model: it compares rows, it does not say that a row is safe. "
    )


def _changes(facts: Facts) -> Table:
    rows = _rows(facts.changes)
    for row in rows:
        row["rises"] = f"{row['n_delta_rises']} of {row['n_delta']}"
    columns = [
        Column("row", "#"),
        *_with_interval("acc", "acc", 2),
        *_with_interval("log10_delta_tcb", "log10 delta_tcb", 2),
        Column("rises", "delta_tcb rises in"),
        Column("pairs", "pairs"),
    ]
    note = (
        "Row minus row 1 at the same seed (examples in the same order), mean over pairs"
        + (", then over items" if len(facts.items) > 1 else "")
        + ". A pair without a number in both answers has no stability difference, and is left out "
        "of its mean and interval (bootstrap). study.json has the change of log10 flip_radius too, "
        "and one-sided p-values (sign flips; acc falls, the others rise; uncorrected)."
    )
    return Table("interventions_changes", "Change from row 1", note, columns, rows)
