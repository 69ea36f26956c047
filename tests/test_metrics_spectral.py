"""Oracles: numpy's singular values of J, written out in float64; autograd's Jacobian; a real model."""

import numpy as np
import pytest
import torch

from tcb_bench.metrics.delta_tcb import token_stability
from tcb_bench.metrics.delta_tcb_head import Head
from tcb_bench.metrics.spectral import Jacobian, spectral_norm


def explicit(h, head):
    """J (V, d) in float64 with rows relative to w_k, which changes nothing but keeps digits."""
    w = head.weight.detach().double()[: head.size]
    x = head.scale * (
        w @ h.double() + (0 if head.bias is None else head.bias.double()[: head.size])
    )
    z = head.logit(x)
    slope = head.scale * (
        torch.ones_like(x) if head.softcap is None else 1 - (z / head.softcap) ** 2
    )
    k = int(x.argmax())
    o = torch.softmax(z, 0)
    y = slope[:, None] * w - slope[k] * w[k]
    others = o.clone()
    others[k] = 0
    return o[:, None] * (y - others @ y)


def problem(n=6, v=50, d=12, spread=1.0, seed=0, **head):
    generator = torch.Generator().manual_seed(seed)
    weight = torch.randn(v, d, generator=generator)
    hidden = spread * torch.randn(n, d, generator=generator)
    return hidden, Head(weight, **head)


def check(hidden, head, rel=2e-4, **settings):
    found = spectral_norm(hidden, head, **settings)
    assert found.converged.all()
    for i, h in enumerate(hidden):
        j = explicit(h, head)
        u, s, vt = np.linalg.svd(j.numpy(), full_matrices=False)
        assert float(found.log10_norm[i]) == pytest.approx(np.log10(s[0]), abs=rel / 2.3)
        stretched = float((j @ found.direction[i].double()).norm())
        assert stretched == pytest.approx(s[0], rel=rel)
        assert float(found.direction[i].norm()) == pytest.approx(1, abs=1e-5)


HEADS = [
    {},
    {"bias": torch.linspace(-1, 1, 50)},
    {"softcap": 4.0},
    {"scale": 0.25},
    {"softcap": 3.0, "scale": 2.0, "bias": torch.linspace(1, -1, 50)},
    {"n_vocab": 41},
]


@pytest.mark.parametrize("head", HEADS, ids=lambda h: "-".join(h) or "plain")
@pytest.mark.parametrize("spread", [0.05, 1.0])
def test_the_norm_and_its_direction_are_those_of_a_full_svd(head, spread):
    check(*problem(spread=spread, **head))


@pytest.mark.parametrize("spread", [8.0, 20.0, 60.0])
def test_confident_states_keep_their_digits_in_float32(spread):
    hidden, head = problem(spread=spread)
    assert token_stability(hidden, head).log10_delta_tcb.max() > 4
    check(hidden, head, rel=1e-3)  # logits of 200 are themselves off by 1e-5


def test_a_common_shift_of_all_rows_changes_nothing():
    hidden, head = problem(spread=3.0)
    moved = Head(head.weight + 10 * torch.ones(12))
    found, same = (spectral_norm(hidden, x).log10_norm for x in (moved, head))
    assert torch.allclose(found, same, atol=2e-3)


def test_half_precision_weights_and_float64():
    hidden, head = problem()
    check(hidden, Head(head.weight.bfloat16()))
    check(hidden.double(), Head(head.weight.double()), rel=1e-9, tolerance=1e-10)


def test_the_products_are_autograds_jacobian():
    hidden, head = problem(n=1, softcap=3.0, scale=1.5)
    w = head.weight.double()
    j = torch.autograd.functional.jacobian(
        lambda h: torch.softmax(3.0 * torch.tanh(1.5 * (w @ h) / 3.0), 0), hidden[0].double()
    )
    found = Jacobian.at(head, hidden)
    factor = 10 ** float(found.log10_scale)
    v, a = torch.randn(1, 12, 3), torch.randn(1, 50, 3)
    assert torch.allclose(found.times(v)[0].double() * factor, j @ v[0].double(), atol=1e-6)
    assert torch.allclose(
        found.transposed_times(a)[0].double() * factor, j.T @ a[0].double(), atol=1e-6
    )


def test_it_is_never_above_the_frobenius_norm_and_equal_for_two_tokens():
    hidden, head = problem()
    frobenius = -token_stability(hidden, head).log10_delta_tcb
    assert (spectral_norm(hidden, head).log10_norm <= frobenius + 1e-5).all()
    pair = Head(head.weight[:2])  # one competitor: J has rank one
    frobenius = -token_stability(hidden, pair).log10_delta_tcb
    assert torch.allclose(spectral_norm(hidden, pair).log10_norm, frobenius, atol=1e-5)


def test_too_few_iterations_are_said_and_give_a_lower_bound():
    hidden, head = problem(v=400, d=64, spread=0.02)
    short = spectral_norm(hidden, head, max_iterations=1, block=1)
    long = spectral_norm(hidden, head)
    assert not short.converged.any() and short.iterations.tolist() == [1] * 6
    assert long.converged.all() and (short.log10_norm < long.log10_norm).all()


def test_no_digits_left_is_no_zero():
    weight = torch.tensor([[100.0, 0.0], [100.0, 0.0], [0.0, 1.0]])
    found = spectral_norm(torch.tensor([[1.0, 0.0]]), Head(weight))
    assert not found.converged.item()


@pytest.mark.parametrize("wrong", [{"tolerance": 0.0}, {"max_iterations": 0}, {"block": 0}])
def test_numbers_out_of_range_are_refused(wrong):
    with pytest.raises(ValueError, match="expected tolerance"):
        spectral_norm(*problem(), **wrong)


@pytest.mark.slow
def test_real_states_agree_with_all_singular_values(hf_demo):
    prompts = ["The capital of France is", "It"]
    ids = [hf_demo.tokenizer(text).input_ids for text in prompts]
    states, _ = hf_demo._engine.last_states(ids)
    found = spectral_norm(states, hf_demo.head)
    assert found.converged.all()
    for i, h in enumerate(states):
        j = explicit(h, hf_demo.head)
        top = np.linalg.eigvalsh((j.T @ j).numpy())[-1]
        assert float(found.log10_norm[i]) == pytest.approx(np.log10(top) / 2, abs=1e-4)
