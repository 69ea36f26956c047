"""What stands in a result file and in a sample row: the definitions that write and check them.

Every number of these records is finite: what has no value is null, never NaN. A field's
description is its documentation, in the schemas under leaderboards/schema and in the README there.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

Count = Annotated[int, Field(ge=0)]
Sha256 = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
Axis = str | int | float | bool | None
TemperatureEffective = Literal["true", "false", "remapped", "unknown"]
State = Literal["scored", "truncated", "empty", "filtered", "error", "unscored"]


class Record(BaseModel):
    """A part of a file: every key named here, no other, no number read from a text."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, allow_inf_nan=False, protected_namespaces=()
    )


class Counts(Record):
    """How many responses are in each state."""

    scored: Count = Field(description="finished texts, and predictions")
    truncated: Count = Field(description="texts cut off by the token limit; scored and flagged")
    empty: Count = Field(description="texts with nothing in them; they score 0")
    filtered: Count = Field(description="refused by a provider's filter; no score")
    error: Count = Field(description="failures of ours or of a provider; no score")
    unscored: Count = Field(description="responses for which nothing can be computed")


class MetricRecord(Record):
    """A number with its interval; null where it has no meaning."""

    value: float | None = Field(description="the aggregate, in the metric's unit")
    ci_low: float | None = Field(description="lower end of the 95 % bootstrap interval")
    ci_high: float | None = Field(description="upper end of the 95 % bootstrap interval")
    stderr: float | None = Field(description="standard error, in the metric's unit")
    n: Count = Field(description="documents with a value")


class ChangesRecord(Record):
    """What a perturbation did to the documents of a condition."""

    flags: dict[str, Count] = Field(description="flag -> documents that have it")
    counts: dict[str, int | float] = Field(description="count of changes -> its sum")


class ConditionRecord(Record):
    """One condition of a sweep; a task without a sweep has one with an empty id and no axes."""

    axes: dict[str, Axis] = Field(description="axis -> value, such as temperature -> 0.6")
    temperature_effective: TemperatureEffective = Field(
        description="whether the model heeds the temperature it is sent"
    )
    counts: Counts = Field(description="responses in each state")
    prompts_sha256: Sha256 = Field(description="of the ids and rendered prompts, in order")
    unsupported: str | None = Field(
        default=None, description="why the model cannot do this condition; nothing was sent"
    )
    request_sha256: Sha256 | None = Field(
        default=None, description="of what the task asks any model: prompt, shots, sampling"
    )
    perturbation: ChangesRecord | None = Field(
        default=None, description="what perturbations did; absent without one"
    )
    text_flags: dict[str, Count] | None = Field(
        default=None, description="flag of BERTScore (empty text, cut off) -> texts"
    )
    metrics: dict[str, MetricRecord] = Field(description="over all responses that have a score")
    metrics_completed: dict[str, MetricRecord] = Field(description="over finished texts only")


class StratumRecord(Record):
    """A stratum of the draw."""

    taken: Count = Field(description="documents drawn")
    there: Count = Field(description="documents to draw from")


class MemberRecord(Record):
    """A task of a group."""

    available: Count = Field(description="documents before the limit")
    sha256: Sha256 = Field(description="of the ids and hashes of the chosen documents")


class DataFacts(Record):
    """Where the documents came from, and which were chosen, as far as that is known."""

    id: str = Field(description="the data set's name, such as cais/mmlu")
    config: str | None = Field(description="its configuration; null for a group of several")
    split: str | None = Field(description="its split, such as test")
    source: Literal["hub", "local", "sample", "file"] | None = Field(
        description="hub: fetched; local: files of --data; sample: shipped; file: the task's own"
    )
    revision: str | None = Field(description="commit of the data set on the hub; null elsewhere")
    sha256: Sha256 | None = Field(
        description="of the sorted [id, document sha256] pairs of the chosen documents; of a "
        "group, of its tasks' values in order"
    )
    available: Count = Field(description="documents before the limit")
    members: dict[str, MemberRecord] | None = Field(
        default=None, description="task -> its part, for a group"
    )
    strata: dict[str, StratumRecord] | None = Field(
        default=None, description="stratum of the draw -> its documents"
    )
    left_out: dict[str, Count] | None = Field(
        default=None, description="why documents were left out -> how many"
    )
    ids: list[str] | None = Field(default=None, description="of the chosen documents")


class DataRecord(DataFacts):
    """Where the documents of a run came from, and which were chosen."""

    source: Literal["hub", "local", "sample", "file"] = Field(
        description="hub: fetched; local: files of --data; sample: shipped; file: the task's own"
    )
    sha256: Sha256 = Field(
        description="of the sorted [id, document sha256] pairs of the chosen documents; of a "
        "group, of its tasks' values in order"
    )


class ReferenceRecord(Record):
    """What free answers were compared with."""

    kind: str = Field(description="sentence (written by a model) or short (the data's own answer)")
    generator: str | None = Field(description="the model that wrote the sentences")
    sha256: Sha256 | None = Field(description="of ids and texts")
    without_answer: list[str] = Field(description="documents whose sentence lacks the answer")


class UsageRecord(Record):
    """Tokens of all responses, a reused repeat once."""

    prompt_tokens: Count = Field(description="tokens")
    completion_tokens: Count = Field(description="tokens, the end of sequence included")
    reasoning_tokens: Count | None = Field(
        default=None, description="of the completion tokens; of an API"
    )
    cached_tokens: Count | None = Field(
        default=None, description="of the prompt tokens, read from a cache; of an API"
    )


class TaskRecord(Record):
    """One task or group of a run."""

    signature: str = Field(description="one line with every setting that can change a number")
    signature_parts: dict[str, str] = Field(description="the same, name -> value")
    data: DataRecord = Field(description="the documents")
    epsilon: float = Field(gt=0, description="eps of delta_tcb = eps / ||J||_F; dimensionless")
    sampling_defaults: Literal["neutral", "model"] = Field(
        description="neutral: only the temperature acts; model: the model's own parameters"
    )
    weight_radius: float | None = Field(
        description="R = max_i ||w_i - mean(W)|| of the output head, a length in h-space"
    )
    limit: int | float | None = Field(description="documents per task or stratum; null = all")
    seed: int = Field(description="of draws, shots, sampling and bootstrap")
    reference: ReferenceRecord | None = Field(
        default=None, description="what free answers were compared with; null without"
    )
    bert_score: str | None = Field(default=None, description="bert-score's hash: encoder, layer")
    text_scores: str | None = Field(default=None, description="versions of the other text scores")
    resources: dict[str, Any] = Field(description="lexicons and models of perturbations")
    is_partial: bool = Field(default=False, description="whether tasks of the group are missing")
    missing: list[str] = Field(default=[], description="tasks of the group that are missing")
    counts: Counts = Field(description="responses in each state, over all conditions")
    usage: UsageRecord = Field(description="tokens of all responses")
    system_fingerprints: dict[str, Count] | None = Field(
        default=None, description="configuration that an API says it answered with -> responses"
    )
    conditions: dict[str, ConditionRecord] = Field(description="id -> condition")


class RunRecord(Record):
    """The block ``tcb_bench`` of a result file."""

    schema_version: Literal[1] = Field(description="of these definitions")
    environment: dict[str, str] = Field(description="package -> version, and the platform")
    model: dict[str, Any] = Field(description="what the back end says of the model")
    seeds: dict[str, int] = Field(description="run -> the seed of the run")
    wall_time_s: float | None = Field(description="seconds from plan to last response")
    is_partial: bool = Field(description="whether the run was cut short or tasks are missing")
    missing: dict[str, str] = Field(description="task -> why it is not there")
    tasks: dict[str, TaskRecord] = Field(description="task or group -> its part")


class ResultFile(BaseModel):
    """A result file: lm-eval's keys as lm-eval writes them, and our own block."""

    model_config = ConfigDict(extra="allow", frozen=True, allow_inf_nan=False)

    results: dict[str, dict[str, Any]] = Field(
        description="task -> alias, sample_len, and `name,filter` -> number, with _stderr, "
        "_ci_low, _ci_high and _n beside each; filter none = all responses, completed = finished "
        "texts"
    )
    configs: dict[str, dict[str, Any]] = Field(description="task -> its YAML as understood")
    versions: dict[str, Any] = Field(description="task -> version")
    n_shot: dict[str, int] = Field(alias="n-shot", description="task -> examples in the prompt")
    higher_is_better: dict[str, dict[str, bool | None]] = Field(
        description="task -> metric -> direction; null: neither way is better"
    )
    n_samples: dict[str, dict[str, int]] = Field(
        alias="n-samples", description="task -> original, effective documents"
    )
    config: dict[str, Any] = Field(description="how the run was made")
    tcb_bench: RunRecord = Field(description="ours: settings, conditions and their numbers")
    date: float = Field(description="seconds since 1970 when it was written")
