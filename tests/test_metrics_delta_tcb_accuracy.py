"""Digits: float32 and half precision against float64, also on real SmolLM2 states."""

import math

import pytest
import torch
from stability_problems import F64, SETTINGS, assert_same, given_logits, logits, problem, with_bias

from tcb_bench.metrics.delta_tcb import (
    Head,
    reference,
    token_stability,
)
from tcb_bench.metrics.delta_tcb_shards import NEAR

SENTENCES = (
    "<|im_start|>user\nHello<|im_end|>\n<|im_start|>ass",  # only "assistant" follows: margin 11.8
    "My favourite thing about the weekend is",
)
FACTORS = (0, 0.1, 1, 2, 4, 8, 16)


# ---- accuracy in float32


@pytest.mark.parametrize("gap", [0, 0.01, 1, 10, 27.6, 60, 150])
@pytest.mark.parametrize("vocab", [2, NEAR, 3000])
def test_float32_has_delta_to_one_in_ten_thousand_of_float64_given_the_same_logits(vocab, gap):
    # gap 27.6 is v_eff = 1 + 1e-12 or so; the rows share an offset as those of real models do
    _, weight, g = problem(seed=11, vocab=vocab, d=64)
    weight = (weight + 2).float()
    z = torch.randn(vocab, generator=g) * min(1.0, gap)
    z[3 % vocab] = z.max() + gap
    ours = given_logits(z, weight)
    expected = reference(torch.zeros(1, 64), weight, bias=z)[0]
    assert ours.log10_delta_tcb.item() == pytest.approx(expected.log10().item(), abs=4e-5)
    if gap < 80:
        assert ours.delta_tcb.item() == pytest.approx(expected.item(), rel=1e-4)


@pytest.mark.parametrize("gap", [1, 20, 120])
@pytest.mark.parametrize(
    ("copies", "nudge"),
    [(1, 0), (NEAR - 1, 0), (NEAR, 0), (100, 0), (1, 1e-3), (NEAR - 1, 1e-3), (NEAR, 1e-3)],
)
def test_rows_equal_or_nearly_equal_to_the_top_row_do_not_cost_accuracy(copies, gap, nudge):
    _, weight, g = problem(seed=12, vocab=300, d=32, dtype=torch.float32)
    twins = torch.randperm(300, generator=g)[: copies + 1]
    weight[twins] = weight[twins[0]] + nudge * torch.randn(copies + 1, 32, generator=g)
    z = torch.randn(300, generator=g)
    z[twins] = z.max() + gap + torch.rand(copies + 1, generator=g)
    ours = given_logits(z, weight)
    expected = reference(torch.zeros(1, 32), weight, bias=z)
    assert ours.log10_delta_tcb.item() == pytest.approx(expected[0].log10().item(), abs=4e-5)
    assert ours.flip_radius.item() == pytest.approx(expected[1].item(), rel=1e-5)


def test_a_saturated_soft_cap_keeps_its_digits_and_its_order():
    # tanh(12) and tanh(12.5) are both 1 in float32
    hidden, weight = torch.ones(1, 1), torch.tensor([[120.0], [125.0]])
    ours = token_stability(hidden, weight, softcap=10.0)
    expected = reference(hidden, weight, softcap=10.0)
    assert ours.top1_token.item() == 1
    assert ours.flip_radius.item() == pytest.approx(1.0)
    assert ours.delta_tcb.item() == pytest.approx(expected[0].item(), rel=1e-4)


def test_nll_of_a_confident_row_keeps_its_digits_and_delta_beyond_float32_its_logarithm():
    ours = given_logits(torch.tensor([30.0, 0, 1]), torch.eye(3), tokens=torch.tensor([0]))
    exact = math.log1p(math.exp(-30) + math.exp(-29))
    assert ours.nll.item() == pytest.approx(exact, rel=1e-6, abs=0)
    ours = given_logits(torch.tensor([150.0, 0]), torch.eye(2), tokens=torch.tensor([1]))
    assert ours.nll.item() == 150
    assert ours.delta_tcb.item() == math.inf
    # J is o_1 o_2 [[1, -1], [-1, 1]]
    assert ours.log10_delta_tcb.item() == pytest.approx((150 - math.log(2)) / math.log(10))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("options", SETTINGS.values(), ids=SETTINGS)
def test_half_precision_inputs_are_computed_in_float32(dtype, options):
    hidden, weight, g = problem(seed=13, vocab=500, d=33, scale=3, dtype=dtype)
    options = with_bias(options, 500, g)
    choices = torch.tensor([1, 2])
    ours = token_stability(hidden, weight, choices=choices, **options)
    same = token_stability(hidden.float(), weight.float(), choices=choices, **options)
    assert ours.delta_tcb.dtype == torch.float32
    assert_same(ours, same, 1e-6)


@pytest.mark.parametrize(
    ("hidden_type", "weight_type"), [(F64, torch.float32), (torch.float32, F64), (F64, F64)]
)
def test_float64_in_either_input_is_computed_in_float64(hidden_type, weight_type):
    hidden, weight, _ = problem(seed=14, dtype=torch.float32)
    ours = token_stability(hidden.to(hidden_type), weight.to(weight_type))
    assert ours.delta_tcb.dtype == F64
    torch.testing.assert_close(ours.delta_tcb, reference(hidden, weight)[0], rtol=1e-12, atol=0)


def last_states(model, tokenizer):
    """What lm_head receives at the end of each sentence."""
    states = []
    hook = model.lm_head.register_forward_pre_hook(lambda _, args: states.append(args[0][0, -1]))
    with torch.no_grad():
        for sentence in SENTENCES:
            model(**tokenizer(sentence, return_tensors="pt"))
    hook.remove()
    return torch.stack(states), model.lm_head.weight.detach()


def plainly_expanded(z, weight):
    """The formula of section 2's warning: sum o² n - 2 mu.q + S2 ‖mu‖², in the dtype of z."""
    o = torch.softmax(z, 1)
    mu, q = o @ weight, o.square() @ weight
    squares = o.square() @ weight.square().sum(1)
    norm2 = squares - 2 * (mu * q).sum(1) + o.square().sum(1) * mu.square().sum(1)
    return norm2.rsqrt()


@pytest.mark.slow
def test_real_states_keep_delta_from_one_to_1e66_where_the_plain_formula_fails(smollm2):
    states, weight = last_states(*smollm2)
    head = Head(weight)
    seen, plain_errors = [], []
    for factor in FACTORS:
        hidden = factor * states[: 1 if factor == 0 else None]
        expected = reference(hidden, weight)[0].log10()
        ours = token_stability(hidden, head).log10_delta_tcb
        error = (ours.double() - expected).abs() / expected.abs().clamp(min=1)
        assert error.max() <= 1e-4, (factor, error)
        seen += expected.tolist()
        plain = plainly_expanded(logits(hidden, weight), weight).double()
        plain_errors += (plain / 10**expected - 1).abs().nan_to_num(nan=math.inf).tolist()
    assert min(seen) < 1
    assert max(seen) > 66
    worst = [e for e, log10 in zip(plain_errors, seen, strict=True) if log10 > 4]
    assert len(worst) >= 3
    assert min(worst) > 0.1


@pytest.mark.slow
def test_real_states_have_delta_to_one_in_ten_thousand_given_the_same_logits(smollm2):
    states, weight = last_states(*smollm2)
    for factor, state in zip((2, 1), states, strict=True):
        z = weight @ (factor * state)
        expected = reference(torch.zeros_like(state)[None], weight, bias=z)
        ours = given_logits(z, weight)
        assert ours.delta_tcb.item() == pytest.approx(expected[0].item(), rel=1e-4)
        assert ours.flip_radius.item() == pytest.approx(expected[1].item(), rel=1e-5)
