"""One engine against transformers in float32: every quantity of every token, whole tasks, requests.

Oracles: the states that transformers' own head receives for the same tokens, in float64 from there
on (``token_stability`` in float64, on a sample also ``reference``); for tasks the hf back end, whose
own numbers are held against lm-eval and float64 elsewhere.
"""

import json
import math
import sys
from contextlib import nullcontext

import pytest
from toy_models import ask, generation
from vllm_tools import (
    QUESTIONS,
    check_against_oracle,
    check_next_token,
    mixed_prompts,
    relative_error,
    traced,
)

import tcb_bench.run as runs
from tcb_bench.config import RunConfig, TaskOptions
from tcb_bench.errors import UsageError
from tcb_bench.store import Store

pytest.importorskip("vllm", reason="vLLM has an environment of its own: make test-vllm")
from tcb_bench.models.vllm_identity import identity_of  # noqa: E402 - imports vLLM

pytestmark = pytest.mark.vllm

TIE = 2e-3  # logits; two tokens nearer than that may come in either order
TOKENS = 48


@pytest.fixture(scope="module")
def hf_lm(vllm_demo):
    """The checkpoint that vLLM reads, by the hf back end."""
    import torch

    from tcb_bench.models.resolve import load, resolve
    from tcb_bench.models.vllm_demo import demo_folder

    torch.set_num_threads(1)
    return load(resolve(f"hf/{demo_folder()}", dtype="float32", device="cpu"))


@pytest.fixture(scope="module")
def both(vllm_demo, hf_lm, shared_data, tmp_path_factory):
    """Task and options -> its sample rows by document, of hf and of vLLM."""

    def answer(lm, name, task, options):
        runs.running = lambda spec, log: nullcontext(lm)
        config = RunConfig(
            model="vllm/demo",
            tasks=(task,),
            options=TaskOptions(data=str(shared_data), **options),
            output_path=tmp_path_factory.mktemp(name),
            fresh=True,
        )
        outcome = runs.run(config)
        lines = [x for path in outcome.sample_paths for x in path.read_text().splitlines()]
        rows = {s["doc_id"]: s["rows"][0] for s in map(json.loads, lines)}
        with Store(outcome.path.parent) as store:
            return {name: (row, store.get(row["key"])) for name, row in rows.items()}

    original = runs.running
    yield lambda task, **options: [
        answer(lm, name, task, options) for name, lm in (("hf", hf_lm), ("vllm", vllm_demo))
    ]
    runs.running = original


def test_mixed_prompts_at_two_temperatures(vllm_demo, hf_float32, capsys):
    requests = traced(mixed_prompts())
    answers, truth = check_against_oracle(vllm_demo, hf_float32, requests)
    assert len({a.text for a in answers}) > 64
    with capsys.disabled():
        error = relative_error(answers, truth)
        sys.stdout.write(f"\n{len(truth.delta_tcb)} tokens, delta within {error:.1e}\n")
    assert error <= 2e-4


def test_prefix_caching_in_two_orders_gives_the_same_numbers(vllm_demo, hf_float32):
    for order in (QUESTIONS, QUESTIONS[::-1]):
        check_next_token(vllm_demo, hf_float32, order)
    forward = vllm_demo.next_token(QUESTIONS)
    backward = vllm_demo.next_token(QUESTIONS[::-1])[::-1]
    for one, other in zip(forward, backward, strict=True):
        assert one.stability == pytest.approx(other.stability, rel=1e-4, abs=1e-4)


def test_quantities_do_not_depend_on_the_temperature(vllm_demo):
    requests = traced(["The capital of France is"], temperatures=(0.0, 0.6, 1.8), tokens=1)
    deltas = {round(a.stability["delta_tcb"][0], 3) for a in vllm_demo.generate_traced(requests)}
    assert len(deltas) == 1


def test_a_hundred_mmlu_questions(both):
    hf, ours = both("mmlu_tcb_philosophy", limit=100)
    assert len(hf) == len(ours) == 100
    for name, (row, expected) in hf.items():
        other, found = ours[name]
        assert other["acc"] == row["acc"] or expected.stability["choice_margin"] < TIE
        assert found.choice_logprobs == pytest.approx(expected.choice_logprobs, abs=5e-4)
        for quantity in ("delta_tcb", "v_eff", "choice_mass", "h_norm"):
            theirs = expected.stability[quantity]
            assert found.stability[quantity] == pytest.approx(theirs, rel=2e-4), (name, quantity)


def test_twenty_gsm8k_problems(both):
    hf, ours = both("gsm8k_tcb_zeroshot", limit=20, gen_kwargs={"max_gen_toks": TOKENS}, trace=True)
    assert len(hf) == len(ours) == 20
    same = 0
    for name, (row, expected) in hf.items():
        other, found = ours[name]
        if found.tokens == expected.tokens:
            same += 1
            assert (found.text, found.offsets) == (expected.text, expected.offsets)
            assert (other["state"], other["answer"]) == (row["state"], row["answer"])
            if row["stability"]:
                critical, theirs = other["stability"], row["stability"]
                assert critical["delta_tcb"] == pytest.approx(theirs["delta_tcb"], rel=2e-4)
            deltas = expected.stability["delta_tcb"]
            assert found.stability["delta_tcb"] == pytest.approx(deltas, rel=2e-4)
        else:  # only where two tokens were as good as equal
            pairs = zip(found.tokens, expected.tokens, strict=False)
            parts = next(i for i, (a, b) in enumerate(pairs) if a != b)
            assert expected.stability["logit_margin"][parts] < TIE, name
    assert same >= 18


def test_reasoning_is_not_the_answer(vllm_demo, hf_lm):
    request = ask(
        "generate_traced",
        "7 + 11 =",
        generation(max_gen_toks=24, until=["\n"], stability_at="final_number"),
    )
    answers = []
    for lm in (hf_lm, vllm_demo):
        lm.think_end_token = " is"
        try:
            (answer,) = lm.generate_traced([request])
        finally:
            lm.think_end_token = None
        answers.append(answer)
    hf, ours = answers
    assert (ours.text, ours.answer_start) == (hf.text, hf.answer_start)
    assert ours.answer_start > 0 and "\n" in ours.text[: ours.answer_start]
    assert ours.positions == hf.positions
    assert ours.stability["delta_tcb"] == pytest.approx(hf.stability["delta_tcb"], rel=2e-4)


def test_lm_evals_own_requests(vllm_demo, hf_lm):
    pairs = [ask("loglikelihood", "The capital of France is", c) for c in (" Paris", " Rome")]
    ours, theirs = (lm.loglikelihood(pairs, disable_tqdm=True) for lm in (vllm_demo, hf_lm))
    for (a, greedy), (b, also) in zip(ours, theirs, strict=True):
        assert a == pytest.approx(b, abs=1e-3)
        assert greedy == also
    rolling = [ask("loglikelihood_rolling", "Paris is in France.")]
    ours, theirs = (
        lm.loglikelihood_rolling(rolling, disable_tqdm=True) for lm in (vllm_demo, hf_lm)
    )
    assert ours == pytest.approx(theirs, abs=1e-2)
    until = [ask("generate_until", "Paris is", {"until": ["\n"], "max_gen_toks": 8})]
    ours, theirs = (lm.generate_until(until, disable_tqdm=True) for lm in (vllm_demo, hf_lm))
    assert ours == theirs


def test_what_the_engine_is_asked_is_what_was_said(vllm_demo, monkeypatch):
    """Cases 16 to 19: temperatures, penalties, ends and lengths reach the engine as they are."""
    seen = []
    monkeypatch.setattr(vllm_demo.engine, "run", lambda jobs, _: seen.extend(jobs))
    temperatures = [round(0.2 * i, 1) for i in range(11)]
    requests = [
        ask("generate_traced", "a", generation(temperature=t, seed=1, max_gen_toks=1000, top_p=0.9))
        for t in temperatures
    ]
    with pytest.raises(KeyError):  # nobody answered
        vllm_demo.generate_traced(requests)
    assert [job.params.temperature for job in seen] == temperatures
    for job, t in zip(seen, temperatures, strict=True):
        params = job.params
        assert params.max_tokens == 1000
        assert params.ignore_eos and params.stop_token_ids == [2]
        assert params.n == 1 and params.min_p == 0 and params.repetition_penalty == 1
        assert math.isclose(params.top_p, 0.9) or t == 0
        assert params.seed is None  # vLLM's CPU build has no generator per request


def test_seeds_reach_an_engine_that_takes_them(vllm_demo, monkeypatch):
    seen = []
    monkeypatch.setattr(vllm_demo, "seeds_requests", True)
    monkeypatch.setattr(vllm_demo.engine, "run", lambda jobs, _: seen.extend(jobs))
    with pytest.raises(KeyError):  # nobody answered
        vllm_demo.generate_traced(
            [ask("generate_traced", "a", generation(temperature=t, seed=2**64 - 5)) for t in (1, 0)]
        )
    assert [job.params.seed for job in seen] == [2**63 - 5, None]


def test_temperatures_that_vllm_would_change_are_refused(vllm_demo):
    request = ask("generate_traced", "a", generation(temperature=0.005, seed=1))
    with pytest.raises(UsageError, match=r"takes 0 or at least 0\.01"):
        vllm_demo.generate_traced([request])


def test_repeats_at_temperature_zero_and_one(vllm_demo):
    """Cases 17 and 20: three greedy repeats work, three sampled ones are three texts."""
    requests = [
        ask(
            "generate_traced",
            "Once upon a time",
            generation(temperature=t, seed=k, max_gen_toks=12),
        )
        for t in (0.0, 1.0)
        for k in range(3)
    ]
    texts = [answer.text for answer in vllm_demo.generate_traced(requests)]
    assert len(set(texts[:3])) == 1
    assert len(set(texts[3:])) == 3


def test_stop_strings_and_special_tokens_end_texts_as_on_hf(vllm_demo, hf_lm):
    requests = [
        ask("generate_traced", p, generation(max_gen_toks=30, until=u, stability_at="last"))
        for p in ("1 2 3 4", "The capital of France is", "Hello")
        for u in ([], [" 7"], [".", "\n"], ["<|im_end|>"])
    ]
    ours, theirs = vllm_demo.generate_traced(requests), hf_lm.generate_traced(requests)
    for a, b in zip(ours, theirs, strict=True):
        assert (a.text, a.tokens, a.offsets, a.finish_reason) == (
            b.text,
            b.tokens,
            b.offsets,
            b.finish_reason,
        )
        assert a.positions == b.positions
        assert a.stability["delta_tcb"] == pytest.approx(b.stability["delta_tcb"], rel=2e-4)


def test_whatever_makes_another_model_makes_another_identity(vllm_demo, monkeypatch):
    own = vllm_demo.identity
    assert own["weights_sha256"] and own["engine_args"] == {}
    for options, differs in [
        ({"tensor_parallel_size": 2, "gpu_memory_utilization": 0.5}, False),
        ({"kv_cache_dtype": "fp8"}, True),
        ({"truncation_side": "right"}, True),
        ({"load_format": "dummy"}, True),
        ({"lora_local_path": "adapter"}, True),
    ]:
        monkeypatch.setattr(vllm_demo, "options", options)
        assert (identity_of(vllm_demo) != own) is differs, options
