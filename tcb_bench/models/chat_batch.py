"""OpenAI's Batch API: requests go as files, are answered within 24 hours, and cost half.

Several batches run at a time. What is known of each is in a journal (chat_batch_parts.py), so that
whoever starts the same command again after any end takes them up, and nothing is paid twice.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tcb_bench.errors import UsageError
from tcb_bench.models.chat_batch_calls import BatchCalls, Record, with_code
from tcb_bench.models.chat_batch_merge import Asked, Merger
from tcb_bench.models.chat_batch_pack import BatchLimits, Packer
from tcb_bench.models.chat_batch_parts import Journal, Part
from tcb_bench.models.chat_client import Client
from tcb_bench.models.chat_faults import Fault
from tcb_bench.models.chat_traffic import STALL_S, Traffic

ENDED = ("completed", "failed", "expired", "cancelled")
FIRST_POLL_S, POLL_GROWTH = 1.0, 1.5
SMALLEST = 50
"""Requests of a batch that is not divided further where it is too large for the account's queue."""

Say = Callable[[str], None]


class BatchRun:
    """All batches for the requests of one call."""

    def __init__(
        self,
        asked: Asked,
        client: Client,
        traffic: Traffic,
        folder: Path | None,
        *,
        say: Say,
        limits: BatchLimits,
    ) -> None:
        """Reads and sends nothing yet.

        Raises:
            UsageError: there is no run folder.
        """
        if folder is None:
            raise UsageError("--api_mode batch keeps a journal in a run folder; use tcb-bench run")
        self.asked, self.client, self.traffic, self.say = asked, client, traffic, say
        self.poll_s, self.at_once = client.options.poll_s, limits.at_once
        self.budget = traffic.budget
        self.packer = Packer(asked, self.budget, limits)
        self.calls = BatchCalls(client, traffic, look_s=min(self.poll_s, 5.0))
        self.journal = Journal(folder)
        self.running: list[Part] = []
        self._is_full = False  # until one of those that run has ended
        self._unheld: set[int] = set()  # parts that the limit has no room for, though they run
        self._status: dict[int, str] = {}
        self._fault: Fault | None = None  # of a line, which stops the model at the end
        self._last_answer = time.monotonic()

    async def run(self) -> None:
        """Submits, polls and merges until all that could be asked is kept.

        Raises:
            Fault: of action ``stop``: the model cannot be asked at all.
        """
        try:
            await self._take_up()
            await self._run()
        except Fault as fault:
            if fault.action != "quota":
                raise
            self.traffic.stop(fault.message)
        finally:
            self._say_going_on()
        if self._fault is not None:
            raise self._fault

    async def _run(self) -> None:
        pause_s = first_s = min(FIRST_POLL_S, self.poll_s)
        while True:
            while self._has_room() and await self._submit_next():
                pass
            if not self.running:
                return
            await asyncio.sleep(pause_s)
            has_news = await self._look_at_all()
            pause_s = first_s if has_news else min(pause_s * POLL_GROWTH, self.poll_s)

    async def _take_up(self) -> None:
        """Batches of an earlier process run on; what is in none is to be packed."""
        taken: set[int] = set()
        for part in self.journal.open_parts():
            covered = self.asked.covered(self.journal, part)
            if not covered:
                continue
            if not part.batch_id and not await self._is_found(part):
                self.journal.close(part, "dropped")  # it was never submitted
                continue
            taken.update(covered)
            self.running.append(part)
            if not self.packer.promise(part, covered):
                self._unheld.add(part.number)
            self.say(f"{part.label}: {part.n_requests:,} requests, submitted before; taken up")
        self.packer.add([i for i in range(len(self.asked.requests)) if i not in taken])

    async def _is_found(self, part: Part) -> bool:
        record = await self.calls.find(part) if part.file_id else None
        if record is not None:
            self._created(part, record)
        return record is not None

    def _has_room(self) -> bool:
        is_open = not (self.traffic.stopped or self._is_full or self._unheld)
        return is_open and len(self.running) < self.at_once and not self.packer.is_empty

    async def _submit_next(self) -> bool:
        """Makes a batch of what comes next; False where that has to wait."""
        part = self.packer.pack(self.journal)
        self.asked.keeper.flush()
        if part is None:
            if self.running:
                self._is_full = True  # what these do not spend comes back
            else:
                self.traffic.stop(f"{self.budget.limit_text} has no room for another request")
            return False
        try:
            part.file_id = await self.calls.upload(self.journal.file(part))
            part.uploaded_s = time.time()
            self.journal.write("uploaded", part, file_id=part.file_id)
            self._created(part, await self.calls.create(part))
        except Fault as fault:
            if fault.kind not in ("queue", "quota"):
                raise
            self._refused(part, fault)
            return True
        self.running.append(part)
        self.say(f"{part.label}: {part.n_requests:,} requests submitted")
        return True

    def _created(self, part: Part, record: Record) -> None:
        part.batch_id = str(record["id"])
        self.journal.write("created", part, batch_id=part.batch_id)

    def _refused(self, part: Part, fault: Fault) -> None:
        """A batch that the account has no room or no money for: later, smaller, or not now."""
        self.traffic.faults[fault.kind] += 1
        self.packer.add(self.asked.covered(self.journal, part))
        self.journal.close(part, "dropped")
        self.budget.release(part.number)
        if self.running:
            self.say(f"{part.label}: waits for the others ({fault.message})")
            self._is_full = True
        elif fault.kind == "queue" and part.n_requests > SMALLEST:
            self.packer.most = part.n_requests // 2
            self.say(f"{part.label}: divided ({fault.message})")
        else:
            self.traffic.stop(fault.message)

    async def _look_at_all(self) -> bool:
        """Asks for the state of each batch and merges those that ended; whether one changed."""
        has_news = False
        for part in list(self.running):
            record = await self._retrieved(part)
            status = None if record is None else str(record.get("status"))
            if record is None or status is None or status == self._status.get(part.number):
                continue
            has_news = True
            self._status[part.number] = status
            if status in ENDED:
                await self._end(part, record, status)
            else:
                self.say(f"{part.label}: {status}")
        return has_news

    async def _retrieved(self, part: Part) -> Record | None:
        """The batch, or None where it could not be had now: hours of waiting outlive a bad line."""
        try:
            record = await self.calls.retrieve(part.batch_id)
        except Fault as fault:
            self.traffic.faults[fault.kind] += 1
            if fault.kind == "404":
                fault.message = (
                    f"{part.label} is not known to this key's project ({fault.message}); use the "
                    f"key that submitted it, or move {self.journal.path.name} away to ask again"
                )
            if fault.action not in ("retry", "wait"):
                raise
            waited = time.monotonic() - self._last_answer
            if waited > STALL_S:
                what = f"no news of the batches for {waited:.0f} s: {fault.message}"
                raise Fault(fault.kind, "quota", what) from None
            return None
        self._last_answer = time.monotonic()
        return record

    async def _end(self, part: Part, record: Record, status: str) -> None:
        if status != "failed":
            await self._merge(part, record, status)
        self.running.remove(part)
        self.budget.release(part.number)
        self._unheld.discard(part.number)
        self._is_full = False
        if status == "failed":
            self._failed(part, record)

    def _failed(self, part: Part, record: Record) -> None:
        """The provider took none of its requests, and asks for no money."""
        errors = (record.get("errors") or {}).get("data") or []
        said = "; ".join(dict.fromkeys(map(_said, errors))) or "no reason given"
        fault = Fault("failed", "stop", f"{part.label} failed: {said[:400]}")
        for error in errors:
            fault = with_code(fault, str(error.get("code")))
        if fault.action == "stop":
            self.journal.close(part, "dropped")
            raise fault
        self._refused(part, fault)

    async def _merge(self, part: Part, record: Record, status: str) -> None:
        merger = Merger(self.asked, self.journal, part, self.traffic, self.client)
        for kind, field in (("output", "output_file_id"), ("errors", "error_file_id")):
            if record.get(field):
                path = self.journal.file(part, kind)
                await self.calls.download(str(record[field]), path)
                merger.merge(path)
        lost = merger.finish(f"the batch is {status} and its files say nothing of this request")
        self._fault = self._fault or merger.fault
        if merger.left:
            self.journal.write("merged", part, left=merger.left)
        else:
            self.journal.close(part, "merged", left=[])
        counts = record.get("request_counts") or {}
        done, failed = counts.get("completed", 0), counts.get("failed", 0)
        without = f", {lost:,} without a line" if lost else ""
        self.say(f"{part.label}: {status}, {done:,} answered, {failed:,} failed{without}; merged")

    def _say_going_on(self) -> None:
        if self.running:
            known = ", ".join(part.label for part in self.running)
            self.say(f"{known}: still at the provider; the same command picks up what comes back")


def _said(error: Mapping[str, Any]) -> str:
    line = f"line {error['line']}: " if error.get("line") else ""
    message = error.get("message") or error.get("code") or "?"
    return " ".join(f"{line}{message}".split())


def check_none_under_way(folder: Path | None, asked: Asked) -> None:
    """Refuses to ask online what a batch has been asked already.

    Raises:
        UsageError: batches run that hold some of the requests.
    """
    if folder is None:
        return
    journal = Journal(folder)
    for part in journal.open_parts():
        if part.left is None and part.file_id and asked.covered(journal, part):
            raise UsageError(
                f"{part.label} holds requests of this run and would be paid for, too; add "
                f"--api_mode batch to take it up, or move {journal.path} away to ask anew"
            )
