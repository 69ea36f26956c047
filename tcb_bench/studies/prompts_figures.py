"""Figures of the search: each guide's objective step by step, and all candidates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tcb_bench.report.figures_style import Picture, canvas, look, mark_empty, save

Trace = Sequence[Mapping[str, Any]]


def draw(folder: Path, trace: Trace, objectives: Mapping[str, str]) -> list[Picture]:
    """Both figures; ``objectives``: guide -> what it maximises."""
    return [_steps(folder, trace, objectives), _candidates(folder, trace, list(objectives))]


def _steps(folder: Path, trace: Trace, objectives: Mapping[str, str]) -> Picture:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(2.6 * len(objectives) + 0.7, 3.0), layout="constrained")
    axes = figure.subplots(1, len(objectives), squeeze=False)  # each guide has a unit of its own
    for i, (guide, label) in enumerate(objectives.items()):
        panel = axes[0][i]
        steps = [s for s in trace if s["guide"] == guide and s["objective"] is not None]
        panel.set_title(guide)
        panel.set_xlabel("candidate (0 = baseline)")
        panel.xaxis.get_major_locator().set_params(integer=True)
        panel.set_ylabel(label)
        if not steps:
            mark_empty(panel, "no candidate has a value")
            continue
        style = look(i, with_line=False)
        panel.plot([s["step"] for s in steps], [s["objective"] for s in steps], ls="", **style)
        taken = [s for s in steps if s["is_accepted"]]
        ends = [*(s["step"] for s in taken), steps[-1]["step"]]
        best = [*(s["objective"] for s in taken), taken[-1]["objective"]]
        panel.step(ends, best, where="post", color=style["color"])
    caption = "Points: candidates; line: the best so far. On the half that chooses."
    return save(figure, folder, "search", ("Objective step by step", caption))


def _candidates(folder: Path, trace: Trace, guides: Sequence[str]) -> Picture:
    figure, axes = canvas(1, 1, panel=(4.2, 3.0))
    panel = axes[0][0]
    for i, guide in enumerate(guides):
        points = [s for s in trace if s["guide"] == guide and s["step"] and _has_both(s)]
        style = {**look(i, with_line=False), "linestyle": "", "alpha": 0.8}
        _points(panel, points, label=guide, **style)
        choice = [s for s in points if s["is_choice"]]
        ring = {**style, "markersize": 9, "markerfacecolor": "none", "alpha": 1.0}
        _points(panel, choice, **ring)
    start = [s for s in trace if s["step"] == 0 and _has_both(s)][:1]
    _points(panel, start, label="baseline", color="#000000", marker="*", ls="", markersize=9)
    panel.set_xlabel("median log10 delta_tcb")
    panel.set_ylabel("accuracy")
    if panel.lines:
        panel.legend()
    else:
        mark_empty(panel, "no candidate has both values")
    caption = "One point per candidate, on the half that chooses; a ring marks a guide's choice."
    return save(figure, folder, "candidates", ("Accuracy against stability", caption))


def _has_both(step: Mapping[str, Any]) -> bool:
    return step["acc"] is not None and step["log10_delta"] is not None


def _points(panel: Any, steps: Trace, **style: Any) -> None:
    if steps:
        panel.plot([s["log10_delta"] for s in steps], [s["acc"] for s in steps], **style)
