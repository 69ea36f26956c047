"""Special points, choices, refusals and memory. Oracles: all pairs by hand, torch's profiler."""

import doctest
import json
import math

import pytest
import torch
from stability_problems import F64, SETTINGS, assert_same, logits, problem, with_bias
from torch.profiler import ProfilerActivity, profile

from tcb_bench.metrics import delta_tcb as module
from tcb_bench.metrics import delta_tcb_head as head_module
from tcb_bench.metrics import delta_tcb_shards as shards_module
from tcb_bench.metrics.delta_tcb import (
    QUANTITIES,
    Head,
    reference,
    token_stability,
)
from tcb_bench.metrics.delta_tcb_shards import NEAR

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
    assert torch.isposinf(ours.flip_radius).all()
    # a soft-cap scales each row by its own logit, and threads may round equal logits apart
    least = math.inf if softcap is None else 1e6
    assert (ours.delta_tcb >= least).all()
    assert (ours.log10_delta_tcb >= math.log10(least)).all()
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
    torch.testing.assert_close(ours.choice_logprobs, z.log_softmax(1).gather(1, ids))
    assert (ours.top1_token[:, None] != ids).all(1).any()


def test_the_only_choice_has_no_rival():
    hidden, weight = torch.randn(3, 5), torch.randn(9, 5)
    ours = token_stability(hidden, weight, choices=torch.tensor([4]))
    assert ours.choice_margin.isinf().all() and ours.choice_flip_radius.isinf().all()
    torch.testing.assert_close(ours.choice_mass, (hidden @ weight.T).softmax(1)[:, 4])


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
    "no choices": ((H, W), {"choices": torch.tensor([], dtype=int)}, "at least one id"),
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
