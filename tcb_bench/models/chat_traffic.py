"""Many requests to an API at once: a bounded number on the way, each asked until it is answered."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from tcb_bench.models.chat_budget import Budget
from tcb_bench.models.chat_faults import Fault
from tcb_bench.models.chat_limiter import Limiter, sleep_unless
from tcb_bench.models.chat_options import ApiOptions
from tcb_bench.responses import Failure, Response

FIRST_BACKOFF_S, LONGEST_BACKOFF_S = 0.5, 60.0
LOST_IN_A_ROW = 12
"""Requests that fail with all their retries, none succeeding between: the API is down."""

STALL_S = 1800.0
"""Seconds without one success while the API says to slow down: as good as no quota."""


@dataclass(slots=True)
class Job:
    """One request of one or several choices.

    Attributes:
        members: index of the response that each choice is for; those answered are taken out.
        body: what is sent, for one choice.
        read: from the reply's choice and its call to a response.
        prompt_bound: tokens that the prompt has at most; ``completion_bound`` those of one choice.
        seeds: member -> its own seed, where one is sent; that of the first member is.
    """

    members: list[int]
    body: dict[str, Any]
    read: Callable[[dict[str, Any], dict[str, Any]], Response]
    prompt_bound: int = 0
    completion_bound: int = 0
    seeds: dict[int, int] = field(default_factory=dict)


def _first(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


Send = Callable[[Job], Awaitable[dict[int, Response]]]
"""Sends a job once; gives the responses by member; raises ``Fault``."""

Done = Callable[[int, Response], Awaitable[None]]


@dataclass
class Traffic:
    """What happens to jobs until each has its responses.

    Attributes:
        stopped: why no more is sent, with what is left to be asked by the same command; None while
            all goes on.
        faults: failed attempts by kind.
        refusals: field and value that the model refused -> what it said.
    """

    options: ApiOptions
    budget: Budget
    stopped: str | None = None
    faults: Counter[str] = field(default_factory=Counter)
    refusals: dict[tuple[str, Any], str] = field(default_factory=dict)
    _lost_in_a_row: int = 0
    _last_success: float = 0.0
    _is_exhausted: bool = False  # no job is left to begin, so that there is nothing to save

    async def run(self, jobs: Iterable[Job], send: Send, done: Done) -> None:
        """Sends all jobs; ``done`` gets each response as soon as it is there.

        Jobs are taken one by one, so that as many exist at a time as are on the way.

        Raises:
            Fault: of action ``stop``: the model cannot be asked at all.
        """
        most, per_minute = self.options.max_connections, self.options.requests_per_minute
        limiter = Limiter(most, per_minute, lambda: self.stopped is not None)
        self._last_success, self._is_exhausted = time.monotonic(), False
        source = iter(jobs)

        async def worker() -> None:
            for job in source:
                await self._finish(job, limiter, send, done)
                if self.stopped:
                    return
            self._is_exhausted = True

        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(most):
                    group.create_task(worker())
        except BaseExceptionGroup as failed:
            raise _first(failed) from None

    def stop(self, reason: str) -> None:
        """Sends nothing more; what is on the way is still taken."""
        self.stopped = self.stopped or reason

    async def _finish(self, job: Job, limiter: Limiter, send: Send, done: Done) -> None:
        """One job to its end: answered, given up, or left for another day."""
        attempt = 0
        while True:
            begun = await limiter.enter()
            try:
                if self.stopped:  # while it waited for its place, as what follows
                    return
                if reason := self._refused(job):
                    await self._fail(job, Failure(reason, "unsupported"), done)
                    return
                fault = await self._attempt(job, send, done)
            finally:
                self.budget.release(id(job))
                limiter.leave()
            if fault is None:
                limiter.succeeded()
                return
            self.faults[fault.kind] += 1
            if fault.action not in ("retry", "wait"):
                await self._end(job, fault, done)
                return
            attempt += fault.action == "retry"
            if attempt > self.options.max_retries:
                await self._give_up(job, fault, done)
                return
            await self._pause(fault, limiter, begun, attempt)

    async def _attempt(self, job: Job, send: Send, done: Done) -> Fault | None:
        """Sends the job once; what went wrong, or None where all its members are answered."""
        if not await self._may_spend(job):
            return Fault("limit", "quota", self.stopped or "")
        try:
            answers = await send(job)
        except Fault as fault:
            return fault
        # together, so that they are kept together: choices left over would get other seeds
        await asyncio.gather(*(done(member, response) for member, response in answers.items()))
        job.members = [member for member in job.members if member not in answers]
        self._lost_in_a_row, self._last_success = 0, time.monotonic()
        if job.members:
            return Fault("bad reply", "retry", f"the reply lacks {len(job.members)} choices")
        return None

    async def _end(self, job: Job, fault: Fault, done: Done) -> None:
        """A fault that asking again does not heal."""
        if fault.action == "stop":
            raise fault
        if fault.action == "quota":
            self.stop(fault.message)
        elif fault.action == "condition":
            self.refusals[fault.field or "", job.body.get(fault.field or "")] = fault.message
            await self._fail(job, Failure(fault.message, "unsupported"), done)
        else:
            await self._fail(job, Failure(fault.message, fault.action), done)

    def _refused(self, job: Job) -> str | None:
        for (name, value), reason in self.refusals.items():
            if name in job.body and job.body[name] == value:
                return reason
        return None

    async def _may_spend(self, job: Job) -> bool:
        """Whether the budget has room for the job, waiting for what others on the way give back."""
        completion = job.completion_bound * len(job.members)
        while not self.budget.hold(id(job), job.prompt_bound, completion):
            if not self.budget.has_promises:
                self.stop(f"{self.budget.limit_text} has no room for another request")
            if self.stopped:
                return False
            await asyncio.sleep(0.05)
        return True

    async def _pause(self, fault: Fault, limiter: Limiter, begun: float, attempt: int) -> None:
        if fault.action == "wait":
            limiter.slow_down(begun, fault.wait_s)  # the gate itself is closed meanwhile
            if time.monotonic() - self._last_success > STALL_S + (fault.wait_s or 0):
                self.stop(f"no reply for {STALL_S:g} s: {fault.message}")
            return
        longest = min(LONGEST_BACKOFF_S, FIRST_BACKOFF_S * 2 ** (attempt - 1))
        pause = random.uniform(longest / 2, longest)  # noqa: S311 - jitter, no secret
        await sleep_unless(max(pause, fault.wait_s or 0.0), lambda: self.stopped is not None)

    async def _give_up(self, job: Job, fault: Fault, done: Done) -> None:
        attempts = self.options.max_retries + 1
        await self._fail(
            job, Failure(f"{attempts} attempts failed, the last with {fault.message}"), done
        )
        self._lost_in_a_row += 1
        if self._lost_in_a_row >= LOST_IN_A_ROW and not self._is_exhausted:
            self.stop(
                f"{self._lost_in_a_row} requests in a row failed after {attempts} attempts each, "
                f"the last with {fault.message}"
            )

    async def _fail(self, job: Job, failure: Failure, done: Done) -> None:
        for member in job.members:
            await done(member, failure)
        job.members = []
