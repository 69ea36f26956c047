"""What the checks know from outside an entry: a task as its own file says it is, and documents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownTask:
    """A task or group, from its YAML.

    Attributes:
        name: of the task or group; ``version`` is its metadata's.
        members: tasks of a group, in order; all else is of a task and empty for a group.
        data_id: the data set, with its ``config``, ``split`` and pinned ``revision``.
        doc_id: template of a document's id; None = the data decide.
        draw: documents that the task itself draws (per stratum), before any limit; None = all.
        strata: column -> values, whose product are the strata of the draw.
        axes: axes of the sweep and their values.
        document_axes: axes that choose documents -> column.
        repeats: responses to each prompt.
        epsilon: eps of delta_tcb; ``sampling_defaults`` neutral or model.
    """

    name: str
    version: int | float | str | None
    members: tuple[str, ...] = ()
    data_id: str | None = None
    config: str | None = None
    split: str | None = None
    revision: str | None = None
    doc_id: str | None = None
    draw: int | None = None
    strata: Mapping[str, Sequence[Any]] | None = None
    axes: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    document_axes: Mapping[str, str] = field(default_factory=dict)
    repeats: int = 1
    epsilon: float = 1.0
    sampling_defaults: str = "neutral"


@dataclass(frozen=True, slots=True)
class KnownDocument:
    """A document as the task's own data have it.

    Attributes:
        sha256: of the document without its id.
        gold: the right letter, or number as `check_samples.canonical` writes it; None where the
            answer is free.
    """

    sha256: str
    gold: str | None


KnownTasks = Mapping[str, KnownTask]
KnownDocuments = Mapping[str, Mapping[str, KnownDocument]]
"""Task -> document id -> document, for the limit and seed of one entry."""
