"""What a condition changes in a document before its prompt is rendered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tcb_bench.data import ID_COLUMN
from tcb_bench.perturb.item import Change, NotApplicable, Shots
from tcb_bench.perturb.kinds import change_item, change_shots, change_text, parse
from tcb_bench.perturb.tools import Tools
from tcb_bench.rag import item_of, shown
from tcb_bench.task_spec import TcbSpec
from tcb_bench.task_sweep import PERTURBED

ORIGINAL = "original"
Note = dict[str, Any]
"""What a change says of itself: kind, flags, counts, and the text before and after."""


class Perturber:
    """Applies the ``context``, ``query`` and ``shots`` of a condition; each change is made once.

    All conditions of a task share one, so that eleven temperatures do not mask the same names
    eleven times.
    """

    def __init__(self, spec: TcbSpec, seed: int, tools: Tools) -> None:
        """``seed`` is the run's; ``tools`` holds the resources, loaded when first used."""
        self.spec, self.seed, self.tools = spec, seed, tools
        self._shot_notes: dict[tuple[str, str], Note] = {}
        self._made: dict[tuple[str, ...], tuple[dict[str, Any], Note]] = {}

    def document(
        self, doc: Mapping[str, Any], condition: Mapping[str, Any]
    ) -> tuple[dict[str, Any], dict[str, Note]]:
        """The columns that change for this condition, and a note per axis that changes something.

        For a RAG task ``evidence`` is always among them: ``[{title, text}]``, what is shown.

        Raises:
            NotApplicable: the perturbation does not exist for this document.
        """
        columns: dict[str, Any] = {}
        notes: dict[str, Note] = {}
        if self.spec.has_documents:
            name = condition.get("context", ORIGINAL)
            found, note = self._once(self._context, doc, name)
            columns |= found
            if "context" in condition:
                notes["context"] = note
        if condition.get("query", ORIGINAL) != ORIGINAL:
            found, notes["query"] = self._once(self._query, doc, condition["query"])
            columns |= found
        own = (condition.get("shots", ORIGINAL), doc[ID_COLUMN])
        if own in self._shot_notes:  # once its prompt was rendered
            notes["shots"] = self._shot_notes[own]
        return columns, notes

    def _once(self, make: Any, doc: Mapping[str, Any], name: str) -> tuple[dict[str, Any], Note]:
        key = (make.__name__, name, doc[ID_COLUMN])
        if key not in self._made:
            self._made[key] = make(doc, name)
        return self._made[key]

    def _context(self, doc: Mapping[str, Any], name: str) -> tuple[dict[str, Any], Note]:
        item = item_of(doc, self.spec.columns, doc[ID_COLUMN])
        change = change_item(item, name, seed=self.seed, tools=self.tools)
        before, after = shown(item), shown(change.value)
        return {"evidence": after}, _note(name, change, _joined(before), _joined(after))

    def _query(self, doc: Mapping[str, Any], name: str) -> tuple[dict[str, Any], Note]:
        column = self.spec.columns["question"]
        before = str(doc[column])
        change = change_text(
            before, name, seed=self.seed, document=doc[ID_COLUMN], tools=self.tools
        )
        return {column: change.value}, _note(name, change, before, change.value)

    def shots(
        self,
        doc: Mapping[str, Any],
        condition: Mapping[str, Any],
        chosen: Sequence[dict[str, Any]],
        pool: Sequence[dict[str, Any]],
    ) -> list[dict[str, Any]]:
        """The examples of a prompt, as the condition's ``shots`` leaves them."""
        name = condition.get("shots", ORIGINAL)
        if name == ORIGINAL:
            return list(chosen)
        shots = Shots(tuple(chosen), tuple(pool))
        change = change_shots(
            shots, name, seed=self.seed, document=doc[ID_COLUMN], tools=self.tools
        )
        before, after = (_listed(value.chosen) for value in (shots, change.value))
        self._shot_notes[name, doc[ID_COLUMN]] = _note(name, change, before, after)
        return [dict(shot) for shot in change.value.chosen]

    @staticmethod
    def always_applies(condition: Mapping[str, Any]) -> bool:
        """Whether the condition exists for every document: its perturbations name no places."""
        return not any(parse(condition[a], a)[1] for a in PERTURBED if a in condition)

    def applies(self, doc: Mapping[str, Any], condition: Mapping[str, Any]) -> bool:
        """Whether the condition exists for this document (``remove:3`` needs three sentences)."""
        try:
            self.document(doc, condition)
        except NotApplicable:
            return False
        return True


def _joined(evidence: Sequence[Mapping[str, str]]) -> str:
    return "\n".join(f"{part['title']}: {part['text']}" for part in evidence)


def _listed(shots: Sequence[Mapping[str, Any]]) -> str:
    own = [{k: v for k, v in shot.items() if not k.startswith("tcb_")} for shot in shots]
    return "\n".join(str(shot) for shot in own)


def _note(name: str, change: Change[Any], before: str, after: str) -> Note:
    return {
        "kind": name,
        "flags": list(change.flags),
        "counts": dict(change.counts),
        "before": before,
        "after": after,
    }
