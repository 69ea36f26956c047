"""lm-eval's own requests to a chat API: texts are possible, log-likelihoods of given texts not."""

from __future__ import annotations

import abc
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from lm_eval.api.instance import Instance
from lm_eval.api.model import LM

from tcb_bench.errors import ModelError
from tcb_bench.models.chat_request import as_text
from tcb_bench.responses import Failure, Generation, Response
from tcb_bench.selection import stable_hash

NO_LOGLIKELIHOOD = (
    "no chat API tells the log-likelihood of a given text; choose tasks that generate, or "
    "mmlu_tcb, which asks for the likeliest tokens"
)
DEFAULTS: dict[str, Any] = {
    "temperature": 0.0,
    "top_p": 1.0,
    "top_k": 0,
    "repetition_penalty": 1.0,
    "max_gen_toks": 256,
    "until": [],
}
MAX_TOKENS_NAMES = ("max_new_tokens", "max_tokens", "max_completion_tokens")


class LmEvalChat(LM):  # type: ignore[misc]
    """lm-eval's request types in terms of ours."""

    name: str

    @abc.abstractmethod
    def generate_traced(
        self,
        requests: Sequence[Instance],
        on_response: Callable[[int, Response], None] | None = None,
    ) -> list[Response]:
        """Texts; see ``ChatAPI``."""

    def generate_until(self, requests: list[Instance], disable_tqdm: bool = False) -> list[str]:
        """Texts of lm-eval's own tasks, each handed to the cache hook as soon as it is there.

        Raises:
            ModelError: a text could not be had; those that could are kept.
        """
        asked = [
            Instance("generate_traced", r.doc, (r.args[0], ours(r.args[1], _seed(r, index))), 0)
            for index, r in enumerate(requests)
        ]
        texts: dict[int, str] = {}
        lost: list[str] = []

        def keep(index: int, response: Response) -> None:
            if isinstance(response, Generation):
                texts[index] = response.answer
                self.cache_hook.add_partial("generate_until", requests[index].args, response.answer)
            elif isinstance(response, Failure):
                lost.append(response.reason)

        self.generate_traced(asked, keep)
        if len(texts) < len(requests):
            why = lost[0] if lost else "the run was stopped"
            missing = len(requests) - len(texts)
            raise ModelError(
                f"{self.name}: {missing} of {len(requests)} texts are missing: {why}; "
                "the same command continues"
            )
        return [texts[index] for index in range(len(requests))]

    def loglikelihood(self, requests: list[Instance]) -> NoReturn:
        """Not possible.

        Raises:
            ModelError: always, with what can be asked instead.
        """
        raise ModelError(f"{self.name}: {NO_LOGLIKELIHOOD}")

    def loglikelihood_rolling(self, requests: list[Instance]) -> NoReturn:
        """Not possible.

        Raises:
            ModelError: always, with what can be asked instead.
        """
        raise ModelError(f"{self.name}: {NO_LOGLIKELIHOOD}")

    def apply_chat_template(
        self, chat_history: list[dict[str, str]], add_generation_prompt: bool = True
    ) -> str:
        """The messages as one text, read again when they are sent."""
        return as_text(chat_history)


def _seed(request: Instance, index: int) -> int:
    """Of the request's key, which holds the run's seed and the repeat; else of its place."""
    key = request.doc.get("key") if isinstance(request.doc, dict) else None
    return stable_hash("lm-eval", index if key is None else key)


def ours(kwargs: dict[str, Any], seed: int = 0) -> dict[str, Any]:
    """lm-eval's generation arguments with every parameter stated; greedy unless it samples."""
    given = {k: v for k, v in kwargs.items() if k != "do_sample"}
    for name in MAX_TOKENS_NAMES:
        if name in given:
            given["max_gen_toks"] = given.pop(name)
    if kwargs.get("do_sample") is False:
        given["temperature"] = 0.0
    elif kwargs.get("do_sample"):
        given.setdefault("temperature", 1.0)
    until = given.get("until") or []
    given["until"] = [until] if isinstance(until, str) else list(until)
    merged = {**DEFAULTS, **given}
    return merged | ({"seed": seed} if merged["temperature"] > 0 else {})
