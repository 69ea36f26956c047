"""Competitors moved, o held fixed. Oracle: an explicit copy of W in float64, C.4.1 read literally."""

import math

import pytest
import torch
from stability_problems import F64, SETTINGS, logits, problem, with_bias

from tcb_bench.metrics.delta_tcb import Head, token_stability
from tcb_bench.metrics.geometry import moved_competitors

MOVES = [(1, 0.5), (10, 0.5), (10, -0.5), (10, 1.0), (3, 0.1), (25, -2.0), (25, 0.9)]


def moved_by_a_copy(x, weight, count, share, *, softcap=None, scale=1.0):
    """log10 delta after C.4.1's move of a copied W; ``x`` (V,) are the logits before the cap."""
    weight, x = weight.double(), x.double()
    order = x.argsort(descending=True)
    k, competitors = order[0], order[1 : count + 1]
    copy = weight.clone()
    copy[competitors] = weight[competitors] + share * (weight[k] - weight[competitors])
    z = x if softcap is None else softcap * torch.tanh(x / softcap)
    o = torch.softmax(z, 0)
    slope = torch.ones_like(x) if softcap is None else 1 - (z / softcap) ** 2
    y = scale * slope[:, None] * copy
    y = y - y[k]  # no w_i - mu changes, and digits are left where o_k is nearly 1
    mu = o @ y
    return -0.5 * torch.log10(o**2 @ ((y - mu) ** 2).sum(1)).item()


@pytest.mark.parametrize("options", SETTINGS.values(), ids=SETTINGS)
@pytest.mark.parametrize("size", [0.1, 1.0, 4.0])
def test_every_move_is_that_of_an_explicit_copy_of_w(options, size):
    hidden, weight, g = problem(seed=1, vocab=60, scale=size)
    options = with_bias(options, 60, g)
    head = Head(weight, **options)
    ours = moved_competitors(hidden, head, MOVES)
    shape = {name: options[name] for name in ("softcap", "scale") if name in options}
    uncapped = logits(hidden, weight, **{**options, "softcap": None})
    for row, x in enumerate(uncapped):
        expected = [moved_by_a_copy(x, weight, *move, **shape) for move in MOVES]
        assert ours.log10_moved[row].tolist() == pytest.approx(expected, abs=1e-11)
        before = moved_by_a_copy(x, weight, 1, 0.0, **shape)
        assert ours.log10_delta[row].item() == pytest.approx(before, abs=1e-11)


def test_the_jacobian_of_autograd_times_the_moved_copy_agrees():
    hidden, weight, _ = problem(seed=2, n=1, vocab=30)
    z = hidden[0] @ weight.T
    jacobian = torch.autograd.functional.jacobian(lambda z: torch.softmax(z, 0), z)
    order = z.argsort(descending=True)
    copy = weight.clone()
    copy[order[1:6]] += 0.7 * (weight[order[0]] - weight[order[1:6]])
    expected = -torch.log10(torch.linalg.norm(jacobian @ copy)).item()
    ours = moved_competitors(hidden, Head(weight), [(5, 0.7)])
    assert ours.log10_moved.item() == pytest.approx(expected, abs=1e-11)


@pytest.mark.parametrize("gap", [0, 1, 10, 27.6, 60, 150])
@pytest.mark.parametrize("vocab", [30, 3000])
def test_float32_keeps_delta_to_one_in_ten_thousand_also_where_the_model_is_certain(vocab, gap):
    # gap 27.6 is v_eff = 1 + 1e-12 or so; the rows share an offset as those of real models do
    _, weight, g = problem(seed=3, vocab=vocab, d=64)
    weight = (weight + 2).float()
    z = torch.randn(vocab, generator=g)
    z[7] = z.max() + gap
    ours = moved_competitors(torch.zeros(1, 64), Head(weight, bias=z), MOVES)
    expected = [moved_by_a_copy(z, weight, *move) for move in MOVES]
    assert ours.log10_moved[0].tolist() == pytest.approx(expected, abs=4e-5)


def test_float32_keeps_its_digits_where_the_moved_rows_were_nearly_all_of_the_sum():
    # the others weigh e^-30 of what was moved onto the top-1: the difference of two sums is noise
    _, weight, g = problem(seed=4, vocab=500, d=16)
    z = torch.randn(500, generator=g)
    z[:11] += 30
    ours = moved_competitors(torch.zeros(1, 16), Head(weight.float(), bias=z), [(10, 1.0)])
    assert ours.log10_moved.item() == pytest.approx(
        moved_by_a_copy(z, weight.float(), 10, 1.0), abs=4e-5
    )
    assert ours.log10_moved.item() - ours.log10_delta.item() > 10


def test_before_the_move_it_is_token_stability():
    hidden, weight, _ = problem(seed=5, n=9, vocab=80, scale=2.0, dtype=torch.float32)
    head = Head(weight)
    ours, plain = moved_competitors(hidden, head, [(10, 0.5)]), token_stability(hidden, head)
    for name in ("log10_delta", "v_eff", "p_top1", "top1_token"):
        other = {"log10_delta": "log10_delta_tcb"}.get(name, name)
        assert getattr(ours, name).tolist() == pytest.approx(
            getattr(plain, other).tolist(), rel=1e-5
        )


def test_rows_that_equal_the_top_row_stay_and_small_workspaces_change_nothing():
    hidden, weight, _ = problem(seed=6, n=12, vocab=90)
    top = (hidden @ weight.T).argmax(1)
    weight[(top[0] + 1) % 90] = weight[top[0]]
    roomy = moved_competitors(hidden, Head(weight), MOVES)
    tight = moved_competitors(hidden, Head(weight), MOVES, workspace_mib=0.01)
    torch.testing.assert_close(roomy.log10_moved, tight.log10_moved, rtol=1e-12, atol=1e-12)
    for row, x in enumerate(hidden @ weight.T):
        expected = [moved_by_a_copy(x, weight, *move) for move in MOVES]
        assert roomy.log10_moved[row].tolist() == pytest.approx(expected, abs=1e-11)


def test_two_tokens_by_hand_and_a_top_row_that_all_competitors_join():
    # two tokens: J is o_1 o_2 times the difference of the rows, so delta goes with 1 / (1 - a)
    hidden, weight = torch.zeros(1, 2, dtype=F64), torch.eye(2, dtype=F64)
    ours = moved_competitors(hidden, Head(weight), [(1, 0.75), (1, -3.0), (1, 1.0)])
    assert ours.log10_delta.item() == pytest.approx(math.log10(2))
    expected = [math.log10(8), math.log10(0.5), math.inf]
    assert ours.log10_moved[0].tolist() == pytest.approx(expected)


def test_padded_rows_are_no_competitors():
    hidden, weight, _ = problem(seed=7, vocab=40)
    padded = torch.cat([weight, 50 * weight[:9]])
    ours = moved_competitors(hidden, Head(padded, n_vocab=40), MOVES)
    expected = moved_competitors(hidden, Head(weight), MOVES)
    assert torch.equal(ours.log10_moved, expected.log10_moved)


@pytest.mark.parametrize(
    ("move", "words"),
    [((0, 0.5), "K must be from 1 to 40"), ((41, 0.5), "got 41"), ((3, math.nan), "finite")],
)
def test_moves_that_cannot_be_made_are_refused(move, words):
    hidden, weight, _ = problem(seed=8)
    with pytest.raises(ValueError, match=words):
        moved_competitors(hidden, Head(weight), [move])
