"""The prompts of interventions: one per row, item and seed, rendered by the task itself."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tcb_bench.data import ID_COLUMN
from tcb_bench.errors import DataError, UsageError
from tcb_bench.selection import limit_size, stable_hash
from tcb_bench.strict_yaml import nearest
from tcb_bench.studies.interventions_file import Intervention, Interventions, Shot
from tcb_bench.studies.session import Session

LEAD, INSTRUCTION = "tcb_lead", "tcb_instruction"
"""Columns that documents and examples get: what opens an answer, and the prompt's first lines."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One request: row ``row`` (from 1) on document ``item`` with the examples of ``seed``."""

    row: int
    item: str
    seed: int
    order: tuple[int, ...]  # which examples of the pool, from 0, in the order shown
    doc: Mapping[str, Any]  # the document as the data have it
    arguments: tuple[Any, ...]  # prompt, and every generation parameter

    @property
    def id(self) -> str:
        """Unique in the study."""
        return f"{self.item} row {self.row} seed {self.seed}"

    @property
    def prompt(self) -> str:
        """The text that the model sees."""
        return str(self.arguments[0])


def the_task(session: Session) -> Any:
    """The one task of the study, with all its documents.

    Raises:
        UsageError: several tasks, one that generates no traced text, or sampling out of range.
        DataError: its documents cannot be loaded.
    """
    sampling = {name: session.settings[name] for name in ("temperature", "max_gen_toks")}
    tasks = list(session.load(limit=None, gen_kwargs=sampling).tasks.values())
    names = ", ".join(session.config.tasks)
    if len(tasks) != 1:
        raise UsageError(f"--tasks {names}: {len(tasks)} tasks; study interventions asks one")
    task = tasks[0]
    is_ours = hasattr(task, "is_tcb_task") and task.spec.request == "generate_traced"
    if not is_ours or task.spec.answer != "final_number":
        raise UsageError(
            f"--tasks {names}: expected a task with `tcb: {{request: generate_traced, "
            "answer: final_number}}`, such as gsm8k_tcb"
        )
    return task


def chosen_items(session: Session, task: Any) -> list[str]:
    """The ids of the setting ``item``, each once; the first ``--limit`` of them.

    Raises:
        DataError: the task's data have no such document.
        UsageError: no id is given.
    """
    parts = [part.strip() for text in session.settings["item"] for part in str(text).split(",")]
    items = list(dict.fromkeys(filter(None, parts)))
    if not items:
        raise UsageError("--item: no id given; write test/811, or several with commas")
    known = list(task.eval_docs[ID_COLUMN])
    for item in items:
        if item not in known:
            raise DataError(_absent(item, known, task, session.config.options.data))
    return items[: limit_size(session.config.options.limit, len(items))]


def _absent(item: str, known: Sequence[str], task: Any, data: str) -> str:
    files = str(task.spec.local["files"]) if task.spec.local else "the task's files"
    files = files.replace("{split}", str(task.config.test_split))
    there = f"{known[0]} to {known[-1]}" if len(known) > 1 else known[0]
    return (
        f"--item {item}: not among the {len(known)} documents of {task.base_name} with "
        f"--data {data} ({there}); {nearest(item, known, 'give one of these with --item')} "
        f"The whole data set: --data hub, or --data DIR with {files} in it"
    )


def asked(
    session: Session, task: Any, interventions: Interventions, items: Sequence[str]
) -> list[Asked]:
    """Every request of the study, by row, item and seed.

    Raises:
        UsageError: the task's prompt has no cue.
        DataError: an example is the item itself, or cannot be rendered.
    """
    place = {id_: i for i, id_ in enumerate(task.eval_docs[ID_COLUMN])}
    docs = [task.eval_docs[place[item]] for item in items]
    found = []
    for number, row in enumerate(interventions.rows, 1):
        _check_examples(row, docs, task, f"{interventions.name}: row {number}")
        for seed, order in enumerate(orders(row, session.settings["seeds"], session.seed)):
            shown = [row.shots[i] for i in order]
            requests = session.prompts(variant(task, session.settings["cue"], row, shown, docs))
            found += [
                Asked(row=number, item=item, seed=seed, order=order, doc=doc, arguments=r.args)
                for item, doc, r in zip(items, docs, requests, strict=True)
            ]
    return sorted(found, key=lambda one: (one.row, items.index(one.item), one.seed))


def orders(row: Intervention, seeds: int, seed: int) -> list[tuple[int, ...]]:
    """Which examples each seed shows, in order: seed 0 the set's first as they stand.

    The others are drawn at random, all different while there are enough orders; then they begin
    again. Rows with sets of one size get the same orders, so that they can be compared in pairs,
    and more seeds keep the orders of fewer.
    """
    pool = len(row.shots)
    rng = random.Random(stable_hash(seed, "interventions", pool, row.n_shots))
    found = [tuple(range(row.n_shots))]
    while len(found) < min(seeds, math.perm(pool, row.n_shots)):
        drawn = tuple(rng.sample(range(pool), row.n_shots))
        if drawn not in found:
            found.append(drawn)
    return [found[i % len(found)] for i in range(seeds)]


def variant(
    task: Any, cue: str, row: Intervention, shots: Sequence[Shot], docs: Sequence[Any]
) -> Any:
    """The task asking ``docs`` as ``row`` changes them, behind ``shots`` in that order.

    What a row adds enters as columns of the documents, so that the task's own rendering (few-shot
    form, chat template) does the rest, and no text is read as a template.

    Raises:
        UsageError: the task's prompt has no ``cue``, or its documents no column of questions.
    """
    template, gap = _with_lead(task, cue)
    texts = {"doc_to_text": template}
    if row.instruction is not None:
        texts["description"] = "{{" + INSTRUCTION + "}}"
    question = task.spec.columns["question"]
    if question not in docs[0]:
        raise UsageError(f"{task.base_name}: its documents have no column {question!r}")
    own_cue = cue if row.cue is None else row.cue
    examples = [{**shot, LEAD: _joined(gap, own_cue)} for shot in shots]
    documents = [
        {
            **doc,
            question: " ".join(filter(None, [doc[question], row.question_suffix])),
            LEAD: _joined(gap, row.prefix, own_cue),
            INSTRUCTION: (row.instruction or "").strip() + "\n\n",
        }
        for doc in docs
    ]
    changed = task.changed(texts=texts, documents=documents)
    return changed.showing(len(examples), lambda _doc: examples)


def _with_lead(task: Any, cue: str) -> tuple[str, str]:
    """The task's prompt with a column in place of the cue, and the blanks before the cue."""
    template = task.config.doc_to_text
    found = list(re.finditer(rf"[ \t]*{re.escape(cue)}", template)) if cue else []
    if not isinstance(template, str) or len(found) != 1:
        raise UsageError(
            f"setting cue={cue!r}: expected a text that stands once in doc_to_text of "
            f"{task.base_name}: {template!r}"
        )
    [match] = found
    gap = match[0].removesuffix(cue)
    return template[: match.start()] + "{{" + LEAD + "}}" + template[match.end() :], gap


def _joined(gap: str, *parts: str) -> str:
    text = " ".join(filter(None, (part.strip() for part in parts)))
    return gap + text if text else ""


def _check_examples(row: Intervention, docs: Sequence[Any], task: Any, at: str) -> None:
    column = task.spec.columns["question"]
    questions = {str(doc.get(column, "")).strip(): doc[ID_COLUMN] for doc in docs}
    for i, shot in enumerate(row.shots, 1):
        if column not in shot:
            raise DataError(f"{at}: example {i} of {row.shots_name} has no {column!r}")
        if (item := questions.get(str(shot[column]).strip())) is not None:
            raise DataError(
                f"{at}: example {i} of {row.shots_name} is {item} itself; leave it out, "
                "or choose another --item"
            )
