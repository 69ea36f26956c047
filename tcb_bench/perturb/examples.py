"""Changes of the few-shot examples; each example is left as it is.

Source: BC C.4.3. Each function is ``change(shots, rng, tools, argument)``.
"""

from __future__ import annotations

import random
from dataclasses import replace

from tcb_bench.perturb.item import Change, Shots, reordered


def shots_reordering(
    shots: Shots, rng: random.Random, _tools: object, _argument: None = None
) -> Change[Shots]:
    """The examples in another order, never the given one where two of them differ."""
    return Change(replace(shots, chosen=tuple(reordered(shots.chosen, rng))))


def shots_replacement(
    shots: Shots, rng: random.Random, _tools: object, _argument: None = None
) -> Change[Shots]:
    """One drawn example replaced, where it stands, by a drawn one of the pool that is not shown.

    Flag ``no_candidate`` where the pool has no other example or none is shown; then nothing
    changes. BC asks for a "slightly less similar or slightly lower-quality" example; how good the
    pool is, is the caller's to say.
    """
    candidates = [example for example in shots.pool if example not in shots.chosen]
    if not candidates or not shots.chosen:
        return Change(shots, ("no_candidate",), {"replaced": 0})
    at, new = rng.randrange(len(shots.chosen)), rng.choice(candidates)
    chosen = (*shots.chosen[:at], new, *shots.chosen[at + 1 :])
    return Change(replace(shots, chosen=chosen), (), {"replaced": 1})
