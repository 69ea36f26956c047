"""A prompt asked on questions, as they are or changed: what came out, per question."""

from __future__ import annotations

import math
import shutil
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tcb_bench.conditions import Condition
from tcb_bench.data import ID_COLUMN
from tcb_bench.errors import UsageError
from tcb_bench.load_tasks import quiet
from tcb_bench.metrics.answers import final_number
from tcb_bench.perturb.kinds import needs
from tcb_bench.responses import Generation, NextToken, Response
from tcb_bench.scoring import gold_number
from tcb_bench.selection import seeded_order, stable_hash
from tcb_bench.studies.prompts_space import Prompt, Space
from tcb_bench.studies.prompts_task import Base, write_variant
from tcb_bench.studies.session import Session

Question = tuple[str, str]
"""Task and document id."""

Axes = Mapping[str, str]
"""What is changed: {} nothing, {"query": "typos"}, {"shots": "shots_reordering"}."""

QUANTITIES = ("delta_tcb", "log10_delta_tcb", "v_eff", "logit_margin", "flip_radius")
FOLDER = ".candidates"
"""Of the candidates' task files, hidden so that no search for tasks finds them."""


@dataclass(frozen=True, slots=True)
class Measured:
    """One question under one prompt; None where there is no value, ``reason`` says why."""

    prompt: str
    acc: float | None
    nll: float | None
    values: Mapping[str, float | None]
    state: str
    answer: str | None
    reason: str | None

    @property
    def log10_delta(self) -> float | None:
        """log10 of delta_tcb."""
        return self.values.get("log10_delta_tcb")


Measures = dict[Question, Measured]


@dataclass(frozen=True, slots=True)
class _Asked:
    question: Question
    doc: dict[str, Any]
    context: str
    arguments: tuple[Any, ...]
    task: Any


@dataclass
class Asker:
    """Asks prompts; every answer is kept, and texts that are the same are asked once.

    Attributes:
        session: the study's.
        bases: the tasks whose prompt is varied.
        space: what a prompt may be made of.
        questions: of all tasks, in order.
        limit: documents per task.
        loaded: prompt -> the tasks with it.
    """

    session: Session
    bases: Sequence[Base]
    space: Space
    limit: float | None
    questions: list[Question] = field(default_factory=list)
    loaded: dict[str, dict[str, Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Lists the questions."""
        for base in self.bases:
            self.questions += [(base.name, str(id_)) for id_ in base.task.eval_docs[ID_COLUMN]]

    @property
    def request(self) -> str:
        """next_token or generate_traced."""
        return str(self.bases[0].task.spec.request)

    def halves(self) -> tuple[list[Question], list[Question]]:
        """The questions that choose prompts and those that are reported on: per task one half.

        Every second question in a seeded order is reported on, so that of an odd number the half
        that chooses has one more.
        """
        report: set[Question] = set()
        for base in self.bases:
            ids = [id_ for name, id_ in self.questions if name == base.name]
            order = seeded_order(ids, stable_hash(self.session.seed, "half") % 2**31)
            report |= {(base.name, ids[i]) for i in order[1::2]}
        chosen = [question for question in self.questions if question not in report]
        return chosen, [question for question in self.questions if question in report]

    def tasks(self, prompt: Prompt) -> dict[str, Any]:
        """The tasks with this prompt, by the name of the task it was made of."""
        if prompt.key not in self.loaded:
            folder = self.session.folder / FOLDER / prompt.key
            for base in self.bases:
                target = folder / f"{base.new_name}.yaml"
                write_variant(base, prompt, self.space, self.session.seed, target)
            config = self.session.config
            options = replace(config, include_path=(*config.include_path, folder))
            session = replace(self.session, config=options, data={})
            found = session.load([base.new_name for base in self.bases], limit=self.limit).tasks
            self.loaded[prompt.key] = {base.name: found[base.new_name] for base in self.bases}
        return self.loaded[prompt.key]

    def forget(self) -> None:
        """Removes the candidates' task files."""
        shutil.rmtree(self.session.folder / FOLDER, ignore_errors=True)

    def check(self, perturbations: Iterable[str]) -> None:
        """Loads what perturbations need, and sees that there is a question to change.

        Raises:
            UsageError: a resource is missing, or a task has no column with the question.
        """
        wanted = needs(perturbations)
        for base in self.bases:
            base.task.documents.perturber.tools.check(wanted)
            column = base.task.spec.columns["question"]
            if column not in base.task.eval_docs.column_names:
                raise UsageError(
                    f"{base.name} has no column {column!r} to perturb; name the question's: "
                    "`tcb: {columns: {question: COLUMN}}`"
                )

    def measure(
        self,
        prompt: Prompt,
        on: Collection[Question],
        axes: Axes | None = None,
        *,
        has_nll: bool = True,
    ) -> Measures:
        """What the prompt does on these questions, in one request per question.

        Args:
            prompt: fits the space.
            on: of ``questions``.
            axes: what is changed in each question or its examples.
            has_nll: whether the target answer's likelihood is needed; of a text it is one more
                request per question.
        """
        asked = self._requests(prompt, set(on), axes or {})
        part = f"{prompt.key}|{Condition(axes or {}).id}"
        ids = [("/".join(one.question), one.arguments) for one in asked]
        responses = self.session.ask(self.request, ids, part)
        needs_nll = has_nll or self.request == "next_token"
        nlls = self._nlls(asked, responses, part) if needs_nll else [None] * len(asked)
        return {
            one.question: _measured(one, response, nll)
            for one, response, nll in zip(asked, responses, nlls, strict=True)
        }

    def texts(self, prompt: Prompt, on: Collection[Question]) -> dict[Question, str]:
        """The rendered prompts."""
        return {one.question: one.context for one in self._requests(prompt, set(on), {})}

    def _requests(self, prompt: Prompt, on: set[Question], axes: Axes) -> list[_Asked]:
        found = []
        for name, task in self.tasks(prompt).items():
            here = task.in_condition(Condition(dict(axes))) if axes else task
            for request in self.session.prompts(here):
                question = (name, str(request.doc[ID_COLUMN]))
                if question in on:
                    arguments = tuple(request.args)
                    found.append(_Asked(question, request.doc, str(arguments[0]), arguments, here))
        return found

    def _nlls(
        self, asked: Sequence[_Asked], responses: Sequence[Response], part: str
    ) -> list[float | None]:
        """-log P(target answer): of its letter, or of its text where the model gives its answer."""
        if self.request == "next_token":
            return [_letter_nll(*pair) for pair in zip(asked, responses, strict=True)]
        pairs = [
            _target_pair(one, response) for one, response in zip(asked, responses, strict=True)
        ]
        ids = [
            ("/".join(one.question), pair) for one, pair in zip(asked, pairs, strict=True) if pair
        ]
        with quiet():
            answers: list[Any] = list(self.session.ask("loglikelihood", ids, f"{part}|nll"))
        found = iter([-float(answer[0]) for answer in answers])
        return [next(found) if pair else None for pair in pairs]


def _letter_nll(one: _Asked, response: Response) -> float | None:
    gold = one.task.target(one.doc)
    if not isinstance(response, NextToken) or gold is None or not response.choice_logprobs:
        return None
    return -float(response.choice_logprobs[gold])


def _target_pair(one: _Asked, response: Response) -> tuple[str, str] | None:
    """Context and continuation whose likelihood is the target answer's.

    A final number is asked where the model writes its own: behind its own reasoning; behind all of
    its text where that has no number. Any other answer is asked at once, behind the prompt. Spaces
    at the end of the context count as the answer's, as lm-eval has it.
    """
    if not isinstance(response, Generation):
        return None
    gold = one.task.target(one.doc)
    if one.task.spec.answer != "final_number":
        return one.context, f"{one.task.config.target_delimiter}{gold}"
    text = f"{gold_number(str(gold)):f}"
    number = final_number(response.answer)
    if number is None:
        return one.context + response.text, f" {text}"
    return one.context + response.text[: response.answer_start + number.start], text


def _measured(one: _Asked, response: Response, nll: float | None) -> Measured:
    row = one.task.process_results(one.doc, [[response]])["tcb_rows"][0]
    known = nll if nll is not None and math.isfinite(nll) else None
    return Measured(
        prompt=one.context,
        acc=row["acc"],
        nll=known,
        values={name: row["stability"].get(name) for name in QUANTITIES},
        state=row["state"],
        answer=row["answer"],
        reason=row["reason"],
    )
