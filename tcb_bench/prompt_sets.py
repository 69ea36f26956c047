"""The prompts of ``dpd_tcb`` (diverse) and ``lvd_tcb`` (the same, modified to be nearly certain).

Generators in the sense of ``tcb: {generator: ...}``: MMLU rows and the task's own templates in,
documents out, the same on every machine. Which templates and modifications there are is data:
``templates.jsonl`` and ``modifications.jsonl`` beside the YAMLs.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from string import Template
from typing import Any

from tcb_bench.data_files import read_jsonl
from tcb_bench.errors import DataError
from tcb_bench.selection import draw, seeded_order, stable_hash

Row = dict[str, Any]
MMLU = "multiple choice"
NONE = "none"
LETTERS = "ABCD"
ENDINGS = ("river", "seven", "green", "home", "stone", "later", "paper", "north", "music", "salt")
"""Stand for the answer of a prompt that has none, such as the beginning of a story."""


def dpd(
    rows: Sequence[Row],
    *,
    folder: Path,
    templates: str,
    subjects: Sequence[str],
    per_subject: int,
    seed: int,
) -> list[Row]:
    """Diverse prompts: MMLU questions zero-shot, then prompts from templates.

    Args:
        rows: MMLU rows (question, choices, answer, subject), of one subject in their own order.
        folder: against which ``templates`` is resolved.
        templates: a JSONL file; a line has ``kind``, ``template`` (with ``$slots``) and either
            ``slots`` with ``items`` (one prompt per item; a slot ``answer`` is the answer) or
            ``words`` (slot -> texts) with ``take``, the number of combinations drawn.
        subjects: of MMLU, in order.
        per_subject: questions drawn of each, those that ``mmlu_tcb_reasoning`` draws by this seed.
        seed: of all draws.

    Returns:
        Documents with ``id, prompt, kind, source, modification`` ("none") ``, answer`` (may be "").

    Raises:
        DataError: no rows of a subject, or a template that cannot be filled.
    """
    asked = [doc for subject in subjects for doc in _questions(rows, subject, per_subject, seed)]
    return asked + _own_prompts(folder / templates, seed)


def lvd(
    rows: Sequence[Row],
    *,
    folder: Path,
    modifications: str,
    mmlu_each: int,
    own_each: int,
    seed: int,
    **diverse: Any,
) -> list[Row]:
    """Prompts of ``dpd``, each changed by one named modification that leaves little to predict.

    Every modification takes its own seeded draw of ``mmlu_each`` MMLU questions and ``own_each``
    prompts of ours, all kinds alike. ``source`` is the id of the prompt that was changed.

    Args:
        rows: as for ``dpd``.
        folder: against which files are resolved.
        modifications: a JSONL file; a line has ``modification``, ``about`` and ``template`` with
            the slots of ``_modified``.
        mmlu_each: MMLU questions per modification.
        own_each: prompts of ours per modification.
        seed: of all draws.
        **diverse: the settings of ``dpd``.

    Raises:
        DataError: as ``dpd``.
    """
    base = dpd(rows, folder=folder, seed=seed, **diverse)
    parts = [[d for d in base if (d["kind"] == MMLU) == is_mmlu] for is_mmlu in (True, False)]
    found = []
    for change in read_jsonl(folder / modifications):
        name = change["modification"]
        for part, size in zip(parts, (mmlu_each, own_each), strict=True):
            ids = [f"{name}/{doc['id']}" for doc in part]
            found += [
                _modified(part[i], part, change, f"{seed}/{ids[i]}") for i in draw(ids, size, seed)
            ]
    return found


def _questions(rows: Sequence[Row], subject: str, size: int, seed: int) -> list[Row]:
    own = [row for row in rows if row["subject"] == subject]
    if not own:
        raise DataError(f"the data has no MMLU question of {subject}")
    ids = [f"{subject}/test/{i}" for i in range(len(own))]
    return [
        _document(
            f"mmlu/{ids[i]}",
            MMLU,
            _question(own[i]),
            f"cais/mmlu {ids[i]}",
            LETTERS[own[i]["answer"]],
        )
        for i in draw(ids, size, seed)
    ]


def _question(row: Row) -> str:
    """The prompt of ``mmlu_tcb``, up to the letter."""
    subject = row["subject"].replace("_", " ")
    options = [f"{letter}. {text}" for letter, text in zip(LETTERS, row["choices"], strict=True)]
    about = f"The following are multiple choice questions (with answers) about {subject}.\n\n"
    return "\n".join([about + row["question"].strip(), *options, "Answer:"])


def _own_prompts(path: Path, seed: int) -> list[Row]:
    counts: dict[str, int] = {}
    found = []
    for line, row in enumerate(read_jsonl(path), start=1):
        for filling in _fillings(row, seed):
            number = counts[row["kind"]] = counts.get(row["kind"], -1) + 1
            prompt = _filled(row["template"], filling, f"{path.name}:{line}")
            id_ = f"own/{row['kind']}/{number}"
            source = f"{path.name} line {line}"
            found.append(_document(id_, row["kind"], prompt, source, filling.get("answer", "")))
    return found


def _fillings(row: Row, seed: int) -> list[dict[str, str]]:
    """Slot -> text, once per prompt of a template."""
    if "items" in row:
        return [dict(zip(row["slots"], item, strict=True)) for item in row["items"]]
    words = row["words"]
    all_of_them = [
        dict(zip(words, values, strict=True)) for values in itertools.product(*words.values())
    ]
    ids = [f"{row['template']}/{json.dumps(f, ensure_ascii=False)}" for f in all_of_them]
    return [all_of_them[i] for i in draw(ids, row["take"], seed)]


def _modified(doc: Row, others: Sequence[Row], change: Row, key: str) -> Row:
    """The prompt inside the modification's template.

    Slots: ``prompt``; ``quoted``, the same as a JSON text; ``answer``; ``part``, its beginning up
    to a seeded word of its second half; ``cue``, its last line; ``other1`` and ``other2``, further
    prompts of its kind.
    """
    prompt = doc["prompt"]
    alike = [d["prompt"] for d in others if d["kind"] == doc["kind"] and d["id"] != doc["id"]]
    shown = [alike[i] for i in seeded_order(alike, stable_hash(key))[:2]]
    slots = {
        "prompt": prompt,
        "quoted": json.dumps(prompt, ensure_ascii=False),
        "answer": doc["answer"] or ENDINGS[stable_hash(key, "ending") % len(ENDINGS)],
        "cue": prompt.strip("\n").rpartition("\n")[2],
        "part": _beginning(prompt, stable_hash(key, "part")),
        **{f"other{i}": other for i, other in enumerate(shown, start=1)},
    }
    name = change["modification"]
    text = _filled(change["template"], slots, name)
    return _document(f"{name}/{doc['id']}", doc["kind"], text, doc["id"], slots["answer"], name)


def _beginning(prompt: str, number: int) -> str:
    """The prompt up to the end of one of the words of its second half, never all of it."""
    ends = [i for i, letter in enumerate(prompt) if letter == " " and prompt[:i].strip()]
    late = [end for end in ends if 2 * end >= len(prompt)] or ends[-1:]
    return prompt[: late[number % len(late)]] if late else prompt[: (len(prompt) + 1) // 2]


def _filled(template: str, slots: Mapping[str, str], where: str) -> str:
    try:
        return Template(template).substitute(slots)
    except (KeyError, ValueError) as error:
        raise DataError(f"{where}: the template cannot be filled: {error}") from error


def _document(
    id_: str, kind: str, prompt: str, source: str, answer: str, modification: str = NONE
) -> Row:
    return {
        "id": id_,
        "prompt": prompt,
        "kind": kind,
        "source": source,
        "modification": modification,
        "answer": answer,
    }
