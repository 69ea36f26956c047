"""`leaderboard check` on 100 entries of 1,000 samples, and on one of 79,200 responses.

Run as ``python benchmarks/leaderboard.py`` on an idle machine, on a busy one with OMP_NUM_THREADS=1
and by the seconds of CPU. Entries are made of random numbers that obey all bounds, in a temporary
folder, or kept in ``--folder`` and used again. Exit code 1 if one is found wrong, or if a check
takes over 60 s or over 1 GiB a process.
"""

import argparse
import multiprocessing
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))

from board_entries import make_entry  # noqa: E402

from tcb_bench.known_tasks import known_tasks  # noqa: E402
from tcb_bench.leaderboards import checks  # noqa: E402

N_ENTRIES, N_DOCUMENTS, N_QUESTIONS = 100, 1000, 600
KINDS = ("many", "sweep")
MAX_S, MAX_GIB = 60.0, 1.0
BOTH = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)


def made(folder: Path, model_id: str, task: str, n_documents: int) -> Path:
    """An entry, made where it is not there from an earlier run."""
    there = folder / model_id.replace("/", "__") / f"{task}.json"
    return there if there.is_file() else make_entry(folder, model_id, task, n_documents)


def timed(name: str, paths: list[Path]) -> bool:
    """Checks the entries, prints what it took; whether all is in order and within bounds."""
    known = known_tasks()
    before = sum(sum(resource.getrusage(who)[:2]) for who in BOTH)
    start = time.perf_counter()
    checked = checks.check_all(paths, known_tasks=known)
    problems = checks.all_problems(checked)
    seconds = time.perf_counter() - start
    peak = max(resource.getrusage(who).ru_maxrss / 2**20 for who in BOTH)
    used = sum(sum(resource.getrusage(who)[:2]) for who in BOTH) - before
    responses = sum(one.responses for one in checked)
    print(
        f"{name}: {len(checked)} entries, {responses} responses: {seconds:.1f} s "
        f"({used:.1f} s of CPU), peak {peak:.2f} GiB a process, problems {len(problems)}"
    )
    for problem in problems[:5]:
        print(f"  {problem.path}: {problem.text}")
    return not problems and seconds <= MAX_S and peak <= MAX_GIB


def paths_of(folder: Path, which: str) -> list[Path]:
    """Makes the entries of one kind where they are not there."""
    if which == "many":
        models = [f"made/model-{i:03d}" for i in range(N_ENTRIES)]
        return [made(folder / which, model, "mmlu_tcb", N_DOCUMENTS) for model in models]
    return [made(folder / which, "made/sweep", "hotpotqa_tempperturb", N_QUESTIONS)]


def apart(step: Callable[..., Any], *arguments: object) -> Any:
    """The result of a step that runs in a new process."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(step, *arguments).result()


def main() -> int:
    """Runs both; 1 if a bound is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=KINDS, help="one of the two measurements")
    parser.add_argument("--folder", type=Path, help="keep the entries here")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as made_here:
        folder = arguments.folder or Path(made_here)
        results = []
        for which in [arguments.only] if arguments.only else KINDS:
            # each step in a process of its own, since a peak of memory stays
            paths = apart(paths_of, folder, which)
            results.append(apart(timed, which, paths))
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
