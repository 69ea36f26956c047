"""The folder of entries: what lies where, under which name, and nothing else."""

from __future__ import annotations

import stat
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from tcb_bench.errors import DataError
from tcb_bench.leaderboards.entry_files import Loaded, file_sha256, folder_name
from tcb_bench.leaderboards.untrusted import UNSEEN, check_file, shown

MAX_FILES = 20_000  # in the folder of all entries
README = "README.md"
ENTRY, SAMPLES = ".json", ".samples.jsonl.gz"


def entry_paths(root: Path) -> tuple[list[Path], list[tuple[Path, str]]]:
    """The entries under a folder, in order, and what else lies there that should not.

    ``root/<org>__<model>/<task>.json``, its ``<task>.samples.jsonl.gz`` beside it, and README.md.
    Links are not followed.

    Raises:
        DataError: there is no such folder.
    """
    if not root.is_dir():
        raise DataError(f"{root}: no such folder; expected one of leaderboard entries")
    paths: list[Path] = []
    problems: list[tuple[Path, str]] = []
    for folder in sorted(root.iterdir()):
        mode = folder.lstat().st_mode
        if stat.S_ISDIR(mode):
            _take_folder(folder, paths, problems)
        elif folder.name != README or not stat.S_ISREG(mode):
            problems.append((folder, f"{_kind(mode)}; expected folders <org>__<model> alone"))
        if len(paths) + len(problems) > MAX_FILES:
            problems.append((root, f"more than {MAX_FILES} files; the rest was not looked at"))
            break
    return paths, problems + _alike(paths)


def _take_folder(folder: Path, paths: list[Path], problems: list[tuple[Path, str]]) -> None:
    names = sorted(folder.iterdir())[:MAX_FILES]
    entries = {path.name.removesuffix(ENTRY) for path in names if path.name.endswith(ENTRY)}
    if not names:
        problems.append((folder, "empty folder"))
    for path in names:
        mode = path.lstat().st_mode
        if not stat.S_ISREG(mode):
            problems.append((path, f"{_kind(mode)}; expected plain files alone"))
        elif path.name.endswith(SAMPLES):
            if path.name.removesuffix(SAMPLES) not in entries:
                problems.append((path, "samples without an entry beside them"))
        elif path.name.endswith(ENTRY) and not UNSEEN.search(path.name):
            paths.append(path)
        else:
            problems.append((path, f"expected <task>{ENTRY} and <task>{SAMPLES} alone"))


def _kind(mode: int) -> str:
    if stat.S_ISLNK(mode):
        return "a symbolic link"
    return (
        "a folder" if stat.S_ISDIR(mode) else "a file" if stat.S_ISREG(mode) else "a special file"
    )


def _alike(paths: Sequence[Path]) -> list[tuple[Path, str]]:
    """Entries whose paths differ in upper and lower case alone: one file on many systems."""

    def key(path: Path) -> str:
        return f"{path.parent.name}/{path.name}".casefold()

    counts = Counter(map(key, paths))
    return [
        (path, "another entry has this name in other case: the same model and task")
        for path in paths
        if counts[key(path)] > 1
    ]


def place_problems(loaded: Loaded) -> Iterator[str]:
    """Where an entry's path is not the one of its model and task, or its samples are not there."""
    path, entry = loaded.path, loaded.entry
    try:
        wanted = f"{folder_name(entry.model.id)}/{entry.task.name}{ENTRY}"
    except DataError:
        return  # said of the name itself
    there = f"{path.parent.name}/{path.name}"
    if there != wanted:
        yield f"lies at {shown(there)}; model id and task say {shown(wanted)}"


def samples_problem(loaded: Loaded, most: int) -> str | None:
    """Why the sample file cannot be the entry's, None where it is: kind, size, sha256."""
    try:
        path = loaded.samples
        if path is None:
            return "samples.file is null; expected a name beside the entry"
        check_file(path, most)
        sha256 = file_sha256(path)
    except (DataError, OSError) as error:
        return shown(str(error).removeprefix(f"{shown(loaded.path)}: "), 300)
    if sha256 != loaded.entry.samples.sha256:
        return f"samples.sha256 is {loaded.entry.samples.sha256}; {path.name} has {sha256}"
    return None
