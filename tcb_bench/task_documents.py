"""The documents of one task in one run: chosen, prepared, with references, and per condition."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tcb_bench.config import TaskOptions
from tcb_bench.errors import DataError
from tcb_bench.perturb.tools import Tools
from tcb_bench.rag_data import References, prepared, references
from tcb_bench.task_perturb import Perturber
from tcb_bench.task_select import Selection, select, with_elsewhere, with_unique_ids
from tcb_bench.task_spec import TcbSpec

if TYPE_CHECKING:
    from datasets import Dataset


class Documents:
    """What a task asks about; all conditions of a sweep share one.

    Attributes:
        selection: the documents, once ``choose`` was called.
        left_out: reason -> number of records that a RAG task cannot ask.
        references: what the answers are compared with.
        perturber: what conditions change in a document.
        prompts: the rendered prompts, for conditions that show the same.
    """

    def __init__(self, spec: TcbSpec, options: TaskOptions, name: str) -> None:
        """``name`` is the task's, for messages."""
        self.spec, self.options, self.name = spec, options, name
        self.selection: Selection | None = None
        self.left_out: dict[str, int] = {}
        self.prompts: dict[str, Any] = {}
        self._parts: dict[tuple[tuple[str, str], ...], Dataset] = {}
        self.references = References("none")
        tools = Tools(ner_model=options.ner_model, paraphrase_model=options.paraphrase_model)
        self.perturber = Perturber(spec, options.seed, tools)

    def choose(self, everything: Dataset) -> Selection:
        """The YAML's draw of ``everything``, then ``--limit``.

        Raises:
            DataError: no documents, none that can be asked, or no reference for one of them.
        """
        if len(everything) == 0:
            raise DataError(f"{self.name}: no documents left to ask (process_docs dropped all)")
        documents = with_unique_ids(everything)
        spec, options = self.spec, self.options
        if spec.has_documents:
            documents, self.left_out = prepared(documents, spec, self.name)
        found = select(documents, spec.strata, spec.draw, options.limit, options.seed)
        if spec.has_documents:
            chosen = with_elsewhere(found.documents, documents, options.seed)
            found = replace(found, documents=chosen)
        kind = options.reference or spec.reference
        if spec.reference != "none":
            self.references = references(found.documents, spec, kind, options.references, self.name)
        self.selection = found
        return found

    def with_own_prompts(self, perturber: Perturber | None = None) -> Documents:
        """The same documents for other prompts: ``prompts`` knows one by its document's id."""
        found = copy.copy(self)
        found.prompts = {}
        found.perturber = perturber or self.perturber
        return found

    def only(self, condition: Mapping[str, Any]) -> Dataset:
        """The documents of one condition: its axes' own, those its perturbation exists for."""
        assert self.selection is not None  # choose() comes first
        own = tuple((c, condition[axis]) for axis, c in self.spec.axes.items() if axis in condition)
        if own not in self._parts:  # one object for all conditions that ask the same documents
            self._parts[own] = _where(self.selection.documents, own)
        documents = self._parts[own]
        if self.perturber.always_applies(condition):
            return documents
        return documents.select(
            [i for i, doc in enumerate(documents) if self.perturber.applies(doc, condition)]
        )


def _where(documents: Dataset, columns: tuple[tuple[str, str], ...]) -> Dataset:
    """The documents whose columns have these values, compared as texts."""
    for column, wanted in columns:
        rows = [i for i, value in enumerate(documents[column]) if str(value) == wanted]
        documents = documents.select(rows)
    return documents
