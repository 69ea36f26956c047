"""What a study works with: settings, a durable model, documents, values of hidden states."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from tcb_bench.assemble import data_digests
from tcb_bench.config import RunConfig
from tcb_bench.data import ID_COLUMN
from tcb_bench.durable import Ask, DurableLM, request
from tcb_bench.errors import DataError, ModelError
from tcb_bench.load_tasks import Loaded, load_tasks, quiet
from tcb_bench.responses import Failure, Plain, Response

Say = Callable[[str], None]
Measure = Callable[[Any], Sequence[Any]]
"""From (B, d) hidden states, finite, on the head's device, to B values of JSON types."""
Compute = Callable[[Sequence[Any], Callable[[int, Response], None]], Any]
"""Given contexts, hands over (index, ``Plain`` or ``Failure``) of each as soon as it is there."""


@dataclass(frozen=True, slots=True)
class Answer:
    """One document's answer: its id, its columns, its prompt, the response and the sample row."""

    id: str
    doc: Mapping[str, Any]
    prompt: str
    response: Response
    row: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Session:
    """One invocation of a study; every method asks the store first and keeps each answer at once.

    Attributes:
        name: the study.
        config: as for a run: tasks, data, seed, limit, chat template.
        settings: of the study, complete.
        folder: where its files go; it exists.
        start: loads the model and gives it behind its store; called once, at the first need of it,
            so that a study that checks settings, tasks and documents first fails in seconds.
        say: called with one line about what happens now.
        data: task -> sha256 of its documents, of all that was loaded.
        failures: a reason per request without an answer.
    """

    name: str
    config: RunConfig
    settings: Mapping[str, Any]
    folder: Path
    start: Callable[[], DurableLM]
    say: Say
    data: dict[str, str] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)

    @cached_property
    def lm(self) -> DurableLM:
        """The model behind its store."""
        return self.start()

    @property
    def model(self) -> Any:
        """The back end itself: ``tokenizer``, ``info``, and for transformers ``head``."""
        return self.lm.inner

    @property
    def seed(self) -> int:
        """The run's seed, of draws, sampling and bootstraps."""
        return self.config.options.seed

    def load(self, tasks: Sequence[str] | None = None, **changes: Any) -> Loaded:
        """Tasks with their documents; ``changes`` replace fields of the run's ``TaskOptions``.

        Raises:
            TcbBenchError: as a run's.
        """
        options = replace(self.config.options, **changes)
        with quiet():
            loaded = load_tasks(tasks or self.config.tasks, options, self.config.include_path)
        self.data.update(data_digests(loaded))
        return loaded

    def prompts(self, task: Any) -> list[Any]:
        """The requests (lm-eval's Instances) of a loaded task, its prompts rendered.

        Raises:
            DataError: the task has no document to ask.
        """
        if not len(task.eval_docs):
            raise DataError(
                f"study {self.name}: {task.config.task} has no document to ask with --data "
                f"{self.config.options.data}; give other tasks or data, or leave --limit out"
            )
        has_chat = self.config.apply_chat_template
        with quiet():
            task.build_all_requests(
                limit=None,
                rank=0,
                world_size=1,
                system_instruction=self.config.system_instruction,
                apply_chat_template=has_chat,
                fewshot_as_multiturn=self.config.fewshot_as_multiturn,
                chat_template=self.lm.apply_chat_template if has_chat else None,
                tokenizer_name=self.lm.tokenizer_name if has_chat else "",
            )
        return list(task.instances)

    def answers(self, task: Any) -> list[Answer]:
        """Every document of a loaded task asked once, scored as a run would score it.

        Raises:
            DataError: the task has no document to ask.
        """
        requests = self.prompts(task)
        kind = requests[0].request_type
        responses = self._kept(getattr(self.lm, kind)(requests))
        return [
            Answer(
                str(asked.doc[ID_COLUMN]),
                asked.doc,
                str(asked.args[0]),
                response,
                task.process_results(asked.doc, [[response]])["tcb_rows"][0],
            )
            for asked, response in zip(requests, responses, strict=True)
        ]

    def ask(
        self, kind: str, asked: Sequence[tuple[str, tuple[Any, ...]]], part: str = ""
    ) -> list[Response]:
        """Requests outside a task.

        Args:
            kind: ``next_token`` or ``generate_traced``.
            asked: (id, arguments): context and choices, or context and every generation parameter.
            part: which part of the study; ids are unique in it, and sampling seeds depend on it.
        """
        label = f"{self.name}|{part}" if part else self.name
        requests = [request(kind, {ID_COLUMN: id_}, args, label) for id_, args in asked]
        return self._kept(getattr(self.lm, kind)(requests))

    def states(
        self, what: str, contexts: Sequence[Any], measure: Measure, **parameters: Any
    ) -> list[Any]:
        """What ``measure`` makes of the hidden state behind each context, kept like a response.

        Args:
            what: name and version of the measurement; part of the key, with ``parameters``.
            contexts: texts, or token ids (a list of int) where a text was generated.
            measure: called once per batch with the (B, d) states that the output head receives.
            parameters: everything else that the values depend on, JSON types.

        Returns:
            per context the value, or a ``Failure`` (too long, not finite).

        Raises:
            ModelError: the back end does not give its states away.
        """
        if not hasattr(self.model, "measure_states"):
            raise ModelError(
                f"study {self.name} needs the hidden states themselves, which only the "
                "transformers back end gives: --model hf/..."
            )
        return self.computed(
            what,
            contexts,
            lambda missing, keep: self.model.measure_states(missing, measure, keep),
            **parameters,
        )

    def computed(
        self, what: str, contexts: Sequence[Any], compute: Compute, **parameters: Any
    ) -> list[Any]:
        """What ``compute`` makes of each context, kept like a response.

        Args:
            what: name and version of the computation; part of the key, with ``parameters``.
            contexts: of JSON types.
            compute: called once with the contexts that lack a value.
            parameters: everything else that the values depend on, JSON types.

        Returns:
            per context the value, or a ``Failure``.
        """
        asks = [
            Ask(
                (f"{self.name}|{what}", str(i), 0, 0),
                {
                    "engine": self.lm.inner.identity,
                    "request": what,
                    "arguments": [context, parameters],
                },
                (context,),
            )
            for i, context in enumerate(contexts)
        ]
        found = self.lm.answered(
            asks, lambda missing, keep: compute([ask.arguments[0] for ask in missing], keep)
        )
        return [r.value if isinstance(r, Plain) else r for r in self._kept(found)]

    def _kept(self, responses: Sequence[Response]) -> list[Response]:
        lost = [r.reason for r in responses if isinstance(r, Failure) and r.state == "error"]
        self.failures.extend(lost)
        return list(responses)
