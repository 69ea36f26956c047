"""How a transformers model is set up here: device, dtype, silence, ends of texts, its defaults."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partialmethod
from typing import Any
from unittest import mock

import torch
import tqdm.auto
import transformers

MODEL_SAMPLING = ("temperature", "top_p", "top_k", "min_p", "repetition_penalty")


def default_device() -> str:
    """The best device there is: cuda, mps, or cpu."""
    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"


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
    log, lm_eval_log = transformers.utils.logging, logging.getLogger("lm_eval")
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


def eos_tokens(model: Any, tokenizer: Any) -> list[int]:
    """All ids that end a text: those of the generation config (else config), and the tokenizer's."""
    found = getattr(getattr(model, "generation_config", None), "eos_token_id", None)
    if found is None:
        found = getattr(model.config.get_text_config(), "eos_token_id", None)
    ids = list(found) if isinstance(found, list | tuple) else [found]
    return sorted({int(i) for i in [*ids, tokenizer.eos_token_id] if i is not None})


def model_sampling(model: Any) -> dict[str, float]:
    """What the model's generation config asks for; a config that does not sample is greedy."""
    config = getattr(model, "generation_config", None)
    values = {name: getattr(config, name, None) for name in MODEL_SAMPLING}
    if not getattr(config, "do_sample", None):
        values["temperature"] = 0.0
    return {name: value for name, value in values.items() if value is not None}
