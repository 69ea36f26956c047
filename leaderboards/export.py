"""``tcb-bench export``: a run in the formats of others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import cast

from tcb_bench.errors import UnknownName
from tcb_bench.leaderboards.export_files import write_files
from tcb_bench.leaderboards.export_options import FORMATS, ExportOptions
from tcb_bench.leaderboards.export_source import Source, find_sources
from tcb_bench.leaderboards.submit_names import public_model

PUBLIC = ("every-eval-ever", "model-index")
"""Formats that file a result under its model's public name."""

Write = Callable[[Sequence[Source], Path, ExportOptions], list[str]]


def export(
    run: Path,
    format_name: str,
    *,
    tasks: Sequence[str] = (),
    result: Path | None = None,
    out: Path | None = None,
    options: ExportOptions | None = None,
) -> tuple[list[Path], list[str]]:
    """Writes a run in another format; nothing leaves it that names this machine or holds a secret.

    Args:
        run: the run folder.
        format_name: one of ``FORMATS``.
        tasks: names of tasks or groups; empty = all. Each comes from the newest result that has it.
        result: the one result file to take; None = the newest of each task.
        out: the folder to write into; None = ``export/<format>`` in the run folder.
        options: what the format may be told, and whether files in the way may be replaced.

    Returns:
        the files, and notes: what was left out, what to mind.

    Raises:
        UnknownName: no such format or task.
        UsageError: an option that the format does not heed, or a model without a public name.
        DataError: nothing to export, files that cannot be read, or one in the way.
        StoreError: the folder cannot be written.
    """
    if format_name not in FORMATS:
        raise UnknownName("export format", format_name, FORMATS, f"there are {', '.join(FORMATS)}")
    chosen = options or ExportOptions()
    chosen.check(format_name)
    sources, notes = find_sources(run, tasks, result, model_id=chosen.model_id)
    if format_name in PUBLIC:
        sources = [_public(source, chosen.model_id) for source in sources]
    module = import_module(f"tcb_bench.leaderboards.{FORMATS[format_name]}")
    write = cast(Write, module.write)
    files = write_files(
        out or run / "export" / format_name,
        lambda folder: notes.extend(write(sources, folder, chosen)),
        force=chosen.force,
    )
    return files, notes


def _public(source: Source, model_id: str | None) -> Source:
    """The source, if its model has a public name; raises UsageError otherwise."""
    if model_id is None:
        public_model(source.result.tcb_bench.model, None)
    return source
