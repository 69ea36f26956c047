"""Figures of an entry. Oracles: numpy.histogram, labels in the sample rows, the entry's own numbers."""

import re
from collections import Counter

import numpy as np
import pytest
from board_site import entries

from tcb_bench.leaderboards.columns import read_columns
from tcb_bench.leaderboards.entry_files import read_entry, read_samples
from tcb_bench.leaderboards.render_curves import curves
from tcb_bench.leaderboards.render_histogram import distribution, histogram
from tcb_bench.leaderboards.render_numbers import decimal, significant
from tcb_bench.leaderboards.render_scatter import conflicts
from tcb_bench.leaderboards.render_svg import BOTTOM, HEIGHT, TOP, decades, nice_ticks
from tcb_bench.leaderboards.render_sweep import sweep


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return entries(tmp_path_factory.mktemp("entries"), models=("acme/North-7B",))


@pytest.fixture(scope="module")
def mmlu(made):
    return made / "acme__North-7B" / "mmlu_tcb.json"


@pytest.fixture(scope="module")
def hotpot(made):
    return made / "acme__North-7B" / "hotpotqa_tempperturb.json"


def columns_of(path):
    return read_columns(path.with_name(f"{path.stem}.samples.jsonl.gz"))


def test_bins_count_as_numpy_counts(mmlu):
    values = columns_of(mmlu).values["log10_relative_delta"]
    found = histogram(values)
    assert found.counts == np.histogram(values, bins=np.array(found.edges))[0].tolist()
    assert sum(found.counts) == 40


@pytest.mark.parametrize("spread", [0.0, 1e-3, 1.0, 600.0])
def test_any_spread_of_values_fits_into_the_bins(spread):
    values = np.array([-0.3, -0.3 + spread, np.nan, np.inf])
    found = histogram(values)
    assert sum(found.counts) == 2
    assert len(found.counts) <= 30
    assert found.edges[0] <= -0.3 < found.edges[1]


def test_without_a_value_there_is_no_figure():
    assert histogram(np.array([np.nan])) is None
    assert distribution("d", np.array([])) is None


@pytest.mark.parametrize("name", ["mmlu", "hotpot"])
def test_quadrants_count_the_labels_that_stand_in_the_rows(request, name):
    path = request.getfixturevalue(name)
    figure = conflicts("c", columns_of(path))
    labels = Counter(
        label
        for sample in read_samples(path.with_name(f"{path.stem}.samples.jsonl.gz"))
        for own in sample.rows
        for label in (own.conflict.accuracy, own.conflict.confidence)
    )
    shown = {case: int(n.replace(",", "")) for _, case, _, n, _ in figure.numbers.rows}
    assert shown == {case: labels[case] for case in shown}
    assert len(shown) == 8
    assert sum(shown.values()) == sum(n for label, n in labels.items() if label)


def test_points_above_the_threshold_line_are_the_stable_ones(mmlu):
    figure = conflicts("c", columns_of(mmlu))
    drawing = str(figure.panels[1][1])
    limit = float(re.search(r'threshold" d="M\d+ ([\d.]+)H', drawing)[1])
    heights = [
        float(y)
        for path in re.findall(r'class="mark thin s\d" d="([^"]+)"', drawing)
        for y in re.findall(r"M[\d.]+ ([\d.]+)", path)
    ]
    counts = {case: int(n) for axis, case, _, n, _ in figure.numbers.rows if axis == "confidence"}
    stable = counts["uncertain_but_stable"] + counts["consistent_confident_stable"]
    assert len(heights) == 40
    assert sum(y < limit + 0.06 for y in heights) == stable  # coordinates have one decimal


def test_curves_pass_through_the_entrys_numbers(hotpot):
    entry = read_entry(hotpot)
    found = sweep(entry.conditions, "bertscore_f1")
    assert [panel.label for panel in found.panels] == ["bridge", "comparison"]
    figure = curves("c", found, "t", "")
    drawing = str(figure.panels[0][1])
    values = {
        (c.axes["context"], c.axes["temperature"]): m.value
        for c in entry.conditions
        for m in c.metrics
        if m.name == "bertscore_f1" and c.axes["question_type"] == "bridge"
    }
    heights = [
        v
        for c in entry.conditions
        for m in c.metrics
        if m.name == "bertscore_f1"
        for v in (m.value, m.ci_low, m.ci_high)
    ]
    ticks = nice_ticks(min(heights), max(heights))
    for label, line in zip(
        [label for _, label in figure.legend],
        re.findall(r'class="line" d="M([^"]+)"', drawing),
        strict=True,
    ):
        for (_, y), temperature in zip(
            (point.split() for point in line.split("L")), (0.0, 0.2, 0.4), strict=True
        ):
            share = (HEIGHT - BOTTOM - float(y)) / (HEIGHT - BOTTOM - TOP)
            drawn = ticks[0] + share * (ticks[-1] - ticks[0])
            assert drawn == pytest.approx(values[label, temperature], abs=0.003)


def test_a_condition_without_a_value_breaks_the_line(hotpot):
    entry = read_entry(hotpot)
    gone = entry.conditions[8].model_copy(update={"metrics": []})  # T = 0.2, original, bridge
    cells = [*entry.conditions[:8], gone, *entry.conditions[9:]]
    empty = [m.model_copy(update={"value": None}) for m in entry.conditions[8].metrics]
    cells[8] = gone.model_copy(update={"metrics": empty})
    drawing = str(curves("c", sweep(cells, "bertscore_f1"), "t", "").panels[0][1])
    assert re.findall(r'class="line" d="([^"]+)"', drawing)[0].count("M") == 2


def test_a_task_without_a_sweep_has_no_curves(mmlu):
    assert sweep(read_entry(mmlu).conditions, "acc") is None


@pytest.mark.parametrize(
    ("low", "high"),
    [(0.0, 1.0), (0.13, 0.58), (-3.2, 4.1), (5, 5), (0, 0), (1e-9, 2e-9), (0, 79_200)],
)
def test_ticks_are_few_even_and_enclose_the_values(low, high):
    ticks = nice_ticks(low, high)
    assert ticks[0] <= low <= high <= ticks[-1]
    assert 3 <= len(ticks) <= 8
    assert np.ptp(np.diff(ticks)) == pytest.approx(0, abs=1e-9 * (ticks[-1] - ticks[0]) + 1e-18)


@pytest.mark.parametrize(("low", "high"), [(0.02, 3.0), (1.0, 1.0), (1e-30, 1e12)])
def test_powers_of_ten_enclose_the_values(low, high):
    ticks = decades(low, high)
    assert ticks[0] <= low <= high <= ticks[-1]
    assert 2 <= len(ticks) <= 9


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [
        (0.4567, 3, "0.457"),
        (-0.25, 2, "\u22120.25"),
        (0.0, 3, "0.000"),
        (0.00004, 3, "4.0e\u22125"),
        (1.5e30, 3, "1.50e30"),
        (None, 3, "\u2013"),
        (float("nan"), 3, "\u2013"),
    ],
)
def test_numbers_keep_their_digits(value, digits, text):
    assert decimal(value, digits) == text


def test_significant_numbers_neither_hide_nor_stretch():
    assert [significant(v) for v in (46.45825, 1.345e8, 2e-7, 0)] == [
        *("46.46", "1.345e8", "2.000e\u22127", "0")
    ]
