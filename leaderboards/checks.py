"""`leaderboard check`: every entry distrusted, everything it says computed again.

An entry is checked alone (`check_entry`), in a process of its own where there are several, and then
all are compared with each other (`check_across`). What a check cannot see is in MAINTAINERS.md.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tcb_bench.errors import DataError
from tcb_bench.leaderboards.check_across import Summary, across, setting_of
from tcb_bench.leaderboards.check_entry import entry_problems, is_limit, is_older
from tcb_bench.leaderboards.check_files import entry_paths, place_problems, samples_problem
from tcb_bench.leaderboards.check_numbers import count_problems, data_problems, metric_problems
from tcb_bench.leaderboards.check_samples import Findings, Read, read_and_check
from tcb_bench.leaderboards.draws import document_problems, draw_problems, strata_problems
from tcb_bench.leaderboards.entry import Entry
from tcb_bench.leaderboards.entry_files import MAX_PACKED, Loaded, read_entry
from tcb_bench.leaderboards.known import KnownDocuments, KnownTask, KnownTasks
from tcb_bench.leaderboards.untrusted import shown

FEW = 4  # entries that are checked without starting processes

Progress = Callable[[int, int], None]
Expected = Callable[[Entry], KnownDocuments | None]


@dataclass(frozen=True, slots=True)
class Problem:
    """Something wrong with a file, in one line: what was found, what was expected."""

    path: Path
    text: str


@dataclass(frozen=True, slots=True)
class Checked:
    """What came of one entry.

    Attributes:
        path: of the entry.
        problems: what is wrong with it alone.
        summary: for the comparison with others; None where it could not be read.
        note: what could not be checked, in words; empty for nothing.
        model: its model's id, ``task`` its task, ``responses`` the rows that were read.
    """

    path: Path
    problems: tuple[str, ...]
    summary: Summary | None = None
    note: str = ""
    model: str = ""
    task: str = ""
    responses: int = 0


def problems(
    entries: Sequence[Loaded | Path],
    *,
    known_tasks: KnownTasks | None = None,
    expected: Expected | None = None,
    report: Progress | None = None,
) -> list[Problem]:
    """Everything wrong with entries, alone and beside each other, in the order of the entries.

    Args:
        entries: entries or the paths of their files; samples lie beside them.
        known_tasks: tasks by name; None = what depends on the tasks' own files is not checked.
        expected: the documents that an entry's task draws; None, or its None = not compared.
        report: called with (entries done, entries).
    """
    checked = check_all(entries, known_tasks=known_tasks, expected=expected, report=report)
    return all_problems(checked)


def all_problems(checked: Sequence[Checked]) -> list[Problem]:
    """The problems of entries that `check_all` has checked, and those that they have together."""
    found = [Problem(one.path, text) for one in checked for text in one.problems]
    together = across([one.summary for one in checked if one.summary is not None])
    return found + [Problem(path, text) for path, text in together]


def folder_problems(root: Path) -> tuple[list[Path], list[Problem]]:
    """The entries under a folder, and what is wrong with its files' names and kinds."""
    paths, found = entry_paths(root)
    return paths, [Problem(path, text) for path, text in found]


def check_all(
    entries: Sequence[Loaded | Path],
    *,
    known_tasks: KnownTasks | None = None,
    expected: Expected | None = None,
    report: Progress | None = None,
) -> list[Checked]:
    """Each entry checked alone; with more than ``FEW`` on all CPUs, in processes of their own."""
    jobs: list[tuple[Path, KnownTasks | None, KnownDocuments | None]] = []
    for one in entries:
        path = one if isinstance(one, Path) else one.path
        jobs.append((path, known_tasks, _documents(path, expected)))
    made: list[Checked] = []
    for checked in _results(jobs):
        made.append(checked)
        if report is not None:
            report(len(made), len(jobs))
    return made


def _documents(path: Path, expected: Expected | None) -> KnownDocuments | None:
    if expected is None:
        return None
    try:
        return expected(read_entry(path))
    except DataError:  # the check of the entry itself says so
        return None


def _results(
    jobs: Sequence[tuple[Path, KnownTasks | None, KnownDocuments | None]],
) -> Iterator[Checked]:
    workers = min(len(jobs), _cpus())
    if len(jobs) <= FEW or workers < 2:
        yield from (check_entry(*job) for job in jobs)
        return
    context = multiprocessing.get_context("spawn")  # a fork would copy locks of running threads
    with ProcessPoolExecutor(workers, mp_context=context) as pool:
        yield from pool.map(check_entry, *zip(*jobs, strict=True), chunksize=1)


def _cpus() -> int:
    """CPUs that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def check_entry(
    path: Path,
    known_tasks: KnownTasks | None = None,
    documents: KnownDocuments | None = None,
) -> Checked:
    """One entry checked alone.

    Args:
        path: of its file.
        known_tasks: tasks by name, or None.
        documents: what its task draws for its limit and seed, or None.
    """
    try:
        loaded = Loaded(path, read_entry(path))
    except DataError as error:
        return Checked(path, (str(error).removeprefix(f"{shown(path)}: "),))
    entry, findings = loaded.entry, Findings()
    for text in (*place_problems(loaded), *entry_problems(entry, known_tasks)):
        findings.add(text)
    read, note = _read(loaded, findings)
    if known_tasks is not None and is_older(entry, known_tasks):
        now = known_tasks[entry.task.name].version
        said = f"older version {entry.task.version} of the task, here {now}: its draw is not made"
        known_tasks, documents, note = None, None, f"{said}; {note}".rstrip("; ")
    summary = None
    if read is not None:
        for text in _against_samples(entry, read, known_tasks or {}, documents):
            findings.add(text)
        summary = _summary(loaded, read)
    return Checked(
        path,
        tuple(findings.lines()),
        summary,
        note,
        entry.model.id,
        entry.task.name,
        read.responses if read else 0,
    )


def _read(loaded: Loaded, findings: Findings) -> tuple[Read | None, str]:
    """The samples, or why there are none: said as a note where the entry need not have any."""
    entry = loaded.entry
    if entry.samples.file is None:
        if entry.origin != "tcb-bench":
            return None, f"imported from {entry.origin}: nothing to compute again"
        if entry.samples.url is None:
            findings.add("samples: neither file nor url; expected one of them")
        if entry.tier == "verified":
            return None, "samples lie elsewhere; verified by a maintainer"
        return None, "samples lie elsewhere: numbers are not computed again"
    text = samples_problem(loaded, MAX_PACKED)
    if text is not None:
        findings.add(text)
        return None, "samples cannot be read"
    note = "" if entry.weight_radius is not None else "R is null: bounds with R are not applied"
    return read_and_check(loaded, findings), note


def _against_samples(
    entry: Entry, read: Read, known: KnownTasks, documents: KnownDocuments | None
) -> Iterator[str]:
    task = _leaf(entry, known)
    yield from count_problems(entry, read)
    yield from data_problems(entry, read, task)
    if is_limit(entry.limit):
        yield from draw_problems(entry, read.drawn, known)
        if task is not None and (task.strata or entry.data.strata):
            yield from strata_problems(entry, read.strata, task)
    if documents is not None:
        yield from document_problems(read.drawn, documents)
        yield from _gold_problems(read, documents)
    try:
        with np.errstate(all="ignore"):  # absurd numbers overflow; they are problems already
            yield from list(metric_problems(entry, read))
    except (ValueError, ArithmeticError, IndexError) as error:  # rows that no run could have
        yield f"metrics cannot be computed from these samples: {shown(error)}"


def _leaf(entry: Entry, known: KnownTasks) -> KnownTask | None:
    """The task, or the first member of the group: settings of members are alike."""
    names = list(entry.data.members or ()) or [entry.task.name]
    return known.get(names[0])


def _gold_problems(read: Read, documents: KnownDocuments) -> Iterator[str]:
    """Answers counted as right that are wrong by the data, or the other way round."""
    for (task, doc_id), verdict in read.verdicts.items():
        document = documents.get(task, {}).get(doc_id)
        if document is None or document.gold is None:
            continue
        gold = document.gold
        for answer, is_right in verdict:
            if (answer == gold) != is_right:
                said = "right" if is_right else "wrong"
                yield f"acc counts {shown(answer)} as {said} in {shown(doc_id)}; right is {gold}"


def _summary(loaded: Loaded, read: Read) -> Summary:
    entry = loaded.entry
    drawn = {(task, one): sha for task, own in read.drawn.items() for one, sha in own.items()}
    is_measured = len(read.marks) >= len(read.text_marks)
    marks = sorted(read.marks if is_measured else read.text_marks)
    return Summary(
        path=loaded.path,
        model=entry.model.id,
        task=entry.task.name,
        setting=setting_of(entry),
        drawn=drawn,
        verdicts={own: frozenset(found) for own, found in read.verdicts.items()},
        marks=np.array(marks, dtype=np.uint64),
        is_measured=is_measured,
    )
