"""The examples before a question: a pool without the question itself, drawn by its document."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tcb_bench.data import ID_COLUMN
from tcb_bench.errors import UsageError
from tcb_bench.rag import can_show
from tcb_bench.selection import stable_hash

Shot = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShotPool:
    """What a task may show.

    Attributes:
        name: the task's, for messages and the seed.
        seed: of the run.
        wanted: how many each prompt shows.
        shots: the whole pool.
        drawer: lm-eval's sampler of the task.
    """

    name: str
    seed: int
    wanted: int
    shots: Sequence[Shot]
    drawer: Any

    def of(self, doc: Mapping[str, Any]) -> tuple[list[Shot], list[Shot]]:
        """The examples of a document, seeded by (seed, task, document), and what they are from.

        A shot that equals the document in all columns but its id is left out, whichever its split.

        Raises:
            UsageError: fewer than wanted are left.
        """
        pool = [shot for shot in self.shots if not _is_same(shot, doc)]
        if self.wanted > len(pool):
            others = _too_few(self.name, self.wanted, len(pool))
            raise UsageError(f"{others} beside the document {doc[ID_COLUMN]} itself")
        self.drawer.replace_df(pool)
        self.drawer.set_rnd(stable_hash(self.seed, self.name, doc[ID_COLUMN]))
        return self.drawer.sample(self.wanted), pool


def shot_pool(task: Any, axes: Collection[str]) -> ShotPool:
    """The pool of a task that was just built, with as many shots as it asks for.

    Raises:
        UsageError: a number that cannot be had, or a sweep of examples without any.
    """
    name, wanted = task.base_name, task.config.num_fewshot or 0
    if wanted < 0:
        raise UsageError(f"{name}: num_fewshot {wanted}; give 0 or more")
    everything = list(task.sampler.df) if wanted else []
    shots = [shot for shot in everything if can_show(shot, task.spec.columns)]
    if wanted > len(shots):
        raise UsageError(_too_few(name, wanted, len(shots)))
    if "shots" in axes and not wanted:
        raise UsageError(f"{name}: sweep.shots needs examples; give num_fewshot")
    return ShotPool(
        name=name, seed=task.options.seed, wanted=wanted, shots=shots, drawer=task.sampler
    )


def _too_few(name: str, wanted: int, pool: int) -> str:
    return f"{name}: {wanted} shots asked for (num_fewshot), the pool has {pool}"


def _is_same(shot: Mapping[str, Any], doc: Mapping[str, Any]) -> bool:
    """Whether a shot is the document itself, or equals it in every column that both have."""
    both = (shot.keys() & doc.keys()) - {ID_COLUMN}
    return bool(both) and all(shot[key] == doc[key] for key in both)
