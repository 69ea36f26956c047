"""What stands in a sample row: one document, its scored repeats, and what was asked."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from tcb_bench.records import Count, Record, Sha256, State, UsageRecord


class Conflict(Record):
    """The case of a prediction on the two axes of accuracy and confidence against stability."""

    accuracy: str | None = Field(description="case of right or wrong against stable or not")
    confidence: str | None = Field(description="case of p_top1 against stable or not")
    stable_at: float = Field(description="relative_flip_radius from which a row counts as stable")


class ScoreRow(Record):
    """One response of a document, as numbers: nothing of its text."""

    repeat: Count = Field(description="0-based number of the run")
    state: State = Field(description="see the counts of states")
    acc: float | None = Field(ge=0, le=1, description="1 right, 0 wrong; null where unknown")
    answer: str | None = Field(description="the letter or number extracted from the response")
    reason: str | None = Field(description="why something is null")
    stability: dict[str, float | None] = Field(
        description="quantity -> value at the critical position; delta_tcb for the task's epsilon"
    )
    stability_mean: dict[str, float] | None = Field(
        default=None, description="means over all tokens of the answer: log10 of lengths"
    )
    choice_logprobs: list[float | None] | None = Field(
        default=None,
        description="natural log-probability of each given answer; null: not shown by an API",
    )
    greedy_is_choice: float | None = Field(
        default=None, description="1 where the top token is a given answer, else 0"
    )
    scores: dict[str, float | None] | None = Field(
        default=None, description="scores of a free answer: metric -> value"
    )
    score_flags: list[str] | None = Field(default=None, description="flags of BERTScore")
    finish_reason: str | None = Field(
        default=None, description="stop (its own end or a stop string) or length (cut off)"
    )
    completion_tokens: Count | None = Field(
        default=None, description="tokens generated; null where one bill covers several texts"
    )
    prompt_tokens: Count | None = Field(default=None, description="tokens the model saw")
    usage: UsageRecord | None = Field(
        default=None,
        description="of an API: tokens billed for the request; at one row of each request",
    )
    unsupported: bool | None = Field(
        default=None, description="true: the model takes no such request, and it was not sent"
    )
    conflict: Conflict = Field(description="accuracy and confidence against stability")


class RunRow(ScoreRow):
    """A row of a run: also what the model wrote, and where its response is stored."""

    key: str | None = Field(description="of the response in the store")
    reused_from: str | None = Field(description="key of the equal response at temperature 0")
    greedy_token: str | None = Field(default=None, description="text of the top token")
    text: str | None = Field(default=None, description="the whole text of a generation")
    call: dict[str, Any] | None = Field(
        default=None,
        description="of an API: id, model, system_fingerprint, finish_reason, choice of n, fields "
        "sent",
    )
    reasoning_chars: Count | None = Field(
        default=None, description="characters of the text that are reasoning"
    )


class Change(Record):
    """What a perturbation did to one document."""

    kind: str = Field(description="name of the perturbation")
    flags: list[str] = Field(description="what was remarkable about it")
    counts: dict[str, int | float] = Field(description="count of changes -> its value")
    token_overlap: float | None = Field(description="share of tokens left, from 0 to 1")
    embedding_similarity: float | None = Field(description="cosine, from -1 to 1")
    is_pseudo_relevant: bool | None = Field(
        description="whether the changed text still counts as relevant"
    )


class DocumentRow(Record):
    """What a sample says of its document, in a run and in an entry."""

    doc_id: str = Field(description="such as philosophy/test/4, rows counted from 0")
    task: str = Field(description="the task, or the member of a group")
    condition: str = Field(description="id of the condition; empty without a sweep")
    doc_sha256: Sha256 = Field(description="of the document without its id")
    stratum: str | None = Field(default=None, description="of the draw")
    weight: float | None = Field(default=None, gt=0, description="in means; null = 1")
    perturbation: dict[str, Change] | None = Field(
        default=None, description="axis -> what it did to this document"
    )


class Sample(DocumentRow):
    """A line of a run's sample file."""

    doc: dict[str, Any] = Field(description="the document's columns")
    target: Any = Field(description="the gold answer")
    prompt: str | None = Field(description="the prompt as the model saw it")
    acc: float | None = Field(description="mean of the repeats' acc")
    reference: str | None = Field(default=None, description="what free answers are compared with")
    rows: list[RunRow] = Field(description="one per repeat")
