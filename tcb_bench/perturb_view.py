"""``tcb-bench perturb``: what a perturbation makes of documents, before and after in colour."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from tcb_bench.config import TaskOptions
from tcb_bench.data import ID_COLUMN
from tcb_bench.errors import UsageError
from tcb_bench.perturb.distance import distance
from tcb_bench.perturb.item import NotApplicable
from tcb_bench.perturb.kinds import KINDS, needs, parse

SHOWN_BY_DEFAULT = 3
_TOKEN = re.compile(r"\S+|\s+")


def show(
    console: Console, kind: str, task: str, options: TaskOptions, include: Sequence[Path] = ()
) -> int:
    """Prints each document of the task with the change beside it; ``--limit`` says how many.

    Raises:
        UnknownName: no such perturbation or task.
        UsageError: the perturbation does not fit the task.
    """
    from tcb_bench.load_tasks import load_tasks, quiet

    options = replace(options, reference="short", limit=options.limit or SHOWN_BY_DEFAULT)
    with quiet():
        loaded = load_tasks([task], options, include, is_run=False)
    found = next(iter(loaded.tasks.values()))
    if not hasattr(found, "is_tcb_task"):
        raise UsageError(f"{task} is one of lm-eval's own tasks; perturbations need one of ours")
    axis = _axis(kind, found)
    perturber = found.documents.perturber
    perturber.tools.check(needs([kind]))
    for doc in list(found.documents.selection.documents)[: _count(options.limit)]:
        try:
            _, notes = perturber.document(doc, {axis: kind})
        except NotApplicable as error:
            console.print(Text(f"{doc[ID_COLUMN]}: {error}", style="dim"))
            continue
        console.print(_view(doc[ID_COLUMN], notes[axis]))
    return 0


def _axis(kind: str, task: Any) -> str:
    """The axis on which the task takes this kind: its documents, or its question."""
    if kind.partition(":")[0] in KINDS and KINDS[kind.partition(":")[0]].target == "shots":
        raise UsageError(f"{kind} changes few-shot examples; put it in a sweep: shots: [{kind}]")
    axis = "context" if task.spec.has_documents else "query"
    parse(kind, axis)
    return axis


def _count(limit: float | None) -> int | None:
    return int(limit) if limit is not None and limit >= 1 else None


def _view(document: str, note: dict[str, Any]) -> Table:
    before, after = _marked(note["before"], note["after"])
    went = distance(note["before"], note["after"])
    facts = [*note["flags"], *(f"{name} {n}" for name, n in note["counts"].items())]
    facts.append(f"token overlap {went.token_overlap:.2f}")
    table = Table(title=document, caption=", ".join(facts), title_justify="left", show_lines=False)
    table.add_column("original", ratio=1, overflow="fold")
    table.add_column(note["kind"], ratio=1, overflow="fold")
    table.add_row(before, after)
    return table


def _marked(before: str, after: str) -> tuple[Text, Text]:
    """Both texts, what went in red and what came in green."""
    old, new = _TOKEN.findall(before), _TOKEN.findall(after)
    left, right = Text(), Text()
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    for what, a, b, c, d in matcher.get_opcodes():
        left.append("".join(old[a:b]), style=None if what == "equal" else "red strike")
        right.append("".join(new[c:d]), style=None if what == "equal" else "bold green")
    return left, right
