"""How far the bound can be trusted: moved hidden states, and answers to changed prompts (ours)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tcb_bench.errors import UsageError
from tcb_bench.report.table import Table
from tcb_bench.studies.audit_figures import draw
from tcb_bench.studies.audit_notes import question_notes, state_notes
from tcb_bench.studies.audit_predict import EVENTS, add_variants, baseline_row, foretold
from tcb_bench.studies.audit_states import context_of, state_rows
from tcb_bench.studies.audit_tables import (
    baseline_table,
    changes_table,
    foretold_table,
    moves_table,
    radii_table,
)
from tcb_bench.studies.audit_variants import check, group_of
from tcb_bench.studies.findings import Findings
from tcb_bench.studies.session import Answer, Session

NO_STATES = (
    "This back end does not give its hidden states away: nothing was moved, only prompts were "
    "changed. The transformers back end (--model hf/...) does both."
)


def study(session: Session) -> Findings:
    """Both sides of the audit, and the tables that put them beside each other.

    Raises:
        UsageError: a setting out of range, or tasks whose answers cannot be compared.
        UnknownName: a perturbation that there is not.
    """
    settings = {**session.settings, "seed": session.seed}
    _check_settings(session)
    loaded = _load(session)
    check(loaded.tasks, settings["perturbations"])
    questions, answers = _ask(session, loaded.tasks)
    tables: list[Table] = []
    notes: list[str] = []
    states: list[dict[str, Any]] = []
    gives_states = hasattr(session.model, "measure_states")
    if settings["states"] and gives_states:
        session.say("moving hidden states")
        states = state_rows(session, answers)
        tables += [moves_table(states, settings), radii_table(states, settings)]
        notes += state_notes(states, tables[0].rows, tables[1].rows)
    elif settings["states"]:
        notes.append(NO_STATES)
    kept = [q for q in questions if q["reason"] is None]
    found = [r for event in EVENTS for r in foretold(kept, event, settings, session.seed)]
    tables += [foretold_table(found, settings), changes_table(questions, settings)]
    tables += [baseline_table(questions, settings), *_approximations(session, answers)]
    notes += question_notes(questions, found)
    if loaded.missing:
        notes.append(f"Not in this data: {', '.join(loaded.missing)}.")
    moves = tables[0].rows if states else []
    return Findings(
        tables=tables,
        rows=[*questions, *states],
        notes=notes,
        draw=lambda folder: draw(folder, moves, found),
    )


def _load(session: Session) -> Any:
    settings, options = session.settings, session.config.options
    changes: dict[str, Any] = {"limit": options.limit or settings["questions_per_task"]}
    if settings["num_fewshot"] >= 0:
        changes["num_fewshot"] = settings["num_fewshot"]
    if settings["max_gen_toks"]:
        changes["gen_kwargs"] = {**options.gen_kwargs, "max_gen_toks": settings["max_gen_toks"]}
    return session.load(**changes)


def _ask(session: Session, tasks: dict[str, Any]) -> tuple[list[dict[str, Any]], list[Answer]]:
    """A row per question with all its variants, and the answers to the unchanged prompts."""
    rows: list[dict[str, Any]] = []
    answers: list[Answer] = []
    keep = session.settings["keep_truncated"]
    for number, (name, task) in enumerate(tasks.items(), 1):
        session.say(f"{name} ({number} of {len(tasks)})")
        own = session.answers(task)
        begun = [{**baseline_row(a, name, task, keep), "prompts": {a.prompt}} for a in own]
        add_variants(session, task, begun)
        rows += [{k: v for k, v in row.items() if k != "prompts"} for row in begun]
        answers += own
    return rows, answers


def _check_settings(session: Session) -> None:
    s = session.settings
    rules = {
        "draws": s["draws"] >= 1,
        "perturbations": bool(s["perturbations"]),
        "states": s["states"] >= 0,
        "directions": s["directions"] >= 1,
        "multiples": bool(s["multiples"]) and all(_is_positive(c) for c in s["multiples"]),
        "flip_slack": 0 < s["flip_slack"] < 1,
        "resamples": s["resamples"] >= 1,
        "level": 0 < s["level"] < 1,
        "min_changed": s["min_changed"] >= 1,
        "tolerance": 0 < s["tolerance"] < 1,
        "max_iterations": s["max_iterations"] >= 1,
        "questions_per_task": s["questions_per_task"] >= 1,
    }
    for name, is_good in rules.items():
        if not is_good:
            raise UsageError(f"study audit: {name}={s[name]!r} is out of range; see audit.yaml")
    for edit in s["perturbations"]:
        group_of(edit)
        if s["perturbations"].count(edit) > 1:
            raise UsageError(f"study audit: perturbations has {edit!r} twice; `draws` asks more")


def _is_positive(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 1e100


def _approximations(session: Session, answers: Sequence[Answer]) -> list[Table]:
    """The paper's approximations at the predictions of the unchanged prompts, where asked for."""
    if not session.settings["approximations"] or not hasattr(session.model, "measure_states"):
        return []
    from tcb_bench.studies.approximations import approximations_table

    contexts = [context_of(answer, session) for answer in answers]
    return [approximations_table(session, [c for c in contexts if c is not None])]
