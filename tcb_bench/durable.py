"""A language model wrapped round another: asks the store first, sends the rest, keeps each answer.

``DurableLM`` drives a real engine during a run; ``ReplayLM`` answers from the store alone, which is
how ``score`` works without a model. Both speak lm-eval's protocol: ``evaluate`` sees no difference.
"""

from __future__ import annotations

import abc
import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from lm_eval.api.instance import Instance
from lm_eval.api.model import LM

from tcb_bench.data import ID_COLUMN
from tcb_bench.errors import StoreError
from tcb_bench.responses import Failure, Generation, Plain, Response
from tcb_bench.selection import stable_hash
from tcb_bench.store import Store

OUR_KINDS = ("next_token", "generate_traced")
NOT_ANSWERED = "not answered yet; the same tcb-bench run command continues where it stopped"
Report = Callable[..., None]
"""Called with (answered, total) whenever the number of answers grows; ``tokens=`` is how many this
process has generated for them, where texts are."""


@dataclass(frozen=True, slots=True)
class Ask:
    """One request of the plan: where it belongs, and its identity with the key made from it."""

    sample: tuple[str, str, int, int]  # task, document, idx, repeat
    identity: dict[str, Any]
    arguments: tuple[Any, ...]

    @property
    def key(self) -> str:
        """sha256 of the identity: requests that differ in anything have different keys."""
        text = json.dumps(self.identity, sort_keys=True, ensure_ascii=False)
        return hashlib.sha256(text.encode()).hexdigest()

    @property
    def is_sampled(self) -> bool:
        """Whether the answer depends on a seed (temperature above 0)."""
        return bool(_parameters(self.arguments).get("temperature", 0.0))


class Keep:
    """Takes (index, response) of each request as soon as that is there; durable on return."""

    def __init__(self, many: Callable[[Sequence[tuple[int, Response]]], None]) -> None:
        """``many`` keeps several at once, which costs one sync of the disk."""
        self.many = many

    def __call__(self, index: int, response: Response) -> None:
        """Keeps one."""
        self.many([(index, response)])


Send = Callable[[Sequence[Ask], Keep], None]
"""Asks an engine for all of these."""


def _parameters(arguments: tuple[Any, ...]) -> dict[str, Any]:
    return arguments[1] if len(arguments) > 1 and isinstance(arguments[1], dict) else {}


def request(kind: str, doc: dict[str, Any], arguments: tuple[Any, ...], task: str) -> Instance:
    """A request outside lm-eval's evaluate, for ``DurableLM``'s methods."""
    return Instance(kind, doc, arguments, 0, (task, 0, 1))


class _ByKind(LM):  # type: ignore[misc]
    """lm-eval's request methods, all leading to ``_ask``."""

    def next_token(self, requests: list[Instance]) -> list[Response]:
        """Stability after the last prompt token."""
        return self._ask("next_token", requests)

    def generate_traced(self, requests: list[Instance]) -> list[Response]:
        """Texts with stability at the tokens asked for."""
        return self._ask("generate_traced", requests)

    def loglikelihood(self, requests: list[Instance]) -> list[Any]:
        """lm-eval's own request type, kept like all others."""
        return self._plain("loglikelihood", requests)

    def loglikelihood_rolling(self, requests: list[Instance]) -> list[Any]:
        """lm-eval's own request type, kept like all others."""
        return self._plain("loglikelihood_rolling", requests)

    def generate_until(self, requests: list[Instance]) -> list[Any]:
        """lm-eval's own request type, kept like all others."""
        return self._plain("generate_until", requests)

    def _plain(self, kind: str, requests: list[Instance]) -> list[Any]:
        answers = self._ask(kind, requests)
        lost = [answer.reason for answer in answers if isinstance(answer, Failure)]
        if lost:  # lm-eval's own tasks cannot score a partial run
            raise StoreError(
                f"{len(lost)} of {len(answers)} {kind} requests have no answer: {lost[0]}"
            )
        return [tuple(a.value) if isinstance(a.value, list) else a.value for a in answers]

    @abc.abstractmethod
    def _ask(self, kind: str, requests: list[Instance]) -> list[Any]:
        """One response per request, in order; ``kind`` is the name of the method called."""


class DurableLM(_ByKind):
    """The engine ``inner`` behind a store: only what it lacks is sent, each answer kept at once."""

    def __init__(
        self, inner: Any, store: Store, manifest: int, seed: int, report: Report | None = None
    ) -> None:
        """``seed`` is the run's; a request's own is a hash of it, the task, document and repeat."""
        super().__init__()
        self.inner, self.store, self.manifest, self.seed = inner, store, manifest, seed
        self.report = report or (lambda done, total, tokens=0, note="": None)
        self.asked = 0  # sent to the engine by this process
        self.reused = 0  # found in the store
        self.tokens = 0  # generated for what was asked
        if hasattr(inner, "begin"):
            inner.begin(store.spent)

    @property
    def tokenizer_name(self) -> str:
        """The inner model's, for lm-eval."""
        return str(self.inner.tokenizer_name)

    def apply_chat_template(
        self, chat_history: list[dict[str, str]], add_generation_prompt: bool = True
    ) -> str:
        """The inner model's chat template."""
        return str(
            self.inner.apply_chat_template(
                chat_history, add_generation_prompt=add_generation_prompt
            )
        )

    def _ask(self, kind: str, requests: list[Instance]) -> list[Response]:
        asks = [self._ask_of(kind, request, repeat) for request, repeat in numbered(requests)]
        return self.answered(asks, lambda missing, keep: self._forward(kind, missing, keep))

    def answered(self, asks: Sequence[Ask], send: Send) -> list[Response]:
        """The answer to each of ``asks``: the stored one, or what ``send`` gets for it now.

        Args:
            asks: in any order; those that share a key are asked once.
            send: called once with all that lack an answer, and with the function that keeps one.
        """
        keys = [ask.key for ask in asks]
        self.store.plan(
            self.manifest, [(*ask.sample, key) for ask, key in zip(asks, keys, strict=True)]
        )
        is_final = not getattr(self.inner, "retries_errors", True)
        known = self.store.answered(keys, is_final=is_final)
        missing = {key: ask for key, ask in zip(keys, asks, strict=True) if key not in known}
        self.reused += len(set(keys)) - len(missing)
        copies = {key: self._first(ask) for key, ask in missing.items() if self._is_copy(ask)}
        self._send(
            send, {key: ask for key, ask in missing.items() if key not in copies}, len(set(keys))
        )
        for key, first in copies.items():
            self._copy(key, missing[key], first)
        return [self.store.get(key) or Failure(NOT_ANSWERED) for key in keys]

    def _ask_of(self, kind: str, request: Instance, repeat: int) -> Ask:
        document = str(request.doc[ID_COLUMN]) if ID_COLUMN in request.doc else str(request.doc_id)
        sample = (str(request.task_name), document, int(request.idx), repeat)
        arguments = tuple(request.arguments)
        if kind == "generate_traced":
            is_sampled = _parameters(arguments).get("temperature", 0.0) > 0
            seed = stable_hash(self.seed, *sample) if is_sampled else None
            arguments = (arguments[0], {**arguments[1], "seed": seed})
        own_seed = {} if kind in OUR_KINDS else {"seed": self.seed}  # ours carry their own
        identity = {
            **own_seed,
            "engine": self.inner.identity,
            "request": kind,
            "arguments": _as_json(arguments),
            "repeat": repeat,
        }
        return Ask(sample, identity, arguments)

    def _is_copy(self, ask: Ask) -> bool:
        is_greedy = ask.identity["request"] in OUR_KINDS and not ask.is_sampled
        return is_greedy and ask.identity["repeat"] > 0 and bool(self.inner.reuses_at_zero)

    def _first(self, ask: Ask) -> Ask:
        return replace(ask, identity={**ask.identity, "repeat": 0})

    def _copy(self, key: str, ask: Ask, first: Ask) -> None:
        """A greedy repeat of a local engine is the first one's text; its row says so."""
        answer = self.store.get(first.key)
        if answer is not None:
            self.store.put(key, ask.identity, answer, reused_from=first.key)

    def _send(self, send: Send, missing: dict[str, Ask], total: int) -> None:
        order = list(missing.items())
        done = total - len(order)
        self.report(done, total)
        if not order:
            return

        def keep(pairs: Sequence[tuple[int, Response]]) -> None:
            nonlocal done
            kept = [(order[i][0], order[i][1].identity, response, None) for i, response in pairs]
            self.store.put_all(kept, getattr(self.inner, "spent", None))
            self.asked += len(pairs)
            done += len(pairs)
            self.tokens += sum(_tokens(response) for _, response in pairs)
            has_note = hasattr(self.inner, "note")
            more = {"note": self.inner.note(total - done)} if has_note else {}
            self.report(done, total, tokens=self.tokens, **more)

        send([ask for _, ask in order], Keep(keep))

    def _forward(self, kind: str, asks: Sequence[Ask], keep: Keep) -> None:
        instances = [
            Instance(kind, {"key": ask.key}, ask.arguments, 0, (ask.sample[0], 0, 1))
            for ask in asks
        ]
        if kind in OUR_KINDS:
            getattr(self.inner, kind)(instances, on_response=keep)
        else:
            _send_plain(self.inner, kind, instances, keep)


def _send_plain(inner: Any, kind: str, instances: list[Instance], keep: Keep) -> None:
    """lm-eval's own methods report through their cache hook; what is left comes at the end."""
    waiting: dict[str, list[int]] = defaultdict(list)
    for index, instance in enumerate(instances):
        waiting[_plain_key(instance.args)].append(index)

    class Hook:
        def add_partial(self, _kind: str, arguments: Any, value: Any) -> None:
            indices = waiting.get(_plain_key(arguments))
            if indices:
                keep(indices.pop(0), Plain(value))

    hook, inner.cache_hook = inner.cache_hook, Hook()
    try:
        values = getattr(inner, kind)(instances)
    finally:
        inner.cache_hook = hook
    left = sorted(index for indices in waiting.values() for index in indices)
    for index in left:
        keep(index, Plain(values[index]))


def _as_json(value: Any) -> Any:
    """Lists for tuples, as JSON gives them; texts are shared, so a plan holds each prompt once."""
    if isinstance(value, list | tuple):
        return [_as_json(item) for item in value]
    if isinstance(value, dict):
        return {str(name): _as_json(item) for name, item in value.items()}
    return value


def _tokens(response: Response) -> int:
    """Tokens generated for a response, as far as it says."""
    return (response.completion_tokens or 0) if isinstance(response, Generation) else 0


def _plain_key(arguments: Any) -> str:
    return json.dumps(list(arguments), sort_keys=True, ensure_ascii=False, default=str)


def numbered(requests: Sequence[Instance]) -> list[tuple[Instance, int]]:
    """Each request with its repeat: lm-eval hands one Instance over K times for K repeats."""
    seen: Counter[int] = Counter()
    found = []
    for request in requests:
        found.append((request, seen[id(request)]))
        seen[id(request)] += 1
    return found


class ReplayLM(_ByKind):
    """Answers from the store by the manifest's plan; no model, no tokenizer, no prompt needed."""

    def __init__(self, store: Store, manifest: int) -> None:
        """``manifest`` is the number of the invocation whose answers are wanted."""
        super().__init__()
        self.store = store
        self._keys = store.keys(manifest)

    def _ask(self, kind: str, requests: list[Instance]) -> list[Response]:
        return [self._answer(request, repeat) for request, repeat in numbered(requests)]

    def _answer(self, request: Instance, repeat: int) -> Response:
        document = str(request.doc[ID_COLUMN]) if ID_COLUMN in request.doc else str(request.doc_id)
        key = self._keys.get((str(request.task_name), document, int(request.idx), repeat))
        return (self.store.get(key) if key else None) or Failure(NOT_ANSWERED)
