"""What a study found, and its files: tables, rows, notes and figures."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tcb_bench.errors import StoreError
from tcb_bench.report.figures_style import Picture
from tcb_bench.report.table import Table
from tcb_bench.results import environment, write_json, write_jsonl

SCHEMA_VERSION = 2
"""2: limits of an interval are NAME_ci_low and NAME_ci_high; ``level`` is their coverage."""
STUDY_FILE, SAMPLES_FILE = "study.json", "samples.jsonl"


def _nothing(_: Path) -> list[Picture]:
    return []


@dataclass(frozen=True, kw_only=True)
class Findings:
    """Everything a study says.

    Attributes:
        tables: in the paper's layout first; rows of the paper are marked as such.
        rows: one per prompt (or whatever was measured), JSON types; nothing is left out.
        notes: sentences on what the numbers say, also where that is not what the paper says.
        draw: writes the figures into an existing folder, called only where matplotlib is there.
        summary: further numbers by name, JSON types.
    """

    tables: Sequence[Table]
    rows: Sequence[Mapping[str, Any]]
    notes: Sequence[str] = ()
    draw: Callable[[Path], Sequence[Picture]] = _nothing
    summary: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class StudyOutcome:
    """A finished study: what it found, where that is, and how many requests have no answer."""

    findings: Findings
    folder: Path
    n_errors: int
    signature: str

    @property
    def exit_code(self) -> int:
        """0 done; 3 done with requests that have no answer (the same command asks them again)."""
        return 3 if self.n_errors else 0


def write_findings(findings: Findings, folder: Path, facts: Mapping[str, Any]) -> None:
    """Writes ``study.json``, ``samples.jsonl`` and ``figures/``; the same findings, the same bytes.

    Args:
        findings: of the study.
        folder: of the study, existing; what an earlier invocation wrote is replaced.
        facts: study, model, settings, data, seed, signature, counts.

    Raises:
        StoreError: the folder cannot be written.
    """
    try:
        pictures = _figures(findings, folder)
    except OSError as error:
        raise StoreError(
            f"{folder / 'figures'}: cannot be written: {error.strerror or error}; the answers are "
            "safe in the store: put that right, and give the same command again"
        ) from None
    write_jsonl(folder / SAMPLES_FILE, findings.rows)
    record = {
        "schema_version": SCHEMA_VERSION,
        **facts,
        "tables": [asdict(table) for table in findings.tables],
        "figures": [_picture(picture, folder) for picture in pictures],
        "notes": list(findings.notes),
        "summary": dict(findings.summary),
        "environment": environment(),
    }
    write_json(folder / STUDY_FILE, record)


def _figures(findings: Findings, folder: Path) -> Sequence[Picture]:
    """The figures, in place of earlier ones; none without matplotlib."""
    if importlib.util.find_spec("matplotlib") is None:
        return []
    from matplotlib import rc_context

    from tcb_bench.report.figures_style import SETTINGS

    figures = folder / "figures"
    figures.mkdir(exist_ok=True)
    for old in (*figures.glob("*.png"), *figures.glob("*.svg")):
        old.unlink()
    with rc_context(SETTINGS):
        return findings.draw(figures)


def _picture(picture: Picture, folder: Path) -> dict[str, Any]:
    record = asdict(picture)
    return record | {k: record[k].relative_to(folder).as_posix() for k in ("png", "svg")}
