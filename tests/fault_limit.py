"""A strict rate limiter that counts who comes back before the time it named."""

from dataclasses import dataclass, field

from fault_plan import CHAT
from fault_status import rate_limited


@dataclass
class RateLimit:
    """A strict limiter of chat requests: a bucket of ``burst`` tokens, ``per_second`` new ones.

    Beyond it: 429, with a Retry-After that ends when the next token is there, but at least
    ``penalty_s`` (the whole bucket is then closed until it ends). ``style``: see rate_limited.

    Attributes:
        admitted, refused: counts.
        early: refused ones that came in a penalty, more than ``grace_s`` after the 429 that
            opened it: a client that honours Retry-After across its connections has none but
            those that it had sent before it read the 429.
    """

    per_second: float
    burst: float = 1.0
    penalty_s: float = 0.0
    style: str = "seconds"
    grace_s: float = 0.05
    admitted: int = 0
    refused: int = 0
    early: int = 0
    _tokens: float = field(default=-1.0, repr=False)
    _last_s: float = field(default=0.0, repr=False)
    _opened_s: float = field(default=0.0, repr=False)
    _until_s: float = field(default=0.0, repr=False)

    def __call__(self, arrival):
        if arrival.path != CHAT:
            return None
        now = arrival.at_s
        if self._tokens < 0:
            self._tokens, self._last_s = self.burst, now
        gained = (now - self._last_s) * self.per_second
        self._tokens, self._last_s = min(self.burst, self._tokens + gained), now
        if now >= self._until_s and self._tokens >= 1:
            self._tokens -= 1
            self.admitted += 1
            return None
        self.refused += 1
        if now >= self._until_s:
            wait_s = max(self.penalty_s, (1 - self._tokens) / self.per_second)
            self._opened_s, self._until_s = now, now + wait_s
        elif now > self._opened_s + self.grace_s:
            self.early += 1
        return rate_limited(self._until_s - now, style=self.style)
