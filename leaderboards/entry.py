"""A leaderboard entry and its sample rows: the definitions that write, check and document them."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from tcb_bench.records import (
    Axis,
    ChangesRecord,
    Count,
    Counts,
    DataRecord,
    MetricRecord,
    Record,
    ReferenceRecord,
    Sha256,
    TemperatureEffective,
    UsageRecord,
)
from tcb_bench.sample_records import DocumentRow, ScoreRow

ENTRY_VERSION = 1


class ModelRecord(Record):
    """The model that answered."""

    id: str = Field(description="organisation/name, as on the hub or at its provider")
    revision: str | None = Field(description="commit of the weights; null where there is none")
    dtype: str | None = Field(description="of the weights in memory, such as bfloat16")
    quantisation: str | None = Field(description="scheme of the weights' file; null for none")
    backend: str = Field(description="hf, vllm, openai, ...")
    backend_version: str | None
    n_parameters: Count | None = None
    weights_sha256: str | None = Field(default=None, description="16 digits over the weights")


class TaskName(Record):
    """Which task, in which version."""

    name: str
    version: int | float | str


class EntryMetric(MetricRecord):
    """A number with what it takes to read it."""

    name: str
    higher_is_better: bool | None = Field(description="null: neither way is better")
    unit: str


class EntryCondition(Record):
    """One condition of a sweep; a task without a sweep has one with an empty id and no axes."""

    id: str
    axes: dict[str, Axis]
    temperature_effective: TemperatureEffective
    counts: Counts
    prompts_sha256: Sha256 = Field(description="of the ids and rendered prompts, in order")
    request_sha256: Sha256 = Field(description="of what the task asks any model")
    perturbation: ChangesRecord | None = None
    text_flags: dict[str, Count] | None = None
    metrics: list[EntryMetric] = Field(description="over all responses that have a score")
    metrics_completed: list[EntryMetric] = Field(description="over finished texts only")


class SamplesRecord(Record):
    """Where the sample rows are: gzipped JSON lines."""

    file: str | None = Field(description="name of the file beside the entry")
    url: str | None = Field(default=None, description="where it is instead, over https")
    sha256: Sha256 = Field(description="of the file's bytes")
    rows: Count = Field(description="lines: documents x conditions")
    responses: Count = Field(description="rows of all lines together: one per response")


class Verification(Record):
    """A maintainer's word that the scores were computed again from the full run."""

    by: str
    date: str = Field(pattern=r"^\d{4}-\d{2}-\d{2}$")
    run_sha256: Sha256 = Field(description="of the result file that was rescored")


class Entry(Record):
    """One model on one task."""

    entry_version: Literal[1]
    model: ModelRecord
    task: TaskName
    data: DataRecord
    limit: int | float | None = Field(description="documents per task or stratum; null = all")
    seed: int = Field(description="of draws, shots, sampling and bootstrap")
    n_shot: Count
    metrics: list[EntryMetric] = Field(description="over all conditions together")
    metrics_completed: list[EntryMetric]
    counts: Counts
    conditions: list[EntryCondition]
    reference: ReferenceRecord | None
    bert_score: str | None = None
    text_scores: str | None = None
    sampling_defaults: Literal["neutral", "model"]
    epsilon: float = Field(gt=0)
    weight_radius: float | None = Field(
        description="R = max_i ||w_i - mean(W)|| of the output head, a length in h-space"
    )
    signature: str
    signature_parts: dict[str, str]
    usage: UsageRecord
    environment: dict[str, str]
    is_partial: bool = Field(description="tasks, conditions or answers are missing")
    missing: list[str] = Field(description="what is missing")
    samples: SamplesRecord
    tier: Literal["self-reported", "verified"]
    verification: Verification | None = None
    submitted_by: str
    date: str = Field(pattern=r"^\d{4}-\d{2}-\d{2}$", description="of the run")
    links: list[str] = Field(description="https addresses: model card, paper, full run")


class EntrySample(DocumentRow):
    """A line of an entry's sample file: numbers and hashes, no text of question or response."""

    rows: list[ScoreRow]
