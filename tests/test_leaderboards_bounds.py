"""Inequalities of one prediction point.

Oracles: `metrics.delta_tcb` on random heads and states, from flat to peaked, in float32 and with
weights rounded to bfloat16 (true values obey every bound); a point with one value moved past each
bound, by hand.
"""

import math

import pytest
import torch

from tcb_bench.leaderboards.bounds import Point, violations
from tcb_bench.metrics.delta_tcb import token_stability, weight_radius

CHOICES = (3, 5, 7, 11)


def points(seed, *, dtype=torch.float32, scale=1.0, n=64, eps=1.0, tokens=None):
    """``n`` true points of a head of 300 tokens, as a run would store them."""
    make = torch.Generator().manual_seed(seed)
    weight = torch.randn(300, 24, generator=make).to(dtype)
    hidden = torch.randn(n, 24, generator=make) * scale
    asked = torch.randint(0, 300, (n,), generator=make) if tokens else None
    found = token_stability(hidden, weight, choices=torch.tensor(CHOICES), tokens=asked, eps=eps)
    radius = weight_radius(weight)
    for i in range(n):
        row = found.row(i)
        row["answer_mass"] = row.pop("choice_mass")
        values = {k: v if v is None or math.isfinite(v) else None for k, v in row.items()}
        letters = [round(v, 6) for v in found.choice_logprobs[i].tolist()]
        yield Point(
            values=values,
            epsilon=eps,
            radius=radius,
            choices=letters,
            is_greedy_choice=row["top1_token"] in CHOICES,
        )


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("scale", [0.0, 0.01, 0.3, 1.0, 3.0, 10.0])
@pytest.mark.parametrize("tokens", [None, "sampled"])
def test_true_points_obey_every_bound(dtype, scale, tokens):
    for seed in range(3):
        for point in points(seed, dtype=dtype, scale=scale, tokens=tokens, eps=0.5 + seed):
            assert list(violations(point)) == [], point


@pytest.mark.parametrize("scale", [0.3, 1.0, 3.0])
def test_bounds_with_the_radius_are_not_empty(scale):
    """Somewhere a true flip radius is within 6 times of both its bounds: they say something."""
    closest = [math.inf, math.inf]
    for point in points(0, scale=scale):
        v = point.values
        excess = v["entropy"] + math.log(v["p_top1"])
        most = math.sqrt(v["p_top1"] * excess / math.e) + excess / math.sqrt(v["v_eff"])
        closest[0] = min(closest[0], v["flip_radius"] * 2 * point.radius / v["logit_margin"])
        closest[1] = min(closest[1], v["delta_tcb"] * most / v["flip_radius"])
    assert 1 <= min(closest)
    assert max(closest) < 6


def moved(**changes):
    """A point of p = (0.6, 0.3, 0.1) with some values replaced; true but for these."""
    probabilities = torch.tensor([0.6, 0.3, 0.1], dtype=torch.float64)
    weight = torch.tensor([[1.0, 0.0], [0.0, 1.0], [-1.0, -1.0]], dtype=torch.float64)
    hidden = torch.linalg.lstsq(
        weight - weight.mean(0), probabilities.log() - probabilities.log().mean()
    )
    found = token_stability(hidden.solution[None], weight, choices=torch.tensor([0, 2]))
    values = found.row(0)
    values["answer_mass"] = values.pop("choice_mass")
    options = {"choices": found.choice_logprobs[0].tolist(), "is_greedy_choice": True}
    options |= {
        key: changes.pop(key) for key in list(changes) if key in ("choices", "is_greedy_choice")
    }
    return Point(values=values | changes, radius=weight_radius(weight), **options)


def test_the_point_that_is_moved_is_true():
    assert list(violations(moved())) == []


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"delta_tcb": -1.0, "log10_delta_tcb": None}, "delta_tcb = -1 < 0"),
        ({"p_top1": 1.2}, "p_top1 = 1.2 is no probability"),
        ({"v_eff": 0.5}, "v_eff = 0.5 < 1"),
        ({"top1_token": 1.5}, "top1_token = 1.5 is no token id"),
        ({"log10_delta_tcb": 2.0}, "log10_delta_tcb = 2, but"),
        ({"relative_delta": 9.0}, "relative_delta = 9, but delta_tcb / h_norm"),
        ({"relative_flip_radius": 9.0}, "relative_flip_radius = 9, but"),
        ({"logit_margin": 3.0}, "logit_margin = 3, but log(p_top1 / p_top2)"),
        ({"p_top2": 0.7}, "expected p_top2 <= p_top1"),
        ({"v_eff": 1.5}, "1 / v_eff = 0.666667 is not from"),
        ({"v_eff": 3.0}, "1 / v_eff = 0.333333 is not from"),
        ({"entropy": 0.5}, "entropy = 0.5 < log v_eff"),
        ({"entropy": 0.785}, "the least for p_top1 and p_top2"),
        ({"nll": 0.2}, "nll = 0.2 is neither"),
        ({"nll": 0.9}, "nll = 0.9 is neither"),
        ({"delta_tcb": 0.3, "log10_delta_tcb": None}, "delta_tcb = 0.3 < eps sqrt(v_eff) / (2 R)"),
        ({"flip_radius": 0.1}, "flip_radius = 0.1 < logit_margin / (2 R)"),
        ({"choice_flip_radius": 0.4}, "choice_flip_radius = 0.4 < choice_margin / (2 R)"),
        ({"flip_radius": 9.0}, "flip_radius = 9 >"),
        ({"choice_margin": 2.5}, "choice_margin = 2.5, but choice_logprobs lead by"),
        ({"answer_mass": 0.5}, "answer_mass = 0.5, but the choices have 0.7"),
        ({"answer_mass": 0.9}, "answer_mass = 0.9, but the choices have 0.7"),
        ({"choices": [0.1, -3.0]}, "choice_logprobs: 0.1 > 0"),
        ({"is_greedy_choice": False}, "the best answer has 0.6, more than"),
        ({"choices": [math.log(0.5), math.log(0.2)]}, "the top token is an answer, but"),
    ],
)
def test_a_value_past_its_bound_is_named(changes, said):
    changes = {
        "relative_delta": None,
        "relative_flip_radius": None,
        **changes,
    }
    found = list(violations(moved(**changes)))
    assert any(said in text for text in found), found


def test_without_the_radius_its_bounds_are_not_applied():
    point = moved(flip_radius=0.1, relative_flip_radius=None)
    assert len(list(violations(point))) == 1
    without = Point(values=point.values, choices=point.choices, is_greedy_choice=True)
    assert list(violations(without)) == []


def test_epsilon_scales_the_bound_on_delta():
    point = moved(relative_delta=None)
    assert list(violations(point)) == []
    scaled = Point(values=point.values, epsilon=40.0, radius=point.radius)
    assert any("delta_tcb" in text and "eps sqrt" in text for text in violations(scaled))


def test_a_second_probability_below_float32_asks_for_a_large_margin_only():
    values = {"p_top1": 1.0, "p_top2": 0.0, "logit_margin": 120.0, "v_eff": 1.0, "nll": 0.0}
    assert list(violations(Point(values=values))) == []
    values["logit_margin"] = 3.0
    assert [t for t in violations(Point(values=values)) if "logit_margin = 3" in t]
