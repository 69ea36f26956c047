"""How strongly the next-token distribution depends on the residual stream after each block."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from tcb_bench.errors import ModelError
from tcb_bench.metrics.jacobian_probes import (
    LN10,
    leading_directions,
    output_probes,
    softmax_cotangents,
    squared_norm,
)
from tcb_bench.models.hf_answers import NOT_FINITE
from tcb_bench.models.hf_engine import Engine
from tcb_bench.responses import Failure, Plain
from tcb_bench.selection import stable_hash

ROWS = 16  # copies of the last token that go through the model together


@dataclass(frozen=True, slots=True, kw_only=True)
class Probing:
    """How ‖J_l‖_F is estimated.

    Attributes:
        probes: random probes, >= 2.
        directions: leading directions that are summed exactly, >= 0.
        all_positions: perturb every position, not the last one only; costs a backward pass
            through the whole prompt per probe.
        seed: of the probes, together with the prompt.
    """

    probes: int
    directions: int
    all_positions: bool
    seed: int


@dataclass
class Stream:
    """What one forward pass leaves: (B, T, d) before the first block, after each, and (B, 1, d)."""

    states: list[Tensor] = field(default_factory=list)
    head: list[Tensor] = field(default_factory=list)

    @property
    def all(self) -> list[Tensor]:
        """Block by block, and the normed state last."""
        return [*self.states, *self.head]


def layer_norms(engine: Engine, prompt: Sequence[int], probing: Probing) -> Plain | Failure:
    """‖J_l‖_F at the input of the first block, behind each block, and at the normed state.

    J_l = d softmax(z) / d x_l, the derivative of the next-token distribution. At the normed state
    its norm is eps / delta_tcb, which is given beside it.

    Args:
        engine: of a model whose blocks hand one (B, T, d) tensor on.
        prompt: token ids, one at least.
        probing: see there.

    Returns:
        ``prompt_tokens``, ``p_top1``, ``v_eff``, ``exact`` (log10 ‖J‖_F at the normed state, closed
        form), ``log10_x_norm`` (L + 2), and by series ``log10_norm``, ``error`` (standard error in
        log10), ``low``, ``high``, each (L + 2), None where J is 0. Series: ``last`` perturbs
        the last position, ``all`` every one, ``all_relative`` every one in proportion to its norm,
        (sum_t ‖J_lt‖² ‖x_lt‖²)^(1/2).

    Raises:
        ModelError: the blocks cannot be found, or do not work as said.
    """
    blocks = find_blocks(engine.model)
    states, _ = engine.last_states([prompt])
    if not states.isfinite().all():
        return NOT_FINITE
    stability = engine.stability(states)
    logits = engine.head.logits(states)[0]
    directions = leading_directions(logits, engine.head, probing.directions)
    seed = stable_hash(probing.seed, *prompt)
    cotangents, log_rho = softmax_cotangents(
        logits, output_probes(directions, probing.probes, seed)
    )
    with frozen(engine.model), torch.enable_grad():
        pulled, lengths = _pull_back(engine, blocks, prompt, cotangents, probing.all_positions)
    if not np.isfinite(pulled).all():
        return NOT_FINITE
    series = ("last", "all", "all_relative")[: pulled.shape[1]]
    return Plain(
        {
            "prompt_tokens": len(prompt),
            "p_top1": float(stability.p_top1),
            "v_eff": float(stability.v_eff),
            "exact": -float(stability.log10_delta_tcb),
            "log10_x_norm": np.log10(lengths).tolist(),
            **{
                name: _summary(pulled[:, i], len(directions), log_rho / LN10)
                for i, name in enumerate(series)
            },
        }
    )


def find_blocks(model: Any) -> nn.ModuleList:
    """The list of the decoder's blocks: the outermost with as many as the config has layers.

    Raises:
        ModelError: there is none.
    """
    n_layers = getattr(model.config.get_text_config(), "num_hidden_layers", None)
    lists = [(name, m) for name, m in model.named_modules() if isinstance(m, nn.ModuleList)]
    fitting = [(name.count("."), m) for name, m in lists if len(m) == n_layers]
    if not fitting:
        there = ", ".join(f"{name} ({len(m)})" for name, m in lists[:4]) or "none"
        raise ModelError(
            f"{type(model).__name__}: expected a ModuleList of {n_layers} blocks, as "
            f"num_hidden_layers says; lists there: {there}; its layers cannot be probed"
        )
    return min(fitting, key=lambda found: found[0])[1]


@contextmanager
def frozen(model: nn.Module) -> Iterator[None]:
    """No weight asks for a gradient meanwhile: only states do, and no more is kept for them."""
    asking = [p for p in model.parameters() if p.requires_grad]
    for parameter in asking:
        parameter.requires_grad_(False)
    try:
        yield
    finally:
        for parameter in asking:
            parameter.requires_grad_(True)


@contextmanager
def watched(blocks: nn.ModuleList, head: nn.Module) -> Iterator[Stream]:
    """Within it, a forward pass leaves its states with their graph, which begins at block 1."""
    stream = Stream()

    def begin(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        given = args[0] if args else kwargs["hidden_states"]
        leaf = given.detach().requires_grad_()
        stream.states.append(leaf)
        return ((leaf, *args[1:]), kwargs) if args else (args, {**kwargs, "hidden_states": leaf})

    def after(_: nn.Module, args: Any, output: Any) -> None:
        stream.states.append(output if isinstance(output, Tensor) else output[0])

    def last(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        name = None if args else next(iter(kwargs))
        state = (kwargs[name] if name else args[0])[:, -1:]
        stream.head.append(state)
        return (args, {**kwargs, name: state}) if name else ((state, *args[1:]), kwargs)

    with ExitStack() as stack:
        stack.callback(blocks[0].register_forward_pre_hook(begin, with_kwargs=True).remove)
        for block in blocks:
            stack.callback(block.register_forward_hook(after).remove)
        stack.callback(head.register_forward_pre_hook(last, with_kwargs=True).remove)
        yield stream


def _pull_back(
    engine: Engine,
    blocks: nn.ModuleList,
    prompt: Sequence[int],
    cotangents: Tensor,
    all_positions: bool,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """(R, S, L + 2) squared norms of R pulled-back cotangents in S series, and (L + 2) lengths.

    Where only the last position is perturbed, all before it are constants: their keys and values
    are computed once, and copies of the last token take one cotangent each. A model that keeps
    anything else goes through the whole prompt.
    """
    shared: dict[str, Any] = {}
    if not all_positions:
        with engine.session():
            shared = engine.shared_cache([prompt] * ROWS)
    parts: list[NDArray[np.float64]] = []
    stream, logits = Stream(), torch.empty(0)
    for start in range(0, len(cotangents), ROWS if shared else 1):
        if shared or not start:
            copies = ROWS if shared else 1
            stream, logits = _forward(engine, blocks, [prompt] * copies, copy.deepcopy(shared))
        some = cotangents[start : start + len(logits)]
        grads = torch.autograd.grad(
            logits, stream.all, _padded(some, logits), retain_graph=not shared
        )
        sums = [_sums(g, x, all_positions) for g, x in zip(grads, stream.all, strict=True)]
        parts.append(np.stack(sums, axis=-1)[: len(some)])
    lengths = [float(x[0, -1].detach().double().norm()) for x in stream.all]
    return np.concatenate(parts), np.array(lengths)


def _forward(
    engine: Engine, blocks: nn.ModuleList, prompts: Sequence[Sequence[int]], shared: dict[str, Any]
) -> tuple[Stream, Tensor]:
    """States with their graph, and the (B, V) logits behind the last token."""
    inputs: dict[str, Any] = dict(engine.inputs(prompts))
    if "position_ids" in engine.accepts:
        inputs["position_ids"] = torch.arange(len(prompts[0]), device=engine.device)[None]
    if shared:
        inputs = {k: v if k == "attention_mask" else v[:, -1:] for k, v in inputs.items()}
    wanted = {"logits_to_keep": 1, "use_cache": bool(shared), "return_dict": True}
    inputs |= {name: value for name, value in wanted.items() if name in engine.accepts}
    autocast = torch.autocast(
        engine.device.type, engine.autocast, enabled=engine.autocast is not None
    )
    with autocast, watched(blocks, engine.point) as stream:
        logits: Tensor = engine.model(**inputs, **shared).logits[:, -1]
    shapes = {tuple(x.shape[:2]) for x in stream.states}
    if len(stream.states) != len(blocks) + 1 or len(shapes) != 1 or len(stream.head) != 1:
        raise ModelError(
            f"{type(engine.model).__name__}: expected {len(blocks)} blocks in a row that hand one "
            f"(B, T, d) state on; got {len(stream.states) - 1} of shapes {sorted(shapes)}; its "
            "layers cannot be probed"
        )
    return stream, logits


def _padded(cotangents: Tensor, logits: Tensor) -> Tensor:
    """Cotangents in the shape and dtype of the logits; padded rows and tokens get none."""
    full = torch.zeros_like(logits)
    full[: len(cotangents), : cotangents.shape[1]] = cotangents.to(full)
    return full


def _sums(grad: Tensor, state: Tensor, all_positions: bool) -> NDArray[np.float64]:
    """(B, S) of one layer: at the last position; at all; at all, times the squared length there."""
    squares = grad.float().square().sum(-1).double()
    sums = [squares[:, -1]]
    if all_positions:
        lengths = state.detach().float().square().sum(-1).double()
        sums += [squares.sum(1), (squares * lengths).sum(1)]
    return torch.stack(sums, 1).cpu().numpy()


def _summary(pulled: NDArray[np.float64], n_exact: int, log10_rho: float) -> dict[str, Any]:
    """log10 of the norms with their errors, per layer; None where a square is 0."""
    squared = squared_norm(pulled, n_exact)

    def log(squares: NDArray[np.float64]) -> list[float | None]:
        return [float(log10_rho + np.log10(s) / 2) if s > 0 else None for s in squares]

    with np.errstate(invalid="ignore", divide="ignore"):
        error = squared.stderr / (2 * LN10 * squared.value)
    return {
        "log10_norm": log(squared.value),
        "error": [float(e) if np.isfinite(e) else None for e in error],
        "low": log(squared.low),
        "high": log(squared.high),
    }
