"""A trace in the terminal: a sparkline with its marks, and a table of the tokens."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from tcb_bench.trace import Trace
from tcb_bench.trace_text import SHOWN, TracedText, visible

BARS = "▁▂▃▄▅▆▇█"
PLAIN_BARS = "12345678"  # where the terminal's encoding has no blocks
HEAD = TAIL = 12  # rows of a long text's table
LABELS = ("delta_tcb", "flip_radius", "P(1st)", "P(2nd)", "entropy")
LONGEST = 24  # characters of a token


def show(trace: Trace, console: Console, *, is_whole: bool = False) -> None:
    """Prints the trace; ``is_whole`` with a row for every token."""
    text = trace.text
    console.print(Text(f"prompt   {_short(trace.prompt, 160)}"))
    console.print(Text(f"text     {visible(text.text)}"))
    end = "the end of the text" if text.finish_reason == "stop" else "max_gen_toks"
    console.print(Text(f"tokens   {len(text)}, up to {end}"))
    console.print()
    is_unicode = (console.encoding or "").lower().startswith("utf")
    for line in sparkline(text, console.width - 1, BARS if is_unicode else PLAIN_BARS):
        console.print(Text(line))
    console.print()
    console.print(_table(text, is_whole))
    for line in sentences(trace):
        console.print(Text(line))
    console.print(Text(trace.signature, style="dim"))


def sparkline(text: TracedText, width: int, bars: str = BARS) -> Iterator[str]:
    """Lines of at most ``width``: log10 delta_tcb from its lowest to its highest, marks below."""
    levels = text.log10_delta
    finite = levels[np.isfinite(levels)]
    if not len(finite):
        yield "no finite delta_tcb"
        return
    low, high = float(finite.min()), float(finite.max())
    steps = (levels.clip(low, high) - low) / ((high - low) or 1.0) * (len(bars) - 1)
    heights = np.nan_to_num(steps).round().astype(int)
    yield f"log10 delta_tcb from {low:.2f} ({bars[0]}) to {high:.2f} ({bars[-1]}); v dip, = loop"
    for start in range(0, len(text), max(10, width)):
        stop = min(len(text), start + max(10, width))
        yield "".join(bars[heights[i]] for i in range(start, stop))
        yield "".join(_mark(text.marks(i)) for i in range(start, stop)).rstrip() or " "


def _mark(marks: Sequence[str]) -> str:
    return "v" if "dip" in marks else "=" if "loop" in marks else " "


def _table(text: TracedText, is_whole: bool) -> Table:
    table = Table(show_edge=False, pad_edge=False)
    for label in ("#", "token", *LABELS, "marks"):
        table.add_column(label, justify="left" if label in ("token", "marks") else "right")
    rows = list(range(len(text)))
    hidden = [] if is_whole or len(rows) <= HEAD + TAIL + 1 else rows[HEAD:-TAIL]
    for i in rows:
        if hidden and i == hidden[0]:
            table.add_row("...", "...")
            table.caption = f"{len(hidden)} tokens more: --all"
        if i not in hidden:
            cells = [number(text.columns[n][i] if n in text.columns else None) for n in SHOWN]
            token = Text(_short(text.pieces[i], LONGEST, quoted=True))
            table.add_row(str(i), token, *cells, ", ".join(text.marks(i)))
    return table


def number(value: float | None) -> str:
    """Three significant digits."""
    if value is None:
        return "-"
    if math.isinf(value):
        return "inf"
    return f"{value:.3g}" if 1e-3 <= abs(value) < 1e4 or value == 0 else f"{value:.1e}"


def _short(text: str, longest: int, *, quoted: bool = False) -> str:
    shown = visible(text)
    if len(shown) > longest:
        half = longest // 2 - 1
        shown = f"{shown[:half]}...{shown[-half:]}"
    return f"'{shown}'" if quoted else shown


def sentences(trace: Trace) -> list[str]:
    """What the marks mean here, in words."""
    text, rule = trace.text, trace.rule
    around = f"the {rule.window} tokens to either side" if rule.window else "the whole text"
    dips = np.flatnonzero(text.dips)
    where = f" (tokens {', '.join(map(str, dips[:12]))}{', ...' if len(dips) > 12 else ''})"
    found = [
        f"dips: {len(dips)}{where if len(dips) else ''}, log10 delta_tcb at least "
        f"{rule.threshold:g} robust standard deviations below the median of {around}"
    ]
    if text.loop is None:
        found.append(
            f"no loop: no n-gram of up to {rule.longest} tokens, {rule.repeats} times in a row"
        )
    else:
        unit = "".join(text.pieces[text.loop.start : text.loop.onset])
        lasts = "to the end" if text.loop.end == len(text) else f"to token {text.loop.end - 1}"
        found.append(
            f"loop: from token {text.loop.onset} on it repeats {_short(unit, 60, quoted=True)} "
            f"({text.loop.period} tokens) {lasts}"
        )
    if "entropy" not in text.columns:
        found.append("entropy: not measured by this back end")
    return found
