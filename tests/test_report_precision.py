"""The precision note of a report. Oracle: hand computation on run folders written here; numpy."""

import random

import numpy as np
import pytest
from html_reader import Reader
from precision_runs import BOXED, NUMBER, measured, narrow, tables, written
from report_runs import write_run

from tcb_bench.__main__ import main
from tcb_bench.report.analysis_precision import QUANTITIES, precision_tables
from tcb_bench.report.build import report
from tcb_bench.report.load import load


def test_every_quantity_has_the_median_p99_and_maximum_of_its_relative_difference(tmp_path):
    a = [{"stability": {name: 2.0 + i for name in QUANTITIES}} for i in range(4)]
    share = (0.01, -0.02, 0.03, -0.04)  # of the reference
    b = [{"stability": {name: (2.0 + i) * (1 + share[i]) for name in QUANTITIES}} for i in range(4)]
    found, [compared] = tables(tmp_path, written(a), narrow(b))
    assert set(found) == {
        *("delta_tcb", "flip_radius", "relative_delta", "v_eff", "logit_margin", "p_top1"),
        *("choice_flip_radius", "choice_margin"),
    }
    for row in found.values():
        # sorted 0.01 0.02 0.03 0.04; p99 stands 0.99 * 3 = 2.97 steps in: 0.03 + 0.97 * 0.01
        assert (row["median"], row["p99"], row["max"]) == pytest.approx((0.025, 0.0397, 0.04))
        assert row["n"] == 4
    assert (compared["samples"], compared["n"], compared["other_text"]) == (4, 4, 0)
    assert (compared["reference"], compared["other"]) == ("float32, hf", "bfloat16, hf")


def test_the_percentiles_are_those_of_numpy(tmp_path):
    draw = random.Random(0)
    a = [draw.lognormvariate(0, 2) for _ in range(250)]
    b = [value * draw.gauss(1, 0.1) for value in a]
    found, _ = tables(tmp_path, written(measured(a)), narrow(measured(b)))
    relative = np.abs(np.subtract(a, b)) / np.array(a)
    row = found["delta_tcb"]
    assert row["p99"] == pytest.approx(np.quantile(relative, 0.99))
    assert row["median"] == pytest.approx(np.median(relative))
    assert row["max"] == pytest.approx(relative.max())
    assert row["p99"] < row["max"]


@pytest.mark.parametrize(
    ("first", "second", "reference"),
    [
        (("float32", "hf"), ("bfloat16", "hf"), 0),
        (("bfloat16", "hf"), ("float32", "hf"), 1),
        (("float16", "hf"), ("float32", "vllm"), 1),  # the dtype counts before the back end
        (("bfloat16", "hf"), ("float16", "hf"), 1),  # 10 bits of mantissa, not 7
        (("bfloat16", "vllm"), ("bfloat16", "hf"), 1),
        (("float32", "hf"), ("float32", "vllm"), 0),
        (("int4", "hf"), ("bfloat16", "hf"), 1),
    ],
)
def test_the_reference_is_the_wider_dtype_then_hf(tmp_path, first, second, reference):
    runs = [
        written(measured([value]), dtype=dtype, backend=backend, model=f"{backend}/org/m")
        for value, (dtype, backend) in ((1.0, first), (4.0, second))
    ]
    found, [compared] = tables(tmp_path, *runs)
    assert found["delta_tcb"]["max"] == pytest.approx((3.0, 0.75)[reference])
    named = [", ".join(first), ", ".join(second)]
    assert (compared["reference"], compared["other"]) == (named[reference], named[1 - reference])
    assert compared["model"] == "org/m"


def test_answers_and_tokens_that_differ_are_shares_of_what_was_compared(tmp_path):
    def rows(answers, tokens):
        return [
            {"answer": a, "stability": {"delta_tcb": 1.0, "top1_token": t}}
            for a, t in zip(answers, tokens, strict=True)
        ]

    _, [row] = tables(
        tmp_path, written(rows("ABCD", (1, 2, 3, 4))), narrow(rows("ABAD", (1, 5, 6, 7)))
    )
    assert (row["answer_differs"], row["token_differs"]) == (0.25, 0.75)


def test_a_sample_counts_only_where_both_runs_have_an_answer_and_a_value(tmp_path):
    a = measured([1.0, 2.0, 4.0, 8.0])
    b = measured([1.5, 2.0, None], state="scored")
    b[1]["state"] = "error"
    found, [row] = tables(tmp_path, written(a), narrow(b))
    assert (row["samples"], row["n"]) == (2, 2)  # one has failed, one was not asked
    assert (found["delta_tcb"]["n"], found["delta_tcb"]["max"]) == (1, 0.5)


def test_a_copied_repeat_counts_once_but_not_where_only_one_run_copied(tmp_path):
    def copied(*repeats):
        def change(axes, question, row):
            source = "key" if row["repeat"] in repeats else None
            return {**row, "stability": {"delta_tcb": 1.0}, "reused_from": source}

        return change

    a = written([{}], repeats=3, change_row=copied(1, 2))
    b = narrow([{}], repeats=3, change_row=copied(2))
    _, [row] = tables(tmp_path, a, b)
    assert row["samples"] == 2


def test_a_reference_of_zero_is_left_out_and_said_but_two_zeros_do_not_differ(tmp_path):
    a, b = ([0.0, 0.0, 2.0], [0.0, 0.5, 3.0])
    name = "logit_margin"
    found, _ = tables(tmp_path, written(measured(a, name)), narrow(measured(b, name)))
    row = found[name]
    assert (row["n"], row["median"], row["max"]) == (2, 0.25, 0.5)
    assert row["reason"] == "1 left out, whose reference is 0"
    lost, _ = tables(tmp_path / "z", written(measured([0.0])), narrow(measured([1.0])))
    assert (lost["delta_tcb"]["n"], lost["delta_tcb"]["median"]) == (0, None)


def generated(text, *, token=5, value=1.0, **more):
    stability = {"delta_tcb": value, "critical_token": token} if token is not None else {}
    return {"text": text, "stability": stability, **more}


@pytest.mark.parametrize(
    ("a", "b", "counted"),
    [
        (generated(BOXED), generated(BOXED), "n"),
        (generated(BOXED), generated(r"So \boxed{8} or so."), "n"),  # another number, same point
        (generated(BOXED), generated(r"Thus \boxed{7} it is."), "other_text"),
        (generated(BOXED), generated(BOXED, token=6), "other_text"),  # cut into other tokens
        (generated(BOXED), generated("no idea", token=None), "other_text"),
        (generated("no idea", token=None), generated("no clue", token=None), "no_point"),
        (generated(BOXED), generated(BOXED, token=None), "no_point"),  # not measured in one
        (
            generated(f"3 or 4?{BOXED}", reasoning_chars=7),
            generated(f"3 or 4?{BOXED}", reasoning_chars=7),
            "n",
        ),
        (
            generated(f"3 or 4?{BOXED}", reasoning_chars=7),
            generated(f"3 or 5?{BOXED}", reasoning_chars=7),
            "other_text",
        ),
    ],
)
def test_generations_are_compared_where_the_texts_agree_up_to_the_answer(tmp_path, a, b, counted):
    _, [row] = tables(tmp_path, written([a], tcb=NUMBER), narrow([b], tcb=NUMBER))
    counts = {name: row[name] for name in ("n", "other_text", "no_point")}
    assert counts == {**dict.fromkeys(counts, 0), counted: 1}
    assert row["samples"] == 1


def test_other_texts_are_left_out_of_every_number(tmp_path):
    a = [generated(BOXED, value=1.0), generated(BOXED, value=1.0)]
    b = [generated(BOXED, value=1.25), generated(r"No, \boxed{9}.", value=9.0)]
    found, [row] = tables(tmp_path, written(a, tcb=NUMBER), narrow(b, tcb=NUMBER))
    assert (found["delta_tcb"]["n"], found["delta_tcb"]["max"]) == (1, 0.25)
    assert (row["n"], row["other_text"], row["answer_differs"]) == (1, 1, 0.0)


def test_numbers_differ_by_their_value(tmp_path):
    a = [generated(r"\boxed{1,000}"), generated(r"\boxed{1,000}")]
    b = [generated(r"\boxed{1000}"), generated(r"\boxed{1001}")]
    _, [row] = tables(tmp_path, written(a, tcb=NUMBER), narrow(b, tcb=NUMBER))
    assert (row["n"], row["answer_differs"]) == (2, 0.5)


def test_the_first_token_of_a_text_is_one_point_whatever_follows(tmp_path):
    tcb = {"request": "generate_traced", "position": "first"}
    a, b = generated("Paris", token=0), generated("London", token=0, value=1.5)
    found, [row] = tables(tmp_path, written([a], tcb=tcb), narrow([b], tcb=tcb))
    assert (row["n"], found["delta_tcb"]["max"]) == (1, 0.5)


def test_another_prompt_is_another_point(tmp_path):
    folders = [write_run(tmp_path / "a", written(measured([1.0, 1.0])))]
    folders.append(write_run(tmp_path / "b", narrow(measured([1.0, 2.0]))))
    path = next(folders[1].glob("samples_*"))
    path.write_text(path.read_text().replace("What is q-001?", "Who is q-001?"))
    differences, compared = precision_tables(load(folders).runs)
    assert (compared.rows[0]["n"], compared.rows[0]["other_text"]) == (1, 1)
    assert differences.rows[0]["max"] == 0.0


def test_runs_of_one_setting_are_told_apart_by_their_folder_and_devices_where_they_differ(tmp_path):
    runs = [
        written(measured([1.0]), facts={"device": "cpu"}),
        narrow(measured([1.5]), facts={"device": "cuda"}),
        narrow(measured([1.25]), facts={"device": "cpu"}),
    ]
    folders = [write_run(tmp_path / f"run{i}", run) for i, run in enumerate(runs)]
    differences, _ = precision_tables(load(folders).runs)
    place = tmp_path.name
    assert [(row["reference"], row["other"], row["max"]) for row in differences.rows] == [
        ("float32, hf, cpu", f"bfloat16, hf, cuda [{place}/run1]", 0.5),
        ("float32, hf", f"bfloat16, hf [{place}/run2]", 0.25),
    ]


def test_the_report_shows_percent_and_says_that_no_sweep_is_there(tmp_path):
    a = write_run(tmp_path / "a", written(measured([1.0, 1.0])))
    b = write_run(tmp_path / "b", narrow(measured([1.5, 1.000035])))
    assert main(["report", str(a), str(b), "--out", str(tmp_path / "out")]) == 0
    read = Reader((tmp_path / "out" / "report.html").read_text())
    assert "2 runs of 1 model" in read.text
    assert "No task was run over temperatures or contexts" in read.text
    assert "do not rank numbers of different dtype together" in " ".join(read.text.split())
    assert "precision" in read.ids
    [sheet] = [rows for rows in read.tables if "quantity" in [text for text, _ in rows[0]]]
    assert [text for text, _ in sheet[1]][2:] == [
        *("float32, hf", "bfloat16, hf", "delta_tcb"),
        *("25 %", "49.5 %", "50 %", "2"),
    ]
    assert float(sheet[1][7][1]["data-sort"]) == 0.5  # the fraction, by which the column sorts


def test_one_run_has_a_report_without_a_precision_section(tmp_path):
    [html] = report([write_run(tmp_path / "a", written(measured([1.0])))], tmp_path / "out")
    read = Reader(html.read_text())
    assert "1 model: toy" in read.text
    assert "precision" not in read.ids
