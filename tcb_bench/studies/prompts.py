"""Prompts chosen by stability, by perplexity, at random (BC tables 3 and 4, C.4.2 and C.4.3).

Baseline variants sort the questions into VCQ and AQ; one half of the questions chooses prompts,
by three guides with one budget; the other half is what everything is reported on.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tcb_bench.errors import UsageError
from tcb_bench.results import digest
from tcb_bench.studies.findings import Findings
from tcb_bench.studies.prompts_ask import Asker, Axes, Measures, Question
from tcb_bench.studies.prompts_figures import draw
from tcb_bench.studies.prompts_notes import notes, objectives, set_text
from tcb_bench.studies.prompts_outcome import Bootstrap, Found, Outcome
from tcb_bench.studies.prompts_paper import BASELINE
from tcb_bench.studies.prompts_search import GUIDES, Step, chosen, objective, scores_of, search
from tcb_bench.studies.prompts_sets import AQ, VCQ, Sets, check_sets, find_sets
from tcb_bench.studies.prompts_space import Prompt, Space, read_space
from tcb_bench.studies.prompts_tables import (
    difference_table,
    search_table,
    set_note,
    shot_table,
    table_3,
    table_4,
)
from tcb_bench.studies.prompts_task import baseline_of, read_base, with_sizes
from tcb_bench.studies.prompts_winner import write_winner
from tcb_bench.studies.session import Session
from tcb_bench.task_files import catalogue, expand


def study(session: Session) -> Findings:
    """Runs the loop and says what it found; see ``prompts.yaml`` for every setting."""
    _check(session.settings)
    asker = _asker(session)
    try:
        return _Loop(asker).run()
    finally:
        asker.forget()


def _check(settings: Mapping[str, Any]) -> None:
    for name, least in (("questions", 2), ("budget", 1), ("seeds", 1), ("pool", 1)):
        if settings[name] < least:
            raise UsageError(f"{name}={settings[name]}: expected a whole number >= {least}")
    if settings["delta_weight"] < 0:
        raise UsageError(f"delta_weight={settings['delta_weight']:g}: expected a number >= 0")
    if settings["winner"] not in GUIDES:
        raise UsageError(f"winner={settings['winner']!r}: expected one of {', '.join(GUIDES)}")
    check_sets(settings)


def _asker(session: Session) -> Asker:
    """The tasks, loaded, with the space that fits them.

    Raises:
        UsageError: tasks of lm-eval's own class, or of several request kinds.
    """
    config, settings = session.config, session.settings
    names = expand(config.tasks, catalogue(config.include_path))
    limit = config.options.limit or math.ceil(settings["questions"] / len(names))
    loaded = session.load(limit=limit)
    for name, why in loaded.missing.items():
        session.say(f"no data for {name}: {why}")
    tasks = list(loaded.tasks.values())
    ours = [task for task in tasks if hasattr(task, "is_tcb_task")]
    kinds = {task.spec.request for task in ours}
    if len(ours) < len(tasks) or len(kinds) > 1 or not kinds & {"next_token", "generate_traced"}:
        raise UsageError(
            f"{', '.join(names)}: expected tasks with `class: !function tcb_bench.task.TcbTask`, "
            "all next_token or all generate_traced"
        )
    space = read_space(settings["space"], kinds.pop())
    more = {"pool": settings["pool"], "max_gen_toks": settings["max_gen_toks"]}
    bases = [read_base(task, config.include_path, space, **more) for task in ours]
    session.data["space"] = digest(space.content)  # a file of another content is other data
    return Asker(session, bases, with_sizes(space, bases), limit)


@dataclass
class _Loop:
    """One study on its way; every measurement becomes rows."""

    asker: Asker
    rows: list[dict[str, Any]] = field(default_factory=list)
    kept: dict[str, Measures] = field(default_factory=dict)

    def run(self) -> Findings:
        asker, settings = self.asker, self.asker.session.settings
        start = baseline_of(asker.bases)
        perturbations = list(settings["perturbations"])
        if asker.session.config.options.paraphrase_model:
            perturbations.append("paraphrase")
        asker.check([*perturbations, *settings["shot_perturbations"]])
        choose, report = asker.halves()
        if not report:
            raise UsageError("one question has no second half to report on; give more questions")
        sets = self._sets(start)
        traces = {guide: self._search(guide, start, choose) for guide in GUIDES}
        prompts = {BASELINE: start, **{guide: chosen(steps) for guide, steps in traces.items()}}
        outcomes = {
            name: self._outcome(name, prompt, report, perturbations)
            for name, prompt in prompts.items()
        }
        winner = prompts[settings["winner"]]
        write_winner(asker, winner)
        trace = [
            step.record(prompts[guide], asker.space.code(step.prompt))
            for guide, steps in traces.items()
            for step in steps
        ]
        return self._findings(Found(sets, outcomes, trace, report, choose, perturbations))

    def _ask(
        self, phase: str, prompt: Prompt, on: Sequence[Question], axes: Axes | None = None
    ) -> Measures:
        has_nll = phase != "seeds" and not axes
        measures = self.asker.measure(prompt, on, axes, has_nll=has_nll)
        condition = ",".join(f"{k}={v}" for k, v in (axes or {}).items())
        for (task, id_), one in measures.items():
            self.rows.append(
                {
                    "phase": phase,
                    "key": prompt.key,
                    "task": task,
                    "id": id_,
                    "condition": condition,
                    "state": one.state,
                    "acc": one.acc,
                    "answer": one.answer,
                    "nll": one.nll,
                    **one.values,
                    "reason": one.reason,
                }
            )
        return measures

    def _sets(self, start: Prompt) -> Sets:
        asker, settings = self.asker, self.asker.session.settings
        variants = seed_prompts(start, asker.space, settings["seeds"])
        asker.session.say(f"{len(variants)} variants of the baseline: VCQ and AQ")
        runs = [self._ask("seeds", prompt, asker.questions) for prompt in variants]
        sets = find_sets(runs, asker.questions, settings)
        for (task, id_), record in sets.records.items():
            self.rows.append({"phase": "sets", "task": task, "id": id_, **record})
        return sets

    def _search(self, guide: str, start: Prompt, choose: Sequence[Question]) -> list[Step]:
        session = self.asker.session
        session.say(f"search by {guide}")

        def evaluate(prompt: Prompt) -> Any:
            if prompt.key not in self.kept:
                self.kept[prompt.key] = self._ask("search", prompt, choose)
            scores = scores_of(self.kept[prompt.key])
            return scores, objective(guide, scores, session.settings["delta_weight"])

        budget = session.settings["budget"]
        return search(guide, start, self.asker.space, evaluate, budget=budget, seed=session.seed)

    def _outcome(
        self, name: str, prompt: Prompt, report: Sequence[Question], perturbations: Sequence[str]
    ) -> Outcome:
        self.asker.session.say(f"{name} on the questions reported on, as they are and changed")
        shots = self.asker.session.settings["shot_perturbations"] if prompt.n_shots else ()
        clean = self._ask(f"report {name}", prompt, report)
        changed = {
            (axis, kind): self._ask(f"report {name}", prompt, report, {axis: kind})
            for axis, kinds in (("query", perturbations), ("shots", shots))
            for kind in kinds
        }
        return Outcome(
            name=name,
            prompt=prompt,
            clean=clean,
            varied={kind: m for (axis, kind), m in changed.items() if axis == "query"},
            shots={kind: m for (axis, kind), m in changed.items() if axis == "shots"},
        )

    def _findings(self, found: Found) -> Findings:
        session = self.asker.session
        settings = session.settings
        how = Bootstrap(settings["resamples"], session.seed)
        groups = {name: [q for q in found.report if found.sets.of[q] == name] for name in (VCQ, AQ)}
        sizes = {name: len(group) for name, group in groups.items()}
        labels = {
            "model": str(session.model.info.get("name") or session.config.model),
            "benchmark": ", ".join(session.config.tasks),
            "request": self.asker.request,
            "note": set_note(sizes, len(found.report), set_text(settings, found.sets.thresholds)),
        }
        guided = objectives(settings["delta_weight"])
        space = self.asker.space
        codes = {name: space.code(one.prompt) for name, one in found.outcomes.items()}
        tables = [
            table_3(found.outcomes, groups, how, labels),
            table_4(found.outcomes, found.report, how, labels["model"], codes),
            difference_table(found.outcomes, found.report, how),
            shot_table(found.outcomes, found.report, how),
            search_table(found.trace, _search_note(guided, settings, len(found.choose))),
        ]
        return Findings(
            tables=tables,
            rows=self.rows,
            notes=notes(tables[2], found, self.asker),
            draw=lambda folder: draw(folder, found.trace, guided),
            summary=found.summary(space, guided),
        )


def _search_note(guided: Mapping[str, str], settings: Mapping[str, Any], n: int) -> str:
    goals = "; ".join(f"{guide} maximises {goal}" for guide, goal in guided.items())
    return (
        f"{goals}. delta and ppl climb from the baseline by moves drawn from the same random "
        f"numbers; random draws from the whole space. {settings['budget']} candidates each, on "
        f"the {n} questions that choose; nothing here is a result."
    )


def seed_prompts(start: Prompt, space: Space, seeds: int) -> list[Prompt]:
    """Variants of the baseline: other orders of its examples, or a phrasing each.

    Raises:
        UsageError: the space has too few phrasings.
    """
    if start.n_shots:
        return [replace(start, order=seed) for seed in range(1, seeds + 1)]
    phrasings = space.texts["phrasings"]
    if len(phrasings) < seeds:
        raise UsageError(
            f"seeds={seeds}: the space has {len(phrasings)} phrasings for a baseline without "
            "examples; add some under `phrasings:`, or set fewer seeds"
        )
    return [replace(start, instruction=text) for text in phrasings[:seeds]]
