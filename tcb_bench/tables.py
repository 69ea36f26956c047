"""What a person sees of a run: a progress bar on stderr, then tables that fit a terminal."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any

from rich.cells import cell_len
from rich.console import Console
from rich.padding import Padding
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as RichProgress
from rich.table import Table
from rich.text import Text

from tcb_bench.report.table import Table as DataTable

NUMBER = re.compile(r"[-+<]?\d")
SHOWN = (
    ("bertscore_f1", "BERTScore F1", "{:.4f}"),
    ("rougeL", "ROUGE-L", "{:.3f}"),
    ("f1", "token F1", "{:.3f}"),
    ("em", "exact match", "{:.3f}"),
    ("acc", "acc", "{:.3f}"),
    ("refusal", "refusals", "{:.3f}"),
    ("garbled", "garbled", "{:.3f}"),
    ("acc_macro", "acc (macro)", "{:.3f}"),
    ("delta_tcb_median", "delta_tcb, median", "{:.3g}"),
    ("flip_radius_median", "flip_radius, median", "{:.3g}"),
    ("relative_flip_radius_median", "relative_flip_radius, median", "{:.3g}"),
    ("log10_relative_delta_mean", "log10 relative_delta, mean", "{:.3f}"),
    ("v_eff_median", "v_eff, median", "{:.3g}"),
    ("p_top1_median", "p_top1, median", "{:.3f}"),
    ("choice_flip_radius_median", "choice_flip_radius, median", "{:.3g}"),
    ("answer_mass_mean", "answer mass, mean", "{:.3f}"),
    ("greedy_is_choice", "greedy token is a letter", "{:.3f}"),
)
"""Rows of the table: name in the result, name shown, format."""


def say(line: str) -> None:
    """One line on stderr."""
    print(f"tcb-bench: {line}", file=sys.stderr)  # noqa: T201


class Progress:
    """The run's one bar: answered of all, rates, remaining time; silent when stderr is piped."""

    def __init__(self) -> None:
        """Nothing is drawn before the first report."""
        self.done = self.total = 0
        self._task: Any = None
        self._begun = (0.0, 0)  # clock and tokens when the present bar began
        self._bar = RichProgress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]}"),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            disable=not sys.stderr.isatty(),
        )

    def report(self, done: int, total: int, tokens: int = 0, note: str = "") -> None:
        """Shows that ``done`` of ``total`` responses of the present kind are in the store.

        ``tokens`` is how many were generated since the first report; ``note`` is what else a
        person wants to see: money, failed attempts.
        """
        self.done, self.total = done, total
        if self._task is None or self._bar.tasks[self._task].total != total:
            self._bar.start()
            self._task = self._bar.add_task("responses", total=total, completed=done, rate="")
            self._begun = (time.monotonic(), tokens)
        speed = self._bar.tasks[self._task].speed
        rate = f"{speed:.1f}/s" if speed else ""
        seconds, new = time.monotonic() - self._begun[0], tokens - self._begun[1]
        if new and seconds > 1:
            rate += f" {new / seconds:,.0f} tokens/s"
        rate += f"  {note}" if note else ""
        self._bar.update(self._task, completed=done, rate=rate)

    def stop(self) -> None:
        """Leaves the bar as it stands."""
        self._bar.stop()

    def __enter__(self) -> Progress:
        """The bar itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stops drawing."""
        self.stop()


def result_table(result: Mapping[str, Any]) -> Iterator[Any]:
    """Tables of groups and of tasks outside a group, each with its counts and signature."""
    block = result["tcb_bench"]["tasks"]
    in_groups = {
        leaf
        for group, leaves in result["group_subtasks"].items()
        if group in block
        for leaf in leaves
    }
    for name, entry in result["results"].items():
        if name in in_groups:
            continue
        if name not in block:
            yield _stock_table(name, entry)
            continue
        yield _table(name, entry, block[name]["counts"])
        yield Padding(Text(block[name]["signature"], style="dim"), (0, 0, 1, 1))
    if result["tcb_bench"]["missing"]:
        yield Text(
            f"partial: {len(result['tcb_bench']['missing'])} tasks had no data and were left out"
        )


def _table(name: str, entry: Mapping[str, Any], counts: Mapping[str, int]) -> Table:
    shown = ", ".join(f"{n} {state}" for state, n in counts.items() if n)
    table = Table(title=f"{name}   ({shown})", title_justify="left", title_style="bold")
    table.add_column("")
    for column in ("n", "value", "95 % interval"):
        table.add_column(column, justify="right")
    for key, label, form in SHOWN:
        if f"{key},none" in entry:
            table.add_row(label, *_cells(entry, key, form))
    return table


def _cells(entry: Mapping[str, Any], key: str, form: str) -> tuple[str, str, str]:
    value, low, high = (entry.get(f"{key}{part},none") for part in ("", "_ci_low", "_ci_high"))
    interval = (
        f"{form.format(low)} .. {form.format(high)}"
        if low is not None and high is not None
        else "-"
    )
    return str(entry[f"{key}_n,none"]), "null" if value is None else form.format(value), interval


def data_table(table: DataTable, leave_out: Sequence[str] = ()) -> Iterator[Any]:
    """A table of the analysis in the terminal, its remarks and its note below.

    One that is too wide comes in parts, the first columns in each of them: no number is cut.
    """
    columns = [c for c in table.columns if c.key not in (*leave_out, "reason")]
    cells = [[c.text(row.get(c.key)) for c in columns] for row in table.rows]
    words = [[c.label, *(row[i] for row in cells)] for i, c in enumerate(columns)]
    widths = [max(_room(text) for text in column) for column in words]
    whole = [max(map(cell_len, column)) for column in words]
    room = Console().width
    for number, part in enumerate(_parts(widths, _names(cells), room)):
        fitted = _fitted([widths[i] for i in part], [whole[i] for i in part], room)
        title = table.title if number == 0 else f"{table.title} (continued)"
        shown = Table(title=title, title_justify="left", title_style="bold")
        for i, width in zip(part, fitted, strict=True):
            side: Any = "right" if _is_of_numbers(row[i] for row in cells) else "left"
            shown.add_column(columns[i].label, justify=side, width=width, overflow="fold")
        for texts in cells:
            shown.add_row(*(Text(texts[i]) for i in part))
        yield shown
    for row in table.rows:
        if row.get("reason"):
            where = ", ".join(str(row[c.key]) for c in columns if isinstance(row.get(c.key), str))
            yield Text(f"{where}: {row['reason']}")
    if table.note:
        yield Padding(Text(table.note, style="dim"), (1, 0, 1, 0))


def _room(text: str) -> int:
    """Columns of the terminal that a cell needs: words and numbers with intervals stay whole."""
    if NUMBER.match(text) and len(text) <= 32:
        return len(text)
    return max((cell_len(word) for word in text.split()), default=1)


def _is_of_numbers(cells: Iterable[str]) -> bool:
    """Whether a column's texts are numbers, with an interval or without."""
    present = [cell for cell in cells if cell != "-"]
    return bool(present) and all(NUMBER.match(cell) for cell in present)


def _names(cells: Sequence[Sequence[str]]) -> int:
    """How many first columns say which row it is: those without a number, one at least."""
    is_name = [
        not any(NUMBER.match(cell) for cell in column) for column in zip(*cells, strict=True)
    ]
    return max(1, next((i for i, name in enumerate(is_name) if not name), 1))


def _fitted(least: Sequence[int], whole: Sequence[int], room: int) -> list[int]:
    """Widths of columns in ``room``: whole ones, narrowed where there are spaces to break at.

    The library's own way narrows the widest first, below its least width, and then cuts the last.
    """
    widths = list(whole)
    while 1 + sum(width + 3 for width in widths) > room:
        spare = [width - each for width, each in zip(widths, least, strict=True)]
        if not any(spare):
            break
        widths[spare.index(max(spare))] -= 1
    return widths


def _parts(widths: Sequence[int], names: int, room: int) -> list[list[int]]:
    """Which columns stand together in ``room``, each group with the first ``names``."""
    first = list(range(min(names, len(widths))))
    if 1 + sum(widths[i] + 3 for i in first) > room / 2:
        first = first[:1]
    parts, now = [], list(first)
    for i in range(len(first), len(widths)):
        if len(now) > len(first) and 1 + sum(widths[j] + 3 for j in [*now, i]) > room:
            parts.append(now)
            now = list(first)
        now.append(i)
    return [*parts, now]


def _stock_table(name: str, entry: Mapping[str, Any]) -> Table:
    """A task of lm-eval's own kind: its metrics as lm-eval computed them."""
    table = Table(
        title=f"{name}   (lm-eval's own task, n = {entry.get('sample_len')})", title_justify="left"
    )
    table.add_column("metric")
    table.add_column("value", justify="right")
    for key, value in entry.items():
        if "," in key and "_stderr" not in key and isinstance(value, int | float):
            table.add_row(key, f"{value:.4f}")
    return table
