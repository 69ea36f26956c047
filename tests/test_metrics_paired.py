"""Expected values: enumeration of all sign patterns, scipy.stats.permutation_test, hand computation."""

import math
from itertools import product

import numpy as np
import pytest
from scipy import stats

from tcb_bench.metrics import paired
from tcb_bench.metrics.paired import descent_start, holm, sign_flip_p, sign_patterns, verdict
from tcb_bench.metrics.statistics import Interval

NAN = math.nan


def enumerated(d, alternative="two-sided"):
    """Share of all 2^n sign patterns whose sum is at least as extreme, in plain Python."""
    observed, hits = sum(d), 0
    for signs in product((1, -1), repeat=len(d)):
        total = sum(s * x for s, x in zip(signs, d, strict=True))
        if alternative == "two-sided":
            hits += abs(total) >= abs(observed) - 1e-12
        elif alternative == "less":
            hits += total <= observed + 1e-12
        else:
            hits += total >= observed - 1e-12
    return hits / 2 ** len(d)


@pytest.mark.parametrize("alternative", ["two-sided", "less", "greater"])
@pytest.mark.parametrize("seed", range(4))
def test_small_samples_are_enumerated(alternative, seed):
    d = np.round(np.random.default_rng(seed).normal(0.3, 1, size=9), 1)  # with ties and zeros
    d[2] = 0
    assert sign_flip_p(d[:, None], alternative=alternative)[0] == enumerated(d, alternative)


def test_large_samples_agree_with_scipy():
    d = np.random.default_rng(5).normal(size=60)
    d += 0.2 - d.mean()
    expected = stats.permutation_test(
        (d,), np.sum, permutation_type="samples", n_resamples=20_000, rng=1
    ).pvalue
    assert 0.02 < expected < 0.2
    assert sign_flip_p(d[:, None], resamples=20_000)[0] == pytest.approx(expected, abs=0.012)


def test_weights_scale_the_differences():
    d, w = np.array([0.3, -0.1, 0.4, 0.2, -0.5]), np.array([1.0, 2.0, 0.5, 3.0, 1.5])
    assert sign_flip_p(d[:, None], weights=w)[0] == enumerated(d * w)


def test_a_missing_pair_changes_nothing_and_no_pair_has_no_p():
    d = np.array([0.3, -0.1, 0.4, 0.2])
    gappy = np.array([0.3, NAN, -0.1, 0.4, NAN, 0.2])
    p = sign_flip_p(np.stack([gappy, np.full(6, NAN)], axis=1))
    assert p[0] == enumerated(d)
    assert np.isnan(p[1])


def test_no_difference_at_all_has_p_1():
    assert sign_flip_p(np.zeros((40, 1))).tolist() == [1.0]


def test_p_is_never_0():
    p = sign_flip_p(np.ones((100, 1)), resamples=999)
    assert p[0] == pytest.approx(1 / 1000)


def test_the_blocks_in_which_patterns_are_drawn_do_not_show(monkeypatch):
    whole = np.concatenate(list(sign_patterns(30, 500, 3)))
    monkeypatch.setattr(paired, "_MAX_CELLS", 7 * 30)
    assert (np.concatenate(list(sign_patterns(30, 500, 3))) == whole).all()
    assert whole.shape == (501, 30)
    assert set(np.unique(whole)) == {-1.0, 1.0}


def test_all_patterns_of_few_questions_are_there_once():
    patterns = np.concatenate(list(sign_patterns(5, 1000, 0)))
    assert len(np.unique(patterns, axis=0)) == len(patterns) == 32


@pytest.mark.parametrize(
    ("differences", "options", "named"),
    [
        ([1.0], {}, "shape"),
        ([[math.inf]], {}, "finite"),
        ([[1.0]], {"weights": [0.0]}, "weights"),
        ([[1.0]], {"alternative": "up"}, "alternative"),
    ],
)
def test_wrong_input_is_refused_by_name(differences, options, named):
    with pytest.raises(ValueError, match=named):
        sign_flip_p(differences, **options)


# Holm


def test_holm_by_hand():
    # sorted 0.005 0.01 0.03 0.04, factors 4 3 2 1: 0.02 0.03 0.06 0.06 (made monotone)
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.5, 0.9]) == pytest.approx([1.0, 1.0])


def test_a_test_that_was_not_made_does_not_count():
    adjusted = holm([[0.01, NAN], [0.04, 0.03]])
    assert adjusted.shape == (2, 2)
    assert np.isnan(adjusted[0, 1])
    assert adjusted[~np.isnan(adjusted)] == pytest.approx([0.03, 0.06, 0.06])


def test_holm_rejects_what_the_step_down_procedure_rejects():
    rng = np.random.default_rng(0)
    for p in rng.random((50, 6)) ** 3:
        rejected = set()
        for step, i in enumerate(np.argsort(p)):
            if p[i] > 0.05 / (6 - step):
                break
            rejected.add(int(i))
        assert set(np.flatnonzero(holm(p) <= 0.05).tolist()) == rejected


# Verdicts


@pytest.mark.parametrize(
    ("value", "low", "high", "p", "expected"),
    [
        (-0.03, -0.04, -0.02, 0.001, "worse"),
        (0.03, 0.02, 0.04, 0.001, "better"),
        (0.001, -0.004, 0.006, 0.8, "equivalent within 0.01"),
        (0.001, -0.02, 0.02, 0.8, "undecided"),
        (-0.004, -0.006, -0.002, 0.001, "worse, but within 0.01"),
        (-0.009, -0.0101, -0.008, 0.001, "worse"),
        (0.0, -0.01, 0.005, 0.5, "undecided"),
    ],
)
def test_verdicts(value, low, high, p, expected):
    assert verdict(Interval(value, low, high, None, 9), p, margin=0.01) == expected


def test_one_question_decides_nothing():
    assert verdict(Interval(0.0, None, None, None, 1), 1.0, margin=0.01) == "undecided"
    assert verdict(Interval(None, None, None, None, 0), NAN, margin=0.01) == "no data"


# Descent


@pytest.mark.parametrize(
    ("p", "expected"),
    [
        ([0.3, 0.2, 0.5], None),
        ([0.001, 0.001, 0.2], None),  # recovers at the top
        ([0.3, 0.001, 0.02], 1),
        ([0.001, 0.3, 0.02], 2),  # the first one does not stay
        ([0.01, 0.02, 0.03], 0),
        ([0.01, NAN, 0.03, NAN], 0),
        ([0.3, NAN, 0.03], 2),
        ([NAN, NAN], None),
        ([], None),
        ([0.01, 0.05], None),  # 0.05 is not below 0.05
    ],
)
def test_the_descent_starts_where_its_unbroken_run_starts(p, expected):
    assert descent_start(p) == expected
