"""What engine and metric cost: memory beyond the weights, and speed beside plain ``generate``."""

import gc
import statistics
import time
from collections.abc import Callable

import torch
import transformers
from random_llama import Bench
from torch import Tensor
from torch.profiler import ProfilerActivity, profile
from verify_compare import Report

from tcb_bench.metrics.delta_tcb import Head, token_stability

WORKSPACE_MIB = 64 + 96  # the metric's own bound, and temporaries of cuBLAS and of sorting
ROUNDS = 3
N_STATES = 512  # of the metric alone


def peak_mib(work: Callable[[], object], device: torch.device) -> float:
    """Most that torch held at once during one call, beyond what it held before."""
    if device.type == "cuda":
        gc.collect()
        torch.cuda.synchronize(device)
        before = torch.cuda.memory_allocated(device)
        torch.cuda.reset_peak_memory_stats(device)
        work()
        torch.cuda.synchronize(device)
        return (torch.cuda.max_memory_allocated(device) - before) / 2**20
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as run:
        work()
    events = [e for e in run.profiler.kineto_results.events() if e.name() == "[memory]"]
    held = most = 0
    for event in sorted(events, key=lambda e: e.start_ns()):
        held += event.nbytes()
        most = max(most, held)
    return most / 2**20


def check_memory(report: Report, bench: Bench, states: Tensor) -> None:
    """The metric keeps to its workspace; a batch keeps to its layers, and holds no (B, T, V)."""
    head = Head(bench.head)
    many = states.repeat(-(-N_STATES // len(states)), 1)[:N_STATES]
    token_stability(many[:8], head)  # what is computed once per head
    v, d = bench.head.shape
    note = f"; (N, V, d) would be {N_STATES * v * d / 2**18:,.0f} MiB"
    used = peak_mib(lambda: token_stability(many, head), bench.device)
    report.most(f"memory of the metric on {N_STATES} states, MiB", used, WORKSPACE_MIB, note)
    plan, shape, size = bench.plan, bench.plan.shape, bench.head.element_size()
    layer = (8 * d + 4 * shape["intermediate_size"]) * size / 2**20  # of a token, where it is now
    cache = 2 * d * shape["num_key_value_heads"] // shape["num_attention_heads"] * size / 2**20
    n, tokens = plan.prompts, plan.prompts * plan.longest
    limit = WORKSPACE_MIB + 8 * n * v / 2**18 + tokens * layer
    used = peak_mib(lambda: bench.next_token(bench.prompts), bench.device)
    note = f"; (B, T, V) logits would be {tokens * v * size / 2**20:,.0f} MiB"
    report.most(f"memory of next_token, {n} rows, MiB beyond the weights", used, limit, note)
    n, tokens = 2 * plan.texts, 2 * plan.texts * (plan.longest + plan.new)
    limit = WORKSPACE_MIB + 8 * n * v / 2**18
    limit += tokens * (layer + cache * shape["num_hidden_layers"])
    used = peak_mib(lambda: bench.traced(bench.texts), bench.device)
    report.most(f"memory of generate_traced, {n} rows, MiB beyond the weights", used, limit)


def check_speed(report: Report, bench: Bench) -> None:
    """Traced greedy generation against plain ``generate``, in turns."""
    plan, ids = bench.plan, [bench.tokenizer(text)["input_ids"] for text in bench.texts]
    batch = bench.tokenizer.pad({"input_ids": ids}, padding_side="left", return_tensors="pt")
    config = transformers.GenerationConfig(
        do_sample=False, max_new_tokens=plan.new, pad_token_id=bench.tokenizer.pad_token_id
    )
    inputs = batch.to(bench.device)

    def plain() -> int:
        out = bench.model.generate(**inputs, generation_config=config)
        return len(out[:, inputs["input_ids"].shape[1] :].flatten().tolist())

    def traced() -> int:
        return len(bench.traced(bench.texts, [0]))

    speeds: dict[str, list[float]] = {"plain": [], "traced": []}
    for _ in range(ROUNDS + 1):
        for name, work in (("plain", plain), ("traced", traced)):
            start = time.perf_counter()
            n = work()  # ends with tokens on the CPU, so nothing is left to wait for
            speeds[name].append(n / (time.perf_counter() - start))
    medians = {name: statistics.median(values[1:]) for name, values in speeds.items()}
    note = f"; {medians['traced']:,.0f} and {medians['plain']:,.0f} tokens/s, {len(ids)} rows"
    ratio = medians["traced"] / medians["plain"]
    name = "speed of traced greedy generation over plain generate"
    report.least(name, ratio, plan.least_speed, note)
