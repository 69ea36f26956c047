"""What ``geometry`` moves, and what it measures of one prompt."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tcb_bench.errors import UsageError
from tcb_bench.metrics.geometry import Move

SWEEPS = {"competitors": "K", "alpha": "alpha", "beta": "beta"}
"""Setting that is swept -> its name in the paper."""
OVERALL = "overall"


@dataclass(frozen=True, kw_only=True)
class Point:
    """One prompt: where it is from, and log10 delta_tcb before and after each move.

    ``is_repeat``: the same text stood already before it.
    """

    data: str
    id: str
    is_repeat: bool
    v_eff: float
    p_top1: float
    top1_token: int
    log10_delta: float
    moved: Mapping[Move, float]


@dataclass(frozen=True, kw_only=True)
class Pair:
    """A cluster and a disperse move compared with no move; ``setting`` was put to ``value``."""

    cluster: Move
    disperse: Move
    setting: str = ""
    value: float = 0.0


@dataclass(frozen=True)
class Plan:
    """The settings of ``geometry``, checked.

    Raises:
        UsageError: one is out of range.
    """

    settings: Mapping[str, Any]

    def __post_init__(self) -> None:
        is_number = _numbers(self.settings["bins"]) and len(self.settings["bins"]) == 2
        if not is_number or not 1 < self.settings["bins"][0] < self.settings["bins"][1]:
            raise UsageError(
                f"bins={self.settings['bins']!r}: expected two rising v_eff above 1, as [20, 100]"
            )
        checks: dict[str, tuple[Callable[[Any], bool], str]] = {
            "competitors": (lambda k: isinstance(k, int) and k >= 1, "a whole number from 1"),
            "alpha": (lambda a: 0 < a <= 1, "a share above 0, at most 1"),
            "beta": (lambda b: 0 < b < float("inf"), "a number above 0"),
        }
        for name, (is_fine, words) in checks.items():
            listed = self.settings[f"sweep_{name}"]
            for given in [self.settings[name], *listed]:
                if not _numbers([given]) or not is_fine(given):
                    raise UsageError(f"{name} or sweep_{name}: expected {words}; got {given!r}")

    @property
    def main(self) -> Pair:
        """The paper's comparison."""
        return self.pair()

    def pair(self, setting: str = "", value: float = 0.0) -> Pair:
        """The comparison with one setting put to another value."""
        at = {name: self.settings[name] for name in SWEEPS} | ({setting: value} if setting else {})
        count = int(at["competitors"])
        return Pair(
            cluster=(count, float(at["alpha"])),
            disperse=(count, -float(at["beta"])),
            setting=setting,
            value=value,
        )

    def sweeps(self) -> Iterator[Pair]:
        """Every comparison of the sweeps, in order."""
        for name in SWEEPS:
            yield from (self.pair(name, value) for value in self.settings[f"sweep_{name}"])

    @property
    def moves(self) -> list[Move]:
        """Every move that a comparison needs, once."""
        pairs = [self.main, *self.sweeps()]
        return list(dict.fromkeys(move for pair in pairs for move in (pair.cluster, pair.disperse)))

    @property
    def categories(self) -> dict[str, Callable[[float], bool]]:
        """The paper's low, medium and high v_eff, and overall -> whether a v_eff belongs there."""
        low, high = self.settings["bins"]
        return {
            f"< {low:g}": lambda v: v < low,
            f"{low:g}-{high:g}": lambda v: low <= v <= high,
            f"> {high:g}": lambda v: v > high,
            OVERALL: lambda v: True,
        }


def _numbers(values: list[Any]) -> bool:
    return all(isinstance(v, int | float) and not isinstance(v, bool) for v in values)
