"""Expected values: by hand, from scipy.stats, or from brute-force resampling, as each test says."""

import math

import numpy as np
import pytest
from scipy import stats

from tcb_bench.metrics import resampling
from tcb_bench.metrics.statistics import (
    Interval,
    mean_intervals,
    median_intervals,
    stratified_mean_interval,
)

NAN, INF = math.nan, math.inf
NOTHING = Interval(None, None, None, None, 0)


def column(*values):
    return np.array(values, dtype=float)[:, None]


def skewed(n, seed=0):
    return np.random.default_rng(seed).lognormal(size=n)


def scipy_percentile(sample, statistic, resamples=10_000, seed=1):
    found = stats.bootstrap(
        (sample,), statistic, n_resamples=resamples, method="percentile", rng=seed
    )
    return found.confidence_interval, found.standard_error


# Means


def test_mean_and_classical_standard_error_agree_with_hand_computation():
    [found] = mean_intervals(column(1, 2, 3, 6))
    assert found.value == 3.0
    assert found.stderr == pytest.approx(math.sqrt(14 / 3 / 4))  # deviations -2 -1 0 3
    assert found.n == 4


def test_mean_interval_agrees_with_scipy_within_monte_carlo_error():
    sample = skewed(60)
    [found] = mean_intervals(sample[:, None])
    (low, high), spread = scipy_percentile(sample, np.mean)
    # a 2.5 % quantile of 10,000 draws has a standard error of about 0.027 sd; of a difference, 0.04
    assert (found.ci_low, found.ci_high) == pytest.approx((low, high), abs=0.15 * spread)
    assert found.stderr == pytest.approx(stats.sem(sample))


@pytest.mark.parametrize(("n", "right"), [(50, 30), (200, 190), (1000, 712)])
def test_accuracy_interval_agrees_with_binomial_quantiles(n, right):
    [found] = mean_intervals(column(*[1] * right, *[0] * (n - right)))
    resampled = stats.binom(n, right / n)
    for limit, tail in ((round(found.ci_low * n), 0.025), (round(found.ci_high * n), 0.975)):
        # a limit is a quantile: P(< limit) <= tail <= P(<= limit), to 4 standard errors
        assert resampled.cdf(limit - 1) - 0.0063 <= tail <= resampled.cdf(limit) + 0.0063
    assert found.value == right / n


def test_a_missing_cell_is_left_out_of_its_own_column_only():
    table = np.array([[1.0, 5.0], [NAN, 7.0], [3.0, NAN], [5.0, 9.0]])
    first, second = mean_intervals(table)
    assert (first.value, first.n, second.value, second.n) == (3.0, 3, 7.0, 3)
    assert first.stderr == pytest.approx(stats.sem([1, 3, 5]))
    assert 1 <= first.ci_low <= 3 <= first.ci_high <= 5


def test_a_column_with_gaps_has_the_interval_of_its_ratio_estimator():
    rng = np.random.default_rng(3)
    values = np.where(rng.random(80) < 0.4, NAN, skewed(80))
    [found] = mean_intervals(values[:, None])
    (low, high), spread = scipy_percentile(values, lambda x, axis: np.nanmean(x, axis=axis))
    assert (found.ci_low, found.ci_high) == pytest.approx((low, high), abs=0.15 * spread)


def test_rows_are_resampled_jointly_for_all_columns():
    x = skewed(30)
    up, down = mean_intervals(np.stack([x, 10 - 2 * x], axis=1))
    assert down.ci_low == pytest.approx(10 - 2 * up.ci_high, rel=1e-12)
    assert down.ci_high == pytest.approx(10 - 2 * up.ci_low, rel=1e-12)


@pytest.mark.parametrize("intervals", [mean_intervals, median_intervals])
def test_a_column_does_not_depend_on_the_others(intervals):
    x = skewed(31)
    [alone] = intervals(x[:, None], resamples=500)
    beside = intervals(np.stack([np.arange(31.0), x, np.full(31, NAN)], axis=1), resamples=500)[1]
    assert vars(beside) == pytest.approx(vars(alone), rel=1e-12)


@pytest.mark.parametrize("intervals", [mean_intervals, median_intervals])
def test_the_blocks_in_which_resamples_are_drawn_do_not_show(intervals, monkeypatch):
    table = np.stack([skewed(23), skewed(23, seed=1)], axis=1)
    whole = intervals(table, resamples=1000)
    monkeypatch.setattr(resampling, "_MAX_CELLS", 7 * 23)
    resampling._kept_counts.cache_clear()
    blocks = intervals(table, resamples=1000)
    assert [vars(b) for b in blocks] == [pytest.approx(vars(w), rel=1e-12) for w in whole]


def test_a_resample_without_any_available_cell_is_left_out():
    values = column(*[NAN] * 8, 0.0, 1.0)  # P(no available cell) = 0.8^10 = 0.11
    [found] = mean_intervals(values)
    assert found == Interval(0.5, 0.0, 1.0, pytest.approx(0.5), 2)


@pytest.mark.parametrize("intervals", [mean_intervals, median_intervals])
def test_a_constant_column_has_an_interval_of_no_width(intervals):
    [found] = intervals(column(*[0.1] * 9))
    assert found.ci_low == found.value == found.ci_high == pytest.approx(0.1)
    assert found.stderr == pytest.approx(0, abs=1e-15)


@pytest.mark.parametrize("intervals", [mean_intervals, median_intervals])
def test_one_value_has_no_interval_and_none_has_no_value(intervals):
    table = np.array([[1.5, NAN], [NAN, NAN]])
    assert intervals(table) == [Interval(1.5, None, None, None, 1), NOTHING]
    assert intervals(np.empty((0, 2))) == [NOTHING, NOTHING]
    assert intervals(np.empty((5, 0))) == []


@pytest.mark.parametrize("intervals", [mean_intervals, median_intervals])
def test_the_seed_decides_the_resamples(intervals):
    table = skewed(41)[:, None]
    assert intervals(table, seed=5) == intervals(table, seed=5)
    assert intervals(table, seed=5, resamples=99) != intervals(table, seed=6, resamples=99)


@pytest.mark.parametrize("intervals", [mean_intervals, median_intervals])
def test_a_higher_level_gives_a_wider_interval(intervals):
    table = skewed(101)[:, None]
    [narrow], [wide] = intervals(table, level=0.5), intervals(table, level=0.99)
    assert wide.ci_low < narrow.ci_low < narrow.value < narrow.ci_high < wide.ci_high


@pytest.mark.parametrize("intervals", [mean_intervals, median_intervals])
def test_the_interval_covers_the_true_centre_of_a_normal_about_as_often_as_it_says(intervals):
    samples = np.random.default_rng(11).normal(size=(60, 400))  # 400 experiments of 60 values
    found = intervals(samples, resamples=1000, level=0.9)
    covered = np.mean([interval.ci_low <= 0 <= interval.ci_high for interval in found])
    assert 0.85 < covered < 0.95  # 0.9 with a standard error of 0.015


@pytest.mark.parametrize("intervals", [mean_intervals, median_intervals])
@pytest.mark.parametrize(
    ("values", "options", "named"),
    [
        ([1.0, 2.0], {}, "shape"),
        ([[1.0], [-INF]], {}, "inf"),
        ([[1.0], [2.0]], {"resamples": 0}, "resamples"),
        ([[1.0], [2.0]], {"level": 1.0}, "level"),
    ],
)
def test_wrong_input_is_refused_by_name(intervals, values, options, named):
    with pytest.raises(ValueError, match=named):
        intervals(values, **options)


def test_a_mean_of_an_infinity_is_refused():
    with pytest.raises(ValueError, match="infinity"):
        mean_intervals(column(1, INF))


# Medians


def test_the_resampled_median_of_two_values_has_its_exact_distribution():
    # by hand: 0, 1/2 and 1 with probabilities 1/4, 1/2, 1/4; variance 1/8
    [found] = median_intervals(column(0, 1), resamples=100_000)
    assert found == Interval(0.5, 0.0, 1.0, pytest.approx(math.sqrt(1 / 8), rel=0.01), 2)


def test_the_resampled_median_of_four_values_has_its_exact_distribution():
    # by hand: ones in a resample ~ Binomial(4, 1/4); median 0 for <= 1, 1/2 for 2, 1 for >= 3
    half, one = 54 / 256, 13 / 256
    variance = half / 4 + one - (half / 2 + one) ** 2
    [found] = median_intervals(column(0, 1, 0, 0), resamples=100_000)
    assert found.value == 0
    assert found.stderr == pytest.approx(math.sqrt(variance), rel=0.02)
    [narrow] = median_intervals(column(0, 1, 0, 0), resamples=100_000, level=0.5)
    assert (narrow.ci_low, narrow.ci_high, found.ci_high) == (0, 0.5, 1)


@pytest.mark.parametrize("n", [3, 25, 101, 1001])
def test_ranks_of_the_resampled_median_follow_the_binomial_of_efron_1979(n):
    ranks = np.arange(1, n + 1)  # P(median <= x_(r)) = P(Binomial(n, r / n) >= (n + 1) / 2)
    cdf = stats.binom.sf((n + 1) // 2 - 1, n, ranks / n)
    [found] = median_intervals(ranks[::-1, None].astype(float), resamples=100_000)
    expected = np.searchsorted(cdf, [0.025, 0.975]) + 1
    assert [found.ci_low, found.ci_high] == pytest.approx(expected, abs=max(1, 0.01 * n))
    pmf = np.diff(cdf, prepend=0)
    exact = math.sqrt(pmf @ ranks**2 - (pmf @ ranks) ** 2)
    assert found.stderr == pytest.approx(exact, rel=0.02)


@pytest.mark.parametrize("n", [6, 7, 40])
@pytest.mark.parametrize("level", [0.5, 0.8, 0.95])
def test_the_simulated_median_agrees_with_brute_force_resampling(n, level):
    sample = skewed(n, seed=n)
    rng = np.random.default_rng(7)
    brute = np.median(sample[rng.integers(0, n, size=(100_000, n))], axis=1)
    [found] = median_intervals(sample[:, None], resamples=100_000, level=level)
    for limit, tail in ((found.ci_low, (1 - level) / 2), (found.ci_high, (1 + level) / 2)):
        # the limit is a quantile: P(< limit) <= tail <= P(<= limit), to 4 standard errors
        assert np.mean(brute < limit) - 0.007 <= tail <= np.mean(brute <= limit) + 0.007
    assert found.value == np.median(sample)
    assert found.stderr == pytest.approx(brute.std(ddof=1), rel=0.03)


def test_median_interval_agrees_with_scipy():
    sample = skewed(75)
    [found] = median_intervals(sample[:, None])
    (low, high), spread = scipy_percentile(sample, np.median)
    assert (found.ci_low, found.ci_high) == pytest.approx((low, high), abs=0.3 * spread)
    assert found.stderr == pytest.approx(spread, rel=0.05)


def test_an_overflown_length_is_a_large_value_of_a_median():
    assert median_intervals(column(2, INF, 1))[0] == Interval(2.0, 1.0, INF, None, 3)
    assert median_intervals(column(1, INF))[0].value == INF
    assert median_intervals(column(INF, INF, 3, INF))[0].value == INF
    finite = median_intervals(column(*range(99), INF))[0]
    assert finite.value == 49.5
    assert 30 < finite.ci_low < finite.ci_high < 70
    assert finite.stderr is not None


def test_lengths_near_the_largest_float_keep_a_finite_median_and_error():
    [found] = median_intervals(column(1.5e308, 1.6e308, 1.7e308, 1.6e308))
    assert found.value == pytest.approx(1.6e308)
    assert 1e306 < found.stderr < 1e308


# Macro means


def test_macro_mean_and_its_error_agree_with_hand_computation():
    # group means 1/2 and 1/4; variances of the mean 1/2 / 2 and 1/4 / 4
    found = stratified_mean_interval([[0, 1], [0, 0, 1, 0]])
    assert found.value == 0.375
    assert found.stderr == pytest.approx(math.sqrt(1 / 4 + 1 / 16) / 2)
    assert found.n == 6


def test_macro_interval_agrees_with_brute_force_resampling_within_groups():
    groups = [skewed(n, seed=n) for n in (12, 30, 55)]
    rng = np.random.default_rng(2)
    brute = np.mean([g[rng.integers(0, len(g), (50_000, len(g)))].mean(1) for g in groups], axis=0)
    found = stratified_mean_interval(groups)
    expected = np.quantile(brute, [0.025, 0.975])
    assert [found.ci_low, found.ci_high] == pytest.approx(expected, abs=0.15 * brute.std())


def test_the_spread_between_fixed_groups_is_no_sampling_error():
    easy, hard = np.array([1.0, 2.0, 4.0]), np.array([0.0, 1.0, 1.5, 2.0])
    near, far = (stratified_mean_interval([easy + shift, hard]) for shift in (0, 100))
    assert far.stderr == pytest.approx(near.stderr)
    assert far.ci_high - far.ci_low == pytest.approx(near.ci_high - near.ci_low)


def test_one_group_has_the_interval_of_its_mean():
    sample = skewed(35)
    assert vars(stratified_mean_interval([sample], seed=3)) == pytest.approx(
        vars(mean_intervals(sample[:, None], seed=3)[0]), rel=1e-12
    )


def test_a_thin_group_takes_the_interval_and_an_empty_one_the_value():
    assert stratified_mean_interval([[1, 0], [1, NAN]]) == Interval(0.75, None, None, None, 3)
    assert stratified_mean_interval([[1, 0], [NAN]]) == Interval(None, None, None, None, 2)
    assert stratified_mean_interval([[1, 0], []]) == Interval(None, None, None, None, 2)
    assert stratified_mean_interval([]) == NOTHING


def test_missing_values_of_a_group_are_left_out():
    gappy = stratified_mean_interval([[1, NAN, 0], [2, 3, NAN]])
    assert gappy == stratified_mean_interval([[1, 0], [2, 3]])


@pytest.mark.parametrize(
    ("groups", "named"), [([[[1.0]]], "shape"), ([[1.0, INF]], "infinity")], ids=str
)
def test_a_group_of_another_shape_or_with_an_infinity_is_refused(groups, named):
    with pytest.raises(ValueError, match=named):
        stratified_mean_interval(groups)


def test_limits_never_leave_the_range_of_the_values_by_rounding():
    values = np.array([[0.0]] * 9 + [[1.0]])
    assert mean_intervals(values)[0].ci_low == 0.0
    assert stratified_mean_interval([values[:, 0], values[:, 0]]).ci_low >= 0.0
