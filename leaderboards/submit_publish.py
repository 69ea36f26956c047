"""Entries made aside, checked, and only then moved to where entries lie."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from tcb_bench.errors import DataError, UsageError
from tcb_bench.leaderboards.entry_files import Loaded, folder_name, write_entry
from tcb_bench.leaderboards.submit import Submission, write_entry_of
from tcb_bench.leaderboards.submit_results import Found

if TYPE_CHECKING:
    from tcb_bench.leaderboards.checks import Problem

Build = Callable[[Path], Sequence[Loaded]]
Check = Callable[[Sequence[Loaded]], "Sequence[Problem]"]
SUFFIX = ".jsonl.gz"
SHOWN = 20  # problems


@dataclass(frozen=True, slots=True)
class Published:
    """Entries in their place, and sample files that are to be put where the entries say."""

    entries: list[Loaded]
    to_upload: list[Path]


def build_of(found: Sequence[Found], submission: Submission) -> Build:
    """What makes the entries of some tasks under a folder."""

    def build(root: Path) -> list[Loaded]:
        made = [write_entry_of(one.path, one.task, root, submission) for one in found]
        return [Loaded(path, entry) for path, entry in made]

    return build


def publish(
    build: Build,
    out: Path,
    *,
    check: Check,
    replaces: bool = False,
    samples_url: str | None = None,
    uploads: Path | None = None,
) -> Published:
    """Makes entries beside ``out``, checks them, and moves them there.

    Nothing is left behind where one of them is refused or fails a check.

    Args:
        build: makes the entries under the folder it is given.
        out: the folder of all entries.
        check: the problems of the entries made.
        replaces: whether entries of the same name may be replaced.
        samples_url: where sample files will lie; None = beside their entries.
        uploads: the folder in which sample files wait for their upload.

    Raises:
        DataError: a check fails, with all problems; an entry is there already; or a file cannot
            be moved.
        UsageError: one address for several sample files.
    """
    anchor = next(folder for folder in (out, *out.absolute().parents) if folder.is_dir())
    try:
        with tempfile.TemporaryDirectory(prefix=".submit-", dir=anchor) as name:
            root = Path(name)
            made = list(build(root))
            _refuse_existing(made, root, out, replaces)
            _refuse_problems(check(made), root)
            if samples_url is not None:
                made, waiting = _elsewhere(made, samples_url)
            else:
                waiting = []
            uploaded = [Path(shutil.move(path, (uploads or out) / path.name)) for path in waiting]
            return Published([_move(loaded, root, out) for loaded in made], uploaded)
    except OSError as error:
        raise DataError(f"{out}: entries cannot be written there: {error.strerror}") from None


def _refuse_existing(made: Sequence[Loaded], root: Path, out: Path, replaces: bool) -> None:
    there = [out / m.path.relative_to(root) for m in made]
    for path in there:
        if path.exists() and not replaces:
            raise DataError(f"{path}: there already; --replace puts the new entry in its place")


def _refuse_problems(found: Sequence[Problem], root: Path) -> None:
    if found:
        lines = [f"  {_under(problem.path, root)}: {problem.text}" for problem in found[:SHOWN]]
        lines += [f"  and {len(found) - SHOWN} more"] if len(found) > SHOWN else []
        raise DataError("the checks failed, and nothing was written:\n" + "\n".join(lines))


def _under(path: Path, root: Path) -> Path:
    return path.relative_to(root) if path.is_relative_to(root) else path


def _elsewhere(made: Sequence[Loaded], url: str) -> tuple[list[Loaded], list[Path]]:
    """The entries with the address of their samples, and the files that belong there."""
    is_file = url.endswith(SUFFIX)
    if is_file and len(made) > 1:
        raise UsageError(
            f"--samples-url names one file for {len(made)} entries; give its folder, or --task NAME"
        )
    entries, files = [], []
    for loaded in made:
        file = loaded.samples
        if file is None:
            raise UsageError("--samples-url: an imported result has no samples; leave it out")
        where = url if is_file else f"{url.rstrip('/')}/{folder_name(loaded.entry.model.id)}"
        at = where if is_file else f"{where}/{file.name}"
        samples = loaded.entry.samples.model_copy(update={"file": None, "url": at})
        entry = loaded.entry.model_copy(update={"samples": samples})
        write_entry(loaded.path, entry)
        entries.append(replace(loaded, entry=entry))
        files.append(file)
    return entries, files


def _move(loaded: Loaded, root: Path, out: Path) -> Loaded:
    """The samples first, so that no entry stands without them."""
    target = out / loaded.path.relative_to(root)
    target.parent.mkdir(parents=True, exist_ok=True)
    old = target.with_name(f"{target.stem}.samples{SUFFIX}")
    if loaded.samples is not None:
        loaded.samples.replace(target.with_name(loaded.samples.name))
    loaded.path.replace(target)
    if loaded.samples is None:
        old.unlink(missing_ok=True)
    return replace(loaded, path=target)
