"""Identities and bounds of the stability quantities.

Oracles: autograd's Jacobian and softmax in float64, and moves of h across the flip.
"""

import math
import threading

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from stability_problems import F64, SETTINGS, assert_same, logits, problem, with_bias

from tcb_bench.metrics.delta_tcb import (
    Head,
    reference,
    stability,
    token_stability,
    weight_radius,
)
from tcb_bench.metrics.delta_tcb_shards import Shard

# ---- the definition


@pytest.mark.parametrize("options", SETTINGS.values(), ids=SETTINGS)
def test_delta_is_eps_over_the_norm_of_the_jacobian_that_autograd_gives(options):
    hidden, weight, g = problem(seed=1)
    options = with_bias(options, len(weight), g)
    norms = [
        torch.linalg.norm(
            torch.autograd.functional.jacobian(
                lambda h: torch.softmax(logits(h, weight, **options), 0), row
            )
        )
        for row in hidden
    ]
    expected = 0.7 / torch.stack(norms)
    ours = token_stability(hidden, weight, eps=0.7, **options)
    torch.testing.assert_close(ours.delta_tcb, expected, rtol=1e-9, atol=0)
    torch.testing.assert_close(reference(hidden, weight, eps=0.7, **options)[0], expected)
    torch.testing.assert_close(ours.log10_delta_tcb, expected.log10())


@pytest.mark.parametrize("options", SETTINGS.values(), ids=SETTINGS)
def test_probabilities_margin_and_nll_are_those_of_softmax_in_float64(options):
    hidden, weight, g = problem(seed=2, vocab=300)
    options = with_bias(options, len(weight), g)
    tokens = torch.tensor([0, 299, 17, 150, 3])
    z = logits(hidden, weight, **options)
    o, order = torch.softmax(z, 1).sort(1, descending=True)
    ours = token_stability(hidden, weight, tokens=tokens, **options)
    assert torch.equal(ours.top1_token, order[:, 0])
    torch.testing.assert_close(ours.p_top1, o[:, 0])
    torch.testing.assert_close(ours.p_top2, o[:, 1])
    torch.testing.assert_close(ours.v_eff, 1 / o.square().sum(1))
    torch.testing.assert_close(ours.logit_margin, z.topk(2).values.diff(dim=1).neg()[:, 0])
    nll = torch.nn.functional.cross_entropy(z, tokens, reduction="none")
    torch.testing.assert_close(ours.nll, nll)
    top1 = torch.nn.functional.cross_entropy(z, order[:, 0], reduction="none")
    torch.testing.assert_close(token_stability(hidden, weight, **options).nll, top1)


def test_lengths_relative_to_h_divide_by_its_norm():
    hidden, weight, _ = problem(seed=3)
    ours = token_stability(hidden, weight)
    norm = hidden.square().sum(1).sqrt()
    torch.testing.assert_close(ours.h_norm, norm)
    torch.testing.assert_close(ours.relative_delta, ours.delta_tcb / norm)
    torch.testing.assert_close(ours.relative_flip_radius, ours.flip_radius / norm)


# ---- identities


@pytest.mark.parametrize(("dtype", "size", "rtol"), [(torch.float32, 10, 2e-4), (F64, 1e4, 1e-7)])
def test_a_constant_vector_added_to_all_rows_changes_nothing(dtype, size, rtol):
    hidden, weight, g = problem(seed=4, n=32, vocab=2000, d=48, scale=0.3, dtype=dtype)
    shift = torch.randn(48, generator=g, dtype=F64).to(dtype)
    shift *= size * weight.norm(dim=1).mean() / shift.norm()
    before, after = token_stability(hidden, weight), token_stability(hidden, weight + shift)
    torch.testing.assert_close(after.delta_tcb, before.delta_tcb, rtol=rtol, atol=0)
    # a flip radius is a difference of logits: what the shift adds to both is its rounding unit
    unit = float(torch.finfo(dtype).eps * (hidden @ shift).abs().max())
    torch.testing.assert_close(after.flip_radius, before.flip_radius, rtol=rtol, atol=unit)


def test_weights_times_s_and_states_over_s_divide_the_lengths_by_s_and_change_nothing_else():
    hidden, weight, _ = problem(seed=5)
    a, b = token_stability(hidden, weight), token_stability(hidden / 8, weight * 8)
    lengths = ("delta_tcb", "flip_radius", "h_norm")
    for name in lengths:
        torch.testing.assert_close(getattr(b, name), getattr(a, name) / 8)
    assert_same(a, b, 1e-9, skip=(*lengths, "log10_delta_tcb"))


def test_delta_is_linear_in_eps_and_nothing_else_depends_on_it():
    hidden, weight, _ = problem(seed=6)
    a, b = token_stability(hidden, weight), token_stability(hidden, weight, eps=0.25)
    torch.testing.assert_close(b.delta_tcb, a.delta_tcb / 4)
    assert_same(a, b, 0, skip=("delta_tcb", "log10_delta_tcb", "relative_delta"))


@pytest.mark.parametrize("options", SETTINGS.values(), ids=SETTINGS)
def test_a_permutation_of_the_vocabulary_only_renames_the_tokens(options):
    hidden, weight, g = problem(seed=7, vocab=200)
    options = with_bias(options, 200, g)
    order = torch.randperm(200, generator=g)
    moved = options | ({"bias": options["bias"][order]} if "bias" in options else {})
    a, b = (
        token_stability(hidden, weight, **options),
        token_stability(hidden, weight[order], **moved),
    )
    assert torch.equal(order[b.top1_token], a.top1_token)
    assert torch.equal(order[b.flip_token], a.flip_token)
    assert_same(a, b, 1e-9, skip=("top1_token", "flip_token"))


def slices(weight, parts, options):
    """Heads over ``parts`` uneven slices of the vocabulary; the first has a single row."""
    bounds = [0, *(1 + i * (len(weight) - 1) // (parts - 1) for i in range(parts - 1)), len(weight)]
    bounds = bounds if parts > 1 else [0, len(weight)]
    bias = options.get("bias")
    for a, b in zip(bounds[:-1], bounds[1:], strict=True):
        piece = {"bias": None if bias is None else bias[a:b]}
        yield Head(weight[a:b], first_id=a, **(options | piece))


@pytest.mark.parametrize("parts", [1, 2, 3, 7])
@pytest.mark.parametrize("options", SETTINGS.values(), ids=SETTINGS)
def test_slices_of_the_vocabulary_combine_to_the_whole(options, parts):
    hidden, weight, g = problem(seed=8, n=9, vocab=301, scale=2)
    options = with_bias(options, 301, g)
    tokens, choices = torch.arange(9) * 37, torch.tensor([0, 300, 150, 7])
    whole = token_stability(hidden, weight, tokens=tokens, choices=choices, **options)
    shards = [Shard(hidden, head) for head in slices(weight, parts, options)]
    assert_same(stability(shards, tokens, choices.expand(9, -1)), whole, 1e-9)


@pytest.mark.parametrize("parts", [2, 7])
def test_copies_of_the_top_row_in_several_slices_are_all_counted(parts):
    hidden, weight, g = problem(seed=24, n=1, vocab=301)
    weight[torch.randperm(301, generator=g)[:60]] = 3 * hidden[0]  # the logit is 3 ‖h‖²: the top
    shards = [Shard(hidden, head) for head in slices(weight, parts, {})]
    ours, whole = stability(shards), token_stability(hidden, weight)
    assert_same(ours, whole, 1e-9, skip=("top1_token",))
    o = torch.softmax(hidden @ weight.T, 1)
    torch.testing.assert_close(ours.v_eff, 1 / o.square().sum(1))


def test_ranks_that_hold_one_slice_each_and_exchange_their_parts_get_the_whole():
    hidden, weight, _ = problem(seed=9, vocab=100)
    heads = list(slices(weight, 3, {}))
    board, results, barrier = [None] * 3, [None] * 3, threading.Barrier(3)

    def rank(i):
        def exchange(mine):
            board[i] = mine
            barrier.wait(timeout=30)
            everyone = [part for parts in board for part in parts]
            barrier.wait(timeout=30)
            return everyone

        results[i] = stability([Shard(hidden, heads[i])], exchange=exchange)

    threads = [threading.Thread(target=rank, args=(i,)) for i in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for result in results:
        assert_same(result, token_stability(hidden, weight), 1e-9)


# ---- the flip radius


@pytest.mark.parametrize("options", SETTINGS.values(), ids=SETTINGS)
@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10**6), vocab=st.integers(2, 90), spread=st.floats(0.01, 3))
def test_h_moved_towards_the_flip_token_flips_at_the_flip_radius_and_not_before(
    options, seed, vocab, spread
):
    hidden, weight, g = problem(seed, n=4, vocab=vocab, d=6)
    weight = 1 + spread * weight  # all directions from almost one row to no common part
    options = with_bias(options, vocab, g)
    uncapped = {k: v for k, v in options.items() if k != "softcap"}
    ours = token_stability(hidden, weight, **options)
    k, j = ours.top1_token, ours.flip_token
    step = torch.nn.functional.normalize(weight[j] - weight[k]) * ours.flip_radius[:, None]
    before = logits(hidden + 0.999 * step, weight, **uncapped).argmax(1)
    after = logits(hidden + 1.001 * step, weight, **uncapped).argmax(1)
    assert torch.equal(before, k)
    assert torch.equal(after, j)
    torch.testing.assert_close(ours.flip_radius, reference(hidden, weight, **options)[1])


def test_the_flip_token_is_found_where_it_is_the_last_in_logit_and_the_longest_row():
    weight, bias = torch.zeros(42, 42, dtype=F64), torch.zeros(42, dtype=F64)
    weight[0, 0] = 1  # the top-1, by 0.1 over 40 rows at a distance of 50, by 1 over one at 1000
    weight[1:41, 1:41], bias[1:41] = 50 * torch.eye(40), 0.9
    weight[41, 41] = 1000
    hidden = torch.zeros(1, 42, dtype=F64)
    hidden[0, 0] = 1
    whole = token_stability(hidden, weight, bias=bias)
    shards = [Shard(hidden, head) for head in slices(weight, 3, {"bias": bias})]
    for ours in (whole, stability(shards)):
        assert ours.flip_token.item() == 41
        assert ours.flip_radius.item() == pytest.approx(1 / math.hypot(1, 1000))


def test_a_zero_row_is_a_flip_token_where_all_the_runners_up_have_the_top_row():
    weight, bias = torch.ones(30, 2), torch.arange(30) / 100
    weight[0] = 0
    ours = token_stability(torch.ones(1, 2), weight, bias=bias, softcap=5.0)
    assert (ours.top1_token.item(), ours.flip_token.item()) == (29, 0)
    assert ours.flip_radius.item() == pytest.approx((2 + 0.29) / 2**0.5)


# ---- bounds


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    vocab=st.integers(2, 60),
    scale=st.sampled_from([0.0, 0.01, 1.0, 5.0, 40.0]),
    dtype=st.sampled_from([torch.float32, F64]),
)
def test_true_values_obey_the_bounds_that_the_radius_of_the_vocabulary_sets(
    seed, vocab, scale, dtype
):
    hidden, weight, _ = problem(seed, vocab=vocab, scale=scale, dtype=dtype)
    ours, r = token_stability(hidden, weight, eps=0.3), weight_radius(weight)
    slack = 1 + 16 * torch.finfo(dtype).eps
    assert (ours.delta_tcb * slack * 2 * r >= 0.3 * ours.v_eff.sqrt()).all()
    assert (ours.flip_radius * slack * 2 * r >= ours.logit_margin).all()
    assert (ours.p_top1.square() + ours.p_top2.square() <= slack / ours.v_eff).all()
    assert (1 / ours.v_eff <= ours.p_top1 * slack).all()
    assert ((ours.v_eff >= 1) & (ours.v_eff <= vocab * slack)).all()
    ratio = ours.p_top2 / ours.p_top1
    torch.testing.assert_close(ratio, torch.exp(-ours.logit_margin), rtol=1e-5, atol=1e-30)


def test_the_radius_of_the_vocabulary_is_the_largest_distance_from_the_mean_row():
    _, weight, _ = problem(seed=10, vocab=3000)
    weight[1234] *= 9
    rows = weight[:2000]
    expected = max((row - rows.mean(0)).norm().item() for row in rows)
    assert weight_radius(weight, n_vocab=2000) == pytest.approx(expected, rel=1e-12)
    bf16 = weight_radius(weight.bfloat16(), n_vocab=2000)
    assert bf16 == pytest.approx(weight_radius(weight.bfloat16().double()[:2000]), rel=1e-5)
