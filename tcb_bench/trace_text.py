"""One generated text, token by token: its numbers, its dips and its loop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tcb_bench.errors import UsageError
from tcb_bench.metrics.dynamics import Loop, find_loop, robust_z
from tcb_bench.responses import Generation

SHOWN = ("delta_tcb", "flip_radius", "p_top1", "p_top2", "entropy")
"""Quantities of a trace, as in BC's figure 4 and ours beside them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """What counts as a dip and what as a loop.

    Attributes:
        threshold: a dip is a token whose log10 delta_tcb lies this many robust standard deviations
            below the median, or more. delta_tcb has a floor, eps sqrt(v_eff) / (2 R), so that even
            sharp dips seldom reach 2.
        window: that median and deviation are over this many tokens to either side; None = all (then
            a loop, where delta is high, makes dips of everything else).
        repeats, longest, least: of ``metrics.dynamics.find_loop``.
    """

    threshold: float = 1.5
    window: int | None = 12
    repeats: int = 3
    longest: int = 40
    least: int = 12

    def __post_init__(self) -> None:
        """Refuses what marks nothing or everything."""
        checks = {
            "threshold": (0 < self.threshold < np.inf, "a number > 0"),
            "window": (self.window is None or self.window >= 2, "none, or a whole number >= 2"),
            "repeats": (self.repeats >= 2, "a whole number >= 2"),
            "longest": (self.longest >= 1, "a whole number >= 1"),
            "least": (self.least >= 1, "a whole number >= 1"),
        }
        for name, (is_good, expected) in checks.items():
            if not is_good:
                raise UsageError(f"{name}={getattr(self, name)}: expected {expected}")


@dataclass(frozen=True, slots=True, kw_only=True)
class TracedText:
    """A text with one value per token in every list.

    Attributes:
        text, finish_reason, prompt_tokens: of the generation.
        tokens: ids; ``pieces`` are their texts, which together are ``text`` (a token inside a
            character, or without text, has "").
        columns: quantity -> values; may hold inf. Quantities that an old record lacks are absent.
        z: robust z-score of log10 delta_tcb; NaN where there is no spread.
        dips: whether z is at or below minus the threshold.
        loop: where the text repeats itself, or None.
    """

    text: str
    finish_reason: str
    prompt_tokens: int
    tokens: Sequence[int]
    pieces: Sequence[str]
    columns: Mapping[str, Sequence[float]]
    z: NDArray[np.float64]
    dips: NDArray[np.bool_]
    loop: Loop | None

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def log10_delta(self) -> NDArray[np.float64]:
        """(T,) log10 delta_tcb."""
        return np.asarray(self.columns.get("log10_delta_tcb", []), dtype=np.float64)

    def marks(self, i: int) -> list[str]:
        """What is said of token ``i``: dip, loop."""
        in_loop = self.loop is not None and self.loop.onset <= i < self.loop.end
        return [name for name, is_so in (("dip", self.dips[i]), ("loop", in_loop)) if is_so]

    def record(self) -> dict[str, Any]:
        """Everything as JSON types; inf is left to the writer."""
        loop = self.loop and {**asdict(self.loop), "onset": self.loop.onset}
        names = [name for name in (*SHOWN, "log10_delta_tcb", "nll") if name in self.columns]
        return {
            "text": self.text,
            "finish_reason": self.finish_reason,
            "prompt_tokens": self.prompt_tokens,
            "loop": loop,
            "dips": np.flatnonzero(self.dips).tolist(),
            "tokens": [
                {
                    "id": int(token),
                    "text": piece,
                    **{name: float(self.columns[name][i]) for name in names},
                    "z": float(self.z[i]),
                    "marks": self.marks(i),
                }
                for i, (token, piece) in enumerate(zip(self.tokens, self.pieces, strict=True))
            ],
        }


def traced_text(found: Generation, rule: Rule) -> TracedText:
    """What the rule marks in a generation that has stability at every token."""
    columns = found.stability
    z = robust_z(columns.get("log10_delta_tcb", []), rule.window)
    limits = {"repeats": rule.repeats, "longest": rule.longest, "least": rule.least}
    return TracedText(
        text=found.text,
        finish_reason=found.finish_reason,
        prompt_tokens=found.prompt_tokens,
        tokens=found.tokens,
        pieces=_pieces(found.text, found.offsets),
        columns=columns,
        z=z,
        dips=z <= -rule.threshold,
        loop=find_loop(found.tokens, **limits),
    )


def _pieces(text: str, offsets: Sequence[Sequence[int]]) -> list[str]:
    """Each token's part of the text, no character twice."""
    pieces, shown = [], 0
    for start, end in offsets:
        pieces.append(text[max(start, shown) : end])
        shown = max(shown, end)
    return pieces


def visible(text: str) -> str:
    r"""A text on one line without a control character: a model's answer may hold any.

    >>> visible("a\nb\x1b[2J")
    'a\\nb\\x1b[2J'
    """
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
