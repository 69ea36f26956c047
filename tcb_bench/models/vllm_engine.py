"""vLLM's engine as a stream: requests go in as there is room, answers come out as they are done."""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import psutil  # type: ignore[import-untyped]
from vllm import SamplingParams
from vllm.sampling_params import RequestOutputKind
from vllm.v1.engine.exceptions import EngineDeadError

from tcb_bench.errors import ModelError, reason
from tcb_bench.models.vllm_rows import KEPT, LAST

ROUNDS = 4  # requests handed to the engine, as a multiple of those it runs at a time


class Text(Protocol):
    """What grows while a request is answered; see ``RowText``."""

    def push(self, token: int) -> bool:
        """Adds a token; whether the text has ended."""


@dataclass
class Job:
    """One request to the engine.

    Attributes:
        prompt: its token ids.
        params: sampling parameters of vLLM.
        row: takes the tokens as they come; None where they do not matter.
        choices: token ids whose log-probabilities are wanted at the only prediction.
        positions: once the request is done, which token indices are measured; None = all. Nothing
            is kept in the worker without it.
        tokens: those generated, also behind the end of the text.
        output: vLLM's last output of the request.
    """

    prompt: Sequence[int]
    params: Any
    row: Text | None = None
    choices: tuple[int, ...] = ()
    positions: Callable[[], Sequence[int] | None] | None = None
    tokens: list[int] = field(default_factory=list)
    output: Any = None


@dataclass
class Measured:
    """Stability of a finished request.

    Attributes:
        quantities: name -> values at the positions asked for, in ascending order.
        is_sound: False where a state of the request holds NaN or Inf.
    """

    quantities: dict[str, list[float]]
    is_sound: bool = True


class Engine:
    """A started vLLM engine with ``StabilityWorker`` inside.

    Attributes:
        llm: the ``vllm.LLM``.
        about: what the start-up check found (``weight_radius``, ``runner``, ...).
        log: file with what its processes print, or None.
    """

    def __init__(self, llm: Any, lora_request: Any = None) -> None:
        self.llm, self.lora_request = llm, lora_request
        self.about: dict[str, Any] = {}
        self.log: Path | None = None
        self._count = 0
        self._workers: list[psutil.Process] = []

    @property
    def room(self) -> int:
        """Requests in the engine at a time; those it does not run yet wait there."""
        return ROUNDS * int(self.llm.llm_engine.vllm_config.scheduler_config.max_num_seqs)

    def start(self, n_vocab: int, memory_mib: float, probe: Sequence[int]) -> None:
        """Hooks into the workers and checks, on a short prompt, that the logits can be rebuilt.

        Raises:
            ModelError: they cannot, or the traced tokens are not the engine's.
        """
        own = os.getpid()
        started = self.llm.collective_rpc("tcb_start", args=(n_vocab, memory_mib))
        # It may run in this very process.
        self._workers = [psutil.Process(w["pid"]) for w in started if w["pid"] != own]
        _raise_refusal(started)
        found: list[Measured] = []
        job = Job(probe, sampling(max_tokens=2), positions=lambda: None)
        self.run([job], lambda _, measured: found.append(measured))
        self.about = self._rpc("tcb_check")
        top = [int(token) for token in found[0].quantities["top1_token"]]
        unclear = 2 * self.about["logit_rounding"]  # the engine's own logits have ties in bf16
        for ours, theirs, margin in zip(
            top, job.tokens, found[0].quantities["logit_margin"], strict=True
        ):
            if ours != theirs and margin > unclear:
                raise ModelError(
                    f"the engine generated tokens {job.tokens} where the states it was seen to "
                    f"use give {top}; delta_tcb would be wrong"
                )

    def run(self, jobs: Sequence[Job], deliver: Callable[[int, Measured], None]) -> None:
        """Answers all jobs; ``deliver`` gets (index, stability) as soon as one is done.

        Raises:
            ModelError: a traced token is not the one in the output, or the engine died.
        """
        engine, waiting = self.llm.llm_engine, deque(enumerate(jobs))
        active: dict[str, tuple[int, Job]] = {}
        try:
            while waiting or active:
                while waiting and len(active) < self.room:
                    name = self._name(waiting[0][1])
                    active[name] = waiting.popleft()
                    self._add(name, active[name][1])
                done = self._advance(engine.step(), active)
                if done:
                    self._finish({name: active.pop(name) for name in done}, deliver)
        except EngineDeadError as error:
            time.sleep(1)  # Ctrl-C ends the engine too, and must be told as what it is
            raise ModelError(
                f"vLLM's engine died while it answered{self._where}; what is finished is saved, "
                "and the same command continues"
            ) from error
        finally:
            if active:  # interrupted: the engine may be used again
                with suppress(Exception):  # no question to it: it may be ending itself
                    engine.abort_request(list(active))

    def _name(self, job: Job) -> str:
        self._count += 1
        kept = KEPT if job.positions is not None else "plain-"
        return f"{kept}{LAST if job.choices else ''}{self._count}"

    def _add(self, name: str, job: Job) -> None:
        prompt = {"prompt_token_ids": list(job.prompt)}
        self.llm.llm_engine.add_request(name, prompt, job.params, lora_request=self.lora_request)

    def _advance(self, outputs: Iterable[Any], active: dict[str, tuple[int, Job]]) -> list[str]:
        """Takes a step's tokens; names of the requests that are done."""
        done, ended = [], []
        for output in outputs:
            if output.request_id not in active:
                continue  # ended by its text; the engine had begun another token
            job = active[output.request_id][1]
            job.output = output
            for token in output.outputs[0].token_ids:
                job.tokens.append(token)
                if job.row is not None and job.row.push(token):
                    break
            ended_by = output.outputs[0].finish_reason
            if output.finished and ended_by not in ("stop", "length"):
                raise ModelError(
                    f"vLLM ended a request with {ended_by!r}{self._where}; what is finished is "
                    "saved, and the same command continues"
                )
            has_ended = job.row is not None and getattr(job.row, "is_done", False)
            if has_ended and not output.finished:
                ended.append(output.request_id)
            if has_ended or output.finished:
                done.append(output.request_id)
        if ended:
            self.llm.llm_engine.abort_request(ended)
        return done

    def _finish(
        self, done: dict[str, tuple[int, Job]], deliver: Callable[[int, Measured], None]
    ) -> None:
        asks, kept = [], []
        for name, (index, job) in done.items():
            if job.positions is None:
                deliver(index, Measured({}))
                continue
            wanted = job.positions()
            shift = len(job.prompt) - 1
            places = None if wanted is None else [p + shift for p in wanted]
            asks.append([name.removeprefix(KEPT), places, list(job.choices)])
            kept.append((index, job, wanted))
        found = self._rpc("tcb_collect", asks) if asks else []
        for (index, job, wanted), answer in zip(kept, found, strict=True):
            deliver(index, _checked(job, wanted, answer))

    def _all(self, method: str, *arguments: Any) -> list[Any]:
        """Every worker's answer.

        Raises:
            ModelError: a worker refuses.
        """
        try:
            answers: list[Any] = self.llm.collective_rpc(method, args=tuple(arguments))
        except EngineDeadError:
            raise
        except Exception as error:  # vLLM has no other class for what a worker raises
            raise ModelError(f"a worker of vLLM failed ({reason(error)}){self._where}") from error
        _raise_refusal(answers)
        return answers

    @property
    def _where(self) -> str:
        return f"; its log is {self.log}" if self.log else ""

    def _rpc(self, method: str, *arguments: Any) -> Any:
        """The first worker's answer."""
        return next(a for a in self._all(method, *arguments) if a is not None)

    def memory(self) -> dict[str, int]:
        """``held``: bytes of states in a worker now; ``spills``: how often they were too many."""
        found: dict[str, int] = self._rpc("tcb_memory")
        return found

    def close(self) -> None:
        """Ends the engine's processes.

        Workers get a second: those of the CPU build hang in a destructor, and the engine waits.
        """
        killer = threading.Timer(1.0, _kill, [self._workers])
        killer.start()
        try:
            self.llm.llm_engine.engine_core.shutdown()
        finally:
            killer.cancel()
            _kill(self._workers)


def _raise_refusal(answers: Sequence[Any]) -> None:
    for answer in answers:
        if isinstance(answer, dict) and "refused" in answer:
            raise ModelError(str(answer["refused"]))


def _kill(processes: Sequence[psutil.Process]) -> None:
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.kill()


def _checked(job: Job, wanted: Sequence[int] | None, answer: dict[str, Any]) -> Measured:
    """The worker's rows by token index, each token compared with the output's."""
    shift = len(job.prompt) - 1
    places = [position - shift for position in answer["positions"]]
    rows = [i for i, place in enumerate(places) if place < len(job.tokens)]
    expected = sorted(range(len(job.tokens)) if wanted is None else wanted)
    if [places[i] for i in rows] != expected or any(
        job.tokens[places[i]] != answer["tokens"][i] for i in rows
    ):
        raise ModelError(
            "the states kept in the engine are not those of its output (tokens "
            f"{job.tokens[:8]}... at {expected[:8]}..., seen {answer['tokens'][:8]}... at "
            f"{places[:8]}...); nothing of this request was stored"
        )
    columns = answer["quantities"].items()
    quantities = {name: [values[i] for i in rows] for name, values in columns}
    return Measured(quantities, bool(answer["sound"]))


def sampling(**given: Any) -> Any:
    """Sampling parameters of vLLM with nothing left to a default, tokens as they come.

    Ends of texts are ``stop_token_ids``; the texts are built by the client from the tokens.
    """
    stated: dict[str, Any] = {
        "n": 1,
        "presence_penalty": 0.0,
        "frequency_penalty": 0.0,
        "repetition_penalty": 1.0,
        "temperature": 0.0,
        "top_p": 1.0,
        "top_k": 0,
        "min_p": 0.0,
        "seed": None,
        "stop": [],
        "stop_token_ids": [],
        "ignore_eos": True,
        "min_tokens": 0,
        "logprobs": None,
        "prompt_logprobs": None,
        "detokenize": False,
        "output_kind": RequestOutputKind.DELTA,
    }
    return SamplingParams(**{**stated, **given})
