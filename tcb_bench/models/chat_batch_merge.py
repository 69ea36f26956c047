"""From the lines that a batch brings back to the responses that were asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from lm_eval.api.instance import Instance

from tcb_bench.errors import UsageError
from tcb_bench.models.chat_batch_calls import with_code
from tcb_bench.models.chat_batch_parts import Journal, Part
from tcb_bench.models.chat_client import Client
from tcb_bench.models.chat_faults import (
    Fault,
    fault_in_reply,
    fault_of_status,
    good_choices,
    without_secrets,
)
from tcb_bench.models.chat_keeper import Keeper, OnResponse
from tcb_bench.models.chat_reply import call_of, usage_of
from tcb_bench.models.chat_traffic import Job, Traffic
from tcb_bench.responses import Failure, Response

FLUSH = 256
"""Responses that wait at most before a line is added; below ``chat_keeper.MOST`` even with those of
that line, so that a line is kept whole, together with its bill, or not at all."""

LONGEST = 300  # characters of what the API says of a line

JobsOf = Callable[[Sequence[Instance], OnResponse], Iterator[Job]]


class Asked:
    """The requests of one call and what is made of them; indices are those of the requests."""

    def __init__(self, requests: Sequence[Instance], jobs_of: JobsOf, keeper: Keeper) -> None:
        """Nothing is read yet."""
        self.requests, self.jobs_of, self.keeper = requests, jobs_of, keeper

    @cached_property
    def keys(self) -> list[str]:
        """What names each request beyond this process; its document says so.

        Raises:
            UsageError: one has none.
        """
        if not all("key" in request.doc for request in self.requests):
            raise UsageError("--api_mode batch is for `tcb-bench run`; leave it out here")
        return [str(request.doc["key"]) for request in self.requests]

    @cached_property
    def index(self) -> dict[str, int]:
        """Key -> request."""
        return {key: index for index, key in enumerate(self.keys)}

    def jobs(self, chosen: Sequence[int]) -> Iterator[Job]:
        """The jobs of some requests; what the model does not take is kept as such without one."""

        def done(at: int, response: Response) -> None:
            self.keeper.add(chosen[at], response)

        for job in self.jobs_of([self.requests[index] for index in chosen], done):
            job.members = [chosen[at] for at in job.members]
            yield job

    def of(self, part: Part, keys: Sequence[str]) -> list[int | None]:
        """The request that each key of a part's line is for; None where it is not wanted now."""
        wanted = [key for key in keys if part.left is None or key in part.left]
        return [self.index.get(key) if key in wanted else None for key in keys]

    def covered(self, journal: Journal, part: Part) -> list[int]:
        """Requests that a part will answer."""
        if part.left is not None:
            return sorted(self.index[key] for key in part.left if key in self.index)
        lines = (self.of(part, keys) for _, keys in journal.lines(part))
        return [index for line in lines for index in line if index is not None]


@dataclass(slots=True)
class Line:
    """A request of a part: where it begins in the file, and whose its choices are."""

    offset: int
    members: list[int | None]

    @property
    def indices(self) -> list[int]:
        """Requests that wait for it."""
        return [index for index in self.members if index is not None]


class Merger:
    """Merges one part; the answers of a line are kept together with its bill.

    Attributes:
        fault: what an API said of a line that stops the model; such lines are asked again.
        left: keys of the part that nobody asks for now.
    """

    def __init__(
        self, asked: Asked, journal: Journal, part: Part, traffic: Traffic, client: Client
    ) -> None:
        """Reads which requests the part holds."""
        self.asked, self.journal, self.part = asked, journal, part
        self.traffic, self.budget, self.client = traffic, traffic.budget, client
        self.fault: Fault | None = None
        self.left: list[str] = []
        self._lines: dict[str, Line] = {}
        self._waiting = 0
        for offset, keys in journal.lines(part):
            members = asked.of(part, keys)
            pairs = zip(keys, members, strict=True)
            own = [key for key, index in pairs if index is None]
            self.left += own if part.left is None else [key for key in own if key in part.left]
            if any(index is not None for index in members):
                self._lines[keys[0]] = Line(offset, members)

    def merge(self, path: Path) -> None:
        """Keeps what a downloaded file says, line by line."""
        self._flush()
        with path.open("rb") as file, self.journal.open(self.part) as sent:
            for text in file:
                record = self._record(text)
                custom_id = str(record.get("custom_id"))
                line = self._lines.pop(custom_id, None)
                if line is not None:
                    body = self.journal.body(sent, self.part, line.offset, custom_id)
                    self._take(record, line, body)
        self._flush()

    def finish(self, reason: str) -> int:
        """Keeps requests of which no file says anything as failed; returns how many."""
        lost = len(self._lines)
        for line in self._lines.values():
            for index in line.indices:
                self._keep(index, Failure(reason))
        self._lines.clear()
        self._flush()
        return lost

    def _take(self, record: Mapping[str, Any], line: Line, body: dict[str, Any]) -> None:
        reply, fault = _reply(record)
        if reply is not None:
            self._read(reply, line, body)
        elif fault is not None:
            fault.message = without_secrets(fault.message, self.client.connection.secrets)
            self._fail(fault, line)
        if self._waiting >= FLUSH:
            self._flush()

    def _read(self, reply: dict[str, Any], line: Line, body: dict[str, Any]) -> None:
        job = next(self.asked.jobs(line.indices), None)
        if job is None:  # the table of capabilities says now that the model does not take it
            return
        n = len(line.members)
        good = good_choices(reply)
        first = min((at for at in good if at < n), default=0)
        if line.members[first] is not None:  # where the bill stands in the store
            worst = self.budget.worst(job.prompt_bound, job.completion_bound * n)
            self.budget.add(worst | usage_of(reply))
        for at, choice in good.items():
            index = line.members[at] if at < n else None
            if index is not None:
                line.members[at] = None
                self._keep(index, job.read(choice, call_of(reply, choice, body, n)))
        for index in line.indices:
            self._keep(index, Failure(f"the reply lacks this choice of {n}, or it broke off"))

    def _fail(self, fault: Fault, line: Line) -> None:
        self.traffic.faults[fault.kind] += 1
        if fault.action == "stop":
            self.fault = self.fault or fault
            return
        if fault.action == "quota":
            self.traffic.stop(fault.message)
            return
        states = {"condition": "unsupported", "unscored": "unscored", "filtered": "filtered"}
        for index in line.indices:
            self._keep(index, Failure(fault.message, states.get(fault.action, "error")))

    def _keep(self, index: int, response: Response) -> None:
        self.asked.keeper.add(index, response)
        self.budget.answered += 1
        self._waiting += 1

    def _record(self, text: bytes) -> Mapping[str, Any]:
        """A line of a downloaded file; one that is no JSON object says nothing of any request."""
        try:
            record = self.client.read_json(text)
        except (ValueError, RecursionError):
            return {}
        return record if isinstance(record, dict) else {}

    def _flush(self) -> None:
        self.asked.keeper.flush()
        self._waiting = 0


def _reply(record: Mapping[str, Any]) -> tuple[dict[str, Any] | None, Fault | None]:
    """What a line says: a reply, or what went wrong."""
    response, error = record.get("response"), record.get("error")
    if isinstance(response, Mapping):
        status, body = response.get("status_code"), response.get("body")
        if status == 200:
            fault = fault_in_reply(body)
            return (None, fault) if fault else (body, None)
        if isinstance(status, int) and status >= 400:
            return None, fault_of_status(status, body, {})
        return None, Fault("bad reply", "retry", f"a line with the status {status}")
    said = error if isinstance(error, Mapping) else {}
    code, message = str(said.get("code") or "error"), str(said.get("message") or "")
    line = " ".join(f"{code}: {message}".split())[:LONGEST]
    return None, with_code(Fault(code, "retry", line), code)
