"""The entropy of the next-token distribution.

Oracles: torch.distributions.Categorical in float64; decimal arithmetic of 60 digits.
"""

import math
from decimal import Decimal, getcontext

import pytest
import torch
from stability_problems import F64, SETTINGS, given_logits, logits, problem, with_bias

from tcb_bench.metrics.delta_tcb import token_stability


def categorical(z):
    return torch.distributions.Categorical(logits=z.double()).entropy()


@pytest.mark.parametrize("options", SETTINGS.values(), ids=SETTINGS)
@pytest.mark.parametrize("scale", [0.01, 1.0, 6.0])
def test_entropy_is_that_of_the_categorical_distribution(options, scale):
    hidden, weight, g = problem(seed=31, n=9, vocab=300, scale=scale)
    options = with_bias(options, len(weight), g)
    ours = token_stability(hidden, weight, **options).entropy
    torch.testing.assert_close(ours, categorical(logits(hidden, weight, **options)))


@pytest.mark.parametrize("gap", [0.0, 1.0, 10.0, 30.0, 80.0])
def test_float32_keeps_the_digits_of_a_confident_rows_entropy(gap):
    getcontext().prec = 60
    z = [gap, 0.0, -1.0, -3.5, -20.0]
    weights = [Decimal(x).exp() for x in z]
    shares = [w / sum(weights) for w in weights]
    exact = float(-sum(p * p.ln() for p in shares))
    ours = given_logits(torch.tensor(z), torch.eye(5)).entropy
    assert ours.item() == pytest.approx(exact, rel=1e-5, abs=0)


def test_tokens_with_the_row_of_the_top_are_counted_with_and_without_a_bias():
    hidden, weight, g = problem(seed=32, n=4, vocab=90)
    weight[20:60] = weight[20]  # more copies than are differenced one by one
    bias = torch.randn(90, generator=g, dtype=F64)
    bias[20:60] += 60  # the copies are the best tokens, and differ by their bias alone
    for extra in ({}, {"bias": bias}):
        ours = token_stability(hidden, weight, **extra).entropy
        torch.testing.assert_close(ours, categorical(logits(hidden, weight, **extra)))


def test_nothing_known_is_log_v_and_a_single_token_is_zero():
    flat = token_stability(torch.zeros(1, 3), torch.eye(3)).entropy
    assert flat.item() == pytest.approx(math.log(3))
    assert token_stability(torch.ones(1, 3), torch.ones(1, 3)).entropy.item() == 0
    apart = torch.tensor([0.0, -1e5, -2e5])  # weights that underflow
    assert given_logits(apart, torch.eye(3)).entropy.item() == 0
