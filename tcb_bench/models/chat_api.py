"""Models behind an API: OpenAI, DeepSeek, and every server that speaks the same protocol."""

from __future__ import annotations

import asyncio
from collections import Counter as Counter_
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import date
from functools import cached_property, partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

from lm_eval.api.instance import Instance

from tcb_bench.errors import ModelError
from tcb_bench.models.capabilities import Capability
from tcb_bench.models.chat_batch import BatchRun, Say, check_none_under_way
from tcb_bench.models.chat_batch_merge import Asked, JobsOf
from tcb_bench.models.chat_batch_pack import BatchLimits
from tcb_bench.models.chat_budget import Budget
from tcb_bench.models.chat_client import Client, Connection
from tcb_bench.models.chat_faults import Fault, good_choices
from tcb_bench.models.chat_jobs import Jobs, needs_raw
from tcb_bench.models.chat_keeper import Keeper, OnResponse
from tcb_bench.models.chat_lm_eval import LmEvalChat
from tcb_bench.models.chat_options import ApiOptions
from tcb_bench.models.chat_probe import logprobs_depend_on_temperature
from tcb_bench.models.chat_reply import call_of, usage_of
from tcb_bench.models.chat_request import Message, lengths, unsupported
from tcb_bench.models.chat_tokens import Counter
from tcb_bench.models.chat_traffic import Job, Traffic
from tcb_bench.models.sampling import Sampling
from tcb_bench.responses import Failure, Response


class ChatAPI(LmEvalChat):
    """A model that is asked by HTTP; its weights are closed, so delta_tcb of it is unknown.

    Attributes:
        name: ``provider/model``.
        capability: what the model takes; of an unknown one what a probe found.
        budget: what was spent, and the limits.
        traffic: what became of the requests of this process.
    """

    reuses_at_zero = False
    is_chat = True

    def __init__(
        self,
        capability: Capability,
        connection: Connection,
        options: ApiOptions,
        budget: Budget,
        counter: Counter,
    ) -> None:
        """Sends nothing yet."""
        super().__init__()
        self.name = f"{capability.provider}/{capability.model}"
        self.capability, self.connection = capability, connection
        self.options, self.budget, self.counter = options, budget, counter
        self.traffic = Traffic(options, budget)
        self.jobs = Jobs(self.name, capability, connection, options, self._bound)
        self.last_failure = ""  # what was said of the last failed attempt
        self.folder: Path | None = None  # of the run; batches keep a journal there
        self.batch_limits = BatchLimits()
        self.say: Say = lambda line: None  # what a person may want to know at once
        self.model_sampling: dict[str, Any] = {}  # an API's defaults are neutral, or not known
        self.tokenizer = SimpleNamespace(chat_template="messages of a chat API")

    @property
    def tokenizer_name(self) -> str:
        """What lm-eval calls the tokenizer; the model's own is not known."""
        return self.name

    @property
    def temperature_effective(self) -> str:
        """Whether the temperature acts: true, false, remapped or unknown."""
        return self.capability.temperature_effective

    @cached_property
    def identity(self) -> dict[str, Any]:
        """What another model must share for its responses to be this one's; part of store keys."""
        return {
            "backend": self.capability.provider,
            "model": self.capability.model,
            "base_url": self.connection.base_url,
            "extra_body": dict(self.connection.extra_body),
            "answer_tokens": self.options.answer_tokens,
            "reasoning_tokens": self.options.reasoning_tokens,
            "top_logprobs": self.options.top_logprobs,
            **({"think_end_token": end} if (end := self.options.think_end_token) else {}),
        }

    @property
    def info(self) -> dict[str, Any]:
        """What results say of the model: identity, what it takes, no weights."""
        return self.identity | {
            "capability": asdict(self.capability),
            "weight_radius": None,
            "logprobs_depend_on_temperature": self.jobs.tempered,
            "token_counts": self.counter.kind,
        }

    @property
    def spent(self) -> dict[str, float]:
        """Requests, tokens and USD of the run folder so far, for its store."""
        return {**self.budget.usage, "usd": self.budget.usd}

    @property
    def retries_errors(self) -> bool:
        """Whether a resumed run asks failed requests again."""
        return self.options.retry_on_error

    @property
    def stopped(self) -> str | None:
        """Why the run ended before all was asked; None where it did not."""
        return self.traffic.stopped

    @property
    def learned(self) -> dict[str, Any]:
        """What is known only at the end: money, failed attempts by kind, log-probabilities."""
        return {
            "spent": self.spent if self.budget.price else {**self.spent, "usd": None},
            "failed_attempts": dict(self.traffic.faults),
            "logprobs_depend_on_temperature": self.jobs.tempered,
            "stopped": self.traffic.stopped,
        }

    def preview(self, texts: Mapping[str, Mapping[str, Any]]) -> list[str]:
        """What is known before anything is sent, in lines for a person.

        Args:
            texts: task or condition -> every sampling parameter of its requests.

        Raises:
            UsageError: a reply would be longer than the model gives.
        """
        reasons: Counter_[str] = Counter_()
        for kwargs in texts.values():
            given = Sampling.from_kwargs({**kwargs, "seed": 0})
            reasons.update(filter(None, [unsupported(given, self.capability)]))
            lengths(int(given.max_gen_toks), self.capability, self.options, self.name)
        lines = [
            f"unsupported: {n} of {len(texts)} conditions, not sent: {reason}"
            for reason, n in reasons.items()
        ]
        temperatures = {float(kwargs["temperature"]) for kwargs in texts.values()}
        own = self.capability
        if own.temperature_effective in ("false", "remapped") and (temperatures - {1.0}):
            what = {"false": "has no effect", "remapped": "is changed by the provider"}
            note = f" ({own.temperature_note})" if own.temperature_note else ""
            lines.append(
                f"{self.name}: the temperature {what[own.temperature_effective]}{note}; results "
                f"say temperature_effective: {own.temperature_effective}"
            )
        if own.retires:
            verb = "stops" if own.retires >= date.today().isoformat() else "stopped"
            lines.append(f"{self.name}: the provider {verb} serving this name on {own.retires}")
        return lines

    def note(self, left: int) -> str:
        """Money so far and as it looks in the end, and failed attempts by kind, for the bar."""
        parts = []
        if self.budget.price:
            parts.append(f"${self.budget.usd:.4g} of ~${self.budget.projected(left):.3g}")
        parts += [f"{n} x {kind}" for kind, n in self.traffic.faults.most_common(3)]
        return ", ".join(parts)

    def begin(self, spent: Mapping[str, float]) -> None:
        """Takes over what earlier invocations of the run folder spent."""
        self.budget.begin(spent)

    def next_token(
        self, requests: Sequence[Instance], on_response: OnResponse | None = None
    ) -> list[Response]:
        """The first token of each reply and the log-probabilities of the choices.

        They are asked at temperature 1, which leaves the distribution as it is wherever an API
        takes it. Without log-probabilities the answer is the letter that the reply names.
        """
        return self._answer(requests, self.jobs.predictions, on_response)

    def generate_traced(
        self, requests: Sequence[Instance], on_response: OnResponse | None = None
    ) -> list[Response]:
        """Texts, with what the likeliest tokens say of stability at the critical or all tokens.

        Repeats of one prompt at a temperature above 0 are choices of one request where the model
        gives several, so that the prompt is paid once; the first one's seed is then sent.
        """
        return self._answer(requests, self.jobs.texts, on_response)

    def _answer(
        self,
        requests: Sequence[Instance],
        jobs_of: JobsOf,
        on_response: OnResponse | None,
    ) -> list[Response]:
        """Sends what ``jobs_of`` makes; without ``on_response`` the responses are collected.

        Raises:
            ModelError: the API refuses every request, in one line.
        """
        collected: dict[int, Response] = {}
        keeper = Keeper(on_response or collected.__setitem__)
        is_unknown = self.jobs.tempered is None and self.jobs.top_logprobs
        try:
            if is_unknown and any(map(needs_raw, requests)):
                asyncio.run(self._learn_dependence())
            asyncio.run(self._drive(requests, jobs_of, keeper))
        except Fault as fault:
            raise ModelError(f"{self.name}: {fault.message}{self._hint(fault)}") from None
        if on_response:
            return []
        rest = Failure(f"not asked: {self.traffic.stopped}")
        return [collected.get(index, rest) for index in range(len(requests))]

    def _hint(self, fault: Fault) -> str:
        """What may be wrong where the address is one that nothing answers."""
        url = self.connection.base_url
        is_whole = urlsplit(url).path.endswith("/v1") or self.capability.provider == "deepseek"
        return "" if fault.kind != "404" or is_whole else f"; base_url is {url}, most end in /v1"

    def _bound(self, messages: Sequence[Message]) -> int:
        """Tokens that a prompt has at most; only a limit needs to know."""
        return self.counter.bound(messages) if self.budget.is_limited else 0

    async def _learn_dependence(self) -> None:
        """Whether log-probabilities depend on the temperature; the run stops if none can tell now.

        Raises:
            Fault: the API refuses every request.
        """
        async with Client(self.connection, self.options) as client:
            try:
                self.jobs.tempered = await logprobs_depend_on_temperature(
                    client, self.capability, self.jobs.top_logprobs
                )
            except Fault as fault:
                self.traffic.faults[fault.kind] += 1
                self.last_failure = fault.message
                if fault.action == "stop":
                    raise
                self.traffic.stop(fault.message)

    async def _drive(self, requests: Sequence[Instance], jobs_of: JobsOf, keeper: Keeper) -> None:
        """Request by request, or in batches."""
        asked = Asked(requests, jobs_of, keeper)
        is_batch = self.options.api_mode == "batch"
        if not is_batch:
            check_none_under_way(self.folder, asked)
        try:
            async with Client(self.connection, self.options) as client:
                if is_batch:
                    await self._batches(asked, client).run()
                else:
                    jobs = jobs_of(requests, keeper.add)
                    await self.traffic.run(jobs, partial(self._send, client), keeper.take)
        finally:
            keeper.flush()

    def _batches(self, asked: Asked, client: Client) -> BatchRun:
        limits, say = self.batch_limits, self.say
        return BatchRun(asked, client, self.traffic, self.folder, say=say, limits=limits)

    async def _send(self, client: Client, job: Job) -> dict[int, Response]:
        """One request; its choices are matched to the job's members by their index."""
        n = len(job.members)
        body = job.body | ({"n": n} if n > 1 else {})
        if job.seeds:  # what is left of a job must not repeat those that were answered
            body["seed"] = job.seeds[job.members[0]]
        try:
            reply = await client.chat(body)
        except Fault as fault:
            self.last_failure = fault.message
            raise
        worst = self.budget.worst(job.prompt_bound, job.completion_bound * n)
        self.budget.add(worst | usage_of(reply))
        self.budget.answered += n
        answers: dict[int, Response] = {}
        for index, choice in good_choices(reply).items():
            if index < n:
                call = call_of(reply, choice, body, n)
                answers[job.members[index]] = job.read(choice, call)
        return answers
