"""Loading a transformers model by its ``ModelSpec``, with failures that say what to do."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from tcb_bench.errors import ModelError, TcbBenchError
from tcb_bench.models.hf import HF
from tcb_bench.models.model_args import SECRET
from tcb_bench.models.resolve import ModelSpec, demo_files

LONGEST = 300  # characters of a library's message that are passed on

ADVICE = {
    r"module 'torch' has no attribute": "dtype is float32, bfloat16, float16 or auto",
    r"unexpected keyword argument": "--model_args has a name that this model does not take",
    r"not recognize this architecture": "update transformers, or check the model's config.json",
    r"trust_remote_code": "the model brings its own code; trust_remote_code=True runs it",
    r"not a valid git identifier|Revision Not Found": "check revision=",
    r"gated|\b401\b|\b403\b": "the model is gated; accept its terms, then run `hf auth login`",
    r"connect|offline|Max retries|LocalEntryNotFound": (
        "give a local folder (./path/to/model), or set HF_HOME to a cache that has the model"
    ),
    r"out of memory|can't allocate": "use a larger device, or dtype=bfloat16",
    r"Repo id|not a valid model identifier": "expected a hub id (org/name) or an existing folder",
}
"""Pattern in the text of a library's exception -> what to do about it."""


def load_hf(spec: ModelSpec, log: Path | None = None) -> HF:
    """The model of ``spec``, loaded and checked; ``log`` is not needed, it has no process.

    Raises:
        ModelError: it cannot be, in one line.
    """
    arguments = arguments_of(spec)
    try:
        model = HF(**arguments)
    except TcbBenchError as error:
        raise ModelError(f"{spec.label}: {error}") from error.__cause__
    except Exception as error:  # a checkpoint's own code and a dozen libraries may raise anything
        raise ModelError(explain(spec, error)) from error
    model.name = spec.name  # as given: the demo's path is this machine's affair
    return model


def arguments_of(spec: ModelSpec) -> dict[str, Any]:
    """Keyword arguments of ``HF``; what can be seen to be missing is told here, in plain words."""
    length = spec.kwargs.get("max_length")
    if length is not None and (not isinstance(length, int) or length < 1):
        raise ModelError(f"{spec.label}: max_length={length!r} is no whole number >= 1")
    if spec.provider == "demo":
        folder, file = demo_files()
        return {**spec.kwargs, "pretrained": str(folder), "gguf_file": file}
    path, kwargs = Path(spec.name).expanduser(), dict(spec.kwargs)
    if path.is_file() and path.suffix == ".gguf":
        kwargs.setdefault("gguf_file", path.name)
        path = path.parent
    if not path.is_dir():
        if spec.name.startswith((".", "/", "~", "\\")) or path.is_absolute():
            raise ModelError(f"{spec.label}: there is no folder {path}; check the path")
        return {**kwargs, "pretrained": spec.name}
    _check_folder(spec, path, kwargs)
    return {**kwargs, "pretrained": str(path)}


def _check_folder(spec: ModelSpec, folder: Path, kwargs: dict[str, Any]) -> None:
    folder /= kwargs.get("subfolder") or "."
    files = sorted(file.name for file in folder.glob("*.gguf"))
    file = kwargs.get("gguf_file")
    if file and not (folder / file).is_file():
        there = ", ".join(files) or "none"
        raise ModelError(f"{spec.label}: no file {file} in the folder; gguf files there: {there}")
    if not file and not (folder / "config.json").is_file():
        hint = f"give gguf_file={files[0]}" if files else "expected a saved transformers model"
        raise ModelError(f"{spec.label}: the folder has no config.json; {hint}")


def explain(spec: ModelSpec, error: Exception) -> str:
    """A library's failure in one line, with what to do where that is known; no secret in it."""
    text = " ".join(str(error).split())
    for name, value in spec.kwargs.items():
        if SECRET.search(name) and isinstance(value, str) and value:
            text = text.replace(value, "***")
    advice = next((do for sign, do in ADVICE.items() if re.search(sign, text, re.IGNORECASE)), None)
    if advice is None and spec.kwargs.get("gguf_file"):
        advice = "the GGUF file is damaged or of an unsupported kind; download it again"
    what = text if len(text) <= LONGEST else f"{text[:LONGEST]}..."
    tail = f"; {advice}" if advice else ""
    return f"{spec.label} cannot be loaded ({type(error).__name__}: {what}){tail}"
