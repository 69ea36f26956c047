"""Inside vLLM's worker: every state that predicts a token is seen at the output head, and measured.

vLLM adds the methods of ``StabilityWorker`` to its own worker class. A hook on the one
``LogitsProcessor`` sees the head that is really used and the states it gets; one wrapped method of
the model runner says which request, position and token each state belongs to. Imports torch, vllm
and the metric only, since the worker is a process of its own.
"""

from __future__ import annotations

import os
import select
import signal
import threading
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from vllm.distributed import get_tp_group

from tcb_bench.models.vllm_head import Refusal, exchange, has_adapter, head_of, processor_of
from tcb_bench.models.vllm_rows import CLIENT, KEPT, Rows, Step
from tcb_bench.models.vllm_runners import rows_v1, rows_v2


class StabilityWorker:
    """Methods for ``LLM.collective_rpc``; plain lists, numbers and texts go in and out."""

    model_runner: Any  # vLLM's

    def tcb_start(self, n_vocab: int, memory_mib: float) -> dict[str, Any]:
        """Hooks into the engine; ``refused`` holds the reason where that cannot be done.

        Args:
            n_vocab: ids that the tokenizer can produce; rows behind them are padding.
            memory_mib: states kept at most before they are measured early.
        """
        try:
            self._tcb = Observer(self.model_runner, n_vocab, int(memory_mib * 2**20))
        except Refusal as refusal:
            return {"refused": str(refusal), "pid": os.getpid()}
        return {"runner": self._tcb.runner_version, "pid": os.getpid()}

    def tcb_check(self) -> dict[str, Any]:
        """What the engine is, after a probe; ``refused`` where its logits are not rebuilt."""
        try:
            return self._tcb.checked()
        except Refusal as refusal:
            return {"refused": str(refusal)}

    def tcb_collect(self, asks: list[list[Any]]) -> list[dict[str, Any]] | dict[str, Any] | None:
        """The quantities of finished requests (``Rows.collect``), from the first rank only."""
        try:
            found = self._tcb.collect(asks)
        except Refusal as refusal:
            return {"refused": str(refusal)}
        return found if get_tp_group().rank_in_group == 0 else None

    def tcb_memory(self) -> dict[str, int]:
        """Bytes of states held, and how often they were measured early."""
        rows = self._tcb.rows
        return {"held": rows.held if rows else 0, "spills": rows.spills if rows else 0}


class Observer:
    """One model runner's states: seen by the hook, named by the wrapped method, kept in ``rows``.

    Attributes:
        rows: the states, from the first one on.
        runner_version: ``V1`` or ``V2``.
    """

    def __init__(self, runner: Any, n_vocab: int, limit: int) -> None:
        self.runner, self.n_vocab, self.limit = runner, n_vocab, limit
        self.rows: Rows | None = None
        self._latest: Tensor | None = None  # states of the latest call of the head
        self._probe: tuple[Tensor, Tensor] | None = None  # states and the logits the sampler gets
        self._refused = ""
        self._is_agreed = False
        self._given: tuple[Any, Any] | None = None  # the head and bias of the first call
        model = runner.get_model()
        self.processor = processor_of(model)
        self.processor.register_forward_hook(self._see, with_kwargs=True)
        self.runner_version = self._wrap(runner)
        self._watch_logits(runner.model)

    def _wrap(self, runner: Any) -> str:
        """Wraps the method in which states become tokens; which runner that is."""
        if hasattr(runner, "_sample"):
            _has(runner, "input_batch", "query_start_loc", "positions", "discard_request_mask")
            sample_v1 = runner._sample

            def v1(logits: Any, spec: Any) -> Any:
                output = sample_v1(logits, spec)
                if self._is_wanted(runner.input_batch.req_ids):
                    self._keep(*rows_v1(runner, spec, output.sampled_token_ids))
                return output

            runner._sample = v1
            return "V1"
        _has(runner, "sample")
        if getattr(runner, "batch_sharder", None) is not None:
            raise Refusal(
                "batch-sharded sampling splits the logits by request and is not supported; "
                "turn it off"
            )
        sample_v2 = runner.sample

        def v2(hidden: Any, batch: Any, *rest: Any, **named: Any) -> Any:
            output, n_sampled, *others = sample_v2(hidden, batch, *rest, **named)
            if self._is_wanted(batch.req_ids):
                self._keep(*rows_v2(batch, output.sampled_token_ids, n_sampled))
            return (output, n_sampled, *others)

        runner.sample = v2
        return "V2"

    def _watch_logits(self, model: Any) -> None:
        """The logits of the first call are compared with those rebuilt from the states."""
        compute = model.compute_logits

        def watched(hidden: Tensor, *rest: Any, **named: Any) -> Any:
            logits = compute(hidden, *rest, **named)
            if self._probe is None and self._latest is not None and logits is not None:
                self._probe = (self._latest, logits.detach().clone())
            return logits

        model.compute_logits = watched

    def _see(
        self, _: Any, args: tuple[Any, ...], kwargs: dict[str, Any], logits: Tensor | None
    ) -> None:
        names = ("lm_head", "hidden_states", "embedding_bias")
        given = {**dict(zip(names, args, strict=False)), **kwargs}
        self._latest = given["hidden_states"].detach()
        lm_head, bias = given["lm_head"], given.get("embedding_bias")
        if self._given is None:
            self._given = (lm_head, bias)
        elif self._given[0] is not lm_head:
            raise RuntimeError("the model changed its output head while it ran")
        if logits is not None and logits.shape[-1] > self.n_vocab:
            logits[..., self.n_vocab :] = -torch.inf  # padding is no token and is never sampled

    def _is_wanted(self, ids: Sequence[str]) -> bool:
        """Whether a step has anything to keep; if not, its states are let go."""
        wanted = any(request_id.startswith(KEPT) for request_id in ids)
        if not wanted:
            self._latest = None
        return wanted

    def _keep(
        self, ids: Sequence[str], counts: Sequence[int], positions: Tensor, tokens: Tensor
    ) -> None:
        hidden, self._latest = self._latest, None
        names = [_name(request_id) for request_id in ids]
        if hidden is None or len(hidden) != sum(counts) or len(hidden) != len(positions):
            seen = None if hidden is None else len(hidden)
            raise RuntimeError(f"the head saw {seen} states, the runner sampled {sum(counts)}")
        if self.rows is None:
            self.rows = self._first_rows(hidden)
        if self.rows is not None:
            self.rows.add(names, counts, Step(hidden, positions, tokens))

    def _first_rows(self, hidden: Tensor) -> Rows | None:
        try:
            lm_head, bias = self._given or (None, None)
            head = head_of(self.processor, lm_head, bias, hidden, self.n_vocab)
        except (Refusal, ValueError) as refusal:
            self._refused = str(refusal)
            return None
        return Rows(head, exchange, self.limit)

    def checked(self) -> dict[str, Any]:
        """Compares the probe's logits with the engine's.

        Raises:
            Refusal: they differ by more than rounding, or nothing was seen.
        """
        rows = self._agreed()
        if self._probe is None:
            raise Refusal("the model's logits were not seen; delta_tcb cannot be checked")
        head, (states, logits) = rows.head, self._probe
        difference, allowed = self._worst(head.misfit(states, logits[:, head.first_id :]))
        if has_adapter(self.processor):
            raise Refusal(
                "the adapter changes the output head, so that every request has another one; "
                "merge it into the model first"
            )
        if not difference <= allowed:
            raise Refusal(
                "the states seen do not reproduce the engine's logits (difference "
                f"{difference:.3g}, rounding explains {allowed:.3g}); delta_tcb would be wrong"
            )
        return {
            "max_logit_difference": difference,
            "logit_rounding": allowed,
            "weight_radius": rows.radius(),
            "softcap": head.softcap,
            "logit_scale": head.scale,
            "vocab_rows": int(self.processor.org_vocab_size),
            "n_vocab": min(self.n_vocab, int(self.processor.org_vocab_size)),
            "head_dtype": str(head.weight.dtype).removeprefix("torch."),
            "runner": self.runner_version,
        }

    def collect(self, asks: list[list[Any]]) -> list[dict[str, Any]]:
        """``Rows.collect``.

        Raises:
            Refusal: the head cannot be measured, on this rank or another.
        """
        return self._agreed().collect(asks)

    def _agreed(self) -> Rows:
        """The states, once all ranks said that they can measure; none may wait for another."""
        if not self._is_agreed:
            mine = torch.tensor([float(self.rows is None)], device=self.runner.device)
            if torch.stack(exchange([mine])).any():
                raise Refusal(self._refused or "no state was seen at the output head")
            self._is_agreed = True
        if self.rows is None:
            raise Refusal("no state was seen at the output head")
        return self.rows

    def _worst(self, misfit: tuple[float, float]) -> tuple[float, float]:
        """Difference and allowed rounding of the rank where they are worst."""
        mine = torch.tensor(misfit, device=self.runner.device)
        return max(map(tuple, torch.stack(exchange([mine])).tolist()), key=lambda m: m[0] - m[1])


def _name(request_id: str) -> str | None:
    """The client's own id of a request that is kept; vLLM adds ``-`` and eight digits."""
    if not request_id.startswith(KEPT):
        return None
    return request_id[len(KEPT) :].rpartition("-")[0]


def _has(runner: Any, *names: str) -> None:
    missing = [name for name in names if not hasattr(runner, name)]
    if missing:
        raise Refusal(f"this version's {type(runner).__name__} has no {missing[0]}")


def _die_with(client: int) -> None:
    """Ends this process, and the engine that runs it, with the client: kill -9 leaves nothing.

    vLLM sees to that only where the client can still say that it ends.
    """
    if client in (0, os.getpid()):
        return
    try:
        gone = os.pidfd_open(client)
    except (AttributeError, OSError):  # not Linux, or the client is on another machine
        return
    engine = os.getppid()  # the client itself, where the worker is no process of its own

    def watch() -> None:
        select.select([gone], [], [])
        if engine != client and os.getppid() == engine:
            os.kill(engine, signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=watch, daemon=True).start()


_die_with(int(os.environ.get(CLIENT, "0")))  # here, since loading a model may take minutes
