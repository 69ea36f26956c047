"""The texts of ``dynamics``: prompts, what the model made of them, and what is marked in it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tcb_bench.config import NEUTRAL_SAMPLING
from tcb_bench.data import ID_COLUMN
from tcb_bench.data_files import read_jsonl
from tcb_bench.errors import DataError, UnknownName
from tcb_bench.responses import Generation
from tcb_bench.results import digest
from tcb_bench.selection import limit_size
from tcb_bench.studies.session import Session
from tcb_bench.trace_text import Rule, TracedText, traced_text

SHIPPED = Path(__file__).with_name("dynamics.jsonl")


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """What is continued: ``kind`` is a kind of prompt, or the task; ``until`` its stop strings."""

    id: str
    kind: str
    text: str
    until: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A prompt and its text; None with a reason where there is none."""

    prompt: Prompt
    text: TracedText | None
    reason: str | None = None

    def row(self) -> dict[str, Any]:
        """Everything about it as JSON types."""
        made = {} if self.text is None else self.text.record()
        return {
            "id": self.prompt.id,
            "kind": self.prompt.kind,
            "prompt": self.prompt.text,
            "reason": self.reason,
            **made,
        }


def rule_of(settings: Mapping[str, Any]) -> Rule:
    """The rule of dips and loops.

    Raises:
        UsageError: a setting is out of range.
    """
    names = ("threshold", "repeats", "longest", "least")
    return Rule(window=settings["window"] or None, **{name: settings[name] for name in names})


def cases(session: Session) -> list[Case]:
    """Every prompt asked once.

    Raises:
        UnknownName: no prompt has the id of the setting ``example``.
    """
    prompts, rule = prompts_of(session), rule_of(session.settings)
    example = session.settings["example"]
    if example is not None and example not in (ids := [prompt.id for prompt in prompts]):
        raise UnknownName("text", example, ids, "--set example=ID")
    sampling = {
        **NEUTRAL_SAMPLING,
        **{name: session.settings[name] for name in ("max_gen_toks", "temperature")},
        "stability_at": "all",
    }
    session.say(f"{len(prompts)} texts of up to {sampling['max_gen_toks']} tokens")
    asked = [(f"{p.kind} {p.id}", (p.text, {**sampling, "until": list(p.until)})) for p in prompts]
    found = []
    for prompt, response in zip(prompts, session.ask("generate_traced", asked), strict=True):
        if isinstance(response, Generation) and response.tokens:
            found.append(Case(prompt=prompt, text=traced_text(response, rule)))
        else:
            reason = getattr(response, "reason", "the text is empty")
            found.append(Case(prompt=prompt, text=None, reason=reason))
    return found


def prompts_of(session: Session) -> list[Prompt]:
    """The documents of the tasks asked for, or else the prompts of the settings.

    Raises:
        DataError: a file of prompts lacks a column, or has an id twice.
    """
    if session.config.tasks != ("none",):
        return _documents(session)
    given = session.settings["prompts"]
    path = Path(given) if given else SHIPPED
    rows = read_jsonl(path)
    for number, row in enumerate(rows, start=1):
        given = row if isinstance(row, dict) else {}
        wrong = [n for n in ("id", "kind", "prompt") if not isinstance(given.get(n), str)]
        if wrong:
            raise DataError(
                f"{path}: row {number}: {wrong[0]} is no text; expected id, kind, prompt"
            )
    names = [(row["kind"], row["id"]) for row in rows]
    if len(set(names)) < len(names) or not names:
        what = "no rows" if not names else "an id twice within a kind"
        raise DataError(f"{path}: {what}; expected one row per prompt")
    session.data[path.name] = digest(rows)
    return [
        Prompt(id=row["id"], kind=row["kind"], text=_asked(session, row["prompt"]))
        for row in _limited(rows, session.config.options.limit)
    ]


def _documents(session: Session) -> list[Prompt]:
    found = []
    for name, task in session.load().tasks.items():
        for request in session.prompts(task):
            own = request.args[1] if request.request_type == "generate_traced" else {}
            until = tuple(own.get("until", ()))
            id_ = str(request.doc[ID_COLUMN])
            found.append(Prompt(id=id_, kind=name, text=str(request.args[0]), until=until))
    return found


def _asked(session: Session, text: str) -> str:
    if not session.config.apply_chat_template:
        return text
    return session.lm.apply_chat_template([{"role": "user", "content": text}])


def _limited(rows: Sequence[dict[str, Any]], limit: float | None) -> list[dict[str, Any]]:
    """The first ``limit`` rows of each kind, or that share of them."""
    if limit is None:
        return list(rows)
    kinds: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        kinds[row["kind"]].append(row)
    size = {kind: limit_size(limit, len(own)) for kind, own in kinds.items()}
    return [row for kind, own in kinds.items() for row in own[: size[kind]]]
