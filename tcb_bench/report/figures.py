"""All figures of a task: TP's figures 2 to 5, and stability against loss where it was stored."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from tcb_bench.report.figures_lines import cv_lines, score_lines
from tcb_bench.report.figures_points import box_grids, boxes, stability_scatter
from tcb_bench.report.figures_style import SETTINGS, Picture
from tcb_bench.report.grid import Grid


def draw(grids: Sequence[Grid], metric: str, folder: Path) -> list[Picture]:
    """Draws one task's figures as PNG and SVG; equal grids give equal files.

    Args:
        grids: of one task, on the same temperatures and contexts; not empty.
        metric: a metric of the grids.
        folder: where the files go; it exists.

    Returns:
        Score and CV lines, a box plot per model, and the scatter where there is stability.
    """
    from matplotlib import rc_context

    prefix = file_name(grids[0].task)
    with rc_context(SETTINGS):
        pictures = [
            score_lines(grids, metric, folder, prefix),
            cv_lines(grids, metric, folder, prefix),
        ]
        taken: set[str] = set()
        for grid in box_grids(grids):
            name = file_name(f"{prefix}_fig4_box_{grid.model}")
            while name.lower() in taken:  # a/b and a_b are one file name, A and a are on some disks
                name += "_"
            taken.add(name.lower())
            pictures.append(boxes(grid, metric, folder, name))
        scatter = stability_scatter(grids, metric, folder, prefix)
    return pictures + ([scatter] if scatter else [])


def file_name(text: str) -> str:
    """Text as part of a file name that every system takes."""
    return re.sub(r"[^A-Za-z0-9._-]+", "_", text).strip("_")[:120]
