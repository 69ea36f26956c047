"""Expected values: enumeration of all sign patterns, scipy.stats.permutation_test, hand computation."""

import math
from itertools import product

import numpy as np
import pytest
from scipy import stats

from tcb_bench.metrics.interaction import (
    Crossing,
    crossing,
    interaction_contrasts,
    max_t_sign_flip,
    two_sample_max_t,
)

NAN = math.nan


def test_contrasts_by_hand():
    means = np.array([[[0.9], [0.8]], [[0.7], [0.5]], [[0.6], [NAN]]])  # T=3, C=2, Q=1
    contrasts = interaction_contrasts(means)
    assert contrasts.shape == (2, 1, 1)
    assert contrasts[0, 0, 0] == pytest.approx((0.5 - 0.7) - (0.8 - 0.9))
    assert np.isnan(contrasts[1, 0, 0])


def test_contrasts_of_another_original_and_of_additive_effects():
    rng = np.random.default_rng(0)
    additive = rng.random((4, 1, 6)) + rng.random((1, 3, 6))
    assert interaction_contrasts(additive, original=1) == pytest.approx(np.zeros((3, 2, 6)))
    additive[2, 0] -= 0.1
    changed = interaction_contrasts(additive, original=1)
    assert changed[1, 0] == pytest.approx(np.full(6, -0.1))
    assert np.delete(changed.reshape(6, 6), 2, axis=0) == pytest.approx(np.zeros((5, 6)))


def test_contrasts_of_another_shape_are_refused():
    with pytest.raises(ValueError, match="shape"):
        interaction_contrasts([[1.0]])


def brute_max_t(d):
    """Familywise p by Student's t itself, over all sign patterns."""
    patterns = np.array(list(product((1, -1), repeat=len(d))))

    def t(x):
        return np.abs(x.mean(axis=0)) / (x.std(axis=0, ddof=1) / math.sqrt(len(x)))

    largest = np.array([t(s[:, None] * d).max() for s in patterns])
    return np.mean(largest[:, None] >= t(d) * (1 - 1e-9), axis=0)


@pytest.mark.parametrize("seed", range(3))
def test_max_t_agrees_with_students_t_over_all_patterns(seed):
    d = np.random.default_rng(seed).normal(0.4, 1, size=(9, 4))
    found = max_t_sign_flip(d)
    assert found.p == pytest.approx(brute_max_t(d))
    assert found.global_p == found.p.min()


def test_one_contrast_is_an_ordinary_sign_flip_test():
    d = np.random.default_rng(2).normal(0.3, 1, size=(50, 1))
    expected = stats.permutation_test(
        (d[:, 0],), np.mean, permutation_type="samples", n_resamples=20_000, rng=3
    ).pvalue
    assert max_t_sign_flip(d, resamples=20_000).global_p == pytest.approx(expected, abs=0.012)


def test_familywise_p_lies_between_the_single_p_and_bonferroni():
    d = np.random.default_rng(4).normal(0.2, 1, size=(40, 5))
    family = max_t_sign_flip(d, resamples=5000).p
    single = np.array([max_t_sign_flip(d[:, [k]], resamples=5000).global_p for k in range(5)])
    assert (family >= single - 0.01).all()
    assert (family <= np.minimum(1, 5 * single) + 0.02).all()


def test_a_contrast_without_pairs_is_no_test_and_harms_no_other():
    d = np.random.default_rng(1).normal(0.5, 1, size=(9, 2))
    gap = np.column_stack([d, np.full(9, NAN), np.r_[1.0, np.full(8, NAN)]])
    found = max_t_sign_flip(gap)
    assert found.p[:2] == pytest.approx(max_t_sign_flip(d).p)
    assert np.isnan(found.p[2:]).all()
    nothing = max_t_sign_flip(np.full((4, 1), NAN))
    assert np.isnan(nothing.global_p)


def test_contrasts_that_are_all_0_have_p_1():
    assert max_t_sign_flip(np.zeros((30, 2))).p.tolist() == [1.0, 1.0]


# Two samples


def welch(x, y, axis=-1):
    return stats.ttest_ind(x, y, equal_var=False, axis=axis).statistic


def test_two_samples_agree_with_scipys_permutation_of_welchs_t():
    rng = np.random.default_rng(7)
    x, y = rng.normal(0, 1, 25), rng.normal(0.6, 2, 40)
    expected = stats.permutation_test(
        (x, y), lambda a, b, axis: np.abs(welch(a, b, axis)),
        vectorized=True, n_resamples=10_000, alternative="greater", rng=1,
    ).pvalue  # fmt: skip
    assert 0.01 < expected < 0.5
    found = two_sample_max_t(x[:, None], y[:, None])
    assert found.global_p == pytest.approx(expected, abs=0.015)


def test_the_largest_statistic_of_all_columns_counts():
    rng = np.random.default_rng(3)
    x, y = rng.normal(0, 1, (30, 3)), rng.normal(0.3, 1, (20, 3))
    observed = np.abs(welch(x, y, axis=0))
    both = np.concatenate([x, y])
    orders = [rng.permutation(50) for _ in range(3000)]
    largest = np.array(
        [np.abs(welch(both[o[:30]], both[o[30:]], axis=0)).max() for o in orders[:1500]]
    )
    expected = np.mean(largest[:, None] >= observed, axis=0)
    assert two_sample_max_t(x, y).p == pytest.approx(expected, abs=0.045)


def test_whole_weights_do_not_upset_equal_groups_and_a_gap_is_left_out():
    rng = np.random.default_rng(5)
    x, y = rng.normal(size=(20, 1)), rng.normal(1.0, 1, size=(20, 1))
    plain = two_sample_max_t(x, y).global_p
    weighted = two_sample_max_t(x, y, weights=(np.full(20, 2.0), np.full(20, 2.0))).global_p
    assert weighted == plain
    gappy = two_sample_max_t(np.r_[x, [[NAN]]], y).global_p
    assert gappy == pytest.approx(plain, abs=0.01)


def test_two_equal_constants_do_not_differ_and_one_value_is_no_group():
    assert two_sample_max_t(np.ones((5, 1)), np.ones((6, 1))).global_p == 1.0
    assert np.isnan(two_sample_max_t(np.ones((1, 1)), np.ones((6, 1))).global_p)


def test_groups_of_other_columns_are_refused():
    with pytest.raises(ValueError, match="groups"):
        two_sample_max_t(np.ones((3, 2)), np.ones((3, 1)))


# Crossings


def test_the_best_supported_change_of_sign_is_found():
    found = crossing([-0.03, -0.01, 0.02, 0.05], [0.001, 0.6, 0.2, 0.03])
    assert found == Crossing(low=0, high=3, p=0.03)


@pytest.mark.parametrize("means", [[0.1, 0.2], [-0.1, 0.0], [NAN, 0.1], [0.1]])
def test_no_change_of_sign_is_no_crossing(means):
    assert crossing(means, [0.01] * len(means)) is None
