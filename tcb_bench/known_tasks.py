"""Tasks and documents as `leaderboard check` compares entries with: from YAML files and data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tcb_bench.leaderboards.entry import Entry
from tcb_bench.leaderboards.known import KnownDocument, KnownDocuments, KnownTask, KnownTasks
from tcb_bench.task_files import TaskFile, catalogue, read_strict, sweep_axes, tcb_spec

Say = Callable[[str], None]


def known_tasks(include: Sequence[Path] = ()) -> KnownTasks:
    """Every task and group of the catalogue, from its YAML; loads no data.

    Raises:
        UsageError: a task file of ``include`` is wrong.
    """
    found = {}
    cache: dict[Path, Any] = {}
    for name, file in catalogue(include).items():
        if file.kind == "group":
            found[name] = KnownTask(name=name, version=file.version, members=file.members)
        elif file.kind == "task":
            found[name] = _task(file, cache)
    return found


def _task(file: TaskFile, cache: dict[Path, Any]) -> KnownTask:
    config = read_strict(file.path, cache).config
    spec = tcb_spec(config, str(file.path))
    has_own_ids = config.get("process_docs") is not None or spec.generator is not None
    return KnownTask(
        name=file.name,
        version=file.version,
        data_id=config.get("dataset_path"),
        config=config.get("dataset_name"),
        split=config.get("test_split") or config.get("validation_split"),
        revision=config.get("dataset_revision"),
        doc_id=None if has_own_ids else spec.doc_id,
        draw=spec.draw,
        strata=spec.strata,
        axes=sweep_axes(config, spec, str(file.path)),
        document_axes=spec.axes,
        repeats=config.get("repeats", 1),
        epsilon=spec.epsilon,
        sampling_defaults=spec.sampling_defaults,
    )


class TaskDocuments:
    """The documents that a task draws, loaded once for each limit and seed.

    Attributes:
        data: ``hub``, ``sample`` or a folder, as of a run's ``--data``.
        include: folders with a user's tasks.
        say: called with one line about what happens now.
    """

    def __init__(self, data: str, include: Sequence[Path], say: Say) -> None:
        """Nothing is loaded yet."""
        self.data, self.include, self.say = data, include, say
        self._made: dict[tuple[Any, ...], KnownDocuments] = {}

    def __call__(self, entry: Entry) -> KnownDocuments | None:
        """Task -> document id -> document; None where the entry has other data than ``data``.

        Raises:
            DataError: the documents cannot be loaded.
        """
        is_sample = entry.data.source == "sample"
        if entry.seed is None or is_sample != (self.data == "sample"):
            return None
        asked = (entry.task.name, entry.limit, entry.seed)
        if asked not in self._made:
            limit = entry.limit or "none"
            self.say(f"{entry.task.name}: documents of limit {limit} and seed {entry.seed}")
            self._made[asked] = self._load(*asked)
        return self._made[asked]

    def _load(self, name: str, limit: float | None, seed: int) -> KnownDocuments:
        from tcb_bench.config import TaskOptions
        from tcb_bench.load_tasks import load_tasks, quiet

        options = TaskOptions(data=self.data, limit=limit, seed=seed, reference="short")
        with quiet():
            loaded = load_tasks([name], options, self.include, is_run=False)
        found: dict[str, dict[str, KnownDocument]] = {}
        for task in loaded.tasks.values():
            if hasattr(task, "is_tcb_task") and task.base_name not in found:
                found[task.base_name] = _documents(task)
        return found


def _documents(task: Any) -> dict[str, KnownDocument]:
    from tcb_bench.data import ID_COLUMN
    from tcb_bench.results import digest

    found = {}
    for row in task.documents.selection.documents:
        sha256 = digest({key: value for key, value in row.items() if key != ID_COLUMN})
        found[row[ID_COLUMN]] = KnownDocument(sha256, _gold(task, row))
    return found


def _gold(task: Any, row: Any) -> str | None:
    """The right letter or number of a document; None where answers are free."""
    from tcb_bench.metrics.answers import choice_letter
    from tcb_bench.scoring import gold_number

    if task.spec.answer == "choice":
        return choice_letter(int(task.doc_to_target(row)))
    if task.spec.answer == "final_number":
        return f"{gold_number(str(task.doc_to_target(row))).normalize():f}"
    return None
