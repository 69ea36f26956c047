"""What is allowed in a task file but looks like a slip."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from tcb_bench.strict_yaml import without_jinja
from tcb_bench.task_include import Merged

_LATEX = re.compile(r"\\[A-Za-z]+\*?(?:\[[^\[\]]*\]|\{[^{}]*\})*")
_PLACEHOLDER = re.compile(r"(?<![\^_{])\{([A-Za-z_]\w*)\}(?!\})")


def task_warnings(merged: Merged) -> Iterator[str]:
    """One ``FILE:LINE: what was found; what to do`` per doubtful value, in a fixed order."""
    for at in (place for places in merged.unescaped.values() for place in places):
        yield f'{at}: \\n outside double quotes is two characters; write "...\\n" for a new line'
    for key in ("description", "doc_to_text", "doc_to_target"):
        for name in _placeholders(merged.config.get(key)):
            found = f"{key} has {{{name}}}, which stays as it is"
            yield f"{merged.at(key)}: {found}; write {{{{{name}}}}} to insert the column"
    yield from _doubled_prefix(merged)
    yield from _unused_or_missing(merged)


def _placeholders(template: Any) -> list[str]:
    """Names in single braces, as in Python's format; not Jinja's blocks, not LaTeX's arguments."""
    if not isinstance(template, str):
        return []
    return _PLACEHOLDER.findall(_LATEX.sub(" ", without_jinja(template)))


def _doubled_prefix(merged: Merged) -> Iterator[str]:
    text, prefix = merged.config.get("doc_to_text"), merged.config.get("gen_prefix")
    if not isinstance(text, str) or not isinstance(prefix, str) or not prefix.strip():
        return
    if text.rstrip().endswith(prefix.strip()):
        found = f"doc_to_text ends in {prefix.strip()!r} and gen_prefix adds it again"
        yield f"{merged.at('doc_to_text')}: {found}; keep it in gen_prefix alone"


def _unused_or_missing(merged: Merged) -> Iterator[str]:
    tcb = merged.config.get("tcb")
    request = tcb.get("request") if isinstance(tcb, dict) else None
    if request == "next_token" and "output_type" in merged.config:
        found = "output_type does nothing with `request: next_token`"
        yield f"{merged.at('output_type')}: {found}; leave it out"
    if request in ("generate", "generate_traced"):
        generation = merged.config.get("generation_kwargs")
        if not isinstance(generation, dict) or "until" not in generation:
            found = "generation_kwargs has no `until`, so only the token limit stops the text"
            yield f"{merged.at('generation_kwargs')}: {found}; name the texts it ends before"
