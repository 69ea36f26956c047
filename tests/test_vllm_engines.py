"""Engines that are set up otherwise: little memory, a soft-cap, a padded vocabulary, two ranks.

Oracle: the same model in transformers in float32, in float64 from the states on.
"""

import os

import pytest
from toy_models import ask, generation
from vllm_tools import QUESTIONS, check_against_oracle, check_next_token, mixed_prompts, traced

pytest.importorskip("vllm", reason="vLLM has an environment of its own: make test-vllm")
pytestmark = pytest.mark.vllm


def test_chunked_prefill_preemption_and_little_memory_for_states(engine_of, hf_float32):
    small = "max_num_batched_tokens=48,max_num_seqs=12,num_gpu_blocks_override=10,block_size=32"
    with engine_of(
        f"{small},max_model_len=256,stability_memory_mib=0.05,disable_log_stats=False"
    ) as lm:
        requests = traced(mixed_prompts()[::8], repeats=1, tokens=32)
        check_against_oracle(lm, hf_float32, requests)
        check_next_token(lm, hf_float32, QUESTIONS)
        counters = {m.name: getattr(m, "value", 0) for m in lm.model.get_metrics()}
        assert counters["vllm:num_preemptions"] > 0
        memory = lm.engine.memory()
        assert memory["spills"] > 0
        assert memory["held"] == 0


@pytest.mark.parametrize("ranks", [pytest.param(1, marks=pytest.mark.full), 2])
def test_soft_cap_padded_vocabulary_and_two_ranks(engine_of, gemma_like, ranks, monkeypatch):
    if ranks > 1:  # on one NUMA node vLLM's CPU build wants to be told which core is whose
        monkeypatch.setenv("VLLM_CPU_OMP_THREADS_BIND", f"0|{os.cpu_count() - 1}")
    folder, model = gemma_like
    options = f"max_model_len=64,dtype=float32,tensor_parallel_size={ranks}"
    with engine_of(options, model=f"vllm/{folder}") as lm:
        assert lm.info["softcap"] == 5.0
        assert lm.info["n_vocab"] == 263 < lm.info["vocab_rows"] == 300
        assert lm.info["tensor_parallel_size"] == ranks
        weight = model.lm_head.weight[:263].double()
        radius = (weight - weight.mean(0)).norm(dim=1).max().item()
        assert lm.info["weight_radius"] == pytest.approx(radius, rel=1e-4)
        requests = traced(["abc", "A B C D", "hello"], tokens=6)
        answers, _ = check_against_oracle(lm, model, requests, softcap=5.0, n_vocab=263)
        assert max(token for a in answers for token in a.tokens) < 263
        check_lengths(lm)


def check_lengths(lm):
    """A prompt that does not fit is counted, and the others go on."""
    long, short = "x" * 64, "y" * 63
    first, second = lm.next_token([ask("next_token", text, ()) for text in (long, short)])
    assert first.state == "unscored" and "64 tokens" in first.reason
    assert second.prompt_tokens == 63
    texts = [ask("generate_traced", text, generation(max_gen_toks=9)) for text in (long, short)]
    first, second = lm.generate_traced(texts)
    assert first.state == "unscored"
    assert (second.finish_reason, len(second.tokens)) == ("length", 1)
