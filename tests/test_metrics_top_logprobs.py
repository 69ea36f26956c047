"""Bounds from the likeliest tokens. Oracle: the whole distribution, softmax in float64 (numpy)."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tcb_bench.metrics.top_logprobs import top_quantities


def whole(logits):
    logits = np.asarray(logits, dtype=np.float64)
    logits = logits - logits.max()
    return logits - np.log(np.exp(logits).sum())


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.floats(-40, 40), min_size=1, max_size=60),
    st.integers(1, 20),
)
def test_the_truth_lies_within_the_bounds(logits, k):
    logprobs = whole(logits)
    truth = 1 / np.sum(np.exp(logprobs) ** 2)
    found = top_quantities(np.sort(logprobs)[::-1][:k].tolist())
    assert found["v_eff_low"] <= truth * (1 + 1e-9)
    assert truth <= found["v_eff_high"] * (1 + 1e-9)
    if k >= len(logits):
        assert found["v_eff_low"] == pytest.approx(truth, rel=1e-6)
        assert found["v_eff_high"] == pytest.approx(truth, rel=1e-6)


@given(st.lists(st.floats(-30, 30), min_size=2, max_size=40))
def test_the_margin_is_the_difference_of_logits(logits):
    first, second = sorted(logits, reverse=True)[:2]
    found = top_quantities(np.sort(whole(logits))[::-1][:20].tolist())
    assert found["logit_margin"] == pytest.approx(first - second, abs=1e-9)
    assert found["p_top1"] / found["p_top2"] == pytest.approx(math.exp(first - second), rel=1e-6)


def test_the_bounds_are_reached():
    # all of the rest on one token as likely as the last known; spread over very many tokens
    tight = top_quantities([math.log(0.4), math.log(0.3)])
    assert tight["v_eff_low"] == pytest.approx(1 / (0.16 + 0.09 + 0.09))
    assert tight["v_eff_high"] == pytest.approx(1 / (0.16 + 0.09))


def test_one_token_and_certainty():
    assert top_quantities([0.0]) == {
        "p_top1": 1.0,
        "top_mass": 1.0,
        "v_eff_low": 1.0,
        "v_eff_high": 1.0,
    }
    sure = top_quantities([0.0, -math.inf])
    assert sure["p_top2"] == 0 and sure["logit_margin"] == math.inf


@pytest.mark.parametrize("bad", [[], [math.nan], [0.5, -1.0]])
def test_what_is_no_log_probability_is_refused(bad):
    with pytest.raises(ValueError, match="log-probabilities"):
        top_quantities(bad)
