"""Scoring of single responses. Expected rows are written by hand."""

import math

import pytest

from tcb_bench.responses import (
    Failure,
    Generation,
    NextToken,
    answer_text,
    from_record,
    to_record,
)
from tcb_bench.samples import label_conflicts
from tcb_bench.scoring import score, states
from tcb_bench.task_files import tcb_spec

STABILITY = {
    "delta_tcb": 3.0,
    "log10_delta_tcb": math.log10(3),
    "relative_delta": 0.5,
    "choice_mass": 0.9,
    "v_eff": 1.5,
}


def choice_spec(**more):
    return tcb_spec({"tcb": {"request": "next_token", **more}}, "t")


def text_spec(**more):
    return tcb_spec({"tcb": {"request": "generate_traced", **more}}, "t")


def generation(text, **more):
    """One token per character, stability 10 + index at every token asked for."""
    positions = more.pop("positions", range(len(text)))
    return Generation(
        text=text,
        tokens=list(range(len(text))),
        offsets=[[i, i + 1] for i in range(len(text))],
        finish_reason=more.pop("finish_reason", "stop"),
        prompt_tokens=5,
        positions=list(positions),
        stability={"v_eff": [10.0 + i for i in positions]},
        rule=more.pop("rule", "all"),
        **more,
    )


def reasoned(text, end="</t>", **more):
    return generation(text, answer_start=text.index(end) + len(end), **more)


@pytest.mark.parametrize(("gold", "acc"), [(0, 0.0), (1, 1.0), (3, 0.0)])
def test_the_most_probable_letter_is_the_answer_and_gold_0_is_a_gold(gold, acc):
    response = NextToken(STABILITY, [-3.0, -0.1, -5.0, -9.0], [3, 4, 5, 6], 4, " B", 9)
    row = score(response, gold, choice_spec())
    assert (row["state"], row["acc"], row["answer"]) == ("scored", acc, "B")
    assert row["stability"]["answer_mass"] == 0.9
    assert row["greedy_is_choice"] == 1.0


def test_epsilon_scales_delta_and_nothing_else():
    response = NextToken(STABILITY, [-1.0, -0.5], [3, 4], 9, "x", 9)
    values = score(response, 0, choice_spec(epsilon=0.1))["stability"]
    assert values["delta_tcb"] == pytest.approx(0.3)
    assert values["relative_delta"] == pytest.approx(0.05)
    assert values["log10_delta_tcb"] == pytest.approx(math.log10(0.3))
    assert values["v_eff"] == 1.5


def test_what_is_not_finite_is_null_with_the_reason():
    beyond = {"delta_tcb": math.inf, "log10_delta_tcb": 400.0, "h_norm": 2.0}
    response = NextToken({**STABILITY, **beyond}, [-1.0, -0.5], [3, 4], 9, "x", 9)
    row = score(response, 0, choice_spec())
    assert row["stability"]["delta_tcb"] is None
    assert row["reason"] == "not finite: delta_tcb"
    assert row["greedy_is_choice"] == 0.0


def test_stability_is_taken_at_the_token_that_first_overlaps_the_number():
    row = score(generation("is 42."), "#### 42", text_spec())
    assert (row["acc"], row["answer"]) == (1.0, "42")
    assert row["stability"] == {"v_eff": 13.0, "critical_token": 3}


def test_without_a_number_acc_is_0_and_stability_is_null_with_the_reason():
    row = score(generation("no idea"), "#### 42", text_spec())
    assert (row["state"], row["acc"], row["answer"], row["stability"]) == ("scored", 0.0, None, {})
    assert row["reason"] == "no number found in the answer"


def test_a_truncated_text_is_scored_and_flagged_and_an_empty_one_is_0_and_flagged():
    cut = score(generation("42", finish_reason="length"), "#### 42", text_spec())
    empty = score(generation(" \n"), "#### 42", text_spec())
    assert (cut["state"], cut["acc"]) == ("truncated", 1.0)
    assert (empty["state"], empty["acc"]) == ("empty", 0.0)


def test_a_failure_of_ours_is_no_zero():
    row = score(Failure("out of memory"), "#### 42", text_spec())
    assert (row["state"], row["acc"], row["reason"]) == ("error", None, "out of memory")


def test_a_critical_position_that_moved_is_null_unless_the_trace_is_there():
    kept = generation("is 42.", positions=[0], rule="final_number/0")
    row = score(kept, "#### 42", text_spec())
    assert row["acc"] == 1.0
    assert row["stability"] == {}
    assert (
        "critical position is token 3 by final_number/1, but final_number/0 kept [0]"
        in row["reason"]
    )


def test_only_the_answer_behind_the_reasoning_is_scored():
    row = score(reasoned("is 7\\boxed{42}</t>is 18."), "#### 18", text_spec())
    assert (row["state"], row["acc"], row["answer"]) == ("scored", 1.0, "18")
    assert row["stability"] == {"v_eff": 10.0 + 21, "critical_token": 21}
    assert row["completion_tokens"] == 24
    wrong = score(reasoned("it is 42</t>no idea"), "#### 42", text_spec())
    assert (wrong["acc"], wrong["answer"], wrong["stability"]) == (0.0, None, {})
    assert wrong["reason"] == "no number found in the answer"


@pytest.mark.parametrize(("answer", "acc"), [("exact", 1.0), ("short_answer", 1.0)])
def test_free_answers_are_compared_without_the_reasoning(answer, acc):
    spec = tcb_spec({"tcb": {"request": "generate", "answer": answer}}, "t")
    said = reasoned("Rome? no</t>Paris")
    row = score(said, "Paris", spec, "Paris")
    assert (row["acc"], row["scores"]["rouge1"], row["scores"]["em"]) == (acc, 1.0, 1.0)
    assert score(said, "Rome", spec, "Rome")["acc"] == 0.0
    assert score(said, "Rome", spec, "Rome")["scores"]["rouge1"] == 0.0


def test_nothing_behind_the_reasoning_is_empty_and_reasoning_without_an_end_is_truncated():
    blank = score(reasoned("it is 42</t> \n"), "#### 42", text_spec())
    assert (blank["state"], blank["acc"]) == ("empty", 0.0)
    cut = score(reasoned("it is 42</t>", finish_reason="length"), "#### 42", text_spec())
    assert (cut["state"], cut["acc"]) == ("truncated", 0.0)
    endless = score(generation("it is 42", finish_reason="length"), "#### 42", text_spec())
    assert (endless["state"], endless["acc"]) == ("truncated", 1.0)


def test_means_over_an_answer_leave_the_reasoning_out():
    spec = tcb_spec(
        {"tcb": {"request": "generate_traced", "position": "first", "answer": "short_answer"}}, "t"
    )
    columns = {"p_top1": [0.1, 0.2, 0.6, 0.8], "flip_radius": [9.0, 9.0, 0.1, 10.0]}
    traced = Generation(
        text="a</t>bc",
        tokens=[1, 2, 3, 4],
        offsets=[[0, 1], [1, 5], [5, 7], [7, 7]],
        finish_reason="stop",
        prompt_tokens=3,
        stability=columns,
        positions=[0, 1, 2, 3],
        rule="all",
        answer_start=5,
    )
    row = score(traced, "bc", spec)
    assert row["stability_mean"] == pytest.approx({"p_top1": 0.7, "log10_flip_radius": 0.0})
    assert row["stability"]["critical_token"] == 2


def test_a_record_of_before_reasoning_parts_is_read_as_all_answer():
    record = to_record(generation("ab"))
    assert record.pop("answer_start") == 0
    assert from_record(record) == generation("ab")
    assert from_record(to_record(reasoned("a</t>b"))).answer == "b"


def test_a_sample_rows_answer_is_its_text_without_the_reasoning():
    assert answer_text({"text": "a</t>b", "reasoning_chars": 5}) == "b"
    assert answer_text({"text": "ab"}) == "ab"
    assert answer_text({"state": "error"}) is None


def test_a_text_answer_is_compared_after_stripping():
    spec = tcb_spec({"tcb": {"request": "generate", "answer": "exact"}}, "t")
    assert score(generation(" Paris\n"), "Paris ", spec)["acc"] == 1.0
    assert score(generation("paris"), "Paris", spec)["acc"] == 0.0


def test_every_state_is_counted_also_with_zero():
    counts = states([{"state": "scored"}, {"state": "error"}, {"state": "scored"}])
    assert counts == {
        "scored": 2,
        "truncated": 0,
        "empty": 0,
        "filtered": 0,
        "error": 1,
        "unscored": 0,
    }


def test_a_delta_beyond_float32_is_given_from_its_logarithm():
    beyond = {
        "delta_tcb": math.inf,
        "log10_delta_tcb": 57.0,
        "relative_delta": math.inf,
        "h_norm": 4.0,
    }
    response = NextToken({**STABILITY, **beyond}, [-1.0, -0.5], [3, 4], 9, "x", 9)
    values = score(response, 0, choice_spec(epsilon=0.1))["stability"]
    assert values["delta_tcb"] == pytest.approx(1e56)
    assert values["relative_delta"] == pytest.approx(1e56 / 4)


def test_a_traced_answer_has_its_means_under_the_names_that_the_analysis_looks_for():
    from tcb_bench.report.analysis_stability import QUANTITIES

    spec = tcb_spec(
        {"tcb": {"request": "generate_traced", "position": "first", "answer": "short_answer"}}, "t"
    )
    traced = Generation(
        text="a b",
        tokens=[1, 2],
        offsets=[[0, 1], [1, 3]],
        finish_reason="stop",
        prompt_tokens=3,
        stability={
            "log10_delta_tcb": [1.0, 2.0],
            "relative_flip_radius": [0.1, 0.001],
            "flip_radius": [1.0, 0.01],
            "p_top1": [0.5, 0.7],
            "delta_tcb": [10.0, 100.0],
            "h_norm": [10.0, 10.0],
        },
        positions=[0, 1],
        rule="all",
    )
    row = score(traced, "a", spec, "a b")
    means = row["stability_mean"]
    assert means["log10_relative_flip_radius"] == pytest.approx(-2.0)
    assert means["log10_delta_tcb"] == pytest.approx(1.5)
    assert means["p_top1"] == pytest.approx(0.6)
    assert {"log10_relative_flip_radius", "log10_delta_tcb", "p_top1"} <= set(QUANTITIES) & set(
        means
    )
    assert row["acc"] == 1.0
    assert row["scores"]["rougeL"] == 1.0


def test_rows_that_differ_by_rounding_at_the_median_have_one_label():
    """The same state in two batches: 1e-6 apart, and the median lies between them."""
    radii = (0.1, 0.2 * (1 - 1e-6), 0.2, 0.3)
    rows = [{"acc": 1.0, "stability": {"relative_flip_radius": r, "p_top1": 0.9}} for r in radii]
    label_conflicts({"task": [{"rows": rows}]})
    unstable, *others = [row["conflict"]["accuracy"] for row in rows]
    assert unstable == "accurate_but_unstable"
    assert set(others) == {"consistent_accurate_stable"}
