"""Local models of the transformers library, with the stability of what they predict."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Hashable, Sequence
from typing import Any

from lm_eval.api.instance import Instance
from torch import Tensor

from tcb_bench.models.batching import Batcher
from tcb_bench.models.encoding import too_long
from tcb_bench.models.hf_answers import Job, generations, measured, next_tokens
from tcb_bench.models.hf_base import CheckedHFLM
from tcb_bench.models.hf_layers import Probing, layer_norms
from tcb_bench.models.sampling import Sampling
from tcb_bench.responses import Response

OnResponse = Callable[[int, Response], None]
"""Called with (index of the request, its response) as soon as that is there."""


class HF(CheckedHFLM):
    """A causal model of transformers: lm-eval's ``HFLM`` and the requests that measure stability.

    ``next_token`` and ``generate_traced`` see the very hidden states that the output head receives.
    lm-eval's own requests are ``HFLM``'s.
    """

    temperature_effective = "true"
    reuses_at_zero = True

    def next_token(
        self, requests: Sequence[Instance], on_response: OnResponse | None = None
    ) -> list[Response]:
        """The prediction behind each prompt, with its stability.

        Args:
            requests: ``args`` = (context, choices); choices are whole continuations (``" A"``) of
                one token each, none for the stability alone.
            on_response: called with each response as soon as its batch is done.

        Returns:
            per request a ``NextToken``, its ``choice_logprobs`` over the whole vocabulary; or a
            ``Failure`` where the prompt is too long or the model gave NaN.

        Raises:
            ModelError: choices are not one token each with this tokenizer.
        """
        prompts = self._encoder.prompts([(r.args[0], tuple(r.args[1])) for r in requests])
        return self._answer(
            [len(prompt.ids) for prompt in prompts],
            [(0, len(prompt.choices)) for prompt in prompts],
            lambda rows: next_tokens(self._engine, [prompts[i] for i in rows], self.tokenizer),
            on_response,
        )

    def generate_traced(
        self, requests: Sequence[Instance], on_response: OnResponse | None = None
    ) -> list[Response]:
        """Texts, with the stability of their critical or of all tokens.

        Args:
            requests: ``args`` = (context, gen_kwargs), the latter as in ``Sampling``.
            on_response: called with each response as soon as its batch is done.

        Returns:
            per request a ``Generation``, or a ``Failure`` where the prompt leaves no room for a new
            token or the model gave NaN. Where there is less room than ``max_gen_toks``, the text
            ends there with finish reason ``length``.

        Raises:
            UsageError: a parameter is unknown, missing or out of range.
        """
        wanted = [Sampling.from_kwargs(request.args[1]) for request in requests]
        prompts = self._encoder.encode([request.args[0] for request in requests])
        jobs = [
            Job(prompt, sampling, min(int(sampling.max_gen_toks), self.max_length - len(prompt)))
            for prompt, sampling in zip(prompts, wanted, strict=True)
        ]
        think_end = self.think_end_token
        first: dict[bytes, int] = {}  # equal prompts go together: a batch computes them once
        order = [first.setdefault(prompt.tobytes(), i) for i, prompt in enumerate(prompts)]
        rows_of = sorted(range(len(jobs)), key=order.__getitem__)
        jobs = [jobs[i] for i in rows_of]
        answers = self._answer(
            [len(job.prompt) for job in jobs],
            [(max(1, job.room), 0) for job in jobs],
            lambda rows: generations(
                self._engine, [jobs[i] for i in rows], self.tokenizer, think_end
            ),
            on_response and (lambda index, response: on_response(rows_of[index], response)),
        )
        found = dict(zip(rows_of, answers, strict=True))
        return [found[i] for i in range(len(found))]

    def measure_states(
        self,
        contexts: Sequence[str | Sequence[int]],
        measure: Callable[[Tensor], Sequence[Any]],
        on_response: OnResponse | None = None,
    ) -> list[Response]:
        """What ``measure`` makes of the state behind each context.

        Args:
            contexts: texts, or token ids as they are.
            measure: from (B, d) finite states on the head's device, as the output head receives
                them, to B values of JSON types; called once per batch.
            on_response: called with each response as soon as its batch is done.

        Returns:
            per context a ``Plain`` with its value, or a ``Failure`` where the context is too long
            or the model gave NaN.
        """
        prompts = self.token_ids(contexts)
        return self._answer(
            [len(prompt) for prompt in prompts],
            [(0, 0)] * len(prompts),
            lambda rows: measured(self._engine, [prompts[i] for i in rows], measure),
            on_response,
        )

    def measure_layers(
        self,
        contexts: Sequence[str | Sequence[int]],
        probing: Probing,
        on_response: OnResponse | None = None,
    ) -> list[Response]:
        """How strongly the prediction behind each context depends on every block's output.

        Args:
            contexts: texts, or token ids as they are.
            probing: how that is estimated.
            on_response: called with each response as soon as it is there.

        Returns:
            per context a ``Plain`` with the value of ``layer_norms``, or a ``Failure``.

        Raises:
            ModelError: the model's blocks cannot be probed.
        """
        prompts = self.token_ids(contexts)
        return self._answer(
            [len(prompt) for prompt in prompts],
            [(0, 0)] * len(prompts),
            lambda rows: [layer_norms(self._engine, prompts[i], probing) for i in rows],
            on_response,
            batcher=Batcher(max_rows=1),
        )

    def token_ids(self, contexts: Sequence[str | Sequence[int]]) -> list[array[int]]:
        """Texts as the model reads them, with its BOS; token ids as they are."""
        texts = iter(self._encoder.encode([c for c in contexts if isinstance(c, str)]))
        return [next(texts) if isinstance(c, str) else array("i", c) for c in contexts]

    def _answer(
        self,
        lengths: list[int],
        kinds: list[tuple[int, int]],
        compute: Callable[[list[int]], Sequence[Any]],
        on_response: OnResponse | None,
        batcher: Batcher | None = None,
    ) -> list[Response]:
        """Responses in the order of the requests; ``kinds`` are (new tokens, choices) of each."""
        found: dict[int, Response] = {}

        def deliver(index: int, response: Response) -> None:
            found[index] = response
            if on_response is not None:
                on_response(index, response)

        fits = [i for i, n in enumerate(lengths) if n + kinds[i][0] <= self.max_length]
        for i in sorted(set(range(len(lengths))) - set(fits)):
            deliver(i, too_long(self.name, lengths[i], self.max_length))
        pads = self._engine.pads
        keys: list[Hashable] = [(kinds[i], None if pads else lengths[i]) for i in fits]
        (batcher or self._batcher).run(
            [lengths[i] + kinds[i][0] for i in fits],
            keys,
            lambda rows: compute([fits[row] for row in rows]),
            lambda row, response: deliver(fits[row], response),
        )
        return [found[i] for i in range(len(lengths))]
