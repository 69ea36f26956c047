"""Local models by vLLM, with the stability of what they predict measured inside its workers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

from lm_eval.api.instance import Instance

from tcb_bench.errors import UsageError
from tcb_bench.models.drafts import draft, stop_rule
from tcb_bench.models.encoding import Prompt, PromptEncoder, too_long
from tcb_bench.models.hf_answers import NOT_FINITE
from tcb_bench.models.hf_setup import eos_tokens, model_sampling
from tcb_bench.models.sampling import Sampling
from tcb_bench.models.text import RowText, TextBuilder
from tcb_bench.models.vllm_engine import Engine, Job, Measured, sampling
from tcb_bench.models.vllm_identity import identity_of, info_of
from tcb_bench.models.vllm_lm_eval import LmEvalVLLM
from tcb_bench.responses import Failure, Generation, NextToken, Response

OnResponse = Callable[[int, Response], None]
Finish = Callable[[Measured], Response]
PROBE = "The capital of France is"
COLDEST = 0.01  # vLLM raises a temperature between 0 and this to it, in silence


@dataclass
class Growing:
    """A text that the engine writes: its row, and the rule for the positions to be measured."""

    prompt_tokens: int
    row: RowText
    rule: str

    @cached_property
    def draft(self) -> Generation:
        """The finished text without its stability."""
        return draft(self.prompt_tokens, self.row, self.rule)

    def positions(self) -> list[int]:
        """Token indices whose stability is wanted."""
        return self.draft.positions

    def response(self, measured: Measured) -> Response:
        """The text with what was measured."""
        if not measured.is_sound:
            return NOT_FINITE
        return replace(self.draft, stability=measured.quantities)


class VLLM(LmEvalVLLM):
    """A causal model of vLLM: lm-eval's ``VLLM`` and the requests that measure stability.

    Attributes:
        name: the model as results and the store call it.
        options: keyword arguments it was started with.
    """

    temperature_effective = "true"
    reuses_at_zero = True

    def __init__(
        self,
        pretrained: str,
        *,
        stability_memory_mib: float = 1024,
        seeds_requests: bool = True,
        **kwargs: Any,
    ) -> None:
        """Starts and checks the engine.

        Args:
            pretrained: hub id or local folder.
            stability_memory_mib: hidden states held by a worker at most; beyond that they are
                measured early, also those that nobody will ask for.
            seeds_requests: whether requests carry their seeds (vLLM's CPU build cannot).
            kwargs: everything that lm-eval's ``VLLM`` or vLLM's engine takes.

        Raises:
            ModelError: the model's stability cannot be measured truthfully.
        """
        super().__init__(
            pretrained,
            worker_extension_cls="tcb_bench.models.vllm_worker.StabilityWorker",
            generation_config="vllm",  # none of the model's own defaults
            runner="generate",
            **kwargs,
        )
        self.name, self.pretrained, self.options = pretrained, pretrained, kwargs
        self.seeds_requests = seeds_requests
        self.engine = Engine(self.model, self.lora_request)
        try:
            self._n_tokens = max(self.model.get_tokenizer().get_vocab().values()) + 1
            self._encoder = PromptEncoder(
                self.tokenizer, add_special=self.add_bos_token, fallback=self.prefix_token_id or 0
            )
            shown = self.shown_model()
            self._eos = tuple(eos_tokens(shown, self.tokenizer))
            self.model_sampling = model_sampling(shown)
            probe = self._encoder.encode([PROBE])[0]
            self.engine.start(self._n_tokens, stability_memory_mib, probe)
        except BaseException:
            self.close()
            raise
        self.batch_size = self.engine.room  # of lm-eval's own requests, kept when all are done

    def close(self) -> None:
        """Ends the engine's processes and frees its memory."""
        self.engine.close()

    def next_token(
        self, requests: Sequence[Instance], on_response: OnResponse | None = None
    ) -> list[Response]:
        """The prediction behind each prompt, with its stability; see ``HF.next_token``."""
        prompts = self._encoder.prompts([(r.args[0], tuple(r.args[1])) for r in requests])
        params = sampling(max_tokens=1)
        jobs: list[tuple[Job, Finish] | Failure] = []
        for prompt in prompts:
            job = Job(prompt.ids, params, choices=prompt.choices, positions=lambda: [0])
            if len(prompt.ids) < self.max_length:
                jobs.append((job, partial(self._next_token, prompt)))
            else:
                jobs.append(too_long(self.name, len(prompt.ids), self.max_length - 1))
        return self._answer(jobs, on_response)

    def _next_token(self, prompt: Prompt, measured: Measured) -> Response:
        if not measured.is_sound:
            return NOT_FINITE
        values = {name: column[0] for name, column in measured.quantities.items()}
        logprobs: Any = values.pop("choice_logprobs", [])
        token = int(values["top1_token"])
        return NextToken(
            stability=values,
            choice_logprobs=logprobs,
            choice_tokens=list(prompt.choices),
            token=token,
            token_text=self.tokenizer.decode([token]),
            prompt_tokens=len(prompt.ids),
        )

    def generate_traced(
        self, requests: Sequence[Instance], on_response: OnResponse | None = None
    ) -> list[Response]:
        """Texts, with the stability of their critical or of all tokens; see ``HF``.

        Equal prompts are sent one after the other, so that the prefix cache computes them once.
        """
        wanted = [self._sampling(request.args[1]) for request in requests]
        prompts = self._encoder.encode([request.args[0] for request in requests])
        jobs: list[tuple[Job, Finish] | Failure] = []
        for prompt, given in zip(prompts, wanted, strict=True):
            room = min(int(given.max_gen_toks), self.max_length - len(prompt))
            if room > 0:
                jobs.append(self._generation(prompt, given, room))
            else:
                jobs.append(too_long(self.name, len(prompt), self.max_length - 1))
        first: dict[bytes, int] = {}
        order = [first.setdefault(prompt.tobytes(), i) for i, prompt in enumerate(prompts)]
        return self._answer(jobs, on_response, order)

    def _sampling(self, kwargs: dict[str, Any]) -> Sampling:
        given = Sampling.from_kwargs(kwargs)
        if 0 < given.temperature < COLDEST:
            raise UsageError(
                f"temperature={given.temperature}: vLLM takes 0 or at least {COLDEST}; use 0"
            )
        return given

    def _generation(self, prompt: Any, given: Sampling, room: int) -> tuple[Job, Finish]:
        rule = stop_rule(self.tokenizer, given.until, self._eos, self.think_end_token)
        row = RowText(TextBuilder(self.tokenizer, prompt), rule)
        seed = given.seed if self.seeds_requests and given.temperature > 0 else None
        params = sampling(
            max_tokens=room,
            temperature=float(given.temperature),
            top_p=float(given.top_p),
            top_k=int(given.top_k),
            min_p=float(given.min_p),
            repetition_penalty=float(given.repetition_penalty),
            seed=None if seed is None else seed % 2**63,
            stop_token_ids=sorted(rule.tokens),
        )
        growing = Growing(len(prompt), row, given.stability_at)
        return Job(prompt, params, row, positions=growing.positions), growing.response

    @cached_property
    def identity(self) -> dict[str, Any]:
        """What another model must share for its responses to be this one's; part of store keys."""
        return identity_of(self)

    @cached_property
    def info(self) -> dict[str, Any]:
        """What results say of the model: identity, versions, engine settings, ``weight_radius``."""
        return info_of(self)

    def _answer(
        self,
        jobs: Sequence[tuple[Job, Finish] | Failure],
        on_response: OnResponse | None,
        order: Sequence[int] | None = None,
    ) -> list[Response]:
        """Responses in the order of the requests; a failure is one already."""
        found: dict[int, Response] = {}

        def deliver(index: int, response: Response) -> None:
            found[index] = response
            if on_response is not None:
                on_response(index, response)

        for i, job in enumerate(jobs):
            if isinstance(job, Failure):
                deliver(i, job)
        places = [i for i, job in enumerate(jobs) if not isinstance(job, Failure)]
        if order is not None:
            places.sort(key=order.__getitem__)
        sent: list[Any] = [jobs[i] for i in places]
        self.engine.run(
            [job for job, _ in sent],
            lambda row, measured: deliver(places[row], sent[row][1](measured)),
        )
        return [found[i] for i in range(len(jobs))]
