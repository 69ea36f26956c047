"""How many requests are on the way at a time: grows with success, halves when told to slow down."""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable

FIRST = 4
SLICE_S = 0.5  # a stopped run waits no longer than this
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 60.0


async def sleep_unless(seconds: float, is_over: Callable[[], bool]) -> None:
    """Sleeps, but not on when ``is_over`` says that waiting has no purpose."""
    now = asyncio.get_running_loop().time
    end = now() + seconds
    while (left := end - now()) > 0 and not is_over():
        await asyncio.sleep(min(left, SLICE_S))


class Limiter:
    """A gate of adaptive width: additive increase, multiplicative decrease.

    It begins at a few requests and doubles with each round of successes up to the first 429; from
    then on it grows by one a round. A 429 halves it, once for all requests that were on the way
    together, and closes the gate for as long as the API asked, or for a growing, jittered pause.

    Attributes:
        most: requests at the same time, at most.
        width: how many there may be now.
        in_flight: how many there are.
    """

    def __init__(
        self,
        most: int,
        per_minute: float | None = None,
        is_over: Callable[[], bool] = lambda: False,
    ) -> None:
        """``per_minute`` spaces the starts; once ``is_over`` says so nobody waits for long."""
        self.most = most
        self.width = float(min(FIRST, most))
        self.in_flight = 0
        self.spacing_s = 60 / per_minute if per_minute else 0.0
        self.now = asyncio.get_running_loop().time
        self.is_over = is_over
        self._is_slow_start = True
        self._closed_until = 0.0
        self._next_start = 0.0
        self._last_cut = -1.0
        self._cuts_in_a_row = 0
        self._queue: deque[asyncio.Future[None]] = deque()

    async def enter(self) -> float:
        """Waits for a place; returns the time it was given, which ``slow_down`` wants."""
        while True:
            while self.in_flight >= int(self.width):
                await self._turn()
            self.in_flight += 1
            wait_s = max(self._closed_until, self._next_start) - self.now()
            if wait_s <= 0 or self.is_over():
                break
            self.leave()
            await sleep_unless(wait_s, self.is_over)
        self._next_start = max(self._next_start, self.now()) + self.spacing_s
        return self.now()

    async def _turn(self) -> None:
        waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queue.append(waiting)
        try:
            await waiting
        except asyncio.CancelledError:
            if waiting.done() and not waiting.cancelled():
                self._wake()  # the place goes to the next in line
            raise

    def leave(self) -> None:
        """Gives the place back."""
        self.in_flight -= 1
        self._wake()

    def _wake(self) -> None:
        free = int(self.width) - self.in_flight
        while free > 0 and self._queue:
            waiting = self._queue.popleft()
            if not waiting.done():
                waiting.set_result(None)
                free -= 1

    def succeeded(self) -> None:
        """One request came back well."""
        self._cuts_in_a_row = 0
        step = 1.0 if self._is_slow_start else 1 / self.width
        self.width = min(float(self.most), self.width + step)
        self._wake()

    def slow_down(self, begun: float, wait_s: float | None) -> float:
        """A 429 came for a request that got its place at ``begun``; returns the pause in seconds.

        Requests that were on the way when the width was last cut do not cut it again.
        """
        if begun > self._last_cut:
            self.width = max(1.0, self.width / 2)
            self._is_slow_start = False
            self._last_cut = self.now()
            self._cuts_in_a_row += 1
        pause = wait_s
        if pause is None:
            longest = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2**self._cuts_in_a_row)
            pause = random.uniform(longest / 2, longest)  # noqa: S311 - jitter, no secret
        self._closed_until = max(self._closed_until, self.now() + pause)
        return pause
