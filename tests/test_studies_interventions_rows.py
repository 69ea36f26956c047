"""Rows, cases and verdicts of the study `interventions`. Oracle: hand computation."""

import math

import pytest
from interventions_tools import file_in, session_in

from tcb_bench.models.positions import critical_token, rule_version
from tcb_bench.responses import Failure, Generation
from tcb_bench.studies.interventions_file import read_interventions
from tcb_bench.studies.interventions_notes import notes
from tcb_bench.studies.interventions_prompts import Asked, the_task
from tcb_bench.studies.interventions_rows import scored, threshold, with_cases
from tcb_bench.studies.interventions_summary import differences, summary
from tcb_bench.studies.interventions_tables import Facts


def said(text, delta=1.0, radius=1.0, p=0.9):
    """A text whose tokens are its characters, measured where today's rule says."""
    offsets = [[i, i + 1] for i in range(len(text))]
    at = critical_token("final_number", text, offsets)
    values = {
        "delta_tcb": delta,
        "log10_delta_tcb": math.log10(delta),
        "flip_radius": radius,
        "relative_flip_radius": radius / 10,
        "relative_delta": delta / 10,
        "v_eff": 1.5,
        "logit_margin": 2.0,
        "p_top1": p,
        "h_norm": 10.0,
    }
    return Generation(
        text=text,
        tokens=list(range(len(text))),
        offsets=offsets,
        finish_reason="stop",
        prompt_tokens=1,
        stability={} if at is None else {k: [v] for k, v in values.items()},
        positions=[] if at is None else [at],
        rule=rule_version("final_number"),
    )


@pytest.fixture
def judged(tmp_path):
    """answers[row] -> one response per seed, as facts; gold is 42, every prompt another one."""
    session = session_in(tmp_path, resamples=2000)
    task = the_task(session)

    def judge(answers, *, same_prompt=(), items=("test/5",), **over):
        settings = {**session.settings, **over}
        rows = [{"description": f"row {i}"} for i in range(1, len(answers) + 1)]
        file = read_interventions(file_in(tmp_path, rows, headline=2 if len(rows) > 1 else None))
        requests, responses = [], []
        for row, found in enumerate(answers, 1):
            for i, response in enumerate(found):
                item, seed = items[i % len(items)], i // len(items)
                text = f"{row}" if row in same_prompt else f"{row} {seed}"
                doc = {"tcb_id": item, "question": "?", "answer": "#### 42"}
                arguments = (text, {"temperature": 0.0})
                one = Asked(row=row, item=item, seed=seed, order=(), doc=doc, arguments=arguments)
                requests.append(one)
                responses.append(response)
        samples = scored(requests, responses, task, file)
        at = threshold(samples, settings)
        samples = with_cases(samples, at, settings)
        facts = Facts(
            interventions=file,
            items=tuple(items),
            rows=summary(samples, at, settings, 0),
            changes=differences(samples, settings, 0),
            threshold=at,
            settings=settings,
        )
        return samples, facts

    return judge


def test_a_rows_figures_by_hand(judged):
    five = [said("42", 1.0), said("42", 10.0), said("41", 100.0), said("42", 1000.0), said("none")]
    samples, facts = judged([[*five, Failure("out of memory")]])
    [row] = facts.rows
    assert [s["acc"] for s in samples] == [1.0, 1.0, 0.0, 1.0, 0.0, None]
    assert samples[4]["stability"] == {} and samples[5]["state"] == "error"
    assert row["acc"].value == pytest.approx(0.6) and row["acc"].n == 5
    z = 1.959963984540054  # Wilson's limits for 3 of 5, from his formula
    middle, half = 0.6 + z * z / 10, z * math.sqrt(0.24 / 5 + z * z / 100)
    limits = [(middle + sign * half) / (1 + z * z / 5) for sign in (-1, 1)]
    assert [row["acc"].ci_low, row["acc"].ci_high] == pytest.approx(limits)
    assert row["delta_tcb_median"].value == 55.0 and row["delta_tcb_median"].n == 4
    assert row["delta_tcb_mean"].value == pytest.approx(277.75)
    assert row["log10_delta_tcb_mean"].value == pytest.approx(1.5)
    assert row["no_number"] == 1 and row["states"]["error"] == 1 and row["n_prompts"] == 6


def test_one_prompt_at_temperature_0_counts_once_and_has_no_interval(judged):
    _, facts = judged([[said("42", 10.0)] * 5, [said("42", 100.0)] * 5], same_prompt=(2,))
    varied, alike = facts.rows
    assert (varied["n"], alike["n"]) == (5, 1)
    assert alike["acc"].value == 1.0 and alike["acc"].ci_low is None
    assert "same prompt at T = 0" in alike["reason"]
    assert facts.changes[0]["pairs"] == 5  # five prompts of row 1 against the one
    assert any(note.startswith("Row 2: nothing varies") for note in notes(facts))


def test_several_items_are_the_units(judged):
    # item a right at both seeds, item b at none
    answers = [said("42", 10.0), said("7", 1000.0), said("42", 1000.0), said("7", 1000.0)]
    _, facts = judged([answers], items=("test/5", "test/6"))
    [row] = facts.rows
    assert row["n"] == 2 and row["acc"].value == 0.5 and row["acc"].n == 2
    assert row["log10_delta_tcb_mean"].value == pytest.approx((2 + 3) / 2)
    assert row["delta_tcb_median"].value == pytest.approx((505 + 1000) / 2)


def test_conflict_cases_follow_the_stated_thresholds(judged):
    rows = [
        [said("42", radius=0.1, p=0.9)],  # right, confident, unstable
        [said("7", radius=9.0, p=0.2)],  # wrong, uncertain, stable
        [said("42", radius=9.0, p=0.9)],
        [said("none")],
    ]
    _, facts = judged(rows, stable_at=0.5)
    labels = [(r["case_accuracy"], r["case_confidence"]) for r in facts.rows]
    assert labels == [
        ("accurate_but_unstable", "confident_but_unstable"),
        ("inaccurate_but_stable", "uncertain_but_stable"),
        ("consistent_accurate_stable", "consistent_confident_stable"),
        (None, None),
    ]
    radii = [[said("42", radius=r)] for r in (1.0, 2.0, 4.0, 8.0)]
    assert judged(radii)[1].threshold.value == pytest.approx(0.3)  # median of .1 .2 .4 .8
    assert judged(radii, stable_quantile=1.0)[1].threshold.value == pytest.approx(0.8)
    assert judged(radii, stable_over="baseline")[1].threshold.value == pytest.approx(0.1)
    assert judged([[said("none")]])[1].threshold.value is None


RIGHT, WRONG = "42", "7"
HEADLINES = [
    ([said(RIGHT, 1.0)] * 5, [said(WRONG, 9.0)] * 5, "holds for this model"),
    ([said(RIGHT, 1.0)] * 5, [said(RIGHT, 9.0)] * 5, "does not hold"),
    ([said(RIGHT, 9.0)] * 5, [said(WRONG, 1.0)] * 5, "does not hold"),
    ([said(WRONG, 1.0)] * 5, [said(WRONG, 9.0)] * 5, "neither shown nor refuted"),
    ([said(RIGHT, 1.0)] * 2, [said(WRONG, 9.0)] * 2, "neither shown nor refuted"),  # p = 1/4
    ([said(RIGHT, 1.0)] * 5, [said("none")] * 5, "neither shown nor refuted"),
]


@pytest.mark.parametrize(("first", "second", "verdict"), HEADLINES)
def test_the_headline_is_judged_by_both_halves_and_by_n(judged, first, second, verdict):
    _, facts = judged([first, second])
    assert verdict in notes(facts)[0]
    p = facts.changes[0]["acc_p"]
    if (first[0].text, second[0].text) == (RIGHT, WRONG):
        assert p == pytest.approx(0.5 ** len(first))  # every pair falls: one of 2^n sign patterns
