"""What a dry run found, per task and model: responses, requests, tokens, money, time."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tcb_bench.models.prices import Price

API_RATE = 500.0  # requests a minute
TEXT_TOKENS, PREDICTION_TOKENS, REASONING_TOKENS = 100, 1, 1000
"""Assumed for a completion where nothing is stored that says how long they are."""


@dataclass(slots=True)
class TaskCount:
    """One task (or group) and one model.

    Attributes:
        task: its name; ``conditions`` are the cells of its sweep (1 without one).
        questions: different documents; ``runs`` is how often each is asked in a condition.
        responses: in all; of these
        stored: are in the run folder's store,
        same: get the answer of another: equal requests, and repeats of a local model at T = 0,
        unsupported: are not sent, because the model takes no such request,
        too_long: have a prompt longer than the model's context.
        requests: what is left to send; several responses may share one.
        prompt_tokens: of these requests.
        is_design: counted from the YAML, not from the data; only the numbers up to
            ``responses`` are known then.
        mean: tokens of a stored completion; None where none is stored.
    """

    task: str
    conditions: int = 0
    questions: int = 0
    runs: int = 1
    responses: int = 0
    stored: int = 0
    same: int = 0
    unsupported: int = 0
    too_long: int = 0
    requests: int = 0
    prompt_tokens: int = 0
    is_design: bool = False
    mean: float | None = None
    _completions: Counter[tuple[int, float]] = field(default_factory=Counter)

    def add(self, prompt_tokens: int, *, choices: int, most: int, assumed: float) -> None:
        """Counts a request.

        Args:
            prompt_tokens: of its prompt.
            choices: completions that it asks for.
            most: tokens that each may have.
            assumed: tokens that each will have, where nothing is known.
        """
        self.requests += 1
        self.prompt_tokens += prompt_tokens
        self._completions[most, assumed] += choices

    @property
    def worst(self) -> int:
        """Completion tokens at most."""
        return sum(n * most for (most, _), n in self._completions.items())

    @property
    def expected(self) -> int:
        """Completion tokens as they are likely: by the stored ones, else as assumed."""
        return round(
            sum(
                n * min(most, assumed if self.mean is None else self.mean)
                for (most, assumed), n in self._completions.items()
            )
        )


@dataclass(slots=True)
class ModelCount:
    """All tasks of one model.

    Attributes:
        model: its label.
        tasks: one entry per row.
        is_api: whether it is asked by HTTP.
        resource: models that share one are run one after the other.
        unknown: why tokens are not known; empty where they are.
        tokens_by: what counted the prompts' tokens.
        price: None where nobody knows one.
        is_batch: whether the Batch API is used.
        rate: requests a minute as the user gave them.
        thinks: whether it reasons before it answers.
        spent: by the run folder so far, see ``Store.spent``.
        notes: lines that a run would say before it spends anything.
    """

    model: str
    tasks: list[TaskCount]
    is_api: bool = False
    resource: str = ""
    unknown: str = ""
    tokens_by: str = ""
    price: Price | None = None
    is_batch: bool = False
    rate: float | None = None
    thinks: bool = False
    spent: Mapping[str, float] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def total(self) -> TaskCount:
        """All tasks as one."""
        return added(self.tasks)

    def usd(self, task: TaskCount) -> tuple[float, float] | None:
        """USD of what is left: expected and at most; None without a price.

        The provider's cache makes it cheaper by an unknown part, which is not counted.
        """
        if self.price is None or self.unknown:
            return None
        expected, worst = (
            self.price.cost(
                {"prompt_tokens": task.prompt_tokens, "completion_tokens": completion},
                is_batch=self.is_batch,
            )
            for completion in (task.expected, task.worst)
        )
        return expected, worst

    def minutes(self, task: TaskCount) -> float | None:
        """Time that the requests take at the rate; None where that says nothing."""
        if not self.is_api or self.is_batch or self.unknown:
            return None
        return task.requests / (self.rate or API_RATE)


def added(tasks: Iterable[TaskCount]) -> TaskCount:
    """The sums of several rows."""
    whole = TaskCount("all")
    for task in tasks:
        for name in (
            *("conditions", "questions", "responses", "stored", "same", "unsupported", "too_long"),
            *("requests", "prompt_tokens"),
        ):
            setattr(whole, name, getattr(whole, name) + getattr(task, name))
        whole.is_design |= task.is_design
        for (most, assumed), n in task._completions.items():
            likely = assumed if task.mean is None else task.mean
            whole._completions[most, likely] += n
    return whole


def study_minutes(models: Sequence[ModelCount]) -> float | None:
    """Time of all models: those of one resource after each other, the others side by side."""
    lanes: defaultdict[str, float] = defaultdict(float)
    for number, model in enumerate(models):
        minutes = model.minutes(model.total())
        if minutes is not None:
            lanes[model.resource or str(number)] += minutes
    return max(lanes.values(), default=None)
