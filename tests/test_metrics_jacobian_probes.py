"""Probes of the softmax's Jacobian against autograd in float64 and sums over all coordinates."""

import math

import numpy as np
import pytest
import torch
from scipy import stats

from tcb_bench.metrics.delta_tcb import Head, reference
from tcb_bench.metrics.jacobian_probes import (
    leading_directions,
    output_probes,
    softmax_cotangents,
    squared_norm,
)


def problem(v=40, d=6, spread=1.0, seed=0):
    g = torch.Generator().manual_seed(seed)
    weight = torch.randn(v, d, generator=g, dtype=torch.float64) * spread
    return torch.randn(d, generator=g, dtype=torch.float64), weight


@pytest.mark.parametrize("spread", [0.0, 0.3, 1.0, 3.0])
def test_cotangents_equal_autograds_jacobian_times_the_probe(spread):
    h, weight = problem(spread=spread)
    z = weight @ h
    jacobian = torch.autograd.functional.jacobian(lambda x: torch.softmax(x, 0), z)
    probes = torch.randn(5, 40, dtype=torch.float64)
    cotangents, log_rho = softmax_cotangents(z, probes)
    torch.testing.assert_close(
        cotangents * math.exp(log_rho), probes @ jacobian, rtol=1e-9, atol=1e-14
    )


def test_a_prediction_of_1_minus_1e_87_keeps_all_digits():
    # by hand: J has rows +-o_k o_j of two tokens, so J^T e_1 / rho = o_k (e_1 - e_0)
    z = torch.tensor([200.0, 0.0, -500.0])
    cotangents, log_rho = softmax_cotangents(z, torch.tensor([[0.0, 1.0, 0.0]]))
    assert log_rho == pytest.approx(-200)
    assert cotangents[0].tolist() == pytest.approx([-1, 1, 0], rel=1e-12)


@pytest.mark.parametrize("spread", [0.3, 2.0])
@pytest.mark.parametrize("n", [0, 1, 7, 40])
def test_directions_and_all_coordinates_together_give_the_exact_norm(spread, n):
    # oracle: E over v of the remainder is its sum over the coordinate probes, without any chance
    h, weight = problem(spread=spread)
    z = weight @ h
    q = leading_directions(z, Head(weight), n)
    torch.testing.assert_close(q @ q.T, torch.eye(min(n, 6), dtype=torch.float64))
    rest = torch.eye(40, dtype=torch.float64)
    rest = rest - (rest @ q.T) @ q
    cotangents, log_rho = softmax_cotangents(z, torch.cat([q, rest]))
    found = (cotangents @ weight).square().sum().sqrt() * math.exp(log_rho)
    delta, _ = reference(h[None], weight)
    assert float(found) == pytest.approx(1 / float(delta), rel=1e-9)


def test_the_mean_over_many_probes_is_the_exact_norm_and_the_error_is_honest():
    h, weight = problem()
    z = weight @ h
    exact = float(reference(h[None], weight)[0]) ** -2
    scores = {0: [], 2: []}
    for n in scores:
        q = leading_directions(z, Head(weight), n)
        for seed in range(300):
            cotangents, log_rho = softmax_cotangents(z, output_probes(q, 64, seed))
            pulled = (cotangents @ weight).square().sum(1).numpy() * math.exp(2 * log_rho)
            one = squared_norm(pulled, n)
            scores[n].append((float(one.value), float(one.stderr)))
        value, error = np.array(scores[n]).T
        z_mean = (value.mean() - exact) / (value.std(ddof=1) / math.sqrt(300))
        assert abs(z_mean) < 3.5
        assert np.sqrt((error**2).mean()) == pytest.approx(value.std(ddof=1), rel=0.2)
    assert np.mean(scores[2], 0)[1] < np.mean(scores[0], 0)[1] / 2  # what the directions are for


def test_the_random_probes_are_signs_without_the_directions_part():
    q = torch.zeros(1, 5, dtype=torch.float64)
    q[0, 2] = 1
    probes = output_probes(q, 8, 3)
    assert probes[0].tolist() == q[0].tolist()
    assert (probes[1:, 2] == 0).all()
    assert (probes[1:, [0, 1, 3, 4]].abs() == 1).all()
    assert torch.equal(probes, output_probes(q, 8, 3))
    assert not torch.equal(probes, output_probes(q, 8, 4))


def test_squared_norm_by_hand():
    one = squared_norm([[10.0], [1.0], [2.0], [3.0]], 1, level=0.9)
    assert one.value.item() == 12
    assert one.stderr.item() == pytest.approx(1 / math.sqrt(3))
    reach = stats.t(2).ppf(0.95) / math.sqrt(3)
    assert one.high.item() == pytest.approx(12 + reach)
    assert one.low.item() == pytest.approx(12 - reach)
    assert squared_norm([[10.0], [0.0], [9.0]], 1).low.item() == 10  # never below what is exact


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: softmax_cotangents(torch.zeros(1), torch.zeros(1, 1)), "V >= 2"),
        (lambda: softmax_cotangents(torch.zeros(3), torch.zeros(1, 2)), r"\(1, 2\)"),
        (lambda: output_probes(torch.zeros(0, 3), 1, 0), "n_random"),
        (lambda: squared_norm([[1.0], [2.0]], 1), "two random"),
    ],
)
def test_bad_input_is_told(call, words):
    with pytest.raises(ValueError, match=words):
        call()
