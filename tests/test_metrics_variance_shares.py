"""Expected values: projections of the full array onto each source by plain means, and hand computation."""

import math

import numpy as np
import pytest

from tcb_bench.metrics.variance_shares import SOURCES, variance_shares

NAN = math.nan


def study(q, seed, t=3, c=2, r=3):
    rng = np.random.default_rng(seed)
    effects = rng.normal(size=(t, c, 1, 1)) * 0.02 + rng.normal(size=(1, 1, q, 1)) * 0.03
    return (
        0.9 + effects + 0.01 * rng.normal(size=(t, c, q, 1)) + 0.02 * rng.normal(size=(t, c, q, r))
    )


def brute(groups):
    """Sums of squares by sequential projections onto indicator columns: ordinary least squares."""
    rows = [
        (k, t, c, (k, q), y) for k, g in enumerate(groups) for (t, c, q, _), y in np.ndenumerate(g)
    ]
    y = np.array([row[-1] for row in rows])

    def fit(*parts):
        design = []
        for part in parts:
            keys = [tuple(row[i] for i in part) for row in rows]
            names = sorted(set(keys), key=str)
            design.append(np.array([[key == name for name in names] for key in keys], dtype=float))
        design = np.hstack([np.ones((len(y), 1)), *design])
        return float(np.sum((y - design @ np.linalg.lstsq(design, y, rcond=None)[0]) ** 2))

    k, t, c, q = 0, 1, 2, 3
    nested = [
        ("question type", [(k,)]), ("temperature", [(t,)]), ("context", [(c,)]),
        ("question type x temperature", [(k, t)]), ("question type x context", [(k, c)]),
        ("temperature x context", [(t, c)]),
        ("question type x temperature x context", [(k, t, c)]),
        ("question", [(q,)]), ("question x condition", [(q, t, c)]),
    ]  # fmt: skip
    found, parts, before = {}, [], fit()
    total = before
    for name, more in nested:
        parts += more
        after = fit(*parts)
        found[name], before = (before - after) / total, after
    return {**found, "run": before / total}


@pytest.mark.parametrize("sizes", [(4, 4), (3, 5), (6,)], ids=str)
def test_shares_are_those_of_least_squares(sizes):
    groups = [study(q, seed) for seed, q in enumerate(sizes)]
    found = variance_shares(groups, resamples=20).shares
    expected = brute(groups)
    for source in SOURCES:
        assert found[source].value == pytest.approx(expected[source], abs=1e-9), source


def test_shares_sum_to_1_in_the_estimate():
    shares = variance_shares([study(20, 1), study(30, 2)], resamples=50).shares
    assert sum(share.value for share in shares.values()) == pytest.approx(1)


def test_one_pure_effect_takes_everything():
    temperature = np.broadcast_to(np.array([0.9, 0.8, 0.5])[:, None, None, None], (3, 2, 5, 2))
    shares = variance_shares([temperature, temperature], resamples=20).shares
    assert shares["temperature"].value == pytest.approx(1)
    assert sum(s.value for n, s in shares.items() if n != "temperature") == pytest.approx(
        0, abs=1e-9
    )


def test_an_interaction_by_hand():
    # cells 1, 0 / 0, 1: no main effect, all of it interaction
    cells = np.array([[1.0, 0.0], [0.0, 1.0]])[:, :, None, None]
    shares = variance_shares([np.broadcast_to(cells, (2, 2, 4, 2))], resamples=20).shares
    assert shares["temperature x context"].value == pytest.approx(1)


def test_whole_weights_are_copies_of_questions():
    first, second, weights = study(4, 0), study(5, 1), np.array([1, 2, 1, 3])
    weighted = variance_shares([first, second], weights=[weights, np.ones(5)], resamples=20)
    copies = variance_shares([np.repeat(first, weights, axis=2), second], resamples=20)
    for source in SOURCES:
        assert weighted.shares[source].value == pytest.approx(copies.shares[source].value)


def test_intervals_agree_with_brute_force_resampling_within_types():
    groups, rng = [study(15, 3), study(12, 4)], np.random.default_rng(0)
    found = variance_shares(groups, resamples=3000).shares
    draws = [
        variance_shares(
            [g[:, :, rng.integers(0, g.shape[2], g.shape[2])] for g in groups], resamples=1
        ).shares
        for _ in range(600)
    ]
    for source in ("temperature", "question", "run"):
        values = np.array([d[source].value for d in draws])
        limits = np.quantile(values, [0.025, 0.975])
        own = (found[source].ci_low, found[source].ci_high)
        assert own == pytest.approx(limits, abs=0.35 * values.std()), source


def test_an_incomplete_question_is_left_out_and_counted():
    groups = [study(6, 1), study(6, 2)]
    gappy = [group.copy() for group in groups]
    gappy[0][1, 0, 2, 1] = NAN
    found = variance_shares(gappy, resamples=20)
    without = variance_shares([np.delete(groups[0], 2, axis=2), groups[1]], resamples=20)
    assert (found.n, found.n_left_out) == (11, 1)
    assert found.shares["run"].value == pytest.approx(without.shares["run"].value)


def test_nothing_that_varies_has_no_shares():
    flat = variance_shares([np.full((2, 2, 3, 2), 0.5)], resamples=10)
    assert {share.value for share in flat.shares.values()} == {None}
    empty = variance_shares([np.full((2, 2, 3, 2), NAN)], resamples=10)
    assert (empty.n, empty.n_left_out, empty.shares["run"].value) == (0, 3, None)


def test_groups_of_other_conditions_are_refused():
    with pytest.raises(ValueError, match="alike"):
        variance_shares([np.zeros((2, 2, 3, 1)), np.zeros((3, 2, 3, 1))])
    with pytest.raises(ValueError, match="groups"):
        variance_shares([])
