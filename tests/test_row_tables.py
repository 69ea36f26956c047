"""Rows as tables. Oracles: the standard library's fmean and median, row by row."""

import math
import statistics

import numpy as np
import pytest

from tcb_bench.metrics import resampling
from tcb_bench.row_tables import (
    MEAN_NAMES,
    MEDIAN_NAMES,
    document_means,
    document_medians,
    values_for_means,
    values_for_medians,
)


def rows_of(n, rng):
    return [{"acc": None if rng.random() < 0.3 else float(rng.normal())} for _ in range(n)]


def read_acc(row):
    return [row.get("acc")]


@pytest.mark.parametrize(
    ("combine", "oracle"),
    [(document_means, statistics.fmean), (document_medians, statistics.median)],
)
def test_a_documents_value_is_that_of_the_library(combine, oracle):
    rng = np.random.default_rng(0)
    documents = [rows_of(n, rng) for n in (0, 1, 2, 3, 4, 7, 1)]
    found = combine(documents, read_acc)[:, 0]
    for value, rows in zip(found, documents, strict=True):
        known = [row["acc"] for row in rows if row["acc"] is not None]
        assert value == pytest.approx(oracle(known), rel=1e-14) if known else math.isnan(value)


def test_equal_repeats_keep_their_value_exactly():
    documents = [[{"acc": 0.1}] * 3, [{"acc": 1 / 3}] * 7]
    assert document_means(documents, read_acc)[:, 0].tolist() == [0.1, 1 / 3]


def test_no_document_and_no_row_give_empty_tables():
    assert document_means([], values_for_means).shape == (0, len(MEAN_NAMES))
    assert np.isnan(document_medians([[], []], values_for_medians)).all()
    assert document_medians([[], []], values_for_medians).shape == (2, len(MEDIAN_NAMES))


def test_an_overflown_delta_is_infinite_for_medians_and_its_logarithm_for_means():
    row = {"stability": {"log10_delta_tcb": 400.0, "h_norm": 10.0, "delta_tcb": None}}
    medians = dict(zip(MEDIAN_NAMES, values_for_medians(row), strict=True))
    means = dict(zip(MEAN_NAMES, values_for_means(row), strict=True))
    assert medians["delta_tcb_median"] == medians["relative_delta_median"] == math.inf
    assert means["log10_delta_tcb_mean"] == 400.0
    assert means["log10_relative_delta_mean"] == 399.0
    assert medians["v_eff_median"] is None


def test_kept_draws_are_those_that_would_be_made_again():
    columns = np.random.default_rng(1).normal(size=(37, 3))
    kept = [resampling.resampled_sums(columns, resamples=200, seed=5) for _ in range(2)]
    fresh = resampling.resampled_sums(columns, resamples=200, seed=np.random.default_rng(5))
    assert (kept[0] == kept[1]).all()
    assert (kept[0] == fresh).all()
