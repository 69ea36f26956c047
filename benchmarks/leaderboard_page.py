"""Building the site of many entries, and opening, sorting and filtering its largest board.

Run as ``python benchmarks/leaderboard_page.py`` on an idle machine, with OMP_NUM_THREADS=1 on a
busy one; needs Chromium on the PATH and the extra ``test``. Entries are made (200 of MMLU with 200
questions each, beside the shipped ones) in a temporary folder, or kept in ``--folder`` and used
again; ``--entries 1000`` is the size for which a build may take 60 s. Prints seconds of clock and
processor for the build and milliseconds of the browser, medians of 7; exit code 1 if the board
takes over a second to open or the build over a minute.
"""

import argparse
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "tests"))

from board_entries import make_entry  # noqa: E402

from tcb_bench.leaderboards.render import build  # noqa: E402

TASK, N_QUESTIONS, N_TIMES = "mmlu_tcb", 200, 7
MAX_BUILD_S, MAX_OPEN_MS = 60.0, 1000.0
PAINTED = "() => new Promise(done => requestAnimationFrame(() => setTimeout(done)))"
"""Resolves once the browser has drawn what came before."""
SORT = """async () => {
  const start = performance.now();
  document.querySelectorAll("table.board th button")[1].click();
  await new Promise(done => requestAnimationFrame(() => setTimeout(done)));
  return performance.now() - start;
}"""
FILTER = """async () => {
  const start = performance.now();
  const box = document.querySelector("[data-filter=q]");
  box.value = box.value ? "" : "model-1";
  box.dispatchEvent(new Event("input", { bubbles: true }));
  await new Promise(done => requestAnimationFrame(() => setTimeout(done)));
  return performance.now() - start;
}"""


def make(folder: Path, n: int) -> None:
    """The shipped entries and ``n`` made ones, those that are not there from an earlier run."""
    shipped = ROOT / "leaderboards" / "entries"
    if shipped.is_dir():
        shutil.copytree(shipped, folder, dirs_exist_ok=True)
    for i in range(n):
        model = f"made/model-{i}"
        if not (folder / model.replace("/", "__") / f"{TASK}.json").is_file():
            make_entry(folder, model, TASK, N_QUESTIONS)


def opened(page: Any, address: str) -> float:
    """Milliseconds from asking for a page until it is drawn."""
    page.goto("about:blank")
    start = time.perf_counter()
    page.goto(address)
    page.evaluate(PAINTED)
    return (time.perf_counter() - start) * 1000


def measure(site: Path) -> dict[str, float]:
    """What a reader waits for, in milliseconds, medians."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        board = (site / "boards" / f"{TASK}.html").as_uri()
        found = {
            "open the board": [opened(page, board) for _ in range(N_TIMES)],
            "sort it": [page.evaluate(SORT) for _ in range(N_TIMES)],
            "filter it": [page.evaluate(FILTER) for _ in range(N_TIMES)],
            "open the comparison": [
                opened(page, (site / "compare.html").as_uri()) for _ in range(N_TIMES)
            ],
        }
        browser.close()
    return {name: statistics.median(times) for name, times in found.items()}


def main() -> int:
    """Makes, builds, opens; prints what it took."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--entries", type=int, default=200, metavar="N")
    parser.add_argument("--folder", type=Path, metavar="DIR", help="keep the made entries here")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = arguments.folder or Path(scratch) / "entries"
        make(folder, arguments.entries)
        site = Path(scratch) / "site"
        start, used = time.perf_counter(), time.process_time()
        made = build(folder, site)
        seconds, used = time.perf_counter() - start, time.process_time() - used
        print(
            f"build: {made.entries} entries, {made.pages} pages: {seconds:.1f} s "
            f"({used:.1f} s of processor)"
        )
        for name in (f"boards/{TASK}.html", "compare.html"):
            print(f"{name}: {(site / name).stat().st_size / 2**20:.2f} MiB")
        times = measure(site)
    for name, milliseconds in times.items():
        print(f"{name}: {milliseconds:.0f} ms")
    return int(seconds > MAX_BUILD_S or times["open the board"] > MAX_OPEN_MS)


if __name__ == "__main__":
    sys.exit(main())
