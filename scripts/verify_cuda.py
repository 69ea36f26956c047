"""Checks the ``hf`` back end on one GPU: random weights in Llama-3.1-8B's shape, in bfloat16.

Run as ``scripts/verify_cuda.sh``. Nothing is downloaded. Every check is one line with its number
and limit; exit code 0 if all hold, 1 if one does not, 2 if this machine cannot run them.

The oracle shares nothing with the engine: plain forward passes of transformers over prompt and
text, a hook of our own on the output head, the equations in float64. The same tokens are passed
alone and padded in one batch; that difference is what rounding does to a state, and the engine in
bfloat16 is held to a small multiple of it. In float32, on a small model, it is held to 1e-4.
"""

import argparse
import math
import os
import shutil
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
import transformers
from plain_oracle import Truth, last_states, truth
from random_llama import FULL, ROPE, ROPE_THETA, TINY, Bench, Plan, Row
from torch import Tensor
from verify_compare import SIGMAS, Found, Report, Rounding, agreement
from verify_costs import check_memory, check_speed

from tcb_bench.metrics.delta_tcb import reference, token_stability

TOLERANCE = 1e-4  # of float32 against float64
COVERED = (
    "next_token and generate_traced, the metric, batches, memory, speed; a small model in float32"
)
NOT_COVERED = (
    "trained weights, other architectures, soft-caps, quantised weights, float16, several GPUs, "
    "prompts above {longest} tokens, the vllm and API back ends, tasks, scores and reports"
)


def check_model(report: Report, bench: Bench) -> None:
    """Size and rotary frequencies, by Llama-3.1's own formula."""
    model, shape, expected = bench.model, bench.plan.shape, bench.plan.n_parameters
    n = sum(weight.numel() for weight in model.parameters())
    report.check(n == expected, "parameters of the model", f"{n:,} (expected {expected:,})")
    size = shape["hidden_size"] // shape["num_attention_heads"]
    errors = []
    for i, found in enumerate(model.model.rotary_emb.inv_freq.tolist()):
        plain = ROPE_THETA ** (-2 * i / size)
        cycles = ROPE["original_max_position_embeddings"] * plain / (2 * math.pi)
        share = min(1.0, max(0.0, (cycles - 1) / (ROPE["high_freq_factor"] - 1)))
        true = plain * (share + (1 - share) / ROPE["factor"])
        errors.append(abs(found / true - 1))
    report.most("rotary frequencies of type llama3, largest relative error", max(errors), 1e-5)


def check_metric(report: Report, bench: Bench, states: Tensor) -> None:
    """``token_stability`` of the very same states, flat to confident, against float64."""
    part = bench.head[:8192]  # of the vocabulary: the plain equations hold five copies in float64
    mine, (delta, flip) = truth(states[:2], part), reference(states[:2], part)
    error = ((10**mine.log10_delta / delta - 1).abs() + (mine.flip / flip - 1).abs()).max()
    report.most("oracle in pieces against the plain equations", error, 1e-9)
    many = torch.cat([states * factor for factor in (0.125, 1.0, 4.0)])  # exact in bfloat16
    true, found = truth(many, bench.head), token_stability(many, bench.head)
    top1 = found.top1_token.tolist()
    rows = [Row([], [token], [], {}) for token in top1]
    by_oracle = Found.by_oracle(true, rows)
    columns = (found.log10_delta_tcb, found.flip_radius, found.top1_token, -found.nll)
    ours = Found(*(column.cpu().double() for column in columns))
    low, high = by_oracle.log10_delta.aminmax()
    name = f"metric on {len(many)} states"
    spread = f"; log10 delta {low:.2f} to {high:.2f}"
    report.most(f"{name}, log10 delta_tcb", ours.log_error(by_oracle).max(), TOLERANCE, spread)
    h_norm = many.double().norm(dim=1).cpu()
    report.most(f"{name}, flip_radius", ours.flip_error(by_oracle, h_norm).max(), TOLERANCE)
    nll = (ours.logprobs - by_oracle.logprobs).abs().max()
    report.most(f"{name}, nll", nll, TOLERANCE)
    lead = true.logits[:, 0] - true.logits[:, 1] > 1e-5 * true.logits[:, 0].abs()
    wrong = (ours.top1 != by_oracle.top1) & lead.cpu()
    report.most(f"{name}, other top-1 tokens", wrong.sum(), 0)


def sampled(rows: Sequence[Row], n: int) -> list[Row]:
    """About ``n`` rows, evenly."""
    return list(rows[:: max(1, len(rows) // n)])


def rounding(report: Report, bench: Bench, rows: Sequence[Row]) -> tuple[Tensor, Truth, Rounding]:
    """The rows' states by passes of one sequence each, what they mean, and what padding changes."""
    sequences = [row.ids for row in rows]
    alone = torch.cat([last_states(bench.model, [tokens]) for tokens in sequences])
    padded = last_states(bench.model, sequences)
    true = truth(alone, bench.head)
    one, other = (Found.by_oracle(t, rows) for t in (true, truth(padded, bench.head)))
    coordinates = alone.shape[1] ** 0.5
    moved = (alone.double() - padded.double()).norm(dim=1).max() / coordinates
    unit = alone.double().norm(dim=1).max() / coordinates * torch.finfo(alone.dtype).eps
    step = float(torch.maximum(moved, unit))
    off = float((one.logprobs - other.logprobs).abs().max())
    report.say(f"       {len(rows)} rows: rounding moves a coordinate of a state by {step:.2g}")
    return alone, true, Rounding(step, float(other.delta_change(one).median()), off)


def check_engine(report: Report, bench: Bench) -> Tensor:
    """Both requests in bfloat16 against teacher-forced passes; the states of these."""
    asked, told = bench.next_token(bench.prompts), bench.traced(bench.texts)
    rows = [*sampled(asked, 16), *sampled(told, 48)]
    states, truths, noise = rounding(report, bench, rows)
    true = Found.by_oracle(truths, rows)
    agreement(report, "engine against the oracle", Found.by_engine(rows), true, noise)
    clear = int((true.flip > SIGMAS * noise.step).sum())
    report.least("rows whose top-1 leads by more than rounding", clear, len(rows) // 20)
    top = truths.logits.cpu()
    is_clear = (true.flip > SIGMAS * noise.step) & (top[:, 0] - top[:, 1] > top[:, 0].abs() / 128)
    greedy = [i for i, row in enumerate(rows) if row.temperature == 0 and is_clear[i]]
    wrong = sum(rows[i].asked[0] != true.top1[i] for i in greedy)
    note = f"; of {len(greedy)} that lead by more than rounding of the logits"
    report.most("greedy tokens that are not the oracle's top-1", wrong, 0, note)
    few = bench.prompts[:: max(1, len(bench.prompts) // 8)]
    alone = [row for prompt in few for row in bench.next_token([prompt])]
    batch = [asked[bench.prompts.index(prompt)] for prompt in few]
    pair = Found.by_engine(alone), Found.by_engine(batch)
    agreement(report, "a prompt alone against in a batch", *pair, noise)
    return states


def check_float32(report: Report, device: torch.device) -> None:
    """The engine on a small model in float32: oracle, batches, samples."""
    bench = Bench(TINY, torch.float32, device)
    asked, told = bench.next_token(bench.prompts), bench.traced(bench.texts)
    rows = [*asked, *told]
    states = torch.cat([last_states(bench.model, [row.ids]) for row in rows])
    true = truth(states, bench.head)
    ours, other = Found.by_engine(rows), Found.by_oracle(true, rows)
    h_norm = states.double().norm(dim=1).cpu()
    name = f"float32, small model, {len(rows)} rows"
    report.most(f"{name}, log10 delta_tcb", ours.log_error(other).max(), TOLERANCE)
    report.most(f"{name}, flip_radius", ours.flip_error(other, h_norm).max(), TOLERANCE)
    off = (ours.logprobs - other.logprobs).abs() / other.logprobs.abs().clamp(min=1)
    report.most(f"{name}, log-probabilities", off.max(), TOLERANCE)
    alone = [row for prompt in bench.prompts for row in bench.next_token([prompt])]
    pairs = ((text, t) for text in bench.texts for t in (0.0, 1.0))
    alone += [row for text, t in pairs for row in bench.traced([text], [t])]
    wrong = sum(a.asked != b.asked for a, b in zip(alone, rows, strict=True))
    report.most("float32, other tokens alone than in a batch", wrong, 0)
    error = Found.by_engine(alone).log_error(ours).max()
    report.most("float32, alone against in a batch, log10 delta_tcb", error, TOLERANCE)
    picks = [i for i, row in enumerate(rows) if row.temperature == 1]
    logprobs = true.logprobs[picks].cpu()
    mean = (logprobs.exp() * logprobs).sum(1)
    variance = (logprobs.exp() * logprobs.square()).sum(1) - mean.square()
    chosen = torch.tensor([rows[i].logprobs[0] for i in picks], dtype=torch.float64)
    z = (chosen - mean).sum() / variance.sum().sqrt()
    name = f"samples at temperature 1 follow the softmax, z of {len(picks)} tokens"
    report.most(name, abs(float(z)), 4)


def missing(plan: Plan, device: torch.device) -> str | None:
    """What this machine lacks, in one line."""
    on_cpu = "to try the script on a CPU: scripts/verify_cuda.sh --tiny --device cpu"
    if device.type == "cpu":
        return None if plan is TINY else f"the full model needs a CUDA GPU; {on_cpu}"
    if device.type != "cuda":
        return f"device {str(device)!r}: expected cuda, cuda:N or cpu; {on_cpu}"
    built = torch.version.cuda or "no CUDA"
    if not torch.cuda.is_available():
        return f"torch {torch.__version__} (built for {built}) sees no CUDA GPU; {on_cpu}"
    if (device.index or 0) >= torch.cuda.device_count():
        return f"device {str(device)!r} is not here, of {torch.cuda.device_count()} GPUs; {on_cpu}"
    free = torch.cuda.mem_get_info(device)[0] / 2**30
    if free < plan.need_gib:
        return (
            f"{free:.1f} GiB of {torch.cuda.get_device_name(device)} are free, this model needs "
            f"{plan.need_gib:g}; free some, or try the GPU with a small model: --tiny"
        )
    return None


def machine(device: torch.device) -> str:
    """The device and its driver, in words."""
    if device.type == "cpu":
        return f"CPU, {torch.get_num_threads()} threads (no GPU was used)"
    driver = "unknown"
    if shutil.which("nvidia-smi"):
        ask = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
        done = subprocess.run(ask, capture_output=True, text=True, check=False, timeout=30)
        driver = (done.stdout.split() or [driver])[0]
    return f"{torch.cuda.get_device_name(device)}, driver {driver}, CUDA {torch.version.cuda}"


def verify(plan: Plan, device: torch.device) -> Report:
    """All checks. One that breaks is one that failed, and the others still run."""
    report = Report()

    def attempt(name: str, check: Callable[..., Any], *given: Any) -> Any:
        try:
            return check(*given)
        except Exception as error:  # whatever breaks here is what the user wants to know
            traceback.print_exc()
            first = (str(error).splitlines() or [""])[0]
            report.check(False, name, f"{type(error).__name__}: {first}")
            return None

    bench = attempt("model in bfloat16", Bench, plan, torch.bfloat16, device)
    if bench is not None:
        attempt("shape", check_model, report, bench)
        states = attempt("engine", check_engine, report, bench)
        if states is not None:
            attempt("metric", check_metric, report, bench, states)
            attempt("memory", check_memory, report, bench, states)
        attempt("speed", check_speed, report, bench)
    attempt("float32", check_float32, report, device)
    return report


def summary(report: Report, plan: Plan, device: torch.device, seconds: float) -> None:
    """Machine, versions, what was verified and what was not."""
    precision = torch.get_float32_matmul_precision()
    report.say(f"machine: {machine(device)}")
    report.say(
        f"software: torch {torch.__version__}, transformers {transformers.__version__}, "
        f"float32 products {precision}"
    )
    shape = "Llama-3.1-8B's shape" if plan is FULL else "a tiny model of Llama's family"
    word = "checked" if report.failed else "verified"
    report.say(f"{word}: the hf back end in bfloat16, random weights in {shape}: {COVERED}")
    report.say(f"not verified: {NOT_COVERED.format(longest=plan.longest)}")
    if report.failed and precision != "highest":
        report.say("hint: TF32 is on; unset TORCH_ALLOW_TF32_CUBLAS_OVERRIDE and try again")
    verdict = f"FAILED: {'; '.join(report.failed)}" if report.failed else "all checks passed"
    report.say(f"{verdict} ({report.n_checks} checks, {seconds:.0f} s)")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the checks; the exit code."""
    parser = argparse.ArgumentParser(
        prog="scripts/verify_cuda.sh",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--device", default="cuda", type=torch.device, help="cuda, cuda:N or cpu")
    parser.add_argument("--tiny", action="store_true", help="a small model of the same family")
    given = parser.parse_args(arguments)
    plan, device, start = (TINY if given.tiny else FULL), given.device, time.perf_counter()
    if problem := missing(plan, device):
        sys.stderr.write(problem + "\n")
        return 2
    if device.type == "cuda":
        device = torch.device("cuda", device.index or 0)
        torch.cuda.set_device(device)
    report = verify(plan, device)
    summary(report, plan, device, time.perf_counter() - start)
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
