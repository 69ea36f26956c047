"""A transformers model loaded through lm-eval, its output head found and checked."""

from __future__ import annotations

from contextlib import nullcontext
from functools import cached_property
from typing import Any

import torch
from lm_eval.models.huggingface import HFLM

from tcb_bench.errors import ModelError
from tcb_bench.metrics.delta_tcb import Head
from tcb_bench.models.batching import Batcher, auto_batcher, bytes_per_token
from tcb_bench.models.encoding import PromptEncoder
from tcb_bench.models.hf_engine import Engine
from tcb_bench.models.hf_head import find_head, heads
from tcb_bench.models.hf_identity import identity_of, info_of, weights_digest
from tcb_bench.models.hf_setup import (
    dtype_for,
    eos_tokens,
    gguf_read_once,
    model_sampling,
    quiet_libraries,
    usable_device,
)

HFLM_ROWS = 8  # what HFLM's own requests get for `auto`: they hold (B, T, V) logits
PROBE = "The capital of France is"


class CheckedHFLM(HFLM):  # type: ignore[misc]
    """lm-eval's ``HFLM`` of a causal model whose head turns captured states into its own logits.

    Attributes:
        name: the model as results and the store call it.
        options: keyword arguments it was loaded with, the common ones aside.
        tokenizer_given: the tokenizer's name where another than the model's own was asked for.
    """

    def __init__(
        self,
        pretrained: Any,
        *,
        device: str | None = None,
        dtype: Any = "auto",
        batch_size: int | str = "auto",
        max_batch_size: int | None = None,
        **kwargs: Any,
    ) -> None:
        """Loads and checks the model.

        Args:
            pretrained: hub id, local folder, or a loaded transformers model.
            device: None = cuda, mps or cpu, the first there is.
            dtype: as in lm-eval; ``auto`` = the checkpoint's, but never float16 on a CPU.
            batch_size: rows of a batch, or ``auto``: what memory holds, fewer when it runs out.
            max_batch_size: rows of an automatic batch, at most.
            kwargs: everything else that ``HFLM`` takes.

        Raises:
            ModelError: the model's stability cannot be measured truthfully.
        """
        is_auto = str(batch_size).startswith("auto")
        rows = HFLM_ROWS if is_auto else int(batch_size)
        with quiet_libraries(), gguf_read_once() if kwargs.get("gguf_file") else nullcontext():
            super().__init__(
                pretrained,
                device=usable_device(device),
                dtype=dtype,
                batch_size=rows,
                **kwargs,
            )
        self.name = pretrained if isinstance(pretrained, str) else type(pretrained).__name__
        self.options = kwargs
        given = kwargs.get("tokenizer")
        self.tokenizer_given = given if isinstance(given, str) else None
        if self.backend != "causal":
            raise ModelError(f"{self.name} is an encoder-decoder; only causal models are measured")
        self._encoder = PromptEncoder(
            self.tokenizer, add_special=self.add_bos_token, fallback=self.prefix_token_id or 0
        )
        with quiet_libraries():
            self._engine = self._checked_engine()
        token_bytes = bytes_per_token(self.config.get_text_config(), self.weights_dtype.itemsize)
        self._batcher = (
            auto_batcher(self.device, token_bytes, max_batch_size) if is_auto else Batcher(rows)
        )

    def _create_model(self, pretrained: str, **kwargs: Any) -> None:
        kwargs["dtype"] = dtype_for(kwargs.get("dtype"), self.config, self.device)
        super()._create_model(pretrained, **kwargs)

    def _create_tokenizer(self, *args: Any, **kwargs: Any) -> None:
        super()._create_tokenizer(*args, **kwargs)
        # Counted here, since later HFLM may add a padding token that the model does not know.
        self._n_tokens = max(self.tokenizer.get_vocab().values()) + 1

    def _inner_model(self) -> Any:
        """The transformers model; the layers of an adapter are inside it."""
        adapters = getattr(self.model, "peft_config", {}).values()
        if any(adapter.is_prompt_learning for adapter in adapters):
            raise ModelError(f"{self.name}: adapters with virtual tokens are not supported")
        return self.model.get_base_model() if hasattr(self.model, "peft_type") else self.model

    def _capture_point(self) -> torch.nn.Module:
        """The module whose input is taken for the final hidden state."""
        return find_head(self._inner_model())

    def _checked_engine(self) -> Engine:
        model = self._inner_model()
        readings = heads(find_head(model), model.config.get_text_config(), self._n_tokens)
        pad = self.tokenizer.pad_token_id
        eos = tuple(eos_tokens(model, self.tokenizer))
        engine = Engine(
            model=model,
            point=self._capture_point(),
            head=readings[0],
            device=self.device,
            pad=pad if pad is not None and pad < self._n_tokens else (eos or (0,))[0],
            eos=eos,
            autocast=self.mixed_precision_dtype,
        )
        return engine.checked(readings, self._encoder.encode([PROBE])[0])

    @property
    def head(self) -> Head:
        """The output head as the stability quantities take it."""
        return self._engine.head

    @property
    def weights_dtype(self) -> torch.dtype:
        """Of the weights, as loaded."""
        dtype: torch.dtype = self.model.dtype
        return dtype

    @cached_property
    def _weights_digest(self) -> str:
        return weights_digest(self.model)

    @cached_property
    def identity(self) -> dict[str, Any]:
        """What another model must share for its responses to be this one's; part of store keys."""
        return identity_of(self, self._weights_digest)

    @cached_property
    def info(self) -> dict[str, Any]:
        """What results say of the model: identity, device, versions, sizes, ``weight_radius``."""
        return info_of(self)

    @property
    def model_sampling(self) -> dict[str, float]:
        """Sampling parameters of the model's own generation config."""
        return model_sampling(self._engine.model)
