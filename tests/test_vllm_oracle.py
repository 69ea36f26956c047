"""Every quantity of every token against transformers in float32, whatever the engine does inside.

Oracle: the states that transformers' own head receives for the same tokens, in float64 from there
on (``token_stability`` in float64, on a sample also ``reference``).
"""

import sys

import pytest
from vllm_tools import (
    QUESTIONS,
    check_against_oracle,
    check_next_token,
    mixed_prompts,
    relative_error,
    traced,
)

pytest.importorskip("vllm", reason="vLLM has an environment of its own: make test-vllm")
pytestmark = [pytest.mark.vllm, pytest.mark.xdist_group("one engine")]


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
