"""Oracles: softmaxes in Decimal with 60 digits, autograd's Jacobian in float64, the flip radius."""

from decimal import Decimal, localcontext

import pytest
import torch

from tcb_bench.metrics.delta_tcb import token_stability
from tcb_bench.metrics.delta_tcb_head import Head
from tcb_bench.metrics.perturbed_states import moved, random_directions
from tcb_bench.metrics.spectral import pre_cap, products, spectral_norm


def problem(n=4, v=40, d=10, spread=1.0, seed=0, **head):
    generator = torch.Generator().manual_seed(seed)
    weight = torch.randn(v, d, generator=generator)
    return spread * torch.randn(n, d, generator=generator), Head(weight, **head)


def decimal_softmax(x, softcap):
    values = [Decimal(float(value)) for value in x]
    if softcap:
        cap = Decimal(softcap)

        def tanh(value):
            e = (2 * value / cap).exp()
            return cap * (e - 1) / (e + 1)

        values = [tanh(value) for value in values]
    weights = [(value - max(values)).exp() for value in values]
    return [weight / sum(weights) for weight in weights]


def decimal_change(x, shift, softcap):
    """‖o' - o‖ for float64 logits x before the cap, and their shift."""
    with localcontext() as context:
        context.prec = 60
        before = decimal_softmax(x, softcap)
        after = decimal_softmax(
            [float(a) + float(b) for a, b in zip(x, shift, strict=True)], softcap
        )
        return float(sum((a - b) ** 2 for a, b in zip(after, before, strict=True)).sqrt())


@pytest.mark.parametrize("head", [{}, {"softcap": 5.0, "scale": 0.5}], ids=["plain", "capped"])
@pytest.mark.parametrize("spread", [0.1, 1.0, 20.0])
def test_the_change_is_that_of_sixty_digits(head, spread):
    hidden, head = problem(spread=spread, **head)
    directions = random_directions(4, 2, 10, 0)
    lengths = torch.tensor([[1e-4, 0.1, 30.0]]).double().expand(4, 3)
    found = moved(hidden, head, directions, lengths)
    for i in range(4):
        x = pre_cap(head, hidden)[i].double()
        for u in range(2):
            shift = head.scale * products(head, directions[i])[u].double()
            truth = [decimal_change(x, float(r) * shift, head.softcap) for r in lengths[i]]
            assert found.change[i, u].tolist() == pytest.approx(truth, rel=1e-6)


@pytest.mark.parametrize("softcap", [None, 3.0])
def test_the_slope_is_autograds(softcap):
    hidden, head = problem(softcap=softcap)
    directions = random_directions(4, 3, 10, 1)
    found = moved(hidden, head, directions, torch.ones(4, 1))
    w = head.weight.double()

    def o(h):
        z = w @ h
        return torch.softmax(z if softcap is None else softcap * torch.tanh(z / softcap), 0)

    for i in range(4):
        j = torch.autograd.functional.jacobian(o, hidden[i].double())
        truth = (j @ directions[i].double().T).norm(dim=0)
        assert torch.allclose(found.slope[i], truth, rtol=1e-4)


def test_small_steps_are_first_order_and_large_ones_saturate():
    hidden, head = problem(spread=6.0)
    lengths = torch.tensor([[1e-4, 1e6]]).double().expand(4, 2)
    found = moved(hidden, head, random_directions(4, 2, 10, 2), lengths)
    assert torch.allclose(found.change[..., 0], 1e-4 * found.slope, rtol=1e-2)
    assert (found.change[..., 1] <= 2**0.5 + 1e-12).all()


def test_the_steepest_direction_has_the_spectral_norm_and_random_ones_the_frobenius():
    hidden, head = problem()
    norm = spectral_norm(hidden, head)
    found = moved(hidden, head, norm.direction[:, None], torch.ones(4, 1))
    assert torch.allclose(found.slope[:, 0].log10(), norm.log10_norm.double(), atol=1e-4)
    many = moved(hidden, head, random_directions(4, 20_000, 10, 0), torch.ones(4, 0))
    frobenius = 10 ** -token_stability(hidden, head).log10_delta_tcb.double()
    rms = many.slope.square().mean(1).sqrt()
    assert torch.allclose(rms, frobenius / 10**0.5, rtol=0.03)  # r ‖J‖_F / sqrt(d)


def test_the_top1_flips_at_the_flip_radius_and_not_before():
    hidden, head = problem()
    s = token_stability(hidden, head)
    towards = head.weight[s.flip_token] - head.weight[s.top1_token]
    towards = towards / towards.norm(dim=1, keepdim=True)
    lengths = s.flip_radius.double()[:, None] * torch.tensor([[0.999, 1.001]]).double()
    found = moved(hidden, head, towards[:, None], lengths)
    assert found.flipped[:, 0].tolist() == [[False, True]] * 4


def test_half_precision_weights_and_padding():
    hidden, head = problem()
    padded = Head(torch.cat([head.weight, torch.full((3, 10), 9.0)]).bfloat16(), n_vocab=40)
    plain = Head(head.weight.bfloat16().float())
    directions, lengths = random_directions(4, 2, 10, 0), torch.ones(4, 2)
    a, b = (moved(hidden, h, directions, lengths).change for h in (padded, plain))
    assert torch.allclose(a, b, rtol=1e-5)


def test_directions_are_seeded_and_isotropic():
    drawn = random_directions(1, 50_000, 3, 7)[0]
    assert torch.equal(drawn, random_directions(1, 50_000, 3, 7)[0])
    assert torch.allclose(drawn.T @ drawn / 50_000, torch.eye(3) / 3, atol=0.01)


@pytest.mark.parametrize(
    ("directions", "lengths", "match"),
    [
        (torch.ones(4, 1, 9), torch.ones(4, 1), "expected directions"),
        (torch.ones(4, 1, 10), torch.ones(4, 1), "unit"),
        (random_directions(4, 1, 10, 0), torch.ones(3, 1), "expected directions"),
        (random_directions(4, 1, 10, 0), torch.full((4, 1), torch.inf), "finite"),
    ],
)
def test_what_does_not_fit_is_refused(directions, lengths, match):
    hidden, head = problem()
    with pytest.raises(ValueError, match=match):
        moved(hidden, head, directions, lengths)
