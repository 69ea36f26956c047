"""The audit study. Oracles: a two-token head worked out by hand, a scripted answer, made-up rows."""

import json
import math

import pytest
import torch

from tcb_bench.config import RunConfig, TaskOptions
from tcb_bench.errors import UnknownName, UsageError
from tcb_bench.load_tasks import load_tasks
from tcb_bench.metrics.delta_tcb_head import Head
from tcb_bench.responses import Generation, NextToken
from tcb_bench.studies.audit_notes import question_notes, state_notes
from tcb_bench.studies.audit_predict import (
    baseline_row,
    choice_entropy,
    foretold,
    outcome,
    predictors,
)
from tcb_bench.studies.audit_states import measure
from tcb_bench.studies.audit_tables import changes_table, moves_table, radii_table, share
from tcb_bench.studies.audit_variants import (
    answer_of,
    applies,
    check,
    edited,
    group_of,
    is_right,
    option_order,
)
from tcb_bench.studies.session import Answer
from tcb_bench.studies.settings import read_settings

SETTINGS = read_settings("audit")
SMALL = {**SETTINGS, "multiples": [0.01, 1.0], "seed": 3, "resamples": 200}
TASK = "mmlu_tcb_reasoning_philosophy"


def loaded(tasks=(TASK,), **options):
    return load_tasks(tasks, TaskOptions(data="sample", limit=2, **options)).tasks


def prompts(task):
    return [
        task.fewshot_context(doc, num_fewshot=task.config.num_fewshot, gen_prefix="Answer:")
        for doc in task.eval_docs
    ]


def test_one_state_of_two_tokens_is_as_worked_out_by_hand():
    # W = [[2, 0], [-2, 0]], h = (0.3, 5): z = 0.6, -0.6; o = sigmoid(1.2); only 4 h_1 counts
    head = Head(torch.tensor([[2.0, 0.0], [-2.0, 0.0]]))
    found = measure(torch.tensor([[0.3, 5.0]]), head, SMALL)

    def o(h1):
        return 1 / (1 + math.exp(-4 * h1))

    steep = math.sqrt(2) * 4 * o(0.3) * (1 - o(0.3))  # the norm of J's only stretch
    delta = 1 / steep
    assert found["log10_delta_tcb"] == pytest.approx(math.log10(delta), abs=1e-5)
    assert found["spectral"]["log10_delta"] == pytest.approx(math.log10(delta), abs=1e-5)
    assert found["flip_radius"] == pytest.approx(0.3)
    assert found["flips_at"] == [False, True]
    changes = [math.sqrt(2) * abs(o(0.3 - c * delta) - o(0.3)) for c in SMALL["multiples"]]
    assert found["nearest"]["change"] == pytest.approx(changes, rel=1e-4)
    assert found["worst"]["change"] == pytest.approx(changes, rel=1e-4)  # down is the larger sign
    assert found["nearest"]["slope"] == pytest.approx(steep, rel=1e-4)
    assert found["nearest"]["flipped"] == [0.0, 1.0]  # delta = 1.0 is beyond 0.3
    assert found["random"]["slope"] == pytest.approx(steep / math.sqrt(2), rel=0.4)


def test_a_state_that_nothing_can_flip_has_a_reason_and_no_number():
    found = measure(torch.ones(1, 2), Head(torch.ones(1, 2)), SMALL)
    assert list(found) == ["reason"] and "no finite radius" in found["reason"]


def state(ratio, flipped, delta=2.0, flip=1.0):
    """Its moves change o by ``ratio`` of what slope and length foretell."""
    part = {"slope": 0.5, "flipped": flipped}
    part |= {"change": [ratio * c * delta * 0.5 for c in SMALL["multiples"]]}
    spectral = {"log10_delta": math.log10(3.0), "converged": True}
    return {
        **{kind: part for kind in ("random", "worst", "nearest")},
        **{"log10_delta_tcb": math.log10(delta), "flip_radius": flip, "width": 4},
        **{"spectral": spectral, "p_top1": 0.95, "flips_at": [False, True]},
    }


def test_tables_of_states_hold_ratios_and_shares():
    states = [state(0.5, [0, 1]), state(0.9, [0, 1]), state(0.7, [0, 0], flip=4.0)]
    states.append({"reason": "too long"})
    moves = moves_table(states, SMALL).rows
    assert [row["n"] for row in moves] == [3] * 6
    assert moves[1]["ratio"] == pytest.approx(0.7)  # the median
    assert moves[1]["flipped"] == pytest.approx(2 / 3)
    assert moves[1]["ratio_mean"] == pytest.approx(0.7 / (1 / 2))  # change 0.7; c / sqrt 4
    radii = radii_table(states, SMALL).rows
    assert radii[0]["beyond"] == pytest.approx(2 / 3)
    assert radii[0]["ratio"] == pytest.approx(2.0)
    assert radii[0]["spectral_beyond"] == pytest.approx(2 / 3)
    assert radii[2]["n"] == 0 and radii[2]["reason"]  # none below 0.9
    notes = " ".join(state_notes(states, moves, radii))
    assert "at 67%" in notes and "0 of 3 flipped inside, 3 of 3" in notes and "too long" in notes


def test_each_change_does_what_it_says_and_leaves_the_task_alone():
    [task] = loaded(num_fewshot=3).values()
    before = prompts(task)
    upper = prompts(edited(task, "upper_case", 0))
    doc = task.eval_docs[0]
    assert doc["question"].upper() in upper[0] and doc["question"] not in upper[0]
    dropped = prompts(edited(task, "shots_dropping", 0))
    assert [text.count("Answer:") for text in (before[0], dropped[0])] == [4, 3]
    moved = prompts(edited(task, "options_reordering", 0))
    order = option_order(doc, 0)
    lines = [f"{'ABCD'[place]}. {doc['choices'][i]}" for place, i in enumerate(order)]
    assert moved[0].endswith("\n".join([*lines, "Answer:"])) and order != [0, 1, 2, 3]
    shots = prompts(edited(task, "shots_reordering", 0))
    assert sorted(shots[0]) == sorted(before[0]) and shots[0] != before[0]
    assert prompts(edited(task, "typos:5", 0)) != prompts(edited(task, "typos:5", 1))
    assert prompts(task) == before


def test_changes_that_a_task_cannot_have_are_left_out_or_refused():
    [task] = loaded(num_fewshot=0).values()
    assert not applies(task, "shots_dropping") and applies(task, "options_reordering")
    [number] = loaded(("gsm8k_tcb",)).values()
    assert applies(number, "shots_reordering") and not applies(number, "options_reordering")
    assert group_of("typos:3") == "wording" and group_of("shots_replacement") == "examples"
    with pytest.raises(UnknownName, match="typos"):
        group_of("typo")
    with pytest.raises(UsageError, match="one after the other"):
        check({TASK: task, "gsm8k_tcb": number}, ["typos"])
    with pytest.raises(UsageError, match="none to compare"):
        check({"other": object()}, ["typos"])


def test_reordered_options_are_compared_by_their_text():
    [task] = loaded().values()
    doc = task.eval_docs[0]
    gold = task.target(doc)
    order = [(gold + shift) % 4 for shift in (3, 0, 1, 2)]  # the right option stands at B
    row = {"choice_logprobs": [-3.0, -1.0, -2.0, -2.0], "acc": 0.0}
    response = NextToken({}, [], [], 0, "", 0)
    answer = Answer(doc["tcb_id"] if "tcb_id" in doc else "x", doc, "", response, row)
    assert answer_of(answer, task, order) == doc["choices"][gold]
    assert is_right(answer, task, order) == 1.0
    assert answer_of(answer, task) == doc["choices"][1]


@pytest.mark.parametrize(("text", "value"), [("9{,}500", "9500"), ("18.0", "18"), (None, None)])
def test_numbers_are_compared_by_value(text, value):
    [task] = loaded(("gsm8k_tcb_zeroshot",)).values()
    answer = Answer("x", {}, "", Generation("", [], [], "stop", 0), {"answer": text})
    assert answer_of(answer, task) == value


def test_a_share_of_none_or_all_has_the_exact_limit_of_so_few():
    # Clopper and Pearson: all of 4 at 95 % is 0.025 ** (1 / 4)
    all_, none = share([1, 1, 1, 1], SMALL), share([0, 0, 0, 0], SMALL)
    assert (all_.ci_low, all_.ci_high) == (pytest.approx(0.3976, abs=1e-4), 1.0)
    assert (none.ci_low, none.ci_high) == (0.0, pytest.approx(0.6024, abs=1e-4))


def question(i, delta, changed):
    variant = {"edit": "typos", "group": "wording", "state": "scored", "acc": 1.0}
    variants = [{**variant, "changed": c} for c in changed]
    found = {"delta_tcb": delta, "logit_margin": -delta}
    return {"id": str(i), "predictors": found, "variants": variants, "reason": None, "acc": 1.0}


def test_a_perfect_predictor_has_auroc_1_and_too_few_changes_none():
    rows = [question(i, i, [i < 25, False]) for i in range(60)]
    delta, margin = foretold(rows, "wording", SMALL, 0)
    assert (delta["auroc"], margin["auroc"], margin["less_delta"]) == (1.0, 0.0, -1.0)
    assert (delta["n"], delta["n_changed"], delta["less_delta"]) == (60, 25, None)
    assert delta["rate"] > 0.8  # small delta, large rate
    assert "worse: logit_margin 0.00" in question_notes(rows, [delta, margin])[-1]
    few = foretold([question(i, i, [i < 19]) for i in range(60)], "wording", SMALL, 0)
    assert few[0]["auroc"] is None and few[0]["reason"] == "19 changed answers, fewer than 20"
    many = foretold([question(i, i, [i < 45]) for i in range(60)], "wording", SMALL, 0)
    assert many[0]["auroc"] is None and "15 unchanged" in many[0]["reason"]


def test_what_cannot_be_compared_counts_neither_way():
    assert outcome(question(0, 1.0, [None, True, False]), ("wording",)) == (1.0, 0.5)
    assert math.isnan(outcome(question(0, 1.0, [None]), ("wording",))[0])
    [row] = changes_table([question(0, 1.0, [None, True]), question(1, 1.0, [False])], SMALL).rows
    assert (row["n"], row["lost"], row["n_changed"], row["changed"]) == (2, 1, 1, 0.5)


def test_predictors_take_the_finite_logarithm_and_the_choices_alone():
    stability = {"log10_delta_tcb": 42.0, "delta_tcb": None, "p_top1": 0.5, "h_norm": 3.0}
    found = predictors({"stability": stability, "choice_logprobs": [-9.0, -9.0, -99.0, -99.0]})
    assert found["delta_tcb"] == 42.0 and "h_norm" not in found
    assert found["choice_entropy"] == pytest.approx(math.log(2)) == choice_entropy([0.0, 0.0])


@pytest.mark.parametrize(("keeps", "reason"), [(True, None), (False, "the text was cut off")])
def test_a_text_that_was_cut_off_counts_as_the_setting_says(keeps, reason):
    [task] = loaded(("gsm8k_tcb_zeroshot",)).values()
    row = {"state": "truncated", "answer": "18", "acc": 1.0}
    answer = Answer("x", {}, "", Generation("", [], [], "length", 0), row)
    found = baseline_row(answer, "gsm8k", task, keeps)
    assert found["answer"] == "18" and (found["reason"] or "").startswith(reason or "")
    assert (found["reason"] is None) is keeps


@pytest.mark.slow
def test_the_whole_study_on_the_demo_and_again_without_asking(smollm2_folder, tmp_path):
    from tcb_bench.studies.run_study import run_study

    over = {"num_fewshot": 1, "states": 2, "directions": 2, "multiples": [0.1, 1.0]}
    edits = ["upper_case", "shots_dropping", "options_reordering"]
    settings = read_settings("audit", None, over | {"perturbations": edits, "min_changed": 1})
    config = RunConfig(
        model=f"hf/{smollm2_folder}",
        tasks=(TASK,),
        options=TaskOptions(data="sample", limit=2),
        output_path=tmp_path,
    )
    lines = []
    first = run_study("audit", config, settings, say=lines.append)
    assert "asked 10, found in the store 0" in lines  # 2 questions x (1 + 3 edits), 2 states
    again = run_study("audit", config, settings, say=lines.append)
    assert lines[-1] == "asked 0, found in the store 10"
    rows = [json.loads(line) for line in (first.folder / "samples.jsonl").read_text().splitlines()]
    assert [row["part"] for row in rows] == ["question", "question", "state", "state"]
    assert all(row["flips_at"] == [False, True] for row in rows[2:])
    assert first.n_errors == 0 and again.findings.rows == first.findings.rows
    record = json.loads((first.folder / "study.json").read_text())
    names = [table["name"] for table in record["tables"]]
    assert names == ["moves", "radii", "foretold", "changes", "baseline"]
