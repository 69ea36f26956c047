"""Token Constraint Bound against autograd, float64, moves of h, and real hidden states."""

import doctest
import json
import math
import threading
from dataclasses import fields

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.profiler import ProfilerActivity, profile

from tcb_bench.metrics import delta_tcb as module
from tcb_bench.metrics import delta_tcb_head as head_module
from tcb_bench.metrics import delta_tcb_shards as shards_module
from tcb_bench.metrics.delta_tcb import (
    QUANTITIES,
    Head,
    TokenStability,
    reference,
    stability,
    token_stability,
    weight_radius,
)
from tcb_bench.metrics.delta_tcb_shards import NEAR, Shard

F64 = torch.float64
SETTINGS = {
    "plain": {},
    "bias": {"bias": True},
    "scale": {"scale": 0.3},
    "soft-cap": {"softcap": 5.0},
    "all three": {"bias": True, "scale": 1.7, "softcap": 4.0},
}
SENTENCES = (
    "<|im_start|>user\nHello<|im_end|>\n<|im_start|>ass",  # only "assistant" follows: margin 11.8
    "My favourite thing about the weekend is",
)
FACTORS = (0, 0.1, 1, 2, 4, 8, 16)


def problem(seed, n=5, vocab=41, d=7, scale=1.0, dtype=F64):
    """Hidden states and weights with no special structure, and a generator to go on with."""
    g = torch.Generator().manual_seed(seed)
    hidden = scale * torch.randn(n, d, generator=g, dtype=F64)
    weight = torch.randn(vocab, d, generator=g, dtype=F64)
    return hidden.to(dtype), weight.to(dtype), g


def with_bias(options, vocab, g):
    return options | (
        {"bias": torch.randn(vocab, generator=g, dtype=F64)} if "bias" in options else {}
    )


def logits(hidden, weight, bias=None, softcap=None, scale=1.0):
    """The head as a transformers model writes it."""
    x = hidden @ weight.T
    x = scale * (x if bias is None else x + bias)
    return x if softcap is None else torch.tanh(x / softcap) * softcap


def given_logits(z, weight, **options):
    """token_stability in float32 where the logits are exactly ``z``: h is 0 and the bias says them."""
    hidden = torch.zeros(1, weight.shape[1])
    return token_stability(hidden, weight.float(), bias=z.float(), **options)


def assert_same(a, b, rtol, skip=()):
    for f in fields(TokenStability):
        if f.name not in skip:
            x, y = getattr(a, f.name), getattr(b, f.name)
            torch.testing.assert_close(x, y, rtol=rtol, atol=rtol, msg=lambda m, f=f: f.name + m)


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


# ---- special points


def test_padded_rows_are_no_tokens_whatever_they_hold():
    hidden, weight, _ = problem(seed=15)
    padded = torch.cat([weight, torch.full((7, 7), math.nan, dtype=F64)])
    choices = torch.tensor([0, 40])
    ours = token_stability(hidden, padded, n_vocab=41, choices=choices)
    assert_same(ours, token_stability(hidden, weight, choices=choices), 1e-12)
    with pytest.raises(ValueError, match="tokens must be ids from 0 to 40; got 41"):
        token_stability(hidden, padded, n_vocab=41, tokens=torch.full((5,), 41))


@pytest.mark.parametrize("vocab", [1, 2, NEAR + 1, 60])
@pytest.mark.parametrize("softcap", [None, 3.0])
def test_one_row_or_equal_rows_cannot_flip_and_have_no_jacobian(vocab, softcap):
    hidden, weight, _ = problem(seed=16, vocab=1, dtype=torch.float32)
    ours = token_stability(hidden, weight.expand(vocab, -1), softcap=softcap)
    assert torch.isposinf(
        torch.stack([ours.delta_tcb, ours.log10_delta_tcb, ours.flip_radius])
    ).all()
    assert (ours.flip_token == -1).all()
    torch.testing.assert_close(ours.v_eff, torch.full((5,), float(vocab)))
    assert torch.equal(ours.logit_margin, torch.full((5,), 0.0 if vocab > 1 else math.inf))
    assert torch.equal(ours.p_top2 == 0, torch.full((5,), vocab == 1))
    assert not any(math.isnan(v) for v in ours.row(0).values() if v is not None)


def test_h_of_zero_gives_the_whole_vocabulary_and_infinite_relative_lengths():
    _, weight, _ = problem(seed=17, vocab=700)
    ours = token_stability(torch.zeros(1, 7, dtype=F64), weight)
    uniform = torch.cov(weight.T, correction=0).trace()  # ‖J‖² = Σ ‖w_i - mean‖² / V²
    assert ours.v_eff.item() == pytest.approx(700)
    assert ours.delta_tcb.item() == pytest.approx((uniform / 700).rsqrt().item())
    assert ours.flip_radius.item() == 0
    assert ours.relative_delta.item() == ours.relative_flip_radius.item() == math.inf


def test_an_exact_tie_has_a_finite_delta_and_flips_at_once():
    hidden, weight = torch.tensor([[1.0, 0.0]]), torch.tensor([[9.0, 1.0], [9.0, -1.0], [0.0, 0.0]])
    ours = token_stability(hidden, weight)
    assert ours.logit_margin.item() == ours.flip_radius.item() == 0
    assert ours.delta_tcb.item() == pytest.approx(reference(hidden, weight)[0].item(), rel=1e-5)
    assert ours.p_top1.item() == ours.p_top2.item()
    assert {ours.top1_token.item(), ours.flip_token.item()} == {0, 1}


# ---- closed sets of answers


def brute_force_choices(z, x, weight, ids, scale):
    """By pairs: best answer, smallest margin, smallest distance to another answer, mass."""
    best = max(ids, key=lambda i: x[i])
    others = [i for i in set(ids) if i != best]
    distances = {i: (weight[best] - weight[i]).norm() for i in others}
    return (
        min(z[best] - z[i] for i in others),
        min((x[best] - x[i]) / (scale * distances[i]) for i in others if distances[i] > 0),
        torch.softmax(z, 0)[list(set(ids))].sum(),
    )


@pytest.mark.parametrize("options", SETTINGS.values(), ids=SETTINGS)
@pytest.mark.parametrize("per_row", [False, True])
def test_choices_agree_with_all_pairs_also_where_the_top_token_is_none_of_them(options, per_row):
    hidden, weight, g = problem(seed=18, n=12, vocab=60)
    options = with_bias(options, 60, g)
    weight[5] = weight[6]
    shared = torch.tensor([5, 6, 20, 33, 20])
    ids = torch.randint(60, (12, 4), generator=g) if per_row else shared.expand(12, -1)
    ours = token_stability(hidden, weight, choices=ids if per_row else shared, **options)
    z = logits(hidden, weight, **options)
    x = logits(hidden, weight, **{k: v for k, v in options.items() if k != "softcap"})
    scale = options.get("scale", 1.0)
    expected = [brute_force_choices(z[i], x[i], weight, ids[i].tolist(), scale) for i in range(12)]
    margin, radius, mass = (torch.stack(column) for column in zip(*expected, strict=True))
    torch.testing.assert_close(ours.choice_margin, margin)
    torch.testing.assert_close(ours.choice_flip_radius, radius)
    torch.testing.assert_close(ours.choice_mass, mass)
    torch.testing.assert_close(ours.choice_logits, z.gather(1, ids))
    assert (ours.top1_token[:, None] != ids).all(1).any()


# ---- use


def test_a_prepared_head_gives_the_same_and_computes_its_norms_once():
    hidden, weight, g = problem(seed=19)
    bias = torch.randn(41, generator=g, dtype=F64)
    head = Head(weight, bias=bias, softcap=6.0, scale=0.5, n_vocab=40)
    ours = token_stability(hidden, head)
    other = token_stability(hidden, weight, bias=bias, softcap=6.0, scale=0.5, n_vocab=40)
    assert_same(ours, other, 0)
    assert head.spread is head.spread


def test_a_row_is_plain_numbers_under_the_names_of_the_quantities():
    hidden, weight, _ = problem(seed=20)
    ours = token_stability(hidden, weight, choices=torch.tensor([1, 2]))
    row = ours.row(3)
    assert tuple(row) == QUANTITIES
    assert json.loads(json.dumps(row, allow_nan=False))["delta_tcb"] == ours.delta_tcb[3].item()
    assert (type(row["flip_token"]), type(row["nll"])) == (int, float)
    bare = token_stability(hidden, weight).row(0)
    assert [k for k, v in bare.items() if v is None] == [q for q in QUANTITIES if "choice" in q]


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_nan_and_inf_in_a_hidden_state_are_refused_by_the_number_of_the_row(value, dtype):
    hidden, weight, _ = problem(seed=21, dtype=dtype)
    hidden[3, 2] = value
    with pytest.raises(ValueError, match="hidden must be finite; row 3 holds NaN or Inf"):
        token_stability(hidden, weight)


def test_nan_in_the_weights_is_refused_by_the_number_of_the_row():
    hidden, weight, _ = problem(seed=22)
    weight[7, 0] = math.nan
    with pytest.raises(ValueError, match="weight must be finite; row 7 holds NaN or Inf"):
        token_stability(hidden, weight)


H, W = torch.ones(2, 3), torch.eye(4, 3)
REFUSED = {
    "one state": ((torch.ones(3), W), {}, r"hidden must be \(N, 3\) floats.*\(4, 3\); got \(3,\)"),
    "no state": ((torch.ones(0, 3), W), {}, r"N >= 1.*got \(0, 3\)"),
    "other width": ((torch.ones(2, 5), W), {}, r"hidden must be \(N, 3\).*got \(2, 5\)"),
    "integers": ((torch.ones(2, 3).long(), W), {}, "floats.*got .* of torch.int64"),
    "weight": ((H, torch.ones(3)), {}, r"weight must be \(V, d\).*got \(3,\)"),
    "empty weight": ((H, torch.ones(0, 3)), {}, r"weight must be \(V, d\).*got \(0, 3\)"),
    "device": ((H.to("meta"), W), {}, "hidden must be on cpu.*got meta"),
    "bias": ((H, W), {"bias": torch.ones(3)}, r"bias must be \(4,\).*got \(3,\)"),
    "softcap": ((H, W), {"softcap": 0.0}, "softcap must be None or a number > 0; got 0.0"),
    "scale 0": ((H, W), {"scale": 0.0}, "scale must be a number > 0; got 0.0"),
    "scale < 0": ((H, W), {"scale": -1.0}, "scale must be a number > 0; got -1.0"),
    "n_vocab": ((H, W), {"n_vocab": 5}, "n_vocab must be from 1 to the 4 rows.*got 5"),
    "n_vocab 0": ((H, W), {"n_vocab": 0}, "n_vocab must be from 1 to the 4 rows.*got 0"),
    "eps 0": ((H, W), {"eps": 0.0}, "eps must be a number > 0; got 0.0"),
    "eps nan": ((H, W), {"eps": math.nan}, "eps must be a number > 0; got nan"),
    "workspace": ((H, W), {"workspace_mib": 0}, "workspace_mib must be a number > 0; got 0"),
    "tokens": ((H, W), {"tokens": torch.tensor([1])}, r"tokens must be \(2,\).*got \(1,\)"),
    "token": ((H, W), {"tokens": torch.tensor([1, 4])}, "tokens must be ids from 0 to 3; got 4"),
    "token -1": ((H, W), {"tokens": torch.tensor([-1, 0])}, "tokens must be ids.*got -1"),
    "float ids": ((H, W), {"tokens": torch.ones(2)}, "tokens must be integer ids"),
    "choices": ((H, W), {"choices": torch.zeros(3, 2).long()}, r"\(C,\) or \(2, C\).*got \(3, 2\)"),
    "choice": ((H, W), {"choices": torch.tensor([0, 9])}, "choices must be ids from 0 to 3; got 9"),
    "one choice": ((H, W), {"choices": torch.tensor([1, 1])}, "at least 2 distinct ids"),
    "one in a row": ((H, W), {"choices": torch.tensor([[0, 1], [2, 2]])}, "at least 2 distinct"),
    "no choices": ((H, W), {"choices": torch.tensor([], dtype=int)}, "at least 2 distinct ids"),
    "twice": ((H, Head(W)), {"softcap": 1.0}, "weight is a Head: give bias, softcap"),
}


@pytest.mark.parametrize(("args", "options", "message"), REFUSED.values(), ids=REFUSED)
def test_what_does_not_fit_is_refused_in_one_line_with_what_was_given(args, options, message):
    with pytest.raises(ValueError, match=message) as refused:
        token_stability(*args, **options)
    assert "\n" not in str(refused.value)


def peak_mib(work):
    """Most that torch's allocator held at once for ``work``, by the profiler's own events."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as run:
        work()
    events = [e for e in run.profiler.kineto_results.events() if e.name() == "[memory]"]
    held = most = 0
    for event in sorted(events, key=lambda e: e.start_ns()):
        held += event.nbytes()
        most = max(most, held)
    return most / 2**20


@pytest.mark.parametrize(
    "options", [SETTINGS["plain"], SETTINGS["all three"]], ids=["plain", "all"]
)
def test_temporaries_stay_within_the_workspace_and_its_size_does_not_change_the_result(options):
    hidden, weight, g = problem(seed=23, n=200, vocab=20_000, d=64, dtype=torch.float32)
    options = with_bias(options, 20_000, g)
    choices = torch.randint(20_000, (200, 6), generator=g)
    weight = weight.bfloat16()  # so that converted rows count too; the logits alone are 15 MiB

    def run(mib):
        results.append(
            token_stability(hidden, weight, choices=choices, workspace_mib=mib, **options)
        )

    results = []
    assert 1 < peak_mib(lambda: run(4)) <= 4
    assert 8 < peak_mib(lambda: run(32)) <= 32
    assert_same(*results, 1e-4, skip=("flip_radius", "flip_token", "relative_flip_radius"))
    torch.testing.assert_close(results[0].flip_radius, results[1].flip_radius, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("part", [module, head_module, shards_module])
def test_the_examples_in_the_docstrings_are_true(part):
    assert doctest.testmod(part).failed == 0
