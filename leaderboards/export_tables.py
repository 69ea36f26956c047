"""Two long tables of a run: a row per number, and a row per response; csv and parquet alike."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from tcb_bench.errors import DataError
from tcb_bench.leaderboards.export_clean import cleaned
from tcb_bench.leaderboards.export_numbers import numbers
from tcb_bench.leaderboards.export_source import Source
from tcb_bench.leaderboards.submit_samples import READ_ANSWERS, answer_kind
from tcb_bench.metrics import METRICS

Kind = Literal["text", "number", "count", "flag", "numbers", "texts"]
Row = dict[str, Any]

QUANTITIES = (
    *("delta_tcb", "log10_delta_tcb", "flip_radius", "relative_delta", "relative_flip_radius"),
    *("v_eff", "logit_margin", "p_top1", "p_top2", "nll", "entropy", "h_norm"),
    *("choice_margin", "choice_flip_radius", "answer_mass"),
    *("v_eff_low", "v_eff_high", "top_mass"),
)
TOKENS = ("top1_token", "flip_token", "critical_token")
OVER_ANSWER = (
    *("log10_delta_tcb", "log10_flip_radius", "log10_relative_flip_radius", "p_top1", "nll"),
)
SCORES = (
    *("bertscore_f1", "bertscore_precision", "bertscore_recall", "rouge1", "rouge2", "rougeL"),
    *("em", "f1", "yes_no", "refusal", "garbled"),
)


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its name, what its cells are, and their unit and meaning where a name is short."""

    name: str
    kind: Kind
    unit: str = ""
    meaning: str = ""


def axis_columns(sources: Sequence[Source]) -> list[Column]:
    """``axis_<name>`` of every axis of any condition, in the order of the tasks."""
    values: dict[str, list[Any]] = {}
    for source in sources:
        for task in source.tasks:
            for cell in source.record(task).conditions.values():
                for name, value in cell.axes.items():
                    values.setdefault(name, []).append(value)
    return [Column(f"axis_{name}", _kind(found)) for name, found in values.items()]


def _kind(values: Iterable[Any]) -> Kind:
    known = [value for value in values if value is not None]
    if known and all(isinstance(value, bool) for value in known):
        return "flag"
    is_number = all(isinstance(v, int | float) and not isinstance(v, bool) for v in known)
    return "number" if known and is_number else "text"


def metric_columns(sources: Sequence[Source]) -> list[Column]:
    """Columns of the table of numbers."""
    return [
        *_text("model", "task", "version"),
        Column("condition", "text", "", "id; empty for all conditions of the task together"),
        *axis_columns(sources),
        Column("filter", "text", "", "none: all responses; completed: finished texts"),
        *_text("metric"),
        *(Column(name, "number", "unit") for name in ("value", "ci_low", "ci_high", "stderr")),
        Column("n", "count", "documents"),
        *_text("unit"),
        Column("higher_is_better", "flag", "", "null: neither way is better"),
        Column("temperature_effective", "text", "", "whether the model heeds its temperature"),
        *_text("date", "signature"),
    ]


def metric_rows(sources: Sequence[Source]) -> Iterator[Row]:
    """Every number of every task, of lm-eval's own too; what has no value is null."""
    axes = axis_columns(sources)
    for source in sources:
        for task in (*source.tasks, *source.stock):
            record = source.result.tcb_bench.tasks.get(task)
            for number in numbers(source, task):
                cell = record.conditions.get(number.condition) if record else None
                yield {
                    "model": source.model,
                    "task": task,
                    "version": _version(source, task),
                    "condition": number.condition,
                    **_axes(axes, cell.axes if cell else {}),
                    "filter": number.filter,
                    "metric": number.name,
                    "value": number.value,
                    "ci_low": number.ci_low,
                    "ci_high": number.ci_high,
                    "stderr": number.stderr,
                    "n": number.n,
                    "unit": number.unit,
                    "higher_is_better": number.higher_is_better,
                    "temperature_effective": cell.temperature_effective if cell else None,
                    "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(source.result.date)),
                    "signature": record.signature if record else None,
                }


def sample_columns(sources: Sequence[Source], *, has_texts: bool) -> list[Column]:
    """Columns of the table of responses."""
    texts = ("prompt", "target", "reference", "greedy_token", "text") if has_texts else ()
    return [
        *_text("model", "task", "condition"),
        *axis_columns(sources),
        *_text("doc_id", "doc_sha256", "stratum"),
        Column("weight", "number", "", "of the document in means"),
        Column("repeat", "count", "", "number of the run, from 0"),
        *_text("state"),
        Column("acc", "number", "", "1 right, 0 wrong"),
        Column("answer", "text", "", "the letter or number that was read from the response"),
        *_text("reason", "finish_reason"),
        *(Column(name, "count", "tokens") for name in ("prompt_tokens", "completion_tokens")),
        Column("is_reused", "flag", "", "an equal response at temperature 0, asked once"),
        Column("greedy_is_choice", "number"),
        Column("choice_logprobs", "numbers", "nats", "of each given answer"),
        *(Column(name, "number", *_meaning(name)) for name in QUANTITIES),
        *(Column(name, "count", "token id") for name in TOKENS),
        *(Column(f"answer_mean_{name}", "number") for name in OVER_ANSWER),
        *(Column(name, "number", *_meaning(name)) for name in SCORES),
        Column("score_flags", "texts"),
        *_text("accuracy_case", "confidence_case"),
        Column("stable_at", "number", "1", "relative_flip_radius from which a row is stable"),
        *_text(*texts),
    ]


def sample_rows(sources: Sequence[Source], *, has_texts: bool) -> Iterator[Row]:
    """Every response of every task of ours, in the run's order, one at a time."""
    axes = axis_columns(sources)
    for source in sources:
        for task in source.leaves:
            conditions = source.record(task).conditions
            keeps = has_texts or answer_kind(source.config(task)) in READ_ANSWERS
            for sample in source.samples(task):
                cell = conditions[sample["condition"]]
                own = {"model": source.model, "task": task, "condition": sample["condition"]}
                own |= _axes(axes, cell.axes)
                own |= {key: sample.get(key) for key in ("doc_id", "doc_sha256", "stratum")}
                own["weight"] = sample.get("weight")
                for row in sample["rows"]:
                    yield own | _response(row, keeps_answer=keeps) | _texts(sample, row, has_texts)


def _response(row: Mapping[str, Any], *, keeps_answer: bool) -> Row:
    stability, scores = row["stability"], row.get("scores") or {}
    unknown = (stability.keys() - {*QUANTITIES, *TOKENS}) | (scores.keys() - {*SCORES})
    if unknown:
        raise DataError(f"no column for {', '.join(sorted(unknown))}; expected {QUANTITIES}")
    means = row.get("stability_mean") or {}
    case = row.get("conflict") or {}
    as_they_are = (
        *("repeat", "state", "acc", "finish_reason", "prompt_tokens", "completion_tokens"),
        *("greedy_is_choice", "choice_logprobs", "score_flags"),
    )
    return {
        **{name: row.get(name) for name in as_they_are},
        "answer": row["answer"] if keeps_answer else None,
        "reason": cleaned(row["reason"], "", ""),
        "is_reused": row.get("reused_from") is not None,
        **{name: stability.get(name) for name in QUANTITIES},
        **{name: _whole(stability.get(name)) for name in TOKENS},
        **{f"answer_mean_{name}": means.get(name) for name in OVER_ANSWER},
        **{name: scores.get(name) for name in SCORES},
        "accuracy_case": case.get("accuracy"),
        "confidence_case": case.get("confidence"),
        "stable_at": case.get("stable_at"),
    }


def _texts(sample: Mapping[str, Any], row: Mapping[str, Any], has_texts: bool) -> Row:
    if not has_texts:
        return {}
    found = {"prompt": sample["prompt"], "target": str(sample["target"])}
    found |= {"reference": sample.get("reference"), "greedy_token": row.get("greedy_token")}
    return found | {"text": row.get("text")}


def _axes(columns: Sequence[Column], axes: Mapping[str, Any]) -> Row:
    found = {c.name: (c.kind, axes.get(c.name.removeprefix("axis_"))) for c in columns}
    return {
        name: str(value) if kind == "text" and value is not None else value
        for name, (kind, value) in found.items()
    }


def _version(source: Source, task: str) -> str | None:
    version = source.result.versions.get(task)
    return None if version is None else str(version)


def _whole(value: float | None) -> int | None:
    """A token id, which a row keeps among its float32 quantities."""
    return None if value is None else int(value)


def _meaning(name: str) -> tuple[str, str]:
    return METRICS[name].unit, METRICS[name].meaning


def _text(*names: str) -> list[Column]:
    return [Column(name, "text") for name in names]
