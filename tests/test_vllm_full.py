"""Further settings of the engine against the same oracle; one engine each (make test-vllm-full)."""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from toy_models import ask
from vllm_tools import (
    check_against_oracle,
    check_next_token,
    mixed_prompts,
    traced,
)

pytest.importorskip("vllm", reason="vLLM has an environment of its own: make test-vllm")
pytestmark = [pytest.mark.vllm, pytest.mark.full]

QUESTIONS = [ask("next_token", f"{a} + {a} is\nAnswer:", (" A", " B")) for a in range(8)]


def check(lm, model, **options):
    answers, _ = check_against_oracle(lm, model, traced(mixed_prompts()[::2]), **options)
    check_next_token(lm, model, QUESTIONS)
    return answers


def test_speculative_decoding_by_ngrams(engine_of, hf_float32):
    spec = (
        '{"method":"ngram","num_speculative_tokens":3,"prompt_lookup_max":3,"prompt_lookup_min":1}'
    )
    with engine_of(f"speculative_config={spec},disable_log_stats=False") as lm:
        check(lm, hf_float32)
        repeated = ["a b c a b c a b c a", "1 2 3 1 2 3 1 2 3 1", "the cat the cat the cat the"]
        check_against_oracle(lm, hf_float32, traced(repeated, repeats=2, tokens=24))
        counters = {m.name: getattr(m, "value", 0) for m in lm.model.get_metrics()}
        assert counters["vllm:spec_decode_num_accepted_tokens"] > 0
        assert (
            counters["vllm:spec_decode_num_draft_tokens"]
            > (counters["vllm:spec_decode_num_accepted_tokens"])
        ), "some drafts were rejected"


def test_three_ranks(engine_of, hf_float32, monkeypatch):
    """SmolLM2 has three key heads, so three is what it can be cut into."""
    cores = os.cpu_count()
    monkeypatch.setenv("VLLM_CPU_OMP_THREADS_BIND", f"0|{1 % cores}|{2 % cores}")
    with engine_of("tensor_parallel_size=3") as lm:
        check(lm, hf_float32)


@pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile needs a compiler")
def test_compiled_model(engine_of, hf_float32):
    with engine_of("enforce_eager=False") as lm:
        check(lm, hf_float32)


SITE = """
import types
import triton.backends as found

class Driver:
    is_active = staticmethod(lambda: True)

found.backends["cpu"] = types.SimpleNamespace(driver=Driver, compiler=None)
"""
V2 = """
import sys
from pathlib import Path
from transformers import AutoModelForCausalLM
from tcb_bench.models.resolve import resolve, running
from tcb_bench.models.vllm_demo import demo_folder
from toy_models import ask
from vllm_tools import check_against_oracle, check_next_token, mixed_prompts, traced

if __name__ == "__main__":
    model = AutoModelForCausalLM.from_pretrained(demo_folder(), dtype="float32").eval()
    with running(resolve("vllm/demo", "max_model_len=512"), Path(sys.argv[1])) as lm:
        assert lm.info["runner"] == "V2"
        check_against_oracle(lm, model, traced(mixed_prompts()[::8], repeats=2, tokens=4))
        check_next_token(lm, model, [ask("next_token", f"{i} is", (" A", " B")) for i in range(4)])
"""


@pytest.mark.skipif(
    importlib.util.find_spec("triton") is None, reason="runner V2 needs triton: pip install triton"
)
def test_runner_v2_by_tritons_interpreter(tmp_path):
    """The CPU build lets V2 run only where it sees a driver for it, so one is shown to it."""
    (tmp_path / "sitecustomize.py").write_text(SITE)
    (tmp_path / "v2.py").write_text(V2)
    environment = {
        **os.environ,
        "PYTHONPATH": f"{tmp_path}{os.pathsep}{Path(__file__).parent}",
        "TRITON_INTERPRET": "1",
        "VLLM_USE_V2_MODEL_RUNNER": "1",
        "VLLM_EXECUTE_MODEL_TIMEOUT_SECONDS": "3600",  # the interpreter is slow
    }
    words = [sys.executable, str(tmp_path / "v2.py"), str(tmp_path / "vllm.log")]
    done = subprocess.run(words, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]


def test_an_adapter_beside_the_head_is_part_of_the_model(engine_of, tmp_path):
    """The oracle is the same adapter, merged by peft."""
    peft = pytest.importorskip("peft")
    import torch
    from transformers import AutoModelForCausalLM

    from tcb_bench.models.vllm_demo import demo_folder

    torch.manual_seed(0)
    base = AutoModelForCausalLM.from_pretrained(demo_folder(), dtype="float32")
    config = peft.LoraConfig(r=4, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM")
    adapted = peft.get_peft_model(base, config)
    for name, parameter in adapted.named_parameters():
        if "lora_B" in name:
            parameter.data.normal_(0, 0.05)
    adapted.save_pretrained(tmp_path)
    merged = adapted.merge_and_unload().eval()
    with engine_of(f"lora_local_path={tmp_path}") as lm:
        check_against_oracle(lm, merged, traced(mixed_prompts()[::4], repeats=1))


def test_twenty_gsm8k_problems_at_full_length(engine_of, shared_data, tmp_path, hf_float32):
    from contextlib import nullcontext

    import tcb_bench.run as runs
    from tcb_bench.config import RunConfig, TaskOptions
    from tcb_bench.models.resolve import load, resolve
    from tcb_bench.models.vllm_demo import demo_folder

    def rows(lm, folder):
        runs.running = lambda spec, log: nullcontext(lm)
        config = RunConfig(
            model="vllm/demo",
            tasks=("gsm8k_tcb_zeroshot",),
            options=TaskOptions(data=str(shared_data), limit=20),
            output_path=folder,
        )
        lines = runs.run(config).sample_paths[0].read_text().splitlines()
        return {s["doc_id"]: s["rows"][0] for s in map(json.loads, lines)}

    original = runs.running
    try:
        with engine_of() as lm:
            ours = rows(lm, tmp_path / "vllm")
        theirs = rows(load(resolve(f"hf/{demo_folder()}", dtype="float32")), tmp_path / "hf")
    finally:
        runs.running = original
    assert len(ours) == 20
    same = [name for name in ours if ours[name]["text"] == theirs[name]["text"]]
    assert len(same) >= 19  # 10,000 tokens: one near tie may fall the other way
    for name in same:
        assert ours[name]["answer"] == theirs[name]["answer"]
        for quantity, value in theirs[name]["stability"].items():
            if quantity == "delta_tcb":
                assert ours[name]["stability"][quantity] == pytest.approx(value, rel=2e-4)
