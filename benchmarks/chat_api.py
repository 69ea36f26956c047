"""Speed of the client for APIs, beside a bare loop over the SDK and lm-eval's own client.

Run as ``python benchmarks/chat_api.py`` on an idle machine of two or more cores. A server in a
process of its own answers at once, over HTTP on loopback; each way asks from a process of its own,
in turns and in a rotated order, with the same prompts and the same number of connections:

- ours: a whole run's path, from requests through the API client to a store on the disk and back;
- bare: a loop over the SDK's typed method with its aiohttp transport; nothing is kept;
- lm-eval: its ``local-chat-completions``.

At the end ours and lm-eval's answer ``--requests`` in one go, for their memory. Exit code 1 if a
requirement is missed.
"""

import argparse
import os
import statistics
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

# This folder is the last place to look for modules (bert_score.py is one of its names); the server
# is a tool of the tests.
sys.path.sort(key=lambda entry: Path(entry).resolve() == Path(__file__).resolve().parent)
sys.path.append(str(Path(__file__).resolve().parent.parent / "tests"))
os.environ["TQDM_DISABLE"] = "1"  # lm-eval's bar

import openai
from chat_api_ways import WAYS, Taken
from fault_server import fault_process  # type: ignore[import-not-found]

LEAST_RATE, LEAST_RATIO = 500, 0.7


class Processes:
    """A process for each way, so that none works with another's memory and caches."""

    def __init__(self, url: str, connections: int, folder: Path) -> None:
        """Starts none yet; ``folder`` is where stores are made."""
        self.given = (connections, folder)
        self.url, self.asked = url, 0
        self.pools = {name: self.new() for name in WAYS}

    def new(self) -> ProcessPoolExecutor:
        """Another process."""
        return ProcessPoolExecutor(1, mp_context=get_context("spawn"))

    def ask(self, way: str, n: int) -> Taken:
        """``n`` requests that nobody asked before, in the process of that way."""
        self.asked += n
        call = (self.url, n, self.asked - n, *self.given)
        return self.pools[way].submit(WAYS[way], *call).result()

    def renew(self, way: str) -> None:
        """A fresh process for a way, whose memory holds nothing of earlier rounds."""
        self.pools[way].shutdown()
        self.pools[way] = self.new()

    def close(self) -> None:
        """Ends all of them."""
        for pool in self.pools.values():
            pool.shutdown()


def in_turns(processes: Processes, n: int, rounds: int) -> dict[str, list[Taken]]:
    """What each way takes in each round."""
    taken: dict[str, list[Taken]] = {name: [] for name in WAYS}
    names = list(WAYS)
    for i in range(rounds):
        turn = i % len(names)
        for name in names[turn:] + names[:turn]:
            taken[name].append(processes.ask(name, n))
    return taken


def show_rounds(taken: dict[str, list[Taken]]) -> float:
    """Print a line for each way; our ratio to bare.

    The ratio is the median of the rounds' own, since a round's ways share the machine's mood.
    """
    print("  way       requests/s   x bare   rounds' own       CPU ms each   required")
    found = {}
    for name, mine in taken.items():
        ratios = [a.rate / b.rate for a, b in zip(mine, taken["bare"], strict=True)]
        found[name] = statistics.median(ratios)
        rate = statistics.median(each.rate for each in mine)
        cpu = statistics.median(1000 * each.cpu_s / each.n for each in mine)
        spread = f"{min(ratios):.2f} .. {max(ratios):.2f}"
        limit = f">= {LEAST_RATIO} x bare" if name == "ours" else ""
        print(f"  {name:8}{rate:12.0f}{found[name]:9.2f}   {spread:16}{cpu:13.2f}   {limit}")
    return found["ours"]


def show_long(name: str, taken: Taken) -> None:
    """Print what one long run of a way took."""
    grown = taken.mib_peak - taken.mib_before
    print(
        f"  {name:8}{taken.rate:12.0f} requests/s in {taken.clock_s:.0f} s, peak memory "
        f"{taken.mib_peak:.0f} MiB, {grown:.0f} above its start "
        f"({1024 * grown / taken.n:.1f} KiB a request), {taken.handles} handles at the end"
    )


def sync_ms(folder: Path) -> float:
    """Median milliseconds of a write of 4 KiB and its sync to the disk."""
    times: list[float] = []
    with tempfile.TemporaryFile(dir=folder) as file:
        for _ in range(20):
            start = time.perf_counter()
            file.write(bytes(4096))
            file.flush()
            os.fsync(file.fileno())
            times.append(time.perf_counter() - start)
    return 1000 * statistics.median(times)


def options() -> argparse.Namespace:
    """The sizes."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--requests", type=int, default=50_000, help="of the long run")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--round", type=int, default=3000, help="requests of a way in a round")
    parser.add_argument("--connections", type=int, default=32)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()), help="disk")
    parser.add_argument("--small", action="store_true", help="a look in half a minute")
    given = parser.parse_args()
    if given.small:
        given.requests, given.rounds, given.round = 2000, 3, 500
    if min(given.requests, given.rounds, given.round, given.connections) < 1:
        parser.error("all sizes must be at least 1")
    return given


def measure(given: argparse.Namespace, processes: Processes) -> list[str]:
    """Print the tables; what is missed."""
    for name in WAYS:  # imports, the SDK's lazy parts
        processes.ask(name, min(200, given.round))
    print(f"{given.rounds} rounds in turns, {given.round} requests of each way in each")
    ratio = show_rounds(in_turns(processes, given.round, given.rounds))
    print(f"{given.requests} requests in one go")
    rate = 0.0
    for name in ("ours", "lm-eval"):
        processes.renew(name)
        processes.ask(name, min(200, given.round))
        long = processes.ask(name, given.requests)
        show_long(name, long)
        rate = long.rate if name == "ours" else rate
    print(
        "  lm-eval's client is aiohttp alone, without the SDK: one task for each request from the\n"
        "  start, all replies in memory until the last is there, no file; a request that fails\n"
        "  with its retries, or the process, takes all of them with it. Ours has each on the disk\n"
        "  within 0.1 s, and its plan, with every prompt, in memory."
    )
    missed = []
    if ratio < LEAST_RATIO:
        missed.append(f"ours must have >= {LEAST_RATIO} x bare's rate, has {ratio:.2f} x")
    if rate <= LEAST_RATE:
        missed.append(f"ours must answer > {LEAST_RATE} requests/s, answers {rate:.0f}")
    return missed


def main() -> int:
    """Print the tables and the verdict; the exit code."""
    given = options()
    print(
        f"openai {openai.__version__}, {os.cpu_count()} cores, {given.connections} connections, "
        f"a sync of the disk takes {sync_ms(given.folder):.1f} ms"
    )
    print(f"load average before the start {os.getloadavg()[0]:.1f}; this needs an idle machine")
    with fault_process("--instant") as url:
        processes = Processes(url, given.connections, given.folder)
        try:
            missed = measure(given, processes)
        finally:
            processes.close()
    print("\n".join(missed) or "all requirements met")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
