"""What a submitter is told: main numbers, a description of the pull request, what to do next."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

from tcb_bench.leaderboards.entry import Entry, EntryMetric
from tcb_bench.leaderboards.entry_files import Loaded, folder_name

MAIN = {
    "acc": "acc",
    "acc_macro": "acc (macro)",
    "relative_flip_radius_median": "relative_flip_radius, median",
    "log10_relative_delta_mean": "log10 relative_delta, mean",
    "answer_mass_mean": "answer mass, mean",
    "bertscore_f1": "BERTScore F1",
    "rougeL": "ROUGE-L",
    "f1": "token F1",
}
"""Metrics shown -> label; of an imported result all are shown."""

SHOWN_MISSING = 5


def main_metrics(entry: Entry) -> list[tuple[str, EntryMetric]]:
    """Label and metric of an entry's main numbers, over all its conditions."""
    if entry.origin != "tcb-bench":
        return [(metric.name, metric) for metric in entry.metrics]
    by_name = {metric.name: metric for metric in entry.metrics}
    return [(label, by_name[name]) for name, label in MAIN.items() if name in by_name]


def number_text(value: float | None) -> str:
    """A number in 4 significant digits, a dash for none.

    >>> number_text(0.123456), number_text(None)
    ('0.1235', '-')
    """
    return "-" if value is None else f"{value:.4g}"


def interval_text(metric: EntryMetric) -> str:
    """``low to high``, a dash for none.

    >>> from tcb_bench.leaderboards.recompute import entry_metric
    >>> interval_text(entry_metric("acc", dict(value=0.5, ci_low=0.4, ci_high=0.6, stderr=0, n=9)))
    '0.4 to 0.6'
    """
    if metric.ci_low is None or metric.ci_high is None:
        return "-"
    return f"{number_text(metric.ci_low)} to {number_text(metric.ci_high)}"


def description(entries: Sequence[Entry]) -> str:
    """The pull request in Markdown: title, numbers, settings, and what a reader should know."""
    model = entries[0].model
    tasks = ", ".join(entry.task.name for entry in entries)
    lines = [f"# {model.id}: {tasks}", "", *_model_lines(entries[0]), ""]
    lines += ["| task | metric | value | 95 % interval | n |", "|---|---|---:|---:|---:|"]
    for entry in entries:
        for label, metric in main_metrics(entry):
            cells = (number_text(metric.value), interval_text(metric), str(metric.n))
            lines.append(f"| {entry.task.name} | {label} | {' | '.join(cells)} |")
    for entry in entries:
        lines += ["", f"## {entry.task.name}", "", *_notes(entry)]
    lines += ["", "## Checklist", ""]
    lines += [f"- [ ] {item}" for item in _checklist(entries)]
    return "\n".join(lines) + "\n"


def _model_lines(entry: Entry) -> list[str]:
    model = entry.model
    facts = {
        "revision": model.revision,
        "dtype": model.dtype,
        "quantisation": model.quantisation,
        "back end": " ".join(filter(None, (model.backend, model.backend_version))),
        "submitted by": entry.submitted_by,
    }
    return [f"- {name}: {value}" for name, value in facts.items() if value]


def _notes(entry: Entry) -> Iterator[str]:
    data = entry.data
    place = f"{data.source} {data.revision or ''}".strip() if data.source else "source not stated"
    yield f"- version {entry.task.version}; data: {data.id} ({place})"
    if entry.data.source == "sample":
        yield "- **the shipped sample**, not the data set itself: a trial, not for ranking"
    if entry.limit is not None:
        what = "a seeded draw" if entry.origin == "tcb-bench" else "the first documents"
        yield f"- `--limit {entry.limit:g}`: {what} of each task or stratum, not all of it"
    if entry.counts is not None:
        counts = [f"{n} {state}" for state, n in entry.counts.model_dump().items() if n]
        yield f"- responses: {', '.join(counts)}; conditions: {len(entry.conditions)}"
    if entry.is_partial:
        more = len(entry.missing) - SHOWN_MISSING
        tail = f" and {more} more" if more > 0 else ""
        yield f"- **partial**; missing: {'; '.join(entry.missing[:SHOWN_MISSING])}{tail}"
    if entry.origin != "tcb-bench":
        yield f"- **imported from {entry.origin}**: no samples, so nothing can be computed again"
    if entry.samples.url is not None:
        yield f"- samples: {entry.samples.url} (sha256 {entry.samples.sha256})"
    yield f"- signature: `{entry.signature}`"


def _checklist(entries: Sequence[Entry]) -> Iterator[str]:
    yield "the numbers are as the tool wrote them; nothing was left out or changed by hand"
    yield "`tcb-bench leaderboard check` passes on the entries"
    if any(entry.samples.url for entry in entries):
        yield "the sample files lie at the addresses that the entries give"
    if all(entry.origin == "tcb-bench" for entry in entries):
        yield "the run folder is kept, so that a maintainer can score it again"


def next_steps(entries: Sequence[Loaded], to_upload: Sequence[Path], file: Path | None) -> str:
    """Commands from the new files to a pull request, for a shell."""
    model_id = entries[0].entry.model.id
    tasks = ", ".join(loaded.entry.task.name for loaded in entries)
    paths = [path for e in entries for path in (e.path, e.samples) if path is not None]
    folder = folder_name(model_id)
    addresses = [loaded.entry.samples.url for loaded in entries if loaded.entry.samples.url]
    lines = [f"# upload {path} to {at}" for path, at in zip(to_upload, addresses, strict=True)]
    lines += [
        f"git switch -c submit/{folder}",
        "git add " + " ".join(shlex.quote(str(path)) for path in paths),
        "git commit -m " + shlex.quote(f"Entry: {model_id} on {tasks}"),
        f"git push -u origin submit/{folder}",
        f"# then open a pull request with {file or 'the description below'}",
    ]
    return "\n".join(lines)
