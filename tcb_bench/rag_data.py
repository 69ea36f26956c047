"""Records of a RAG task, checked and prepared, and the references of their answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tcb_bench.data import ID_COLUMN
from tcb_bench.data_files import read_jsonl
from tcb_bench.errors import DataError
from tcb_bench.metrics.qa import contains_answer
from tcb_bench.rag import EVIDENCE, POOL, Unresolved, prepare
from tcb_bench.results import digest
from tcb_bench.task_spec import TcbSpec

if TYPE_CHECKING:
    from datasets import Dataset

_LEFT_OUT = "tcb_left_out"


def prepared(documents: Dataset, spec: TcbSpec, name: str) -> tuple[Dataset, dict[str, int]]:
    """The records a RAG task can ask, and how many were left out for which reason.

    Raises:
        DataError: a column that ``tcb.columns`` names is not there, or nothing is left.
    """
    for role in ("question", "documents", "answer"):
        column = spec.columns[role]
        if column not in documents.column_names:
            raise DataError(
                f"{name}: tcb.columns.{role} is {column!r}, "
                f"the data has {', '.join(documents.column_names)}"
            )
    roles = (spec.columns["documents"], spec.columns["support"])
    kept = {"batched": False, "load_from_cache_file": False, "keep_in_memory": True}
    made = documents.map(
        lambda row: _prepared(row, spec), **kept, remove_columns=_present(documents, roles)
    )
    reasons = made[_LEFT_OUT]
    good = [i for i, why in enumerate(reasons) if not why]
    left_out = dict(Counter(why for why in reasons if why))
    if not good:
        why = ", ".join(f"{n} because {reason}" for reason, n in left_out.items())
        raise DataError(f"{name}: no record can be asked: {why}")
    return made.select(good).remove_columns(_LEFT_OUT), left_out


def _prepared(row: Mapping[str, Any], spec: TcbSpec) -> dict[str, Any]:
    question = row[spec.columns["question"]]
    if not isinstance(question, str) or not question.strip():
        raise DataError(f"{row.get(ID_COLUMN)}: the question is {question!r}, expected a text")
    try:
        return {**prepare(row, spec.columns), _LEFT_OUT: ""}
    except Unresolved as error:
        return {EVIDENCE: [], POOL: [], "n_facts": 0, _LEFT_OUT: str(error)}
    except (KeyError, TypeError, ValueError, AttributeError, IndexError):
        raise DataError(
            f"{row.get(ID_COLUMN)}: its documents or support are not of a known form; "
            "expected [{title, sentences | text}] or {title: [...], sentences: [...]}, "
            "and support [{title, sent_id}]"
        ) from None


def _present(documents: Dataset, columns: tuple[str, ...]) -> list[str]:
    return [column for column in columns if column in documents.column_names]


@dataclass(frozen=True, slots=True)
class References:
    """What the answers of a task are compared with.

    Attributes:
        kind: ``none``, ``short`` (the answer itself) or ``sentence``.
        texts: document id -> text.
        generator: who wrote the sentences: a model's label, or ``task`` for a column of the data.
        without_answer: ids whose sentence does not contain the short answer.
    """

    kind: str
    texts: Mapping[str, str] = field(default_factory=dict)
    generator: str | None = None
    without_answer: tuple[str, ...] = ()

    @property
    def facts(self) -> dict[str, Any]:
        """What a result says of them."""
        return {
            "kind": self.kind,
            "generator": self.generator,
            "sha256": digest(sorted(self.texts.items())) if self.texts else None,
            "without_answer": list(self.without_answer),
        }


def references(
    documents: Dataset, spec: TcbSpec, kind: str, path: str | None, name: str
) -> References:
    """The reference of every document.

    Raises:
        DataError: sentences are asked for and a document has none, said before any inference.
    """
    if kind == "none":
        return References("none")
    ids, answers = documents[ID_COLUMN], [str(a) for a in documents[spec.columns["answer"]]]
    if kind == "short":
        return References("short", dict(zip(ids, answers, strict=True)))
    found, generator = _sentences(documents, spec, path)
    missing = [own for own in ids if not found.get(own, "").strip()]
    if missing:
        raise DataError(
            f"{name}: {len(missing)} of {len(ids)} documents have no reference sentence "
            f"(first: {missing[0]}); make them by `tcb-bench references --task {name} --model ...`"
            " and give --references FILE, or compare with the short answers: --reference short"
        )
    texts = {own: found[own] for own in ids}
    without = tuple(
        own
        for own, answer in zip(ids, answers, strict=True)
        if not contains_answer(texts[own], answer)
    )
    return References("sentence", texts, generator, without)


def _sentences(
    documents: Dataset, spec: TcbSpec, path: str | None
) -> tuple[dict[str, str], str | None]:
    if path is not None:
        return read_references(Path(path))
    column = spec.columns["reference"]
    if column not in documents.column_names:
        return {}, None
    return dict(zip(documents[ID_COLUMN], map(str, documents[column]), strict=True)), "task"


def read_references(path: Path) -> tuple[dict[str, str], str]:
    """Document id -> sentence, and their generator, from a file of ``tcb-bench references``.

    Raises:
        DataError: not readable, a line without ``doc_id`` and ``reference``, an id given twice.
    """
    found: dict[str, str] = {}
    generators = set()
    for number, row in enumerate(read_jsonl(path), start=1):
        if not isinstance(row, dict) or not {"doc_id", "reference"} <= row.keys():
            raise DataError(f"{path}:{number}: expected an object with doc_id and reference")
        if row["doc_id"] in found:
            raise DataError(f"{path}:{number}: document {row['doc_id']!r} is given twice")
        found[str(row["doc_id"])] = str(row["reference"])
        generators.add(str(row.get("generator", "unknown")))
    return found, "+".join(sorted(generators)) or "unknown"
