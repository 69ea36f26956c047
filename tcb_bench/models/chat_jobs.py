"""The requests of a run as jobs: which are choices of one, and how each reply is read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from lm_eval.api.instance import Instance

from tcb_bench.models.capabilities import Capability
from tcb_bench.models.chat_client import Connection
from tcb_bench.models.chat_keeper import OnResponse
from tcb_bench.models.chat_options import ApiOptions
from tcb_bench.models.chat_prediction import IN_REASONING, prediction
from tcb_bench.models.chat_reply import PERHAPS_TEMPERED, TEMPERED, generation
from tcb_bench.models.chat_request import (
    LETTER_TOKENS,
    SEEDS,
    Message,
    as_messages,
    body_of,
    lengths,
    sampling_fields,
    unsupported,
)
from tcb_bench.models.chat_traffic import Job
from tcb_bench.models.sampling import Sampling
from tcb_bench.responses import Failure, Response

NEUTRAL: dict[str, Any] = {"until": (), "top_p": 1.0, "top_k": 0, "repetition_penalty": 1.0}


@dataclass
class Jobs:
    """Makes jobs one by one, as they are taken.

    Attributes:
        name: the model's, for messages.
        bound: the most tokens that messages can have.
        tempered: whether log-probabilities depend on the temperature; None: not known.
    """

    name: str
    capability: Capability
    connection: Connection
    options: ApiOptions
    bound: Callable[[Sequence[Message]], int]
    tempered: bool | None = None

    @property
    def top_logprobs(self) -> int:
        """How many are asked for with each token; 0 = none."""
        return min(self.options.top_logprobs, self.capability.top_logprobs)

    def predictions(self, requests: Sequence[Instance], done: OnResponse) -> Iterator[Job]:
        """Jobs for the first token of each reply, at temperature 1."""
        top = 0 if self.capability.is_reasoning else self.top_logprobs
        has_temperature = self.capability.temperature is not None
        temperature = 1.0 if top or not has_temperature else 0.0
        given = Sampling(temperature=temperature, max_gen_toks=1, seed=0, **NEUTRAL)
        size = lengths(1 if top else LETTER_TOKENS, self.capability, self.options, self.name)
        fields = sampling_fields(given, self.capability)
        for index, request in enumerate(requests):
            context, choices = request.args
            read = partial(self._read_prediction, tuple(choices))
            yield self._job([index], context, fields, 1 if top else size.sent, top, read)

    def texts(self, requests: Sequence[Instance], done: OnResponse) -> Iterator[Job]:
        """Jobs for texts; what the model does not take is ``done`` without one."""
        for members, context, given in self._grouped(requests):
            reason = unsupported(given, self.capability)
            if reason:
                for member in members:
                    done(member, Failure(reason, "unsupported"))
                continue
            size = lengths(int(given.max_gen_toks), self.capability, self.options, self.name)
            top = self.top_logprobs if given.stability_at != "none" else 0
            fields = sampling_fields(given, self.capability)
            if self.options.think_end_token:
                fields.pop("stop", None)  # it would end the reasoning: applied here
            read = partial(self._read_text, given)
            job = self._job(members, context, fields, size.sent, top, read)
            if "seed" in fields:
                job.seeds = {m: requests[m].args[1]["seed"] % SEEDS for m in members}
            yield job

    def _grouped(self, requests: Sequence[Instance]) -> Iterator[tuple[list[int], str, Sampling]]:
        """Neighbours that differ in nothing but the seed, as many as fit one request."""
        members: list[int] = []
        key: object = None
        for index, request in enumerate(requests):
            context, kwargs = request.args
            own = (context, {k: v for k, v in kwargs.items() if k != "seed"})
            most = self.capability.n if kwargs.get("temperature", 0) > 0 else 1
            if members and (own != key or len(members) >= most):
                yield members, *_first(requests[members[0]])
                members = []
            members.append(index)
            key = own
        if members:
            yield members, *_first(requests[members[0]])

    def _job(
        self,
        members: list[int],
        context: str,
        fields: Mapping[str, Any],
        max_tokens: int,
        top: int,
        read: Callable[[dict[str, Any], dict[str, Any]], Response],
    ) -> Job:
        messages = as_messages(context, self.capability.system_role)
        body = body_of(
            messages,
            fields,
            self.capability,
            max_tokens=max_tokens,
            top_logprobs=top,
            extra_body=self.connection.extra_body,
        )
        return Job(members, body, read, self.bound(messages), max_tokens)

    def _read_text(self, given: Sampling, choice: dict[str, Any], call: dict[str, Any]) -> Response:
        unusable = self._unusable(float(given.temperature))
        return generation(choice, given, call, unusable, self.options.think_end_token)

    def _read_prediction(
        self, choices: tuple[str, ...], choice: dict[str, Any], call: dict[str, Any]
    ) -> Response:
        without = IN_REASONING if self.capability.is_reasoning and self.top_logprobs else None
        return prediction(choice, choices, call, without, self.options.think_end_token)

    def _unusable(self, temperature: float) -> str | None:
        is_raw = temperature == 1 or self.tempered is False
        if is_raw or not self.top_logprobs:
            return None
        return TEMPERED if self.tempered else PERHAPS_TEMPERED


def needs_raw(request: Instance) -> bool:
    """Whether stability is wanted of a text at another temperature than 1."""
    kwargs = request.args[1]
    if not isinstance(kwargs, dict):
        return False
    return kwargs.get("stability_at", "none") != "none" and kwargs.get("temperature") != 1


def _first(request: Instance) -> tuple[str, Sampling]:
    context, kwargs = request.args
    return context, Sampling.from_kwargs(kwargs)
