"""A trace on disk: JSON, figure, and one HTML page that needs nothing else."""

from __future__ import annotations

import base64
import importlib.util
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from tcb_bench.errors import StoreError
from tcb_bench.report.figures_style import SETTINGS, Picture
from tcb_bench.report.html import fill
from tcb_bench.results import environment, write_json
from tcb_bench.trace import Trace
from tcb_bench.trace_figure import CAPTION, draw_trace
from tcb_bench.trace_text import SHOWN, TracedText, visible
from tcb_bench.trace_view import LABELS, number, sentences

LEVELS = 7
CHOICES = (
    ("delta_tcb", "delta_tcb", 1),
    ("flip_radius", "flip_radius (the exact one)", 1),
    ("p_top2", "P(2nd)", -1),
    ("entropy", "entropy", -1),
)
"""What the page's colours may show: quantity, label, and the direction of more stable."""


def make_folder(folder: Path) -> None:
    """The folder of ``--out``, made before a model is loaded for it.

    Raises:
        StoreError: it cannot be made.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _cannot(folder, error) from None


def _cannot(folder: Path, error: OSError) -> StoreError:
    return StoreError(f"{folder}: cannot be written: {error.strerror}; give another --out")


def write_trace(trace: Trace, folder: Path) -> list[Path]:
    """``trace.json``, and with the report extra ``trace.png``, ``.svg`` and ``.html``.

    Raises:
        StoreError: the folder cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_json(folder / "trace.json", trace_record(trace))
        picture = None
        paths = [folder / "trace.json"]
        if importlib.util.find_spec("matplotlib") and len(trace.text):
            from matplotlib import rc_context

            with rc_context(SETTINGS):
                texts = (f"Stability along the text: {trace.model['name']}", CAPTION)
                picture = draw_trace(trace.text, folder, "trace", texts)
            paths += [picture.png, picture.svg]
        if importlib.util.find_spec("jinja2"):
            page = folder / "trace.html"
            page.write_bytes(page_of(trace, picture).encode("utf-8", "replace"))
            paths.append(page)
    except OSError as error:
        raise _cannot(folder, error) from None
    return paths


def trace_record(trace: Trace) -> dict[str, Any]:
    """The trace as JSON types; where a length is infinite, its reason stands beside the null."""
    return {
        "schema_version": 1,
        "source": trace.source,
        "model": dict(trace.model),
        "prompt": trace.prompt,
        "generation": dict(trace.generation),
        "epsilon": 1.0,
        "rule": asdict(trace.rule),
        "signature": trace.signature,
        "notes": sentences(trace),
        "nulls": "of a length: infinite (see log10_delta_tcb); of z: no spread around the token",
        **trace.text.record(),
        "environment": environment(),
    }


def page_of(trace: Trace, picture: Picture | None) -> str:
    """The page; everything that a model or user wrote is escaped by the template."""
    text = trace.text
    choices = [choice for choice in CHOICES if choice[0] in text.columns]
    levels = [_levels(text, name, sign) for name, _, sign in choices]
    return fill(
        "trace.html",
        styles=["report.css", "trace.css"],
        script="trace.js",
        trace={"model": trace.model["name"], "source": trace.source, "prompt": trace.prompt},
        choices=[{"name": name, "label": label} for name, label, _ in choices],
        n_levels=LEVELS,
        heads=["token", "#", *LABELS, "marks"],
        tokens=[_token(text, i, [int(column[i]) for column in levels]) for i in range(len(text))],
        figure=picture and _figure(picture),
        notes=sentences(trace),
        settings=[
            ("signature", trace.signature),
            *((k, json.dumps(v, ensure_ascii=False)) for k, v in trace.generation.items()),
        ],
    )


def _levels(text: TracedText, name: str, sign: int) -> Any:
    """(T,) from 0 (least stable in this text) to LEVELS - 1; lengths by their logarithm."""
    values = np.asarray(text.columns[name], dtype=np.float64)
    if name == "delta_tcb":
        values = text.log10_delta
    elif sign > 0:
        with np.errstate(divide="ignore"):  # a tie has flip radius 0
            values = np.log10(values)
    values = sign * values
    finite = values[np.isfinite(values)]
    low, high = (finite.min(), finite.max()) if len(finite) else (0.0, 0.0)
    if not high > low:
        return np.full(len(values), LEVELS // 2)
    share = (values.clip(low, high) - low) / (high - low)
    return np.minimum(LEVELS - 1, np.nan_to_num(share, nan=0.5) * LEVELS).astype(int)


def _token(text: TracedText, i: int, levels: Sequence[int]) -> dict[str, Any]:
    piece, marks = text.pieces[i], text.marks(i)
    kinds = [*marks, *(["silent"] if not piece else [])]
    kinds += ["break"] if piece and not piece.strip("\n\r") else []
    values = [text.columns[n][i] if n in text.columns else None for n in SHOWN]
    shown = visible(piece) if piece else "(no text)"
    return {
        "text": piece,
        "label": f"token {i}: {shown}" + (f", {', '.join(marks)}" if marks else ""),
        "kinds": "".join(f" {kind}" for kind in kinds),
        "levels": levels,
        "numbers": [shown, str(i), *map(number, values), ", ".join(marks) or "-"],
    }


def _figure(picture: Picture) -> dict[str, Any]:
    data = base64.b64encode(picture.svg.read_bytes()).decode()
    return {
        "title": picture.title,
        "caption": picture.caption,
        "data": f"data:image/svg+xml;base64,{data}",
        "width": picture.width,
    }
