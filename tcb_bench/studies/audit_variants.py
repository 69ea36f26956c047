"""The prompts of one task with one change each, and the answers to them."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tcb_bench.conditions import Condition
from tcb_bench.data import ID_COLUMN
from tcb_bench.errors import UnknownName, UsageError
from tcb_bench.metrics.answers import final_number
from tcb_bench.perturb.item import generator, reordered
from tcb_bench.perturb.kinds import KINDS, change_text, needs, parse
from tcb_bench.responses import Generation
from tcb_bench.studies.session import Answer
from tcb_bench.task_perturb import Perturber

FORMATS: dict[str, Callable[[str], str]] = {
    "upper_case": str.upper,
    "double_spaces": lambda text: re.sub(" ", "  ", text),
}
"""Changes of a question's look that no seed enters."""

DROPPING, OPTIONS = "shots_dropping", "options_reordering"
OWN = (*FORMATS, DROPPING, OPTIONS)
WORDING, EXAMPLES = "wording", "examples"
Doc = Mapping[str, Any]


def group_of(name: str) -> str:
    """What a change touches: the question's ``wording``, the ``examples`` or the ``options``.

    Raises:
        UnknownName: no such change.
        UsageError: its argument does not fit.
    """
    if name == OPTIONS:
        return "options"
    if name in FORMATS:
        return WORDING
    if name == DROPPING:
        return EXAMPLES
    base, colon, _ = name.partition(":")
    if base in OWN and colon:
        raise UsageError(f"prompt perturbation {name!r}: {base} takes no argument; write {base}")
    axis = {"text": "query", "shots": "shots"}.get(KINDS[base].target) if base in KINDS else None
    if axis is None:
        known = [k for k, kind in KINDS.items() if kind.target in ("text", "shots")]
        hint = f"`tcb-bench ls perturbations` shows the kinds; besides: {', '.join(OWN)}"
        raise UnknownName("prompt perturbation", base, [*known, *OWN], hint)
    parse(name, axis)
    return WORDING if axis == "query" else EXAMPLES


class Editor(Perturber):
    """Applies one change to every document (or its examples), with draws of its own."""

    def __init__(self, base: Perturber, edit: str, draw: int) -> None:
        """``base`` is the task's; draw 0 makes the changes of a run with the same seed."""
        super().__init__(base.spec, base.seed + draw, base.tools)
        self.edit, self.group = edit, group_of(edit)

    def document(
        self, doc: Doc, condition: Mapping[str, Any]
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """The changed columns, as ``Perturber.document`` gives them."""
        columns, notes = super().document(doc, condition)
        if self.group == WORDING:
            name = self.spec.columns["question"]
            columns[name] = self._reworded(str(columns.get(name, doc[name])), doc)
        elif self.group == "options":
            order = option_order(doc, self.seed)
            columns["choices"] = [doc["choices"][i] for i in order]
        return columns, notes

    def _reworded(self, text: str, doc: Doc) -> str:
        if self.edit in FORMATS:
            return FORMATS[self.edit](text)
        found = change_text(
            text, self.edit, seed=self.seed, document=doc[ID_COLUMN], tools=self.tools
        )
        return found.value

    def shots(
        self,
        doc: Doc,
        condition: Mapping[str, Any],
        chosen: Sequence[dict[str, Any]],
        pool: Sequence[dict[str, Any]],
    ) -> list[dict[str, Any]]:
        """The examples of a prompt, changed where that is what the edit does."""
        if self.group != EXAMPLES or self.edit == DROPPING:
            return super().shots(doc, condition, chosen, pool)
        return super().shots(doc, {**condition, "shots": self.edit}, chosen, pool)


def option_order(doc: Doc, seed: int) -> list[int]:
    """Which option stands at each place after ``options_reordering``; never the given order."""
    places = list(range(len(doc["choices"])))
    return reordered(places, generator(seed, OPTIONS, doc[ID_COLUMN]))


def edited(task: Any, edit: str, draw: int) -> Any:
    """The task with every prompt changed; its documents are the same."""
    axes = {**task.options.condition, "edit": edit, "draw": draw}
    editor = Editor(task.documents.perturber, edit, draw)
    clone = task.in_condition(Condition(axes)).changed(perturber=editor)
    if edit == DROPPING:  # lm-eval counts the examples that it is given
        fewer = functools.partial(_without_one, task, draw)
        clone = clone.showing(task.config.num_fewshot - 1, fewer)
    return clone


def _without_one(task: Any, draw: int, doc: Doc) -> list[dict[str, Any]]:
    """The task's own examples for a document but a drawn one."""
    chosen = task.shots(doc)
    left_out = generator(task.options.seed + draw, DROPPING, doc[ID_COLUMN]).randrange(len(chosen))
    return [shot for i, shot in enumerate(chosen) if i != left_out]


def applies(task: Any, edit: str) -> bool:
    """Whether the edit exists for a task: examples need shots, options a column of them."""
    group = group_of(edit)
    if group == EXAMPLES:
        return bool(task.config.num_fewshot)
    return group == WORDING or "choices" in task.eval_docs.column_names and is_choice(task)


def is_choice(task: Any) -> bool:
    """Whether the answer is the best of a closed set."""
    return task.spec.answer == "choice" and task.config.doc_to_choice is not None


def check(tasks: Mapping[str, Any], edits: Sequence[str]) -> None:
    """What cannot be audited is said before anything is asked.

    Raises:
        UsageError: a task without an answer to compare, or two kinds of answers.
        DataError: what a change needs is missing.
    """
    for name, task in tasks.items():
        if not hasattr(task, "is_tcb_task") or task.spec.answer == "short_answer":
            raise UsageError(
                f"study audit compares answers, and {name} has none to compare (a letter, a "
                "number, an exact text); give it such tasks of ours: --tasks mmlu_tcb_reasoning"
            )
        task.documents.perturber.tools.check(needs(e for e in edits if e not in OWN))
    if len({is_choice(task) for task in tasks.values()}) > 1:
        raise UsageError(
            "study audit pools its questions, and these tasks answer by choices and by text; "
            "ask them one after the other, each with a --tag"
        )


def answer_of(answer: Answer, task: Any, order: Sequence[int] | None = None) -> str | None:
    """The answer as it is compared: an option's text, a number's value, or a text; None for none.

    ``order`` is that of the options where they were reordered.
    """
    row = answer.row
    if logprobs := row.get("choice_logprobs"):
        best = max(range(len(logprobs)), key=logprobs.__getitem__)
        options = answer.doc.get("choices")
        return str(options[order[best] if order else best]) if options else str(best)
    if not isinstance(answer.response, Generation):
        return row.get("greedy_token")
    if task.spec.answer == "final_number" and row.get("answer"):
        number = final_number(row["answer"])
        return f"{number.value.normalize():f}" if number else None
    return row.get("answer")


def is_right(answer: Answer, task: Any, order: Sequence[int] | None = None) -> float | None:
    """1.0, 0.0, or None where nothing is right or wrong; of reordered options their texts count."""
    acc = answer.row.get("acc")
    if acc is None or not order:
        return None if acc is None else float(acc)
    gold = str(answer.doc["choices"][task.target(answer.doc)])
    return float(answer_of(answer, task, order) == gold)
