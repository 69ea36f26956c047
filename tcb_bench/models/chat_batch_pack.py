"""Which requests go into the next batch: as many as a file, a queue and a limit have room for."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tcb_bench.models.chat_batch_merge import Asked
from tcb_bench.models.chat_batch_parts import Journal, Part, PartWriter, line_of
from tcb_bench.models.chat_budget import Budget
from tcb_bench.models.chat_traffic import Job


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchLimits:
    """How large a batch may be (as OpenAI documents it), and how many there are at a time."""

    requests: int = 50_000
    file_bytes: int = 200_000_000
    at_once: int = 4


class Packer:
    """Packs jobs, one by one as they are made, into files.

    Attributes:
        most: requests of a batch; fewer where the account's queue turned out to be smaller.
    """

    def __init__(self, asked: Asked, budget: Budget, limits: BatchLimits) -> None:
        """Has nothing to pack yet, see ``add``."""
        self.asked, self.budget = asked, budget
        self.most, self.file_bytes = limits.requests, limits.file_bytes
        self._jobs = deque([iter(list[Job]())])
        self._next: Job | None = None

    def add(self, indices: Sequence[int]) -> None:
        """These requests come next."""
        if self._next is not None:
            self._jobs.appendleft(iter([self._next]))
            self._next = None
        self._jobs.appendleft(self.asked.jobs(indices))

    @property
    def is_empty(self) -> bool:
        """Whether nothing is left to pack."""
        self._next = self._take()
        return self._next is None

    def _take(self) -> Job | None:
        job, self._next = self._next, None
        while job is None and self._jobs:
            job = next(self._jobs[0], None)
            if job is None:
                self._jobs.popleft()
        return job

    def pack(self, journal: Journal) -> Part | None:
        """A new part whose worst case is promised to it; None where nothing is left or fits."""
        writer = PartWriter(journal)
        held = (0, 0)
        while (job := self._take()) is not None:
            keys = [self.asked.keys[index] for index in job.members]
            n = len(keys)
            line = line_of(keys[0], {**job.body, "n": n} if n > 1 else job.body)
            prompt, completion = _worst([job])
            more = (held[0] + prompt, held[1] + completion)
            if not self._has_room(writer, line) or not self._promise(writer.number, *more):
                self._next = job
                break
            writer.add(keys, line)
            held = more
        self._promise(writer.number, *held)
        part = writer.close()
        if part is None:
            self.budget.release(writer.number)
        return part

    def _has_room(self, writer: PartWriter, line: bytes) -> bool:
        if not writer.n_requests:
            return True  # what is too large alone is for the provider to refuse
        is_small = writer.n_bytes + len(line) <= self.file_bytes
        return is_small and writer.n_requests < self.most

    def promise(self, part: Part, indices: Sequence[int]) -> bool:
        """Promises a part all that these requests can cost; False where that is over the limit."""
        return self._promise(part.number, *_worst(self.asked.jobs(indices)))

    def _promise(self, number: int, prompt: int, completion: int) -> bool:
        """In place of what was promised before."""
        self.budget.release(number)
        return self.budget.hold(number, prompt, completion)


def _worst(jobs: Iterable[Job]) -> tuple[int, int]:
    """Tokens that jobs have at most: of their prompts, and of their completions."""
    prompt = completion = 0
    for job in jobs:
        prompt += job.prompt_bound
        completion += job.completion_bound * len(job.members)
    return prompt, completion
