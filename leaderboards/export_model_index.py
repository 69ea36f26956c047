"""A run as the front matter of a model card: ``model-index``, as the hub reads it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from huggingface_hub import EvalResult, ModelCard, ModelCardData

from tcb_bench.errors import DataError
from tcb_bench.leaderboards.export_lm_eval import is_multiple_choice
from tcb_bench.leaderboards.export_numbers import Number, numbers
from tcb_bench.leaderboards.export_options import ExportOptions
from tcb_bench.leaderboards.export_source import Source

FILE = "model-index.md"
MAIN = (
    *("acc", "acc_macro", "bertscore_f1", "rougeL", "em", "f1", "answer_mass_mean"),
    *("relative_flip_radius_median", "log10_relative_delta_mean"),
)
"""What a model card gets: how good, how firm; no length that the scale of the weights decides."""

HUB_METRICS = {
    "acc": "accuracy",
    "em": "exact_match",
    "f1": "f1",
    "rougeL": "rouge",
    "bertscore_f1": "bertscore",
}
"""Our metrics that the hub has a name for."""


def write(sources: Sequence[Source], folder: Path, options: ExportOptions) -> list[str]:
    """``model-index.md``: the front matter, and the same numbers as a table.

    Raises:
        DataError: there is no number to report.
    """
    pairs = [(s, n) for s in sources for n in chosen(s, has_conditions=options.has_conditions)]
    if not pairs:
        raise DataError(f"{sources[0].path}: no number for a model card; it has {', '.join(MAIN)}")
    model = sources[0].model
    data = ModelCardData(
        model_name=model.rpartition("/")[2],
        eval_results=[eval_result(source, number) for source, number in pairs],
    )
    lines = [
        "| task | condition | metric | value | 95 % interval | n |",
        "|---|---|---|---|---|---|",
    ]
    lines += [_line(number) for _, number in pairs]
    body = f"# {model}\n\nMeasured with tcb-bench.\n\n" + "\n".join(lines) + "\n"
    ModelCard(f"---\n{data.to_yaml()}\n---\n\n{body}").save(folder / FILE)
    skipped = {task for source in sources for task in source.stock}
    return [f"left out: {name}, one of lm-eval's own tasks" for name in sorted(skipped)]


def chosen(source: Source, *, has_conditions: bool) -> Iterator[Number]:
    """The main numbers of every task and group that belongs to no other, over all responses."""
    for task in source.heads:
        for number in numbers(source, task):
            is_main = number.name in MAIN and number.filter == "none" and number.value is not None
            if is_main and (has_conditions or not number.condition):
                yield number


def eval_result(source: Source, number: Number) -> EvalResult:
    """A number as the hub files it.

    Results of one data set share their block there, whatever their task, so task and condition
    stand with the metric. Documents that were not fetched from the hub are not called by a
    revision of it, and the shipped samples not by the data set's name.
    """
    record = source.record(number.task)
    data, config = record.data, source.config(number.task)
    is_sample = data.source == "sample"
    short = data.id.rpartition("/")[2]
    cell = record.conditions.get(number.condition)
    facts: dict[str, Any] = {
        **(cell.axes if cell else {}),
        "n": number.n,
        "ci_low": number.ci_low,
        "ci_high": number.ci_high,
        "stderr": number.stderr,
        "unit": number.unit,
        "signature": record.signature,
    }
    where = f" ({number.condition})" if number.condition else ""
    return EvalResult(
        task_type="multiple-choice" if is_multiple_choice(config) else "text-generation",
        dataset_type=f"tcb-bench-sample-{short}" if is_sample else data.id,
        dataset_name=f"{short} (sample shipped with tcb-bench)" if is_sample else short,
        dataset_config=data.config,
        dataset_split=data.split,
        dataset_revision=data.revision,
        metric_type=HUB_METRICS.get(number.name, number.name),
        metric_name=f"{number.task} {number.name}{where}",
        metric_value=number.value,
        metric_config=number.task,
        metric_args={key: value for key, value in facts.items() if value is not None},
    )


def _line(number: Number) -> str:
    low, high = number.ci_low, number.ci_high
    interval = "" if low is None or high is None else f"{low:.4g} to {high:.4g}"
    condition = number.condition or "all"
    return (
        f"| {number.task} | {condition} | {number.name} | {number.value:.4g} | {interval} "
        f"| {number.n} |"
    )
