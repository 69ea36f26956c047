"""The audit's figures: true change and flips along c, and AUROCs with their intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tcb_bench.report.figures_style import (
    GREY,
    Picture,
    canvas,
    look,
    mark_empty,
    plain_ticks,
    save,
)
from tcb_bench.studies.audit_tables import KINDS

Rows = Sequence[Mapping[str, Any]]


def draw(folder: Path, moves: Rows, foretold: Rows) -> list[Picture]:
    """Writes the figures that there are numbers for."""
    pictures = []
    if any(row["n"] for row in moves):
        pictures += [_changes(folder, moves), _flips(folder, moves)]
    if foretold:
        pictures.append(_areas(folder, foretold))
    return pictures


def _changes(folder: Path, moves: Rows) -> Picture:
    figure, axes = canvas(1, len(KINDS))
    for panel, (i, label) in zip(axes[0], enumerate(KINDS.values()), strict=True):
        rows = [row for row in moves if row["direction"] == label]
        c = [row["c"] for row in rows]
        panel.loglog(c, [row["foretold"] for row in rows], "--", color=GREY, label="first order")
        panel.loglog(c, [row["change"] for row in rows], label="true", **look(i))
        panel.axhline(2**0.5, color=GREY, linewidth=0.6)
        plain_ticks(panel.xaxis)
        plain_ticks(panel.yaxis)
        panel.set_title(label)
        panel.set_xlabel("c, in units of delta_tcb")
        panel.legend(loc="upper left", fontsize=7)
    axes[0][0].set_ylabel("change of o, L2 (median)")
    caption = (
        "True change of the distribution against the first-order one (dashed), medians over "
        "states; the thin line is sqrt 2, the largest change there can be."
    )
    return save(figure, folder, "change", ("True and foretold change", caption))


def _flips(folder: Path, moves: Rows) -> Picture:
    figure, axes = canvas(1, 1, panel=(4.6, 2.6))
    panel = axes[0][0]
    for i, label in enumerate(KINDS.values()):
        rows = [r for r in moves if r["direction"] == label and r["flipped"] is not None]
        c, share = [r["c"] for r in rows], np.array([r["flipped"] for r in rows])
        panel.semilogx(c, share, label=label, **look(i))
        if all(r["flipped_ci_low"] is not None for r in rows):
            low, high = ([r[f"flipped_ci_{end}"] for r in rows] for end in ("low", "high"))
            panel.fill_between(c, low, high, color=look(i)["color"], alpha=0.15, linewidth=0)
    panel.set_ylim(-0.03, 1.03)
    plain_ticks(panel.xaxis)
    panel.set_xlabel("c, length of the move in units of delta_tcb")
    panel.set_ylabel("share with another top-1")
    panel.legend(fontsize=7)
    caption = (
        "Share of moved states whose top-1 token is another one, with intervals. Inside c = 1, the "
        "delta_tcb ball, the paper expects none."
    )
    return save(figure, folder, "flips", ("Flips of the top-1", caption))


def _areas(folder: Path, foretold: Rows) -> Picture:
    events = list(dict.fromkeys(row["event"] for row in foretold))
    figure, axes = canvas(1, len(events), panel=(2.35, 2.8))
    names = list(dict.fromkeys(row["predictor"] for row in foretold))
    for panel, event in zip(axes[0], events, strict=True):
        rows = [r for r in foretold if r["event"] == event and r["auroc"] is not None]
        panel.set_title(event.replace(", ", ",\n"))
        panel.axvline(0.5, color=GREY, linewidth=0.8)
        panel.set_xlim(0, 1)
        panel.set_xlabel("AUROC")
        for row in rows:
            place = names.index(row["predictor"])
            ends = [row["auroc_ci_low"], row["auroc_ci_high"]]
            colour = look(1 if row["predictor"] == "delta_tcb" else 0)["color"]
            if None not in ends:
                panel.plot(ends, [place, place], color=colour)
            panel.plot([row["auroc"]], [place], "o", color=colour)
        if not rows:
            mark_empty(panel, "too few of one kind")
    axes[0][0].set_yticks(range(len(names)), names)
    axes[0][0].set_ylim(len(names) - 0.5, -0.5)
    caption = (
        "How well each quantity of the unchanged prompt foretells that the answer changes under "
        "at least one change of the prompt; 0.5 says nothing. Lines: bootstrap intervals."
    )
    return save(figure, folder, "auroc", ("Which quantity foretells a changed answer", caption))
