"""What the formats may be told, and which of them heeds what."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from tcb_bench.errors import UsageError

Relationship = Literal["first_party", "third_party", "collaborative", "other"]
RELATIONSHIPS: tuple[Relationship, ...] = ("first_party", "third_party", "collaborative", "other")
NOT_STATED = "not stated"

FORMATS = {
    "lm-eval": "export_lm_eval",
    "every-eval-ever": "export_every_eval",
    "model-index": "export_model_index",
    "csv": "export_csv",
    "parquet": "export_parquet",
}
"""Format -> the module of this package with its ``write``, loaded when it is asked for."""

_PART = "[A-Za-z0-9](?:[A-Za-z0-9._+-]*[A-Za-z0-9_+-])?"
MODEL_ID = re.compile(rf"{_PART}(?:/{_PART})+")

HEEDED = {
    "has_samples": ("--no-samples", ("lm-eval", "every-eval-ever", "csv", "parquet")),
    "has_texts": ("--texts", ("csv", "parquet")),
    "has_conditions": ("--conditions", ("model-index",)),
    "organization": ("--organization", ("every-eval-ever",)),
    "relationship": ("--relationship", ("every-eval-ever",)),
}
"""Option -> how it is called on the command line, and the formats that heed it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportOptions:
    """Choices beside the run and the format.

    Attributes:
        model_id: organisation/name that the model is to be called by; None = its own.
        has_samples: whether responses are written beside the aggregates.
        has_texts: whether tables of responses hold prompts and answers in full.
        has_conditions: whether a model card gets the numbers of each condition too.
        organization: who ran the evaluation.
        relationship: of who ran it to who made the model.
        force: whether files that no export wrote may be replaced.
    """

    model_id: str | None = None
    has_samples: bool = True
    has_texts: bool = False
    has_conditions: bool = False
    organization: str = NOT_STATED
    relationship: Relationship = "other"
    force: bool = False

    def check(self, format_name: str) -> None:
        """Raises UsageError for an id that is none, and for an option the format does not heed."""
        if self.model_id is not None and not MODEL_ID.fullmatch(self.model_id):
            raise UsageError(
                f"--model-id {self.model_id!r}: expected organisation/name of letters, digits and "
                "_ + - with dots between them"
            )
        usual = ExportOptions()
        for name, (option, formats) in HEEDED.items():
            if getattr(self, name) != getattr(usual, name) and format_name not in formats:
                raise UsageError(
                    f"{option} says nothing to {format_name}; it belongs to {', '.join(formats)}"
                )
