"""Made entries and hand-made boards for tests of the site."""

import shutil

from board_entries import make_entry

from tcb_bench.leaderboards.boards import Board, BoardColumn, BoardGroup, BoardRow, Cell
from tcb_bench.leaderboards.render_board import Placed, render_board
from tcb_bench.leaderboards.render_compare import render_compare
from tcb_bench.leaderboards.render_entry import render_entry

MODELS = ("acme/North-7B", "acme/North-70B", "beta/small_1.5B", "gamma/Delta-2")
TASKS = (("mmlu_tcb", 40), ("gsm8k_tcb", 30), ("hotpotqa_tempperturb", 6))
HOSTILE = (
    "</script><script>window.hit = 1</script><img src=x onerror='window.hit = 1'>"
    "<svg onload='window.hit = 1'></svg><iframe src='https://example.org/'></iframe>"
)


def entries(folder, models=MODELS, tasks=TASKS):
    """Entries of some models on some tasks; HotpotQA at three temperatures."""
    for model in models:
        for task, n in tasks:
            make_entry(folder, model, task, n, n_temperatures=3)
    return folder


def renamed(entries, old, new):
    """A copy of a model's folder under another name, its entries left as they are."""
    return shutil.copytree(entries / old, entries / new)


def column(key, *, better=True, digits=3):
    return BoardColumn(
        key=key,
        label=key,
        unit="1",
        higher_is_better=better,
        digits=digits,
        meaning=f"what {key} is",
    )


def cell(value, low=None, high=None, n=10, **more):
    return Cell(value=value, ci_low=low, ci_high=high, n=n, **more)


def row(model, cells, *, entry=None, tier="self-reported", **more):
    return BoardRow(model=model, tier=tier, entry=entry, facts={}, cells=cells, **more)


def board(groups, columns, *, reported=(), conflicts=()):
    return Board(
        name="mmlu_tcb",
        title="MMLU-TCB",
        note="A note.",
        columns=columns,
        groups=groups,
        reported=reported,
        conflicts=conflicts,
    )


def group(rows, key="abc123", title="All alike"):
    return BoardGroup(key=key, title=title, settings={"shots": "0"}, rows=rows)


def hostile_pages(entry):
    """Pages of a board, an entry and a comparison whose every text is hostile."""
    model = entry.model.model_copy(update={"id": HOSTILE, "dtype": HOSTILE, "backend": HOSTILE})
    entry = entry.model_copy(update={"model": model, "submitted_by": HOSTILE, "signature": HOSTILE})
    placed = {name: Placed(entry, f"entries/{name}/x.html") for name in ("a", "b")}
    rows = [row(HOSTILE, {"acc": cell(0.5, reason=HOSTILE)}, entry=name) for name in placed]
    made = board(
        [group(rows, title=HOSTILE)],
        [column("acc")],
        reported=[row(HOSTILE, {}, tier="reported", source=HOSTILE)],
        conflicts=[HOSTILE],
    )
    return [
        render_board(made, placed, []),
        render_entry(entry, None, "entries/a/x.html", [], []),
        render_compare([made], placed, {}, []),
    ]


def write_pages(folder, pages):
    """Pages as files below a folder; returns the folder."""
    for page in pages:
        path = folder / page.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(page.html)
    return folder


def shown(page, column):
    """A column's values in the rows that can be seen, top to bottom: models, or numbers."""
    rows = page.locator("table.board").first.locator("tbody tr:visible")
    texts = rows.locator(f"> :nth-child({column})").evaluate_all(
        "cells => cells.map(c => (c.querySelector('b, a')).textContent)"
    )
    return texts if column == 1 else [float(text.replace("\u2212", "-")) for text in texts]


def button(page, name):
    return page.locator("table.board").first.get_by_role("button", name=name)
