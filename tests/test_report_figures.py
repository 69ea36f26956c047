"""Figures 2 to 5 of TP. Oracle: statistics of the standard library, and what a figure's SVG says.

With text as paths, matplotlib writes each text into the SVG as a comment; the tests read those.
"""

import math
import re
import statistics

import matplotlib
import numpy as np
import pytest

from tcb_bench.report import figures_lines, figures_points
from tcb_bench.report.figures import draw, file_name
from tcb_bench.report.figures_data import (
    asked,
    baseline_cv,
    losses,
    question_means,
    spread,
    two_temperatures,
)
from tcb_bench.report.figures_lines import cv_lines, score_lines
from tcb_bench.report.figures_points import box_grids, boxes, stability_scatter
from tcb_bench.report.figures_style import COLOURS, MARKERS, SETTINGS, look, short
from tcb_bench.report.grid import Grid

CONTEXTS = ("original", "replace_half", "remove_half", "ner")
M = "bertscore_f1"


def grid(model="toy", kind="bridge", temperatures=(0.0, 0.6, 2.0), seed=0, questions=5, **more):
    contexts = more.pop("contexts", CONTEXTS)
    size = (len(temperatures), len(contexts), questions, more.pop("runs", 3))
    scores = np.random.default_rng(seed).normal(0.9, 0.02, size)
    return Grid(
        model=model,
        task="hotpotqa_tempperturb",
        question_type=kind,
        temperatures=list(temperatures),
        contexts=list(contexts),
        questions=[f"q{i}" for i in range(questions)],
        scores={M: scores},
        weights=more.pop("weights", np.ones(questions)),
        **more,
    )


def with_stability(**more):
    base = grid(**more)
    samples = {
        (0.0, "original", q): {"rows": [{"stability": {"relative_flip_radius": 0.01 * (i + 1)}}]}
        for i, q in enumerate(base.questions)
    }
    return Grid(**{f: getattr(base, f) for f in Grid.__dataclass_fields__} | {"samples": samples})


def texts(picture):
    """Every line of text in a figure, in the order in which they are drawn."""
    return re.findall(r"<!-- (.*?) -->", picture.svg.read_text())


@pytest.fixture(autouse=True)
def style():
    with matplotlib.rc_context(SETTINGS):
        yield


@pytest.fixture
def drawn(monkeypatch):
    """The matplotlib figures that were saved."""
    figures = []

    def keep(save):
        return lambda figure, *rest: (figures.append(figure), save(figure, *rest))[1]

    for module in (figures_lines, figures_points):
        monkeypatch.setattr(module, "save", keep(module.save))
    return figures


def test_mean_run_std_and_cv_are_those_of_the_definition():
    weights = np.array([2.0, 0.5, 0.5, 1.0, 1.0])
    it = grid(weights=weights)
    it.scores[M][1, 2, 3, :2] = np.nan  # one run left: a mean, no deviation
    it.scores[M][1, 2, 4] = np.nan
    found = spread(it, M)
    for t, c in np.ndindex(3, 4):
        runs = [[x for x in row if not math.isnan(x)] for row in it.scores[M][t, c].tolist()]
        m = [(w, statistics.fmean(r)) for w, r in zip(weights, runs, strict=True) if r]
        s = [(w, statistics.stdev(r)) for w, r in zip(weights, runs, strict=True) if len(r) > 1]
        mean = sum(w * x for w, x in m) / sum(w for w, _ in m)
        run_std = sum(w * x for w, x in s) / sum(w for w, _ in s)
        assert found.mean[t, c] == pytest.approx(mean, abs=1e-12)
        assert found.run_std[t, c] == pytest.approx(run_std, abs=1e-12)
        assert found.cv[t, c] == pytest.approx(run_std / mean, abs=1e-12)


def test_the_baseline_is_the_mean_cv_of_the_original_over_the_temperatures_that_have_it():
    it = grid()
    it.scores[M][1, 0] = np.nan
    cv = spread(it, M).cv[:, 0]
    assert np.isnan(cv[1])
    assert baseline_cv(it, M) == pytest.approx((cv[0] + cv[2]) / 2)
    assert baseline_cv(grid(contexts=("ner",)), M) is None
    assert baseline_cv(grid(runs=1), M) is None


@pytest.mark.parametrize(
    ("temperatures", "shown"),
    [
        ((0.0, 0.2, 0.6, 1.8, 2.0), [0.6, 2.0]),
        ((0.0, 0.5, 0.7, 1.2), [0.5, 1.2]),
        ((0.0, 0.2), [0.0, 0.2]),
        ((1.0,), [1.0]),
    ],
)
def test_box_plots_take_the_temperatures_nearest_to_those_of_tp(temperatures, shown):
    assert two_temperatures(grid(temperatures=temperatures), M, (0.6, 2.0)) == shown


def test_a_temperature_without_a_score_is_not_taken():
    it = grid(temperatures=(0.0, 0.6, 1.0, 2.0))
    it.scores[M][1] = np.nan
    assert two_temperatures(it, M, (0.6, 2.0)) == [1.0, 2.0]
    it.scores[M][:] = np.nan
    assert two_temperatures(it, M, (0.6, 2.0)) == []


def test_losses_are_differences_to_the_lowest_temperature_and_the_original_context():
    it = with_stability()
    m = question_means(it, M)
    found = losses(it, M)
    assert found["temperature"].loss == pytest.approx(m[0, 0] - (m[1, 0] + m[2, 0]) / 2)
    assert found["perturbation"].loss == pytest.approx(m[0, 0] - m[0, 1:].sum(axis=0) / 3)
    assert found["temperature"].stability == pytest.approx([0.01, 0.02, 0.03, 0.04, 0.05])
    assert losses(grid(), M) == {}
    assert set(losses(with_stability(temperatures=(0.0,)), M)) == {"perturbation"}


def test_lines_go_through_the_means_and_break_where_a_condition_is_missing(tmp_path, drawn):
    it = grid(temperatures=(0.0, 0.6, 1.2, 2.0))
    it.scores[M][1, 3] = np.nan
    score_lines([it], M, tmp_path, "x")
    [axes] = drawn[0].axes
    lines = {line.get_label(): line for line in axes.lines}
    assert list(lines) == list(CONTEXTS)
    for c, context in enumerate(CONTEXTS):
        assert lines[context].get_xdata().tolist() == [0.0, 0.6, 1.2, 2.0]
        np.testing.assert_array_equal(lines[context].get_ydata(), spread(it, M).mean[:, c])
        assert lines[context].get_linestyle() == "-"
    assert np.isnan(lines["ner"].get_ydata()[1])
    assert len({(line.get_color(), line.get_marker()) for line in axes.lines}) == 4


def test_the_band_is_one_run_standard_deviation_to_either_side(tmp_path, drawn):
    it = grid()
    score_lines([it], M, tmp_path, "x")
    band = drawn[0].axes[0].collections[0].get_paths()[0].vertices[:, 1]
    values = spread(it, M)
    low, high = values.mean - values.run_std, values.mean + values.run_std
    assert band.min() == pytest.approx(low[:, 0].min())
    assert band.max() == pytest.approx(high[:, 0].max())


def test_the_cv_figure_has_a_dotted_grey_baseline_with_its_value_in_the_top_left(tmp_path, drawn):
    it = grid()
    picture = cv_lines([it], M, tmp_path, "x")
    [axes] = drawn[0].axes
    dotted = axes.lines[-1]
    assert dotted.get_linestyle() == ":"
    assert list(dotted.get_ydata()) == [baseline_cv(it, M)] * 2
    assert f"baseline CV {baseline_cv(it, M):.4f}" in texts(picture)


def test_rows_are_types_comparison_first_and_columns_models(tmp_path):
    grids = [grid(model=m, kind=k) for m in ("a", "b") for k in ("bridge", "comparison")]
    said = texts(score_lines(grids[1:], M, tmp_path, "x"))  # a has comparison only
    assert [text for text in said if text in ("a", "b")] == ["a", "b"]
    assert [text for text in said if text in ("bridge", "comparison")] == ["comparison", "bridge"]
    assert said.count("bertscore_f1 (mean)") == 2
    assert said.count("not run") == 1
    assert said.count("n = 5 questions x 3 runs") == 3
    assert said.count("temperature T") == 2


def test_missing_conditions_and_those_without_a_score_are_told_apart(tmp_path):
    places = {(0.6, "ner", "q0"): {"rows": []}}
    it = grid(samples=places, temperature_effective=False)
    it.scores[M][1, 3] = np.nan
    it.scores[M][2, 1:] = np.nan
    assert int((~asked(it)).sum()) == 3
    said = texts(score_lines([it], M, tmp_path, "x"))
    assert {"not run: 3 of 12", "no score: 1 of 12"} <= set(said)
    assert "n = 5 questions x 3 runs, T is ignored" in said


def test_a_single_temperature_is_drawn_as_points_with_bars(tmp_path, drawn):
    score_lines([grid(temperatures=(0.6,))], M, tmp_path, "x")
    [axes] = drawn[0].axes
    xs = [container.lines[0].get_xdata()[0] for container in axes.containers]
    assert len(xs) == 4
    assert xs == sorted(set(xs))
    assert statistics.fmean(xs) == pytest.approx(0.6)
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["0.6"]


def test_boxes_show_quartiles_and_every_question_once(tmp_path, drawn):
    it = grid(questions=40, contexts=("original", "ner"))
    it.scores[M][1, 1, 0] = 0.2  # an outlier, white
    it.scores[M][1, 0, 5:] = np.nan
    picture = boxes(it, M, tmp_path, "x")
    left, right = drawn[0].axes
    assert [axes.get_title() for axes in (left, right)] == ["T = 0.6", "T = 2.0"]
    means = question_means(it, M)
    black, white = left.collections[2:4]
    assert white.get_offsets()[:, 1].tolist() == [pytest.approx(0.2)]
    points = np.concatenate([black.get_offsets()[:, 1], white.get_offsets()[:, 1]])
    assert sorted(points) == pytest.approx(sorted(means[1, 1]))
    box = left.patches[1].get_path().vertices[:, 1]
    assert (box.min(), box.max()) == pytest.approx(tuple(np.quantile(means[1, 1], (0.25, 0.75))))
    assert {"original", "n = 5", "ner", "n = 40"} <= set(texts(picture))


def test_box_panels_say_which_temperature_of_tp_they_stand_for(tmp_path):
    said = texts(boxes(grid(temperatures=(0.0, 0.6, 1.2)), M, tmp_path, "x"))
    assert {"T = 0.6", "T = 1.2 (TP: 2.0)", "toy, bridge questions"} <= set(said)


def test_box_plots_are_of_bridge_questions_where_a_model_has_them():
    grids = [grid("a", "comparison"), grid("a", "bridge"), grid("b", "comparison")]
    assert box_grids(grids) == grids[1:]


def test_a_model_without_any_score_has_figures_that_say_so(tmp_path):
    it = grid(samples={(0.0, "original", "q0"): {"rows": []}})
    it.scores[M][:] = np.nan
    said = texts(cv_lines([it], M, tmp_path, "x"))
    assert {"no baseline", "not run: 11 of 12", "no score: 1 of 12"} <= set(said)
    assert "no score" in texts(boxes(it, M, tmp_path, "y"))


def test_the_scatter_is_drawn_where_stability_was_stored_and_only_there(tmp_path, drawn):
    assert stability_scatter([grid()], M, tmp_path, "x") is None
    it = with_stability()
    picture = stability_scatter([it, grid(model="other")], M, tmp_path, "x")
    top, below = drawn[0].axes
    for axes, kind in ((top, "temperature"), (below, "perturbation")):
        points = axes.collections[0].get_offsets()
        assert points[:, 0].tolist() == pytest.approx([0.01, 0.02, 0.03, 0.04, 0.05])
        assert points[:, 1].tolist() == pytest.approx(losses(it, M)[kind].loss.tolist())
    assert texts(picture).count("n = 5") == 2


def test_five_models_have_a_panel_each_as_wide_as_one_alone(tmp_path, drawn):
    for n in (3, 5):
        score_lines([grid(model=f"m{i}") for i in range(n)], M, tmp_path, "x")
    three, five = ([axes.get_position().width for axes in f.axes] for f in drawn)
    assert (len(three), len(five)) == (3, 5)
    widths = [
        figure.get_figwidth() * axes[0] for figure, axes in zip(drawn, (three, five), strict=True)
    ]
    assert widths[0] == pytest.approx(widths[1], rel=0.05)


def test_equal_grids_give_equal_files_without_a_date(tmp_path):
    folders = [tmp_path / "a", tmp_path / "b"]
    for folder in folders:
        folder.mkdir()
    first, second = (draw([with_stability(questions=250)], M, folder) for folder in folders)
    assert [picture.name.split("perturb_")[1] for picture in first] == [
        *("fig2_score", "fig3_cv", "fig4_box_toy", "stability_loss")
    ]
    for a, b in zip(first, second, strict=True):
        assert a.png.read_bytes() == b.png.read_bytes()
        assert a.svg.read_bytes() == b.svg.read_bytes()
        assert "dc:date" not in a.svg.read_text()


def test_names_that_are_odd_as_text_or_file_are_drawn_as_they_are(tmp_path):
    names = ["org/a-$x_{1$", "org_a-$x_{1$"]
    pictures = draw([grid(model=name) for name in names], M, tmp_path)
    assert len({str(p.png).lower() for p in pictures}) == len(pictures) == 4
    assert "org/a-$x_{1$, bridge questions" in texts(pictures[2])
    assert file_name("a/b: c|d?") == "a_b_c_d"


def test_labels_are_broken_to_fit_and_contexts_never_look_alike():
    assert short("meta-llama/Llama-3.1-8B-Instruct") == "meta-llama/\nLlama-3.1-8B-Instruct"
    assert max(map(len, short("word " * 30).split("\n"))) <= 26
    looks = [tuple(sorted((k, str(v)) for k, v in look(i).items())) for i in range(14)]
    assert len(set(looks)) == 14
    assert len(COLOURS) == len(MARKERS)
