"""The embedded demo model as vLLM reads it: safetensors, made once from the GGUF file."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from pathlib import Path

from filelock import FileLock
from platformdirs import user_cache_path

from tcb_bench.models.hf_setup import gguf_read_once, quiet_libraries
from tcb_bench.models.resolve import demo_files


def demo_folder() -> Path:
    """Folder with the demo model in float32 (540 MB), under the user's cache; made where missing.

    Raises:
        ModelError: the demo model is not installed.
    """
    source, name = demo_files()
    digest = hashlib.sha256((source / name).read_bytes()).hexdigest()[:12]
    cache = user_cache_path("tcb-bench") / "models"
    folder = cache / f"demo-{digest}"
    cache.mkdir(parents=True, exist_ok=True)
    with FileLock(cache / f"demo-{digest}.lock"):
        if not folder.is_dir():
            made = Path(tempfile.mkdtemp(dir=cache, prefix="making-"))
            try:
                _save(source, name, made)
                made.rename(folder)  # whole or not at all
            finally:
                shutil.rmtree(made, ignore_errors=True)
    return folder


def _save(source: Path, name: str, folder: Path) -> None:
    """A GGUF model refuses to be saved as it is; its weights in a fresh model do not."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    with quiet_libraries(), gguf_read_once():
        loaded = AutoModelForCausalLM.from_pretrained(source, gguf_file=name, dtype="float32")
        tokenizer = AutoTokenizer.from_pretrained(source, gguf_file=name)
        config = loaded.config
        if hasattr(config, "quantization_config"):
            del config.quantization_config  # the weights are float32 now
        fresh = AutoModelForCausalLM.from_config(config, dtype="float32")
        fresh.load_state_dict(loaded.state_dict())
        fresh.tie_weights()
        fresh.generation_config = loaded.generation_config
        fresh.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
