"""The model of a dry run: it looks each request up and counts it, and sends nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tcb_bench.dry_run_counts import (
    PREDICTION_TOKENS,
    REASONING_TOKENS,
    TEXT_TOKENS,
    TaskCount,
)
from tcb_bench.durable import DurableLM, numbered, request
from tcb_bench.models.chat_lm_eval import ours
from tcb_bench.models.chat_request import as_messages
from tcb_bench.responses import Failure, Response
from tcb_bench.store import Store

PLAIN: dict[str, Any] = {
    "loglikelihood": (0.0, False),
    "loglikelihood_rolling": 0.0,
    "generate_until": "",
}
"""Answers that lm-eval's own tasks can go on with."""

DEFAULT_LENGTH = 256  # of lm-eval's own texts, where nothing is said


@dataclass(frozen=True, slots=True)
class Left:
    """A request that has no answer yet: the row it counts for, and what is asked."""

    row: TaskCount
    task: str
    arguments: tuple[Any, ...]


Count = Callable[[str, Sequence[Left]], None]
"""Adds what requests of a kind cost to their rows."""


class CountingLM(DurableLM):
    """Looks up every request of a run and has those counted that are left."""

    def __init__(
        self, inner: Any, store: Store, seed: int, rows: Mapping[str, TaskCount], count: Count
    ) -> None:
        """Starts with nothing counted.

        Args:
            inner: has the ``identity`` that the run's model will have, and its chat template.
            store: what is there already; it is only read.
            seed: the run's.
            rows: task (with its condition) -> its row.
            count: called once per kind of request.
        """
        super().__init__(inner, store, 0, seed)
        self.rows, self.count = rows, count

    def _ask(self, kind: str, requests: list[Any]) -> list[Response]:
        asked, keys = [], []
        for each, repeat in numbered(requests):
            ask = self._ask_of(kind, each, repeat)
            keys.append(ask.key)
            left = Left(self.rows[ask.sample[0]], ask.sample[0], ask.arguments)
            asked.append((left, self._is_copy(ask)))  # without its identity, which holds the prompt
        is_final = not getattr(self.inner, "retries_errors", True)
        known, seen = self.store.answered(keys, is_final=is_final), set()
        missing = []
        for key, (left, is_copy) in zip(keys, asked, strict=True):
            left.row.responses += 1
            if key in known:
                left.row.stored += 1
            elif is_copy or key in seen:
                left.row.same += 1
            else:
                missing.append(left)
            seen.add(key)
        self.count(kind, missing)
        return [Failure("not asked: a dry run")] * len(requests)

    def _plain(self, kind: str, requests: list[Any]) -> list[Any]:
        self._ask(kind, requests)
        return [PLAIN[kind]] * len(requests)


def api_count(lm: Any) -> Count:
    """Counts what a ``ChatAPI`` would send, by the jobs that it makes of requests."""
    tokens: dict[str, int] = {}  # a sweep asks one prompt dozens of times
    thinking = min(lm.options.reasoning_tokens, REASONING_TOKENS)
    thinking = thinking if lm.capability.is_reasoning else 0

    def prompt_tokens(context: str) -> int:
        if context not in tokens:
            messages = as_messages(context, lm.capability.system_role)
            tokens[context] = lm.counter.count(messages)
        return tokens[context]

    def count(kind: str, left: Sequence[Left]) -> None:
        def done(index: int, response: Response) -> None:
            left[index].row.unsupported += 1

        is_prediction = kind == "next_token"
        jobs_of = lm.jobs.predictions if is_prediction else lm.jobs.texts
        answer = PREDICTION_TOKENS if is_prediction else TEXT_TOKENS
        for job in jobs_of(list(_as_requests(kind, left)), done):
            first = left[job.members[0]]
            prompt, most = prompt_tokens(first.arguments[0]), job.completion_bound
            first.row.add(
                prompt, choices=len(job.members), most=most, assumed=min(most, answer + thinking)
            )
            limit = lm.capability.context
            first.row.too_long += len(job.members) * (limit is not None and prompt + most > limit)

    return count


def _as_requests(kind: str, left: Sequence[Left]) -> Iterator[Any]:
    """Requests of our kinds; lm-eval's own texts are asked as they are."""
    for each in left:
        arguments = each.arguments
        if kind == "generate_until":
            arguments = (arguments[0], ours(arguments[1]))
        yield request(kind, {}, arguments, each.task)


def local_count(reader: Any) -> Count:
    """Counts what an engine would read and write, by the tokenizer of ``WithoutWeights``."""

    def count(kind: str, left: Sequence[Left]) -> None:
        lengths = reader.prompt_lengths(kind, list(_local_requests(kind, left)))
        is_text = kind.startswith("generate")
        answer = TEXT_TOKENS if is_text else PREDICTION_TOKENS
        for each, length in zip(left, lengths, strict=True):
            room = reader.max_length - length
            most = min(_most(kind, each.arguments), room)
            if room < is_text:  # a prediction needs no room behind its prompt
                each.row.too_long += 1
            else:
                each.row.add(length, choices=1, most=most, assumed=min(most, answer))

    return count


def _local_requests(kind: str, left: Sequence[Left]) -> Iterator[Any]:
    return (request(kind, {}, each.arguments, each.task) for each in left)


def _most(kind: str, arguments: tuple[Any, ...]) -> int:
    """Tokens that a completion may have."""
    if kind in ("loglikelihood", "loglikelihood_rolling"):
        return 0  # a given text is read, none is written
    if kind == "next_token":
        return PREDICTION_TOKENS
    kwargs = ours(arguments[1]) if kind == "generate_until" else arguments[1]
    return int(kwargs.get("max_gen_toks", DEFAULT_LENGTH))
