"""A leaderboard entry and its sample rows: the definitions that write, check and document them."""

from __future__ import annotations

from typing import Final, Literal, Self

from pydantic import Field, model_validator

from tcb_bench.records import (
    Axis,
    ChangesRecord,
    Count,
    Counts,
    DataFacts,
    MetricRecord,
    Record,
    ReferenceRecord,
    Sha256,
    TemperatureEffective,
    UsageRecord,
)
from tcb_bench.sample_records import DocumentRow, ScoreRow

ENTRY_VERSION: Final = 1


class ModelRecord(Record):
    """The model that answered."""

    id: str = Field(description="organisation/name, as on the hub or at its provider")
    revision: str | None = Field(description="commit of the weights; null where there is none")
    dtype: str | None = Field(description="of the weights in memory, such as bfloat16")
    quantisation: str | None = Field(
        description="scheme of the weights' file, such as gguf:Q4_1; null for none, and where a "
        "result of another harness does not say"
    )
    backend: str = Field(description="hf, vllm, openai, ...")
    backend_version: str | None = Field(description="of the library behind it; null if not known")
    n_parameters: Count | None = Field(default=None, description="parameters")
    weights_sha256: str | None = Field(default=None, description="16 digits over the weights")


class TaskName(Record):
    """Which task, in which version."""

    name: str = Field(description="task or group")
    version: int | float | str = Field(description="of its YAML; another version, another board")


class Named(Record):
    """What has a name; a base of its own, so that the name is written first."""

    name: str = Field(description="quantity and aggregate, such as relative_flip_radius_median")


class EntryMetric(MetricRecord, Named):
    """A number with what it takes to read it."""

    higher_is_better: bool | None = Field(description="null: neither way is better")
    unit: str = Field(description="of value, interval and standard error; 1 = a plain ratio")
    interval: Literal["normal"] | None = Field(
        default=None, description="normal: value -/+ 1.96 stderr; absent: by the bootstrap"
    )


class EntryCondition(Record):
    """One condition of a sweep; a task without a sweep has one with an empty id and no axes."""

    id: str = Field(description="axis=value,axis=value; empty without a sweep")
    axes: dict[str, Axis] = Field(description="axis -> value, such as temperature -> 0.6")
    temperature_effective: TemperatureEffective = Field(
        description="whether the model heeds the temperature it is sent"
    )
    counts: Counts = Field(description="responses in each state")
    prompts_sha256: Sha256 = Field(description="of the ids and rendered prompts, in order")
    request_sha256: Sha256 = Field(description="of what the task asks any model")
    perturbation: ChangesRecord | None = Field(
        default=None, description="what perturbations did; absent without one"
    )
    text_flags: dict[str, Count] | None = Field(
        default=None, description="flag of BERTScore (empty text, cut off) -> texts"
    )
    metrics: list[EntryMetric] = Field(description="over all responses that have a score")
    metrics_completed: list[EntryMetric] = Field(description="over finished texts only")


class SamplesRecord(Record):
    """Where the sample rows are: gzipped JSON lines."""

    file: str | None = Field(description="name of the file beside the entry")
    url: str | None = Field(default=None, description="where it is instead, over https")
    sha256: Sha256 | None = Field(description="of the file's bytes; null where there are no rows")
    rows: Count = Field(description="lines: documents x conditions")
    responses: Count = Field(description="rows of all lines together: one per response")


class Verification(Record):
    """A maintainer's word that the scores were computed again from the full run."""

    by: str = Field(description="name or handle of the maintainer")
    date: str = Field(pattern=r"^\d{4}-\d{2}-\d{2}$", description="of the rescoring")
    run_sha256: Sha256 = Field(description="of the result file that was rescored")


KNOWN_OF_OURS = ("seed", "counts", "sampling_defaults", "epsilon", "usage")
"""Fields that only an entry of another harness may leave null."""


class Entry(Record):
    """One model on one task."""

    entry_version: Literal[1] = Field(description="of these definitions")
    origin: Literal["tcb-bench", "lm-eval"] = Field(
        default="tcb-bench",
        description="whose result it is; of lm-eval's, what that does not say is null, there are "
        "no conditions and no samples, and it is never verified",
    )
    model: ModelRecord = Field(description="the model that answered")
    task: TaskName = Field(description="what was asked")
    data: DataFacts = Field(description="the documents")
    limit: int | float | None = Field(description="documents per task or stratum; null = all")
    seed: int | None = Field(description="of draws, shots, sampling and bootstrap")
    n_shot: Count | None = Field(description="examples in each prompt; null where tasks differ")
    metrics: list[EntryMetric] = Field(description="over all conditions together")
    metrics_completed: list[EntryMetric] = Field(description="the same over finished texts only")
    counts: Counts | None = Field(description="responses in each state, over all conditions")
    conditions: list[EntryCondition] = Field(description="each cell of the sweep")
    reference: ReferenceRecord | None = Field(
        description="what free answers were compared with; null without"
    )
    bert_score: str | None = Field(
        default=None, description="bert-score's hash: encoder, layer; local = a folder"
    )
    text_scores: str | None = Field(default=None, description="versions of the other text scores")
    sampling_defaults: Literal["neutral", "model"] | None = Field(
        description="neutral: only the temperature acts; model: the model's own parameters"
    )
    epsilon: float | None = Field(
        gt=0, description="eps of delta_tcb = eps / ||J||_F; dimensionless"
    )
    weight_radius: float | None = Field(
        description="R = max_i ||w_i - mean(W)|| of the output head, a length in h-space"
    )
    signature: str = Field(description="one line with every setting that can change a number")
    signature_parts: dict[str, str] = Field(description="the same, name -> value")
    usage: UsageRecord | None = Field(description="tokens of all responses, a reused repeat once")
    environment: dict[str, str] = Field(description="package -> version, and the platform")
    is_partial: bool = Field(description="tasks, conditions or answers are missing")
    missing: list[str] = Field(description="what is missing")
    samples: SamplesRecord = Field(description="where the sample rows are")
    tier: Literal["self-reported", "verified"] = Field(
        description="verified: a maintainer scored the full run again"
    )
    verification: Verification | None = Field(
        default=None, description="who verified it, and when; absent if self-reported"
    )
    submitted_by: str = Field(min_length=1, description="name or handle of the submitter")
    date: str = Field(pattern=r"^\d{4}-\d{2}-\d{2}$", description="of the run, in UTC")
    links: list[str] = Field(description="https addresses: model card, paper, full run")

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        """What a run of ours always knows is there, and only such a run can be verified."""
        if self.origin == "tcb-bench":
            lost = [name for name in KNOWN_OF_OURS if getattr(self, name) is None]
            lost += [f"data.{key}" for key in ("source", "sha256") if not getattr(self.data, key)]
            lost += [] if self.conditions else ["conditions"]
            lost += [] if self.samples.sha256 else ["samples.sha256"]
            if lost:
                raise ValueError(f"null or empty, which only an imported entry may be: {lost[0]}")
        elif self.tier == "verified":
            raise ValueError("tier: an imported entry has no run to verify")
        if (self.tier == "verified") != (self.verification is not None):
            raise ValueError("verification: belongs to the tier verified, and only there")
        return self


class EntrySample(DocumentRow):
    """A line of an entry's sample file: numbers and hashes, no text of question or response."""

    rows: list[ScoreRow] = Field(description="one per response, in the order of repeats")
