"""Hidden states that predicted tokens, kept in a vLLM worker until their stability is asked for.

One step of the engine gives the states of all running requests. They are kept as the engine made
them, listed by (request, position), and measured many at a time: those of a finished request when
the client asks, all of them when they outgrow their memory. Imports the metric and torch only.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from tcb_bench.metrics.delta_tcb import QUANTITIES, Head, stability
from tcb_bench.metrics.delta_tcb_head import spans
from tcb_bench.metrics.delta_tcb_shards import Shard

WORKSPACE = 2**26  # bytes of logits and of temporaries while rows are measured
CLIENT = "TCB_BENCH_CLIENT"  # environment variable: the process that no worker may outlive
KEPT = "tcb-"  # begins the engine's ids of requests whose states are kept
LAST = "last-"  # then begins the ids of requests with one row, whose choices come with the question
Exchange = Callable[[list[Any]], list[Any]]


@dataclass
class Step:
    """States (R, d) of one engine step with the position (R,) each was at and its token (R,)."""

    hidden: Tensor
    positions: Tensor
    tokens: Tensor
    users: int = 0  # requests that still need its states
    _lists: tuple[list[int], list[int]] | None = None

    def lists(self) -> tuple[list[int], list[int]]:
        """Positions and tokens as ints, read from the device once; a token < 0 was not taken."""
        if self._lists is None:
            both = torch.stack([self.positions.long(), self.tokens.long()]).tolist()
            self._lists = (both[0], both[1])
        return self._lists


@dataclass
class Request:
    """What is known of one request: states not yet measured, and rows that are."""

    pieces: list[tuple[Step, int, int]] = field(default_factory=list)  # step, first row, rows
    measured: dict[int, tuple[int, dict[str, float]]] = field(default_factory=dict)

    def is_sound(self) -> bool:
        """Whether all its states are finite."""
        held = [step.hidden[first : first + count] for step, first, count in self.pieces]
        early = all(row["finite"] for _, row in self.measured.values())
        return early and (not held or bool(torch.cat(held).isfinite().all()))

    def pending(self) -> dict[int, tuple[Step, int, int]]:
        """Position -> (step, row, token); what came last counts, since preemption recomputes."""
        found = {}
        for step, first, count in self.pieces:
            positions, tokens = step.lists()
            for row in range(first, first + count):
                if tokens[row] >= 0:
                    found[positions[row]] = (step, row, tokens[row])
        return found


class Rows:
    """The states of running requests, in bounded memory.

    Attributes:
        head: this rank's slice of the output head.
        exchange: list with this rank's part -> list of all ranks' parts.
        limit: bytes of states beyond which all are measured at once and dropped.
        held: bytes of states now.
        spills: how often that happened.
    """

    def __init__(self, head: Head, exchange: Exchange, limit: int) -> None:
        self.head, self.exchange, self.limit = head, exchange, limit
        self.held = self.spills = 0
        self._requests: dict[str, Request] = defaultdict(Request)
        self._closed: set[str] = set()

    def add(self, ids: Sequence[str | None], counts: Sequence[int], step: Step) -> None:
        """Keeps a step's rows; ``ids`` has None for a request that is not measured.

        Args:
            ids: per request of the step.
            counts: rows of each, in the same order; they sum to R.
            step: the rows.
        """
        start = 0
        for name, count in zip(ids, counts, strict=True):
            if name is not None and name not in self._closed and count:
                self._requests[name].pieces.append((step, start, count))
                step.users += 1
            start += count
        if step.users:
            self.held += _bytes(step)
        if self.held > self.limit:
            self._spill()

    def collect(self, asks: Sequence[Sequence[Any]]) -> list[dict[str, Any]]:
        """Measures and forgets finished requests.

        Args:
            asks: per request (id, positions or None for all, choices).

        Returns:
            per request ``positions``, ``tokens`` and ``quantities`` (name -> values), in ascending
            order of the positions that are there; ``sound`` is False where any state of the
            request, also one that is not asked for, holds NaN or Inf.
        """
        jobs: list[tuple[int, int, int, Tensor]] = []  # ask, position, token, state
        found: list[dict[int, tuple[int, dict[str, float]]]] = []
        sound: list[bool] = []
        for number, (name, wanted, _) in enumerate(asks):
            request = self._requests.pop(name, Request())
            self._closed.add(name)
            found.append(request.measured)
            sound.append(request.is_sound())
            for position, (step, row, token) in request.pending().items():
                if wanted is None or position in wanted:
                    jobs.append((number, position, token, step.hidden[row]))
            self._release(request)
        for choices, members in _by_choices(asks, jobs):
            values = self._measure(
                [job[3] for job in members], [job[2] for job in members], choices
            )
            for (number, position, token, _), measured in zip(members, values, strict=True):
                found[number][position] = (token, measured)
        return [
            {"sound": good, **_columns(rows, ask[1])}
            for good, rows, ask in zip(sound, found, asks, strict=True)
        ]

    def _spill(self) -> None:
        """Measures everything held, so that the states can go."""
        self.spills += 1
        growing = [r for name, r in self._requests.items() if not name.startswith(LAST)]
        jobs = [
            (request, position, token, step.hidden[row])
            for request in growing
            for position, (step, row, token) in request.pending().items()
        ]
        values = self._measure([job[3] for job in jobs], [job[2] for job in jobs], ())
        for (request, position, token, _), row in zip(jobs, values, strict=True):
            request.measured[position] = (token, row)
        for request in growing:
            self._release(request)

    def _release(self, request: Request) -> None:
        for step, _, _ in request.pieces:
            step.users -= 1
            if step.users == 0:
                self.held -= _bytes(step)
        request.pieces = []

    def _measure(
        self, states: Sequence[Tensor], tokens: Sequence[int], choices: Sequence[Sequence[int]]
    ) -> list[dict[str, float]]:
        """One dict of quantities per state; ``finite`` is 0 where a state holds NaN or Inf."""
        rows: list[dict[str, float]] = []
        head = self.head
        step = max(1, WORKSPACE // (4 * len(head.weight)))  # padded: equal on every rank
        for a, b in spans(len(states), step):
            hidden = torch.stack(list(states[a:b])).to(head.weight.device)
            finite = hidden.isfinite().all(1)
            hidden = hidden.masked_fill(~finite[:, None], 0).to(head.compute_dtype)
            ids = torch.tensor(list(tokens[a:b]), device=hidden.device)
            asked = torch.tensor(choices[a:b], device=hidden.device) if choices else None
            shard = Shard(hidden, head, WORKSPACE)
            measured = stability([shard], ids, asked, exchange=self.exchange)
            columns = {name: getattr(measured, name) for name in (*QUANTITIES, "choice_logprobs")}
            lists = {name: v.tolist() for name, v in columns.items() if v is not None}
            lists["finite"] = finite.tolist()
            rows += [{name: v[i] for name, v in lists.items()} for i in range(b - a)]
        return rows

    def radius(self) -> float:
        """R of the whole vocabulary: the largest distance of a row from the mean row."""
        head, size = self.head, torch.tensor([float(self.head.size)])
        pieces = list(spans(head.size, max(1, 2**19 // head.weight.shape[1])))
        total = torch.stack([head.rows(a, b).sum(0) for a, b in pieces]).sum(0)
        parts = [torch.stack(self.exchange([x])).sum(0) for x in (total, size.to(total))]
        center = parts[0] / parts[1]
        far = [(head.rows(a, b) - center).square().sum(1).amax() for a, b in pieces]
        return float(torch.stack(self.exchange([torch.stack(far).amax()[None]])).amax().sqrt())


def _bytes(step: Step) -> int:
    return step.hidden.numel() * step.hidden.element_size()


def _by_choices(
    asks: Sequence[Sequence[Any]], jobs: Sequence[tuple[int, int, int, Tensor]]
) -> Iterator[tuple[list[list[int]], list[tuple[int, int, int, Tensor]]]]:
    """Jobs that have equally many choices, with these; no choices as an empty list."""
    groups: dict[int, list[tuple[int, int, int, Tensor]]] = defaultdict(list)
    for job in jobs:
        groups[len(asks[job[0]][2])].append(job)
    for count, members in groups.items():
        yield [list(asks[job[0]][2]) for job in members] if count else [], members


def _columns(
    rows: dict[int, tuple[int, dict[str, float]]], wanted: Sequence[int] | None
) -> dict[str, Any]:
    positions = sorted(p for p in rows if wanted is None or p in wanted)
    values = [rows[p][1] for p in positions]
    names = [name for name in (values[0] if values else {}) if name != "finite"]
    return {
        "positions": positions,
        "tokens": [rows[p][0] for p in positions],
        "quantities": {name: [row[name] for row in values] for name in names},
    }
