"""A leaderboard entry scored again from its full run, in a copy: the run folder is only read."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tcb_bench.errors import DataError, StoreError
from tcb_bench.leaderboards.entry import Entry
from tcb_bench.leaderboards.entry_files import Loaded, file_sha256, write_entry
from tcb_bench.leaderboards.rescore import differences, verified
from tcb_bench.leaderboards.submit import Submission, write_entry_of
from tcb_bench.leaderboards.submit_results import find_tasks
from tcb_bench.store import STORE_FILE, Store

Say = Callable[[str], None]


def rescored(
    run: Path,
    loaded: Loaded,
    *,
    over: Mapping[str, Any] | None = None,
    say: Say = lambda line: None,
) -> list[str]:
    """Where an entry differs from what its run gives when scored again; empty for nowhere.

    Only the stored responses are copied: text scores, BERTScore's too, are computed anew.

    Args:
        run: the full run folder, with its store.
        loaded: the entry, its samples beside it.
        over: task options in place of the run's own, such as ``data`` (where the documents are
            on this machine) and ``bert_score_model``.
        say: called with one line about what happens now.

    Raises:
        StoreError: no store there, or none of its invocations asked the entry's task.
        DataError: the documents or the entry's samples are not there, or it is imported.
    """
    from tcb_bench.run import score

    entry = loaded.entry
    if entry.origin != "tcb-bench":
        raise DataError(f"{loaded.path}: imported from {entry.origin}; there is no run to score")
    with tempfile.TemporaryDirectory(prefix="tcb-bench-rescore-") as name:
        folder = Path(name)
        copy_store(run, folder)
        number = invocation_of(folder, entry)
        if number is None:
            raise StoreError(
                f"{run}: no invocation asked {entry.task.name} in the entry's conditions with "
                f"limit {entry.limit} and seed {entry.seed}; is it the run of this entry?"
            )
        say(f"{entry.task.name}: scoring invocation {number} of {run} again")
        outcome = score(folder, number, over=over, say=say)
        made = Submission(
            model_id=entry.model.id,
            submitted_by=entry.submitted_by,
            links=tuple(entry.links),
            is_partial_ok=True,
        )
        if entry.task.name not in outcome.result["tcb_bench"]["tasks"]:
            raise DataError(f"{run}: scored again it has no {entry.task.name}")
        path, again = write_entry_of(outcome.path, entry.task.name, folder / "entries", made)
        return differences(loaded, Loaded(path, again))


def copy_store(run: Path, folder: Path) -> None:
    """The stored responses of a run and the log beside them; opening them there would write there.

    Raises:
        StoreError: there is no store, or it cannot be read.
    """
    source = run / STORE_FILE
    if not source.is_file():
        raise StoreError(f"{run}: no {STORE_FILE} here; a rescoring needs the full run folder")
    for path in (source, source.with_name(f"{STORE_FILE}-wal")):
        try:
            if path.is_file():
                shutil.copyfile(path, folder / path.name)
        except OSError as error:
            raise StoreError(f"{path}: cannot be copied: {error.strerror}") from None


def invocation_of(folder: Path, entry: Entry) -> int | None:
    """The newest invocation with the entry's tasks, conditions, limit and seed, if any."""
    tasks = set(entry.data.members or (entry.task.name,))
    cells = {condition.id for condition in entry.conditions}
    with Store(folder, create=False) as store:
        for number in range(store.manifest().id, 0, -1):
            options = store.manifest(number).settings["options"]
            asked = [task.partition("|") for task, *_ in store.keys(number)]
            is_same = (options["limit"], options["seed"]) == (entry.limit, entry.seed)
            there = {cell for task, _, cell in asked if task in tasks}
            if is_same and there == cells and tasks <= {task for task, *_ in asked}:
                return number
    return None


def verify(run: Path, loaded: Loaded, *, by: str) -> Entry:
    """Writes the tier ``verified`` into an entry that `rescored` found no difference in.

    Raises:
        DataError: the run has no result file of the task, or the entry cannot be written.
    """
    [found] = find_tasks(run, [loaded.entry.task.name])
    today = time.strftime("%Y-%m-%d", time.gmtime())
    entry = verified(loaded.entry, by=by, date=today, run_sha256=file_sha256(found.path))
    write_entry(loaded.path, entry)
    return entry
