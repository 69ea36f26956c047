"""Forward passes and generation of a transformers model, with the states its head received."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from transformers import GenerationConfig, StoppingCriteria

from tcb_bench.metrics.delta_tcb import Head, TokenStability, token_stability
from tcb_bench.models.hf_capture import capture
from tcb_bench.models.hf_head import checked_head
from tcb_bench.models.sampling import RowSampler
from tcb_bench.models.text import RowText


class RowStops(StoppingCriteria):  # type: ignore[misc]
    """Hands each row its new token; a row is done when it says so."""

    def __init__(self, rows: Sequence[RowText]) -> None:
        self.rows = rows

    def __call__(self, input_ids: Tensor, scores: Any, **_: Any) -> Tensor:
        """(B,) bool, True where the row has ended."""
        new = input_ids[:, -1].tolist()
        done = [row.push(token) for row, token in zip(self.rows, new, strict=True)]
        return torch.tensor(done, device=input_ids.device)


@dataclass(frozen=True, kw_only=True)
class Engine:
    """A loaded model and what is needed to ask it.

    Attributes:
        model: the transformers model, adapters inside.
        point: the module whose input is captured: the output head.
        head: that head as the quantities take it.
        device: of the inputs.
        pad: id of the padding token.
        eos: ids that end a text.
        autocast: dtype of mixed precision, or None.
    """

    model: Any
    point: nn.Module
    head: Head
    device: torch.device
    pad: int
    eos: tuple[int, ...]
    autocast: torch.dtype | None = None

    @property
    def accepts(self) -> frozenset[str]:
        """Names of the forward pass's parameters."""
        return frozenset(inspect.signature(self.model.forward).parameters)

    @property
    def pads(self) -> bool:
        """Whether rows of different length may share a batch."""
        return "attention_mask" in self.accepts

    def inputs(self, prompts: Sequence[Sequence[int]]) -> dict[str, Tensor]:
        """Left-padded ids and, where the model takes one, the mask of what is no padding."""
        width = max(map(len, prompts))
        ids = torch.full((len(prompts), width), self.pad, dtype=torch.long)
        mask = torch.zeros_like(ids)
        for row, prompt in enumerate(prompts):
            ids[row, width - len(prompt) :] = torch.tensor(list(prompt))
            mask[row, width - len(prompt) :] = 1
        inputs = {"input_ids": ids.to(self.device)}
        if self.pads:
            inputs["attention_mask"] = mask.to(self.device)
        return inputs

    def last_states(self, prompts: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
        """(B, d) states behind the last prompt tokens, on the head's device, and (B, V) logits."""
        inputs: dict[str, Any] = dict(self.inputs(prompts))
        if self.pads and "position_ids" in self.accepts:
            inputs["position_ids"] = (inputs["attention_mask"].cumsum(-1) - 1).clamp(min=0)
        wanted = {"logits_to_keep": 1, "use_cache": False, "return_dict": True}
        inputs |= {name: value for name, value in wanted.items() if name in self.accepts}
        with self.session(), capture(self.point, keeps_all=False) as captured:
            logits = self.model(**inputs).logits[:, -1]
            return captured.last().to(self.head.weight.device), logits

    def generate(
        self,
        prompts: Sequence[Sequence[int]],
        sampler: RowSampler,
        rows: Sequence[RowText],
        max_new_tokens: int,
        keeps_states: bool,
    ) -> list[Tensor]:
        """Continues the prompts into ``rows``.

        Returns:
            per step the (B, 1, d) states that its tokens were predicted from; only the latest
            without ``keeps_states``.
        """
        config = GenerationConfig(
            do_sample=False,
            num_beams=1,
            max_new_tokens=max_new_tokens,
            eos_token_id=list(self.eos) or None,
            pad_token_id=self.pad,
            use_cache=True,
        )
        inputs = self.inputs(prompts)
        with (
            self.session(),
            neutral(self.model, config),
            capture(self.point, keeps_all=keeps_states) as captured,
        ):
            shared = self.shared_cache(prompts)
            captured.states.clear()  # of the shared prompts, which predict nothing here
            self.model.generate(
                **inputs,
                **shared,
                generation_config=config,
                logits_processor=[sampler],
                stopping_criteria=[RowStops(rows)],
            )
            captured.last()
            return captured.states

    def shared_cache(self, prompts: Sequence[Sequence[int]]) -> dict[str, Any]:
        """Keys and values of all but the last prompt token, computed once for equal prompts.

        Repeats and the temperatures of a sweep ask the same prompt many times. Nothing, so that
        ``generate`` computes all itself, where no prompt occurs twice or the model keeps anything
        but plain keys and values per token (a sliding window, a recurrent state).
        """
        places = {tuple(prompt): i for i, prompt in enumerate(dict.fromkeys(map(tuple, prompts)))}
        if not self.pads or len(places) == len(prompts) or min(map(len, prompts)) < 2:
            return {}
        from transformers.cache_utils import DynamicCache, DynamicLayer

        config = self.model.config.get_text_config()
        if {*map(type, DynamicCache(config=config).layers)} - {DynamicLayer}:
            return {}
        inputs: dict[str, Any] = dict(self.inputs(list(places)))
        if "position_ids" in self.accepts:
            inputs["position_ids"] = (inputs["attention_mask"].cumsum(-1) - 1).clamp(min=0)
        inputs = {name: value[:, :-1] for name, value in inputs.items()}
        wanted = {"logits_to_keep": 1, "use_cache": True, "return_dict": True}
        inputs |= {name: value for name, value in wanted.items() if name in self.accepts}
        name = "cache" if "cache" in self.accepts else "past_key_values"  # its name before 5.24
        cache: Any = getattr(self.model(**inputs), name, None)
        if type(cache) is not DynamicCache or any(
            type(x) is not DynamicLayer for x in cache.layers
        ):
            return {}
        rows = [places[tuple(prompt)] for prompt in prompts]
        cache.batch_select_indices(torch.tensor(rows, device=self.device))
        return {name: cache}

    def checked(self, readings: Sequence[Head], probe: Sequence[int]) -> Engine:
        """The engine with the reading of the head that reproduces the model's logits on ``probe``.

        Raises:
            ModelError: none does.
        """
        states, logits = self.last_states([probe])
        return replace(self, head=checked_head(readings, states, logits))

    def stability(
        self, states: Tensor, *, tokens: Tensor | None = None, choices: Tensor | None = None
    ) -> TokenStability:
        """Quantities of (N, d) states on the head's device."""
        return token_stability(states, self.head, tokens=tokens, choices=choices)

    @contextmanager
    def session(self) -> Iterator[None]:
        """No gradients, and mixed precision where it was asked for."""
        with (
            torch.no_grad(),
            torch.autocast(self.device.type, self.autocast, enabled=self.autocast is not None),
        ):
            yield


@contextmanager
def neutral(model: Any, config: GenerationConfig) -> Iterator[None]:
    """Hides the model's generation config for a while.

    ``generate`` fills every field that is unset in the config it is given from the model's own, so
    that a top_k, a repetition penalty or suppressed tokens would slip in.
    """
    own = model.generation_config
    model.generation_config = config
    try:
        yield
    finally:
        model.generation_config = own
