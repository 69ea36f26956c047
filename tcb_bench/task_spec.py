"""What a task file may say to tcb-bench itself: the mappings ``tcb`` and ``sweep``."""

from __future__ import annotations

import string
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from tcb_bench.task_section import At, Section, is_number, is_whole

PERTURBATIONS: tuple[str, ...] = ()
"""Kinds of ``perturbation`` that exist in this version."""

POSITIONS: dict[str, tuple[str, ...]] = {
    "next_token": ("prompt_end",),
    "generate_traced": ("final_number", "first", "last"),
    "generate": (),
}
"""Request -> the positions it may measure at, the default first."""

ANSWERS = ("choice", "final_number", "exact")
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
    if _template_fields(found, "files", ("split", "config")) is None:
        raise found.bad("files", "expected a path like mmlu/{split}/{config}.csv")
    splits = found.values.get("splits", {})
    if not isinstance(splits, dict) or not _are_texts([*splits, *splits.values()]):
        raise found.bad("splits", "expected split names to file names, like {validation: val}")
    columns = found.values.get("columns")
    is_list = isinstance(columns, list) and columns and _are_texts(columns)
    if "columns" in found.values and not is_list:
        raise found.bad("columns", "expected a list of column names")
    found.choice("adapt", ADAPTERS, "none")
    return {"splits": {}, "columns": None, "adapt": "none", **found.values}


def _are_texts(values: list[Any]) -> bool:
    return all(isinstance(value, str) and value for value in values)


def sweep_axes(config: Mapping[str, Any], where: str | At) -> dict[str, tuple[Any, ...]]:
    """The checked ``sweep`` of a task config, axis -> values in YAML order; empty for none.

    Raises:
        UsageError: an unknown axis, no values, a value out of range or one given twice.
    """
    if "sweep" not in config:
        return {}
    found = Section(config["sweep"], "sweep", where)
    found.allow(_AXES, f"the axes are {', '.join(_AXES)}")
    axes = {}
    for axis, values in found.values.items():
        is_good, expected = _AXES[axis]
        if not isinstance(values, list) or not values or not all(map(is_good, values)):
            raise found.bad(axis, f"expected a list of {expected}")
        if len(set(values)) != len(values):
            raise found.bad(axis, "expected each value once")
        axes[axis] = tuple(values)
    return axes


_AXES: dict[str, tuple[Callable[[Any], bool], str]] = {
    "temperature": (lambda x: is_number(x) and 0 <= x <= 2, "numbers from 0 to 2"),
    "top_p": (lambda x: is_number(x) and 0 < x <= 1, "numbers above 0, up to 1"),
    "top_k": (lambda x: is_whole(x, 0), "whole numbers >= 0 (0 = no limit)"),
    "max_gen_toks": (lambda x: is_whole(x, 1), "whole numbers >= 1"),
}
