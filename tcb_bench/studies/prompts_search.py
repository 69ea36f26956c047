"""The search: three guides, one budget, and a trace of every candidate."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import Any

from tcb_bench.selection import stable_hash
from tcb_bench.studies.prompts_ask import Measures
from tcb_bench.studies.prompts_space import MAX_DRAWS, Prompt, Space

GUIDES = ("delta", "ppl", "random")
NEVER = float("-inf")  # an objective without a value is never chosen over one with

Evaluate = Callable[[Prompt], tuple["Scores", float]]
"""What a candidate's scores are, and the guide's objective for them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scores:
    """A candidate on the questions that choose: accuracy, median log10 delta_tcb, mean nll."""

    acc: float | None
    log10_delta: float | None
    nll: float | None
    n: int
    n_delta: int
    n_nll: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One candidate of a guide; step 0 is the baseline, which costs no budget."""

    guide: str
    step: int
    move: str
    prompt: Prompt
    scores: Scores
    objective: float
    is_accepted: bool

    def record(self, chosen: Prompt, code: str) -> dict[str, Any]:
        """As JSON types; ``is_choice`` marks what the guide chose in the end."""
        return {
            "guide": self.guide,
            "step": self.step,
            "move": self.move,
            "key": self.prompt.key,
            "prompt": code,
            **self.prompt.fields,
            **{name: getattr(self.scores, name) for name in Scores.__dataclass_fields__},
            "objective": None if self.objective == NEVER else self.objective,
            "is_accepted": self.is_accepted,
            "is_choice": self.is_accepted and self.prompt == chosen,
        }


def scores_of(measures: Measures) -> Scores:
    """The scores of one candidate; what has no value is left out and counted."""
    accs = [m.acc for m in measures.values() if m.acc is not None]
    deltas = [m.log10_delta for m in measures.values() if m.log10_delta is not None]
    nlls = [m.nll for m in measures.values() if m.nll is not None]
    return Scores(
        acc=fmean(accs) if accs else None,
        log10_delta=median(deltas) if deltas else None,
        nll=fmean(nlls) if nlls else None,
        n=len(accs),
        n_delta=len(deltas),
        n_nll=len(nlls),
    )


def objective(guide: str, scores: Scores, delta_weight: float) -> float:
    """What a guide maximises.

    delta: acc + delta_weight * median log10 delta_tcb;  ppl: - mean nll;  random: acc

    Returns:
        -inf where a part of it has no value.
    """
    if guide == "ppl":
        return NEVER if scores.nll is None else -scores.nll
    if scores.acc is None or (guide == "delta" and scores.log10_delta is None):
        return NEVER
    return scores.acc + (delta_weight * (scores.log10_delta or 0.0) if guide == "delta" else 0.0)


def search(
    guide: str,
    start: Prompt,
    space: Space,
    evaluate: Evaluate,
    *,
    budget: int,
    seed: int,
) -> list[Step]:
    """Evaluates ``budget`` candidates, each new to this guide, beside the baseline.

    ``delta`` and ``ppl`` climb: a move, drawn evenly among those possible and then among where it
    leads, from the best prompt so far, taken where the objective rises. Both draw from the same
    random numbers, so that they part only where they judge differently. ``random`` draws each
    candidate from the whole space.

    Returns:
        The baseline's step and one per candidate, fewer where the space has no more; the last
        accepted one is the choice.
    """
    rng = random.Random(stable_hash(seed, "random" if guide == "random" else "climb"))
    steps: list[Step] = []

    def take(move: str, prompt: Prompt) -> None:
        scores, value = evaluate(prompt)
        best = max((step.objective for step in steps if step.is_accepted), default=None)
        steps.append(
            Step(
                guide=guide,
                step=len(steps),
                move=move,
                prompt=prompt,
                scores=scores,
                objective=value,
                is_accepted=best is None or value > best,
            )
        )

    take("baseline", start)
    while len(steps) <= budget:
        proposal = _proposal(guide, chosen(steps), space, {s.prompt for s in steps}, rng)
        if proposal is None:
            break
        take(*proposal)
    return steps


def chosen(steps: Sequence[Step]) -> Prompt:
    """The best prompt so far: the one accepted last."""
    return [step for step in steps if step.is_accepted][-1].prompt


def _proposal(
    guide: str, now: Prompt, space: Space, seen: set[Prompt], rng: random.Random
) -> tuple[str, Prompt] | None:
    if guide == "random":
        draws = (space.draw(rng) for _ in range(MAX_DRAWS))
        return next((("draw", prompt) for prompt in draws if prompt not in seen), None)
    moves = {
        move: [prompt for prompt in prompts if prompt not in seen]
        for move, prompts in space.moves(now).items()
    }
    possible = [move for move, prompts in moves.items() if prompts]
    if not possible:
        return None
    move = rng.choice(possible)
    return move, rng.choice(moves[move])
