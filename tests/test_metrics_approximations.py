"""The paper's simpler forms. Oracle: its formulas over explicit vectors and matrices in float64."""

import math

import pytest
import torch
from stability_problems import F64, SETTINGS, logits, problem, with_bias

from tcb_bench.metrics.approximations import approximations, mean_square_of
from tcb_bench.metrics.delta_tcb import Head, token_stability


def written_out(z, weight, slope):
    """The three log10 deltas of one row by explicit matrices; ``slope`` (V,) is dz / d(W h)."""
    z, weight, slope = z.double(), weight.double(), slope.double()
    o = torch.softmax(z, 0)
    noise = weight.shape[1] * (weight**2).mean()
    m = torch.diag(o) - torch.outer(o, o)
    y, k = slope[:, None] * weight, z.argmax()
    squares = (
        noise * torch.linalg.norm(m * slope) ** 2,
        noise * ((slope * o) ** 2).sum(),
        (o**2 * ((y - y[k]) ** 2).sum(1)).sum(),
    )
    return [-math.log10(s) / 2 for s in squares]


def found(ours, row=0):
    return [form[row].item() for form in (ours.refined, ours.diffuse, ours.peaked)]


@pytest.mark.parametrize("options", SETTINGS.values(), ids=SETTINGS)
@pytest.mark.parametrize("size", [0.1, 1.0, 3.0])
def test_the_forms_are_those_of_explicit_matrices(options, size):
    hidden, weight, g = problem(seed=1, vocab=60, scale=size)
    options = with_bias(options, 60, g)
    ours = approximations(hidden, Head(weight, **options))
    cap, scale = options.get("softcap"), options.get("scale", 1.0)
    for row, z in enumerate(logits(hidden, weight, **options)):
        slope = scale * (torch.ones_like(z) if cap is None else 1 - (z / cap) ** 2)
        assert found(ours, row) == pytest.approx(written_out(z, weight, slope), abs=1e-11)


def test_the_refined_form_is_the_papers_s2_s3_formula():
    hidden, weight, _ = problem(seed=2, vocab=50)
    ours = approximations(hidden, Head(weight)).refined
    o = torch.softmax(hidden @ weight.T, 1)
    s_2, s_3 = (o**2).sum(1), (o**3).sum(1)
    expected = (7 * (weight**2).mean() * (s_2 - 2 * s_3 + s_2**2)).rsqrt().log10()
    torch.testing.assert_close(ours, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("gap", [0, 1, 10, 27.6, 40])
def test_float32_keeps_its_digits_where_the_model_is_certain(gap):
    _, weight, g = problem(seed=3, vocab=400, d=32)
    z = torch.randn(400, generator=g)
    z[5] = z.max() + gap
    ours = approximations(torch.zeros(1, 32), Head(weight.float(), bias=z))
    w, o = weight.float().double(), torch.softmax(z.double(), 0)
    others = torch.arange(400) != 5
    left = o[others].sum()  # 1 - o_k with all its digits
    row_k = o[5] ** 2 * (left**2 + (o[others] ** 2).sum())
    inside = o[others] ** 2 * (1 - 2 * o[others] + (o**2).sum())
    refined = 32 * (w**2).mean() * (row_k + inside.sum())
    peaked = (o**2 * ((w - w[5]) ** 2).sum(1)).sum()
    expected = [-math.log10(refined) / 2, None, -math.log10(peaked) / 2]
    expected[1] = -math.log10(32 * (w**2).mean() * (o**2).sum()) / 2
    assert found(ours) == pytest.approx(expected, abs=4e-5)


def test_beyond_the_range_of_float32_the_logarithms_go_on():
    # by hand: o_2 = e^-150, d sigma² = 2 / 2
    ours = approximations(torch.zeros(1, 2), Head(torch.eye(2), bias=torch.tensor([150.0, 0])))
    # M is o_1 o_2 [[1, -1], [-1, 1]], of norm 2 o_2; the rows are sqrt(2) apart
    far = 150 / math.log(10)
    expected = [far - math.log10(2), 0.0, far - math.log10(2) / 2]
    assert found(ours) == pytest.approx(expected, rel=1e-6)
    # the peaked form lacks the top-1's own term, here half of the sum
    exact = token_stability(torch.zeros(1, 2), torch.eye(2), bias=torch.tensor([150.0, 0]))
    assert found(ours)[2] - exact.log10_delta_tcb.item() == pytest.approx(math.log10(2) / 2, 1e-3)


def test_on_rows_of_independent_noise_the_refined_form_is_the_exact_value():
    # the theory's own ensemble, d large: both norms concentrate
    g = torch.Generator().manual_seed(4)
    weight = torch.randn(500, 4000, generator=g, dtype=F64)
    head = Head(weight, bias=4 * torch.randn(500, generator=g, dtype=F64))
    hidden = torch.zeros(1, 4000, dtype=F64)
    exact = token_stability(hidden, head).log10_delta_tcb.item()
    assert approximations(hidden, head).refined.item() == pytest.approx(exact, abs=0.01)


def test_padding_is_no_part_of_any_sum_and_small_workspaces_change_nothing():
    hidden, weight, _ = problem(seed=5, n=11, vocab=40)
    padded = torch.cat([weight, 50 * weight[:9]])
    expected = approximations(hidden, Head(weight))
    ours = approximations(hidden, Head(padded, n_vocab=40), workspace_mib=0.005)
    assert mean_square_of(Head(padded, n_vocab=40)) == pytest.approx((weight**2).mean().item())
    for name in ("refined", "diffuse", "peaked"):
        torch.testing.assert_close(getattr(ours, name), getattr(expected, name))


def test_one_token_has_no_norm_and_so_no_bound():
    ours = approximations(torch.ones(1, 3), Head(torch.ones(1, 3)))
    assert found(ours)[0] == found(ours)[2] == math.inf
    assert ours.diffuse.item() == pytest.approx(-math.log10(3) / 2)
