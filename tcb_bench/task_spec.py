"""What a task file may say to tcb-bench itself: the mapping ``tcb``."""

from __future__ import annotations

import re
import string
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from tcb_bench.task_section import At, Section, is_whole

POSITIONS: dict[str, tuple[str, ...]] = {
    "next_token": ("prompt_end",),
    "generate_traced": ("final_number", "first", "last"),
    "generate": (),
}
"""Request -> the positions it may measure at, the default first."""

ANSWERS = ("choice", "final_number", "exact", "short_answer")
REFERENCES = ("none", "short", "sentence")
COLUMNS = {
    "question": "question",
    "documents": "",
    "support": "support",
    "answer": "answer",
    "reference": "reference",
}
"""What ``tcb: {columns: ...}`` may name, with the defaults; ``documents`` makes a RAG task."""
SAMPLING_DEFAULTS = ("neutral", "model")
ADAPTERS = ("none", "mmlu_csv")


@dataclass(frozen=True, slots=True, kw_only=True)
class TcbSpec:
    """The ``tcb`` mapping of a task, checked, with its defaults filled in."""

    request: str  # next_token, generate_traced or generate
    epsilon: float  # allowed change of the distribution, L2, > 0
    position: str | None  # prompt_end, final_number, first, last; None for generate
    answer: str  # choice, final_number or exact: how an answer is read
    draw: int | None  # documents drawn, seeded; None = all
    doc_id: str | None  # template over config, split, row, id; None = the data decide
    shots: str | None  # JSONL beside the YAML with the fixed few-shot examples
    sampling_defaults: str  # neutral or model
    sample: str  # folder of the shipped sample, relative to the YAML's
    local: dict[str, Any] | None  # layout under --data DIR: files, splits, columns, adapt
    columns: dict[str, str]  # which column holds the question, documents, support, answer, ...
    strata: dict[str, list[Any]] | None  # column -> values; draw and --limit count per cell
    axes: dict[str, str]  # sweep axes that choose documents: axis -> column
    reference: str  # what texts are compared with: none, short or sentence
    generator: dict[str, Any] | None  # function (module.name) and its settings: rows -> documents

    @property
    def has_documents(self) -> bool:
        """Whether questions are asked over documents (a RAG task)."""
        return bool(self.columns["documents"])


def tcb_spec(config: Mapping[str, Any], where: str | At) -> TcbSpec:
    """The checked ``tcb`` mapping of a whole task config (``config["tcb"]``).

    Args:
        config: the task's config, includes resolved.
        where: what a message begins with, or a function from the dotted key to that.

    Raises:
        UsageError: an unknown key (with the nearest), a bad value, or no ``request``.
    """
    found = Section(config.get("tcb"), "tcb", where)
    found.allow(f.name for f in fields(TcbSpec))
    request = found.choice("request", tuple(POSITIONS), None)
    position = _position(found, request)
    return TcbSpec(
        request=request,
        epsilon=found.positive("epsilon", 1.0),
        position=position,
        answer=found.choice("answer", ANSWERS, _default_answer(request, position)),
        draw=found.whole("draw"),
        doc_id=_doc_id(found),
        shots=found.text("shots"),
        sampling_defaults=found.choice("sampling_defaults", SAMPLING_DEFAULTS, "neutral"),
        sample=found.text("sample") or "sample",
        local=_local(found),
        columns=_columns(found),
        strata=_strata(found),
        axes=_texts_by_name(found, "axes", "axis names to columns, like {question_type: type}"),
        reference=found.choice("reference", REFERENCES, "none"),
        generator=_generator(found),
    )


def _position(found: Section, request: str) -> str | None:
    options = POSITIONS[request]
    if options:
        return found.choice("position", options, options[0])
    if "position" in found.values:
        raise found.bad("position", "expected none: `request: generate` measures nowhere")
    return None


def _default_answer(request: str, position: str | None) -> str:
    if request == "next_token":
        return "choice"
    return "final_number" if position == "final_number" else "exact"


def _doc_id(found: Section) -> str | None:
    used = _template_fields(found, "doc_id", ("config", "split", "row", "id"))
    if used is not None and not used & {"row", "id"}:
        raise found.bad("doc_id", "expected {row} or {id} in it, or all documents share one id")
    return found.values.get("doc_id")


def _template_fields(found: Section, key: str, allowed: tuple[str, ...]) -> set[str] | None:
    """The fields that a str.format template uses, all of ``allowed``; None where it is absent."""
    text = found.text(key)
    if text is None:
        return None
    expected = f"expected a text with {' '.join(f'{{{name}}}' for name in allowed)}"
    try:
        parts = [(name, spec) for _, name, spec, _ in string.Formatter().parse(text)]
        text.format(**dict.fromkeys(allowed, "x") | {"row": 0})
    except (ValueError, LookupError, AttributeError):
        raise found.bad(key, expected) from None
    used = {name for name, _ in parts if name is not None}
    if not used <= set(allowed):
        raise found.bad(key, expected)
    return used


def _local(tcb: Section) -> dict[str, Any] | None:
    if "local" not in tcb.values:
        return None
    found = tcb.inside("local")
    found.allow(("files", "splits", "columns", "adapt"))
    _check_files(found)
    splits = found.values.get("splits", {})
    if not isinstance(splits, dict) or not _are_texts([*splits, *splits.values()]):
        raise found.bad("splits", "expected split names to file names, like {validation: val}")
    columns = found.values.get("columns")
    is_list = isinstance(columns, list) and columns and _are_texts(columns)
    if "columns" in found.values and not is_list:
        raise found.bad("columns", "expected a list of column names")
    found.choice("adapt", ADAPTERS, "none")
    return {"splits": {}, "columns": None, "adapt": "none", **found.values}


def _generator(tcb: Section) -> dict[str, Any] | None:
    if "generator" not in tcb.values:
        return None
    found = tcb.inside("generator")
    name = found.text("function")
    if name is None or not re.fullmatch(r"[^\W\d]\w*(\.[^\W\d]\w*)+", name):
        raise found.bad("function", "expected a function's full name, like my_module.prompts")
    return dict(found.values)


def _check_files(local: Section) -> None:
    """``files`` is one template or a list of them, whose rows are then one pool."""
    files = local.values.get("files")
    for each in files if isinstance(files, list) and files else [files]:
        one = Section({} if each is None else {"files": each}, local.name, local.at)
        if _template_fields(one, "files", ("split", "config")) is None:
            raise local.bad("files", "expected a path like mmlu/{split}/{config}.csv, or a list")


def _columns(tcb: Section) -> dict[str, str]:
    given = _texts_by_name(tcb, "columns", "a role to a column, like {documents: context}")
    if "columns" in tcb.values:
        tcb.inside("columns").allow(COLUMNS)
    return {**COLUMNS, **given}


def _texts_by_name(tcb: Section, key: str, expected: str) -> dict[str, str]:
    if key not in tcb.values:
        return {}
    values = tcb.inside(key).values
    if not _are_texts([*values, *values.values()]):
        raise tcb.bad(key, f"expected {expected}")
    return dict(values)


def _strata(tcb: Section) -> dict[str, list[Any]] | None:
    if "strata" not in tcb.values:
        return None
    found = tcb.inside("strata")
    for column, values in found.values.items():
        is_list = isinstance(values, list) and values and len(set(map(str, values))) == len(values)
        if not is_list or not all(isinstance(v, str) or is_whole(v, 0) for v in values):
            raise found.bad(column, "expected a list of texts or whole numbers, each once")
    return dict(found.values) or None


def _are_texts(values: list[Any]) -> bool:
    return all(isinstance(value, str) and value for value in values)
