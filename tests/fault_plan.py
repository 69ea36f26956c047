"""Which fault a request gets: ``Rule``, ``one_of``, ``RateLimit`` (fault_limit.py), or any callable of an Arrival.

A plan is a callable (Arrival) -> Fault | None, or a list of them of which the first that gives a
fault decides; None is a good reply. All of fault_status.py, fault_refusals.py and fault_bodies.py are such callables, so
they nest: ``Rule(one_of(reset(), server_error(500)), probability=0.3, first=3)``. Draws depend on
(seed, request, attempt), never on the order in which requests arrive.
"""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from fault_replies import text_of

CHAT = "/v1/chat/completions"
LINE = "line"  # path of an Arrival that is a line of a batch


@dataclass(slots=True)
class Arrival:
    """A request as it came, and what became of it.

    Attributes:
        number: 1 for the first request of the server (since ``reset``).
        attempt: 1 for the first time that this path and body came, 2 for its first retry.
        at_s: time.monotonic() when its body was complete.
        headers: lower-case names.
        body: parsed JSON, {} where there is none.
        fault: name of the fault it got, "" for a good reply.
        status: of the reply, 0 where none was sent whole.
    """

    number: int
    attempt: int
    at_s: float
    method: str
    path: str
    headers: Mapping[str, str]
    body: dict
    key: str
    fault: str = ""
    status: int = 0

    @property
    def model(self):
        return self.body.get("model")

    @property
    def fields(self):
        """Names in the body, sorted: what was really sent."""
        return sorted(self.body)

    @property
    def text(self):
        """All messages as one text."""
        return text_of(self.body.get("messages") or [])


@dataclass(frozen=True, slots=True)
class Reply:
    """Status, body and further headers of what is sent."""

    status: int
    body: bytes
    headers: tuple[tuple[str, str], ...] = ()
    content_type: str = "application/json"


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that goes wrong; fault_status.py and fault_bodies.py make them.

    Attributes:
        reply: (Arrival) -> Reply in place of the good one; None: the good one is sent.
        change: of the good reply's JSON.
        wire: how the bytes go out: whole, cut, close, reset, hang, trickle.
        seconds: before a whole reply, or of blank lines before a trickled one.
        every_s: between two blank lines.
    """

    name: str
    reply: Callable[[Arrival], Reply] | None = None
    change: Callable[[dict], dict] | None = None
    wire: str = "whole"
    seconds: float = 0.0
    every_s: float = 0.02

    def __call__(self, arrival):
        return self


def key_of(path, body):
    """Hash under which attempts of one request are counted."""
    return hashlib.sha256(json.dumps([path, body], sort_keys=True).encode()).hexdigest()


def draw(*parts):
    """A number in [0, 1) that depends on ``parts`` alone."""
    digest = hashlib.sha256(json.dumps(parts).encode()).digest()
    return int.from_bytes(digest[:6], "big") / 2**48


@dataclass(frozen=True, kw_only=True)
class Conditions:
    """When a Rule applies; all that is given must hold.

    Attributes:
        first: only the first k attempts of each request (two requests with the same body are one).
        probability: of each attempt, drawn again each time.
        share: of all requests, the same at every attempt (what never heals).
        after, until: only arrivals number > after and <= until.
        model, temperature: equal to the body's.
        content: a text in the messages.
        path: the endpoint, ``LINE`` for lines of a batch; None for all. Where a fault of the wire
            hits the creation of a file or batch, it is made all the same; an error status: not.
        when: (Arrival) -> bool.
        seed: of the draws.
    """

    first: int | None = None
    probability: float = 1.0
    share: float = 1.0
    after: int = 0
    until: int | None = None
    model: str | None = None
    temperature: float | None = None
    content: str = ""
    path: str | None = CHAT
    when: Callable[[Arrival], bool] | None = None
    seed: int = 0

    def hold(self, arrival, name):
        body = arrival.body
        return (
            self.path in (None, arrival.path)
            and (self.first is None or arrival.attempt <= self.first)
            and self.after < arrival.number
            and (self.until is None or arrival.number <= self.until)
            and self.model in (None, arrival.model)
            and (self.temperature is None or body.get("temperature") == self.temperature)
            and self.content in arrival.text
            and draw("share", self.seed, name, arrival.key) < self.share
            and draw(self.seed, name, arrival.key, arrival.attempt) < self.probability
            and (self.when is None or self.when(arrival))
        )


class Rule:
    """``Rule(fault, first=2, model="o3", ...)``: the fault where all Conditions hold."""

    def __init__(self, fault, **conditions):
        self.fault, self.conditions = fault, Conditions(**conditions)
        self.name = getattr(fault, "name", "")

    def __call__(self, arrival):
        return self.fault(arrival) if self.conditions.hold(arrival, self.name) else None


def one_of(*faults, seed=0):
    """One of the faults, drawn for each attempt."""

    def chosen(arrival):
        at = draw("one of", seed, arrival.key, arrival.attempt)
        return faults[int(at * len(faults))](arrival)

    return chosen


def as_plan(plan):
    """None, a Fault (of all chat requests), a callable, or a list of them, as one callable."""
    if plan is None:
        return lambda arrival: None
    if isinstance(plan, Fault):
        return Rule(plan)
    if callable(plan):
        return plan
    parts = [as_plan(part) for part in plan]

    def first(arrival):
        found = (part(arrival) for part in parts)
        return next((fault for fault in found if fault is not None), None)

    return first
