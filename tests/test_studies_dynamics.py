"""``tcb-bench study dynamics``.

Oracles: windows, counts and medians by hand on texts made for it; scipy's spearmanr; the store's
own count of what was asked.
"""

import json
from contextlib import contextmanager

import numpy as np
import pytest
from scipy.stats import spearmanr
from test_trace import generation

from tcb_bench.config import RunConfig, TaskOptions
from tcb_bench.errors import DataError, UnknownName, UsageError
from tcb_bench.studies.dynamics import study
from tcb_bench.studies.dynamics_tables import second_table, texts_table
from tcb_bench.studies.dynamics_texts import SHIPPED, Case, Prompt
from tcb_bench.studies.dynamics_windows import Design, aligned, contrasts, usable
from tcb_bench.studies.run_study import run_study
from tcb_bench.studies.settings import read_settings
from tcb_bench.trace_text import Rule, traced_text

DESIGN = Design(window=None, width=5, resamples=2000, seed=0)
RULE = Rule(window=None)
HOW = {"resamples": 500, "seed": 0}


def text(log10, onset=None, period=4, seed=0):
    """A text with these log10 deltas that, if asked, begins to loop at ``onset``."""
    n = len(log10)
    ids = np.arange(100, 100 + n)
    if onset is not None:
        ids[onset - period :] = np.arange(n - onset + period) % period
    return traced_text(generation(["x"] * n, log10, tokens=ids.tolist()), RULE)


def noise(n, seed):
    return np.random.default_rng(seed).normal(size=n) * 0.1


def planted(seed, onset=40, n=70):
    """Dips in the five tokens before the loop, and a high delta in it."""
    log10 = noise(n, seed)
    log10[onset - 4 : onset - 1] -= 1.0
    log10[onset:] += 3.0
    return text(log10, onset)


def test_dips_planted_before_loops_are_found_against_both_controls():
    texts = [planted(seed) for seed in range(8)] + [text(noise(70, 50 + s)) for s in range(4)]
    found = contrasts(texts, [2.0], DESIGN)
    shares = [one for one in found if one.measure.startswith("dips")]
    assert [one.control for one in shares] == ["same text", "other texts"]
    for one in shares:
        assert one.contrast.first == pytest.approx(3 / 5, abs=0.03)
        assert one.contrast.others < 0.05
        assert one.contrast.difference.ci_low > 0.4
        assert one.contrast.p < 0.01
        assert one.n_left_out == 0
    lowest = next(one for one in found if one.measure == "lowest z")
    assert lowest.contrast.difference.ci_high < -2


def test_a_high_delta_in_the_loop_does_not_make_dips_of_what_comes_before():
    texts = []
    for seed in range(12):
        log10 = noise(90, seed)
        log10[40:] += 3.0  # of the whole text's median all 40 would be far below
        texts.append(text(log10, 40))
    assert texts[0].z[:40].max() < -1
    for one in contrasts(texts, [1.5], DESIGN):
        if one.contrast.p is not None:
            assert abs(one.contrast.difference.value) < 0.35
            assert one.contrast.p > 0.05


def test_a_window_before_which_no_loop_comes_does_not_see_what_follows_it_either():
    plain = noise(70, 1)
    dipped = plain.copy()
    dipped[36:39] -= 1.0  # in the window before the loop, a neighbour of the other seven
    one, other = (contrasts([text(log10, 40)], [2.0], DESIGN) for log10 in (plain, dipped))
    lowest = [next(f for f in found if f.measure == "lowest z") for found in (one, other)]
    assert lowest[0].contrast.others == pytest.approx(lowest[1].contrast.others)
    assert lowest[0].contrast.first > lowest[1].contrast.first + 2


def test_loops_that_begin_too_early_or_have_no_control_are_left_out_and_counted():
    early, fine = planted(0, onset=9), planted(1)
    assert usable([early, fine], 5) == [fine]
    within, across = contrasts([early, fine], [2.0], DESIGN)[:2]
    assert (within.contrast.difference.n, within.n_left_out) == (1, 1)
    assert (across.contrast.difference.n, across.n_left_out) == (0, 2)
    assert across.contrast.p is None


def test_controls_of_the_same_text_have_as_many_tokens_before_them_as_z_looks_back():
    """Windows of 5 before a loop at 40, z over 12 to either side: they end at 35, 30, 25, 20."""
    design = Design(window=12, width=5, resamples=100, seed=0)
    log10 = noise(70, 0)
    early, late = log10.copy(), log10.copy()
    early[10:15] -= 3.0  # a window with 10 tokens before it: no control
    late[15:20] -= 3.0  # one with 15
    plain, first, second = (
        contrasts([text(x, 40)], [2.0], design)[0] for x in (log10, early, late)
    )
    assert (plain.contrast.difference.n, plain.n_windows) == (1, 4)
    assert plain.contrast.others == first.contrast.others == 0.0
    assert second.contrast.others > 0
    short = contrasts([text(noise(50, 1), 21)], [2.0], design)  # only 4 before its next window
    assert (short[0].n_windows, short[0].n_left_out) == (0, 1)


def test_other_texts_are_those_that_reach_so_far_and_do_not_loop_by_then():
    subject, looping = planted(1), planted(2, onset=43)
    short, later, plain = text(noise(39, 3)), planted(4, onset=45), text(noise(40, 5))
    alone = contrasts([subject, looping, short], [2.0], DESIGN)[1]
    assert alone.contrast.difference.n == 0  # one loops too soon, one is too short
    both = contrasts([subject, later, plain], [2.0], DESIGN)[1]
    assert both.contrast.difference.n == 1


def test_curves_are_aligned_at_the_first_token_that_repeats():
    one, other = text(np.arange(30.0), 12), text(np.arange(40.0), 20)
    values = aligned([one, other, text(np.arange(9.0))], 15, lambda t: t.log10_delta)
    assert values.shape == (2, 31)
    assert values[:, 15].tolist() == [12, 20]
    assert values[1].tolist() == list(range(5, 36))
    assert np.isnan(values[0, :3]).all()
    assert values[0, 3:].tolist() == list(range(28))


def test_correlations_and_spikes_are_those_of_scipy_and_of_counting():
    rng = np.random.default_rng(3)
    texts = []
    for _ in range(3):
        made = generation(["x"] * 60, rng.normal(size=60))
        made.stability["p_top2"] = (0.2 - 0.05 * np.array(made.stability["log10_delta_tcb"])
                                    + 0.05 * rng.normal(size=60)).tolist()  # fmt: skip
        texts.append(traced_text(made, Rule(window=None, threshold=1.0)))
    rows = second_table(texts, Rule(window=None, threshold=1.0), HOW).rows
    rho = [spearmanr(t.log10_delta, t.columns["p_top2"]).statistic for t in texts]
    assert rows[0]["value"] == pytest.approx(np.mean(rho))
    counts = np.zeros(4)
    for t in texts:
        p2 = np.array(t.columns["p_top2"])
        spike = (p2 - np.median(p2)) >= 1.4826 * np.median(np.abs(p2 - np.median(p2)))
        counts += [(t.dips & spike).sum(), t.dips.sum(), (~t.dips & spike).sum(), (~t.dips).sum()]
    by_name = {row["what"]: row["value"] for row in rows if row["scope"] == "all tokens"}
    assert by_name["dips that are spikes of P(2nd)"] == pytest.approx(counts[0] / counts[1])
    assert by_name["other tokens that are"] == pytest.approx(counts[2] / counts[3])


def test_the_table_of_texts_counts_loops_dips_and_what_failed():
    log10 = np.tile([1.0, 1.2, 0.8, 1.1, 0.9], 8)
    log10[[3, 8]] = -2.0
    made = Case(prompt=Prompt(id="a", kind="k", text="x"), text=text(log10, 30))
    lost = Case(prompt=Prompt(id="b", kind="k", text="x"), text=None, reason="too long")
    [row] = texts_table([made, lost], RULE, HOW).rows
    assert (row["n"], row["n_failed"], row["n_loops"], row["onset"]) == (1, 1, 1, 30)
    assert row["dips"] == pytest.approx(100 * 2 / 30)
    assert row["before"] == pytest.approx(np.median(log10[:30]))
    assert row["inside"] == pytest.approx(np.median(log10[30:]))
    assert row["reason"] == "too long"


def test_the_shipped_prompts_are_of_two_kinds_and_each_once():
    rows = [json.loads(line) for line in SHIPPED.read_text().splitlines()]
    kinds = [row["kind"] for row in rows]
    assert (kinds.count("repetition"), kinds.count("ordinary")) == (12, 20)
    assert len({row["id"] for row in rows}) == len({row["prompt"] for row in rows}) == 32


@pytest.fixture
def run(monkeypatch, request, tmp_path):
    """The study on the demo model that is loaded already; (outcome, lines said)."""
    lm = request.getfixturevalue("hf_demo")

    @contextmanager
    def running(*_):
        yield lm

    monkeypatch.setattr("tcb_bench.studies.run_study.running", running)

    def run(tasks=("none",), options=None, **settings):
        said = []
        config = RunConfig(
            model="demo",
            tasks=tasks,
            output_path=tmp_path,
            options=TaskOptions(**{"limit": 2, "data": "sample", **(options or {})}),
        )
        small = {"max_gen_toks": 40, "before": 4, "resamples": 200, **settings}
        chosen = read_settings("dynamics", over=small)
        return run_study("dynamics", config, chosen, say=said.append), said

    return run


@pytest.mark.slow
def test_a_study_ends_in_tables_figures_and_rows_and_asks_nothing_twice(run):
    outcome, said = run()
    assert said[-1] == "asked 4, found in the store 0"
    assert [table.name for table in outcome.findings.tables] == ["texts", "before", "second"]
    assert outcome.exit_code == 0
    rows = [json.loads(line) for line in (outcome.folder / "samples.jsonl").open()]
    assert [row["kind"] for row in rows] == ["repetition"] * 2 + ["ordinary"] * 2
    assert rows[0]["loop"] is not None  # "I am a king, I am a king, ..."
    assert all(len(row["tokens"]) <= 40 for row in rows)
    assert all(0 <= token["entropy"] < 11 for row in rows for token in row["tokens"])
    for name in ("dynamics_text", "dynamics_loops"):
        assert (outcome.folder / "figures" / f"{name}.svg").stat().st_size > 5000
    again, said = run(threshold=1.0)  # another threshold asks the model nothing
    assert said[-1] == "asked 0, found in the store 4"
    dips = [row["dips"] for o in (outcome, again) for row in o.findings.tables[0].rows[-1:]]
    assert dips[1] > dips[0]


@pytest.mark.slow
def test_a_tasks_documents_are_continued_as_the_task_asks(run):
    outcome, _ = run(tasks=("gsm8k_tcb_zeroshot",), max_gen_toks=8)
    rows = outcome.findings.rows
    assert {row["kind"] for row in rows} == {"gsm8k_tcb_zeroshot"}
    assert len(rows) == 2
    assert "step by step" in rows[0]["prompt"]


@pytest.mark.parametrize(
    ("changes", "error", "said"),
    [
        ({"threshold": -1.0}, UsageError, "threshold"),
        ({"before": 0}, UsageError, "before=0"),
        ({"more_thresholds": [0]}, UsageError, "more_thresholds"),
    ],
)
def test_settings_out_of_range_are_refused_before_anything_is_asked(changes, error, said):
    class Asked:
        settings = read_settings("dynamics", over=changes)
        seed = 0

    with pytest.raises(error, match=said):
        study(Asked())


@pytest.mark.slow
def test_a_bad_file_of_prompts_or_an_unknown_example_is_named(run, tmp_path):
    bad = tmp_path / "prompts.jsonl"
    bad.write_text('{"id": "a", "kind": "x"}\n')
    with pytest.raises(DataError, match="row 1: prompt is no text"):
        run(prompts=str(bad))
    bad.write_text("[1]\n")
    with pytest.raises(DataError, match="row 1: id is no text"):
        run(prompts=str(bad))
    bad.write_text('{"id": "a", "kind": "x", "prompt": "One two"}\n' * 2)
    with pytest.raises(DataError, match="an id twice"):
        run(prompts=str(bad))
    bad.write_text('{"id": "a", "kind": "x", "prompt": "One two"}\n')
    with pytest.raises(UnknownName, match="no text 'b'"):
        run(prompts=str(bad), max_gen_toks=2, example="b")
