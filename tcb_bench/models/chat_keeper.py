"""Responses on their way to whoever keeps them: several at a time, since each write is a sync."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

from tcb_bench.responses import Response

OnResponse = Callable[[int, Response], None]
MOST = 512  # responses that wait at a time
GATHER_S, LONGEST_GATHER_S = 0.01, 0.1
"""How long responses are gathered before they are written together."""

PAUSES = 9
"""Of one write's time at least between two, since nothing is sent or read meanwhile: a slow disk
takes a tenth of the time."""


class Keeper:
    """Hands (index, response) pairs on; a function with a method ``many`` gets them as a list."""

    def __init__(self, on_response: OnResponse) -> None:
        """``on_response`` keeps one response, and is durable when it returns."""
        self._one = on_response
        self._many = getattr(on_response, "many", None)
        self._waiting: list[tuple[int, Response]] = []
        self._is_due = False
        self._is_broken = False  # a write failed: the store is closed, and the run ends
        self._write_s = 0.0  # what the last write took

    def add(self, index: int, response: Response) -> None:
        """Takes a response; it is written with the next ones, or by ``flush``."""
        self._waiting.append((index, response))
        if len(self._waiting) >= MOST:
            self.flush()

    def take(self, index: int, response: Response) -> Awaitable[None]:
        """Takes a response at once; to be awaited until it is written, or another sees to that.

        Whatever the write raises (a full disk) is raised there, so that the run stops.
        """
        self.add(index, response)
        return self._written()

    async def _written(self) -> None:
        """Writes all that waits within ``LONGEST_GATHER_S``, unless that is under way."""
        if self._is_due:
            return
        self._is_due = True
        try:
            await asyncio.sleep(min(max(GATHER_S, PAUSES * self._write_s), LONGEST_GATHER_S))
        finally:
            self._is_due = False
        self.flush()

    def flush(self) -> None:
        """Writes all that waits; nothing after a write that failed: that error is to be seen."""
        pairs, self._waiting = self._waiting, []
        if self._is_broken or not pairs:
            return
        start, self._is_broken = time.perf_counter(), True
        if self._many is not None:
            self._many(pairs)
        else:
            for index, response in pairs:
                self._one(index, response)
        self._is_broken = False
        self._write_s = time.perf_counter() - start
