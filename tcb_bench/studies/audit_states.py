"""The state side of the audit: hidden states moved by multiples of delta_tcb, and what follows."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from tcb_bench.metrics.delta_tcb import token_stability
from tcb_bench.metrics.delta_tcb_head import Head
from tcb_bench.metrics.perturbed_states import moved, random_directions
from tcb_bench.metrics.spectral import spectral_norm
from tcb_bench.responses import Failure, Generation
from tcb_bench.selection import draw, stable_hash
from tcb_bench.studies.session import Answer, Session

VERSION = "moved states/1"
KEPT = (
    *("log10_delta_tcb", "flip_radius", "v_eff", "logit_margin", "p_top1", "h_norm"),
    *("top1_token", "flip_token"),
)
MAX_LOG10 = 150.0  # its square is a float64 too
PER_STATE = ("multiples", "directions", "flip_slack", "tolerance", "max_iterations")
"""Settings that the values of one state depend on."""


def context_of(answer: Answer, session: Session) -> str | list[int] | None:
    """What stands before the measured prediction: the prompt, or it and a text up to its answer."""
    if not isinstance(answer.response, Generation):
        return None if isinstance(answer.response, Failure) else answer.prompt
    token = answer.row.get("stability", {}).get("critical_token")
    if token is None:
        return None
    prompt = session.model.token_ids([answer.prompt])[0]
    return [*prompt, *answer.response.tokens[:token]]


def state_rows(session: Session, answers: Sequence[Answer]) -> list[dict[str, Any]]:
    """One row per drawn answer with a prediction to measure; ``reason`` where it has no values."""
    found = [(a, context_of(a, session)) for a in answers]
    there = [(a, context) for a, context in found if context is not None]
    chosen = draw([a.id for a, _ in there], session.settings["states"], session.seed)
    rows = []
    for i in chosen:  # one by one: directions are drawn for the state's id
        answer, context = there[i]
        parameters = {name: session.settings[name] for name in PER_STATE}
        parameters["seed"] = stable_hash(session.seed, "audit", answer.id)
        [value] = session.states(
            f"{VERSION}|{answer.id}",
            [context],
            _measure(session.model.head, parameters),
            **parameters,
        )
        value = {"reason": value.reason} if isinstance(value, Failure) else value
        rows.append({"id": answer.id, "part": "state", **value})
        session.say(f"states moved: {len(rows)} of {len(chosen)}") if len(rows) % 20 == 0 else None
    return rows


def _measure(
    head: Head, settings: Mapping[str, Any]
) -> Callable[[Tensor], Sequence[dict[str, Any]]]:
    return lambda states: [measure(h[None], head, settings) for h in states]


def measure(h: Tensor, head: Head, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Everything about one state (1, d): its radii, and what moves by multiples of delta do.

    Args:
        h: the state.
        head: the output head.
        settings: ``multiples`` of delta (eps = 1), ``directions``, ``flip_slack``, ``tolerance``,
            ``max_iterations``, ``seed``.

    Returns:
        the quantities in ``KEPT``; ``spectral`` (the worst direction's delta, and how it was
        found); ``random``, ``worst`` and ``nearest``: change of o and share of moves that flip the
        top-1 per multiple, and ``slope``, ‖J u‖ (of random ones the root mean square);
        ``flips_at``: whether moves just inside and outside the flip radius flip. Or ``reason``.
    """
    stability = token_stability(h, head)
    kept = {name: getattr(stability, name)[0].item() for name in KEPT}
    delta10, radius = kept["log10_delta_tcb"], kept["flip_radius"]
    if not abs(delta10) <= MAX_LOG10 or not math.isfinite(radius):
        return {"reason": f"no finite radius (log10 delta {delta10:.4g}, flip {radius:.4g})"}
    norm = spectral_norm(
        h,
        head,
        tolerance=settings["tolerance"],
        max_iterations=settings["max_iterations"],
        seed=settings["seed"] % 2**32,
    )
    is_sound = bool(norm.converged[0])
    ids = torch.tensor([kept["flip_token"], kept["top1_token"]], device=h.device)
    towards = head.gather(ids - head.first_id)
    towards = (towards[0] - towards[1]) / torch.linalg.vector_norm(towards[0] - towards[1])
    drawn = random_directions(1, settings["directions"], h.shape[1], settings["seed"])[0]
    directions = torch.cat([drawn.to(towards), norm.direction, -norm.direction, towards[None]])
    lengths = 10**delta10 * torch.tensor([settings["multiples"]], dtype=torch.float64)
    slack = 1 + settings["flip_slack"] * torch.tensor([[-1.0, 1.0]], dtype=torch.float64)
    found = moved(h, head, directions[None], lengths)
    change, flipped = found.change[0], found.flipped[0].double()
    slope, n = found.slope[0], len(drawn)
    at_radius = moved(h, head, towards[None, None], radius * slack)
    return {
        **kept,
        "spectral": {
            "log10_delta": -float(norm.log10_norm[0]) if is_sound else None,
            "residual": float(norm.residual[0]),
            "iterations": int(norm.iterations[0]),
            "converged": is_sound,
        },
        "random": {
            "change": change[:n].square().mean(0).sqrt().tolist(),
            "flipped": flipped[:n].mean(0).tolist(),
            "slope": float(slope[:n].square().mean().sqrt()),
        },
        "worst": {
            "change": change[n : n + 2].amax(0).tolist(),
            "flipped": flipped[n : n + 2].amax(0).tolist(),
            "slope": float(slope[n]),
        },
        "nearest": {
            "change": change[-1].tolist(),
            "flipped": flipped[-1].tolist(),
            "slope": float(slope[-1]),
        },
        "flips_at": at_radius.flipped[0, 0].tolist(),
        "width": h.shape[1],
    }
