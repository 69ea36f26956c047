"""How a transformers model is set up here: device, dtype, silence, ends of texts, its defaults."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cache, partialmethod
from typing import Any
from unittest import mock

import torch
import tqdm.auto  # type: ignore[import-untyped]
import transformers

from tcb_bench.errors import ModelError

MODEL_SAMPLING = ("temperature", "top_p", "top_k", "min_p", "repetition_penalty")
UNSAID = {"temperature": 1.0, "top_p": 1.0, "top_k": 50}
"""What transformers samples with where a generation config is silent."""


def usable_device(wanted: str | None) -> str:
    """The device asked for, or the best there is: cuda, mps, or cpu.

    Raises:
        ModelError: it is not there; lm-eval would silently take another.
    """
    n_gpus, has_mps = torch.cuda.device_count(), torch.backends.mps.is_available()
    if wanted is None:
        return "cuda" if n_gpus else "mps" if has_mps else "cpu"
    try:
        device = torch.device(wanted)
    except RuntimeError:
        raise ModelError(
            f"device {wanted!r} is unknown; expected cpu, cuda, cuda:N or mps"
        ) from None
    if device.type == "cuda" and (device.index or 0) >= n_gpus:
        raise ModelError(f"device {wanted!r} is not here (torch sees {n_gpus} GPUs); use cpu")
    if device.type == "mps" and not has_mps:
        raise ModelError(f"device {wanted!r} is not here; use cpu")
    return wanted


def dtype_for(wanted: Any, config: Any, device: torch.device) -> Any:
    """The dtype to load in: as wanted, but float32 where ``auto`` would mean float16 on a CPU."""
    if wanted not in (None, "auto"):
        return wanted
    text = config.get_text_config()
    stored = {str(getattr(c, a, None)) for c in (config, text) for a in ("dtype", "torch_dtype")}
    is_half = any(name.endswith("float16") and "bfloat" not in name for name in stored)
    return "float32" if device.type == "cpu" and is_half else "auto"


@contextmanager
def quiet_libraries() -> Iterator[None]:
    """Keeps progress bars, hints and warnings of the libraries off a user's terminal."""
    log: Any = transformers.utils.logging
    lm_eval_log = logging.getLogger("lm_eval")
    levels, has_bars = (log.get_verbosity(), lm_eval_log.level), log.is_progress_bar_enabled()
    silent = partialmethod(tqdm.auto.tqdm.__init__, disable=True)
    log.set_verbosity(logging.CRITICAL)
    log.disable_progress_bar()
    lm_eval_log.setLevel(logging.CRITICAL)
    try:
        with warnings.catch_warnings(), mock.patch.object(tqdm.auto.tqdm, "__init__", silent):
            warnings.simplefilter("ignore")
            yield
    finally:
        log.set_verbosity(levels[0])
        lm_eval_log.setLevel(levels[1])
        if has_bars:
            log.enable_progress_bar()


@contextmanager
def gguf_read_once() -> Iterator[None]:
    """Lets transformers parse a GGUF header once, not for config, tokenizer and weights each.

    It also builds the table of tensor names anew for every module; with both kept, a model of 135M
    parameters loads in a third of the time.
    """
    import gguf

    names = ("GGUFReader", "get_tensor_name_map")
    with ExitStack() as stack:
        for name in names:
            stack.enter_context(mock.patch.object(gguf, name, cache(getattr(gguf, name))))
        yield


def eos_tokens(model: Any, tokenizer: Any) -> list[int]:
    """All ids that end a text: the generation config's (else the config's), and the tokenizer's."""
    found = getattr(getattr(model, "generation_config", None), "eos_token_id", None)
    if found is None:
        found = getattr(model.config.get_text_config(), "eos_token_id", None)
    ids = list(found) if isinstance(found, list | tuple) else [found]
    return sorted({int(i) for i in [*ids, tokenizer.eos_token_id] if i is not None})


def model_sampling(model: Any) -> dict[str, float]:
    """What the model's generation config asks for; a config that does not sample is greedy."""
    config = getattr(model, "generation_config", None)
    values = {name: getattr(config, name, None) for name in MODEL_SAMPLING}
    found = {name: value for name, value in values.items() if value is not None}
    if not getattr(config, "do_sample", None):
        return {**found, "temperature": 0.0}
    return {**UNSAID, **found}
