"""What of a local model reads prompts: tokenizer, chat template, lengths. No weights are loaded."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

from lm_eval.api.instance import Instance
from lm_eval.models.huggingface import HFLM
from transformers import GenerationConfig

from tcb_bench.errors import ModelError
from tcb_bench.models.encoding import PromptEncoder
from tcb_bench.models.hf_load import arguments_of, explain
from tcb_bench.models.hf_setup import gguf_read_once, model_sampling, quiet_libraries
from tcb_bench.models.resolve import ModelSpec, demo_files

READING = (
    *("pretrained", "gguf_file", "tokenizer", "revision", "subfolder", "trust_remote_code"),
    *("use_fast_tokenizer", "add_bos_token", "prefix_token_id", "max_length"),
    *("think_end_token", "enable_thinking", "chat_template_args"),
)
"""Arguments of a back end that change how a prompt is read."""


class NoTokenizer(ModelError):
    """The model's tokenizer cannot be had here, so that its tokens cannot be counted."""


class _Configs:
    """Stands where the weights would be: what is known of a model without them."""

    device = "cpu"

    def __init__(self, config: Any, generation_config: Any) -> None:
        self.config, self.generation_config = config, generation_config

    def to(self, _device: Any) -> _Configs:
        """Nothing to move."""
        return self


class WithoutWeights(HFLM):  # type: ignore[misc]
    """Renders and tokenises prompts as the engine of the same arguments does; answers nothing.

    Attributes:
        identity: of the engine that a run would start, once somebody knows it.
    """

    reuses_at_zero = True

    def __init__(self, **arguments: Any) -> None:
        """Reads config and tokenizer; ``arguments`` are some of ``READING``."""
        self.identity: dict[str, Any] = {}
        once = gguf_read_once() if arguments.get("gguf_file") else nullcontext()
        with quiet_libraries(), once:
            super().__init__(**arguments, device="cpu", batch_size=1)
        self._encoder = PromptEncoder(
            self.tokenizer, add_special=self.add_bos_token, fallback=self.prefix_token_id or 0
        )

    def _create_model(self, pretrained: str, **kwargs: Any) -> None:
        generation = GenerationConfig.from_model_config(self._config)
        if not kwargs.get("gguf_file"):
            try:
                generation = GenerationConfig.from_pretrained(
                    pretrained, revision=kwargs.get("revision") or "main"
                )
            except OSError:  # no such file: what the model's config says
                pass
        self._model = _Configs(self._config, generation)

    @property
    def model_sampling(self) -> dict[str, float]:
        """Sampling parameters of the model's own generation config."""
        return model_sampling(self._model)

    def prompt_lengths(self, kind: str, requests: Sequence[Instance]) -> list[int]:
        """Tokens of each request's prompt, as the engine would have them.

        Raises:
            ModelError: choices are not one token each with this tokenizer.
        """
        if kind == "next_token":
            asked = [(r.args[0], tuple(r.args[1])) for r in requests]
            return [len(prompt.ids) for prompt in self._encoder.prompts(asked)]
        joined = kind == "loglikelihood"  # context and continuation are read together
        texts = [r.args[0] + r.args[1] if joined else r.args[0] for r in requests]
        found: list[array[int]] = self._encoder.encode(texts)
        return [len(ids) for ids in found]


def reader_of(spec: ModelSpec) -> WithoutWeights:
    """What reads the prompts of a local model.

    Raises:
        ModelError: no such folder or file.
        NoTokenizer: the tokenizer cannot be read; one line with the reason.
    """
    arguments = _arguments(spec)
    try:
        return WithoutWeights(**{k: v for k, v in arguments.items() if k in READING})
    except Exception as error:  # a dozen libraries and a checkpoint's own code
        raise NoTokenizer(explain(spec, error)) from error


def _arguments(spec: ModelSpec) -> dict[str, Any]:
    if spec.provider != "vllm":
        return arguments_of(spec)
    kwargs = dict(spec.kwargs)
    if "max_model_len" in kwargs:
        kwargs.setdefault("max_length", kwargs["max_model_len"])
    if spec.name == "demo":  # vLLM reads a copy of it as safetensors, with the same tokenizer
        folder, file = demo_files()
        return {**kwargs, "pretrained": str(folder), "gguf_file": file}
    return arguments_of(ModelSpec("vllm", spec.name, kwargs))
