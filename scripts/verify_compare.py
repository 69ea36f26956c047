"""Lines of a verification, and how two computations of the same predictions are compared."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from plain_oracle import Truth
from random_llama import Row
from torch import Tensor

SIGMAS = 4  # of rounding, by which a top-1 must lead before it must be the same


@dataclass
class Report:
    """Prints checks and remembers which failed."""

    failed: list[str] = field(default_factory=list)
    n_checks: int = 0

    def say(self, line: str) -> None:
        """One line, seen at once."""
        print(line, flush=True)  # noqa: T201 - the report is what this script is for

    def check(self, is_good: bool, name: str, rest: str) -> None:
        """One check."""
        self.n_checks += 1
        if not is_good:
            self.failed.append(name)
        self.say(f"{'ok' if is_good else 'FAILED':<7}{name}: {rest}")

    def most(self, name: str, value: float | Tensor, limit: float, note: str = "") -> None:
        """``value`` must be a number <= ``limit``; NaN is none."""
        number = float(value)
        self.check(number <= limit, name, f"{number:.3g} (limit <= {limit:.3g}){note}")

    def least(self, name: str, value: float, limit: float, note: str = "") -> None:
        """``value`` must be a number >= ``limit``."""
        self.check(value >= limit, name, f"{value:.3g} (limit >= {limit:.3g}){note}")


@dataclass(frozen=True)
class Found:
    """What is compared of N predictions, on the CPU in float64."""

    log10_delta: Tensor
    flip: Tensor
    top1: Tensor
    logprobs: Tensor  # of the tokens asked for, one row's after the other's

    @classmethod
    def by_engine(cls, rows: Sequence[Row]) -> "Found":
        """What the engine told."""
        names = ("log10_delta_tcb", "flip_radius", "top1_token")
        delta, flip, top1 = (
            torch.tensor([row.seen[name] for row in rows], dtype=torch.float64) for name in names
        )
        told = [p for row in rows for p in row.logprobs]
        return cls(delta, flip, top1, torch.tensor(told, dtype=torch.float64))

    @classmethod
    def by_oracle(cls, true: Truth, rows: Sequence[Row]) -> "Found":
        """What the states of the oracle mean."""
        asked = true.asked([row.asked for row in rows])
        return cls(true.log10_delta.cpu(), true.flip.cpu(), true.top1.cpu().double(), asked)

    def delta_change(self, other: "Found") -> Tensor:
        """(N,) relative difference of delta_tcb."""
        return (10 ** (self.log10_delta - other.log10_delta) - 1).abs()

    def log_error(self, other: "Found") -> Tensor:
        """(N,) difference of log10 delta over max(1, |log10 delta|)."""
        return (self.log10_delta - other.log10_delta).abs() / other.log10_delta.abs().clamp(min=1)

    def flip_error(self, other: "Found", h_norm: Tensor) -> Tensor:
        """(N,) difference of flip_radius over flip_radius + |h| / 100: margins may be near 0."""
        return (self.flip - other.flip).abs() / (other.flip + h_norm / 100)


@dataclass(frozen=True)
class Rounding:
    """What rounding alone does: the same tokens passed alone and in a padded batch.

    Attributes:
        step: by how much it moves one coordinate of a state, the largest over the rows.
        delta: median relative change of delta_tcb.
        logprob: largest change of a log-probability.
    """

    step: float
    delta: float
    logprob: float


def agreement(report: Report, name: str, ours: Found, other: Found, noise: Rounding) -> None:
    """Two computations of the same rows in bfloat16, held to a few times what rounding does."""
    change = ours.delta_change(other)
    note = f"; largest {change.max():.2g}, by rounding alone median {noise.delta:.2g}"
    limit = max(0.05, 4 * noise.delta)
    report.most(f"{name}, delta_tcb, median relative difference", change.median(), limit, note)
    moved = (ours.flip - other.flip).abs()
    relative = moved / other.flip
    note = f"; relative: median {relative.median():.2g}, largest {relative.max():.2g}"
    report.most(
        f"{name}, flip_radius, largest difference in steps of rounding",
        moved.max() / noise.step,
        2 * SIGMAS,
        note,
    )
    off = (ours.logprobs - other.logprobs).abs().max()
    limit = 0.1 + 3 * noise.logprob
    report.most(f"{name}, log-probabilities, largest difference", off, limit)
    clear = other.flip > SIGMAS * noise.step
    wrong = (ours.top1 != other.top1) & clear
    note = f"; {int(clear.sum())} of {len(clear)} rows lead by more than rounding"
    report.most(f"{name}, other top-1 tokens", wrong.sum(), 0, note)
