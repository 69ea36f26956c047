"""The prompts study's parts. Oracles: a worth of each phrase that is known, hand computation."""

import math
import random
from dataclasses import replace

import pytest

from tcb_bench.errors import UnknownName, UsageError
from tcb_bench.studies.prompts import seed_prompts
from tcb_bench.studies.prompts_ask import Measured
from tcb_bench.studies.prompts_notes import _verdict
from tcb_bench.studies.prompts_outcome import Bootstrap, Outcome, differences, intervals
from tcb_bench.studies.prompts_search import NEVER, Scores, chosen, objective, search
from tcb_bench.studies.prompts_sets import AQ, VCQ, find_sets
from tcb_bench.studies.prompts_space import Prompt, read_space
from tcb_bench.studies.settings import read_settings

SPACE = {
    "instructions": ["Be careful.", "Think."],
    "directives": ["Choose."],
    "reflections": ["Check it."],
    "phrasings": ["Here it is."],
    "n_shots": [0, 1, 2],
    "orders": 3,
    "shots": {"own": {}},
}


def space(**changes):
    return replace(read_space({**SPACE, **changes}, "next_token"), sizes={"own": 5})


def measured(acc=1.0, log10=0.0, nll=1.0, prompt="p"):
    delta = None if log10 is None else 10.0**log10
    values = {"delta_tcb": delta, "log10_delta_tcb": log10, "v_eff": 2.0, "logit_margin": 1.0}
    return Measured(prompt, acc, nll, values, "scored", "A", None)


def scores(acc, log10, nll):
    return Scores(acc=acc, log10_delta=log10, nll=nll, n=1, n_delta=1, n_nll=1)


def test_moves_change_one_thing_and_fit():
    here = Prompt(instruction="Think.", n_shots=2, order=1)
    found = space().moves(here)
    assert set(found) == {
        *("change instruction", "drop instruction", "add directive", "add reflection"),
        *("number of shots", "shot order"),
    }
    for prompts in found.values():
        for prompt in prompts:
            differs = [k for k, v in prompt.fields.items() if v != here.fields[k]]
            assert len(differs) == 1 or (prompt.n_shots == 0 and prompt.order == 0)


def test_a_drawn_prompt_always_fits():
    small = replace(space(), sizes={"own": 1})
    rng = random.Random(0)
    drawn = [small.draw(rng) for _ in range(60)]
    assert {prompt.n_shots for prompt in drawn} == {0, 1}
    assert all(prompt.order == 0 for prompt in drawn if not prompt.n_shots)


# Worth of each slot, known: the climb must end at the best prompt within reach of its moves.
def worth(prompt):
    acc = 0.2 + 0.2 * bool(prompt.reflection) + 0.1 * (prompt.instruction == "Think.")
    log10 = 4.0 * (prompt.directive == "Choose.")
    nll = 5.0 - prompt.n_shots
    return scores(acc, log10, nll)


def climb(guide, budget, weight=0.1, seed=0):
    def evaluate(prompt):
        found = worth(prompt)
        return found, objective(guide, found, weight)

    return search(guide, Prompt(), space(), evaluate, budget=budget, seed=seed)


@pytest.mark.parametrize("seed", range(3))
def test_each_guide_climbs_to_what_it_is_after(seed):
    best = chosen(climb("delta", 60, seed=seed))
    assert (best.instruction, best.directive, best.reflection) == ("Think.", "Choose.", "Check it.")
    without = chosen(climb("delta", 60, weight=0.0, seed=seed))
    assert (without.instruction, without.directive) == ("Think.", "")  # accuracy alone: no gain
    assert chosen(climb("ppl", 60, seed=seed)).n_shots == 2
    assert chosen(climb("random", 400, seed=seed)).reflection == "Check it."


@pytest.mark.parametrize("guide", ["delta", "ppl", "random"])
def test_every_guide_has_the_same_budget_and_sees_nothing_twice(guide):
    steps = climb(guide, 8)
    assert len(steps) == 9 and steps[0].prompt == Prompt()
    assert len({step.prompt for step in steps}) == 9
    taken = [step.objective for step in steps if step.is_accepted]
    assert taken == sorted(set(taken)) and taken[-1] == max(s.objective for s in steps)
    assert [s.prompt for s in climb(guide, 8)] == [s.prompt for s in steps]


def test_the_objectives_are_what_they_say():
    assert objective("delta", scores(0.5, 2.0, 3.0), 0.1) == pytest.approx(0.7)
    assert objective("ppl", scores(0.5, 2.0, 3.0), 0.1) == -3.0
    assert objective("random", scores(0.5, 2.0, 3.0), 0.1) == 0.5
    assert objective("delta", scores(0.5, None, 3.0), 0.1) == NEVER
    assert objective("ppl", scores(0.5, 2.0, None), 0.1) == NEVER


SETTINGS = read_settings("prompts")
QUESTIONS = [("t", str(i)) for i in range(5)]
# Two runs; (acc, log10 delta) each. Means of log10: 3, 1, 2, 1.5, none; variances 0, 0, 1, 0.25.
RUNS = [
    [(1, 3.0), (0, 1.0), (1, 1.0), (1, 1.0), (1, None)],
    [(1, 3.0), (0, 1.0), (1, 3.0), (0, 2.0), (1, None)],
]


def test_the_sets_follow_the_thresholds():
    runs = [dict(zip(QUESTIONS, (measured(a, d) for a, d in run), strict=True)) for run in RUNS]
    given = {**SETTINGS, "T_H": 0.5, "T_L": 0.0, "V_L": 0.5, "V_H": 1.0}
    found = find_sets(runs, QUESTIONS, given)
    # quantile 0.5 of (1, 1.5, 2, 3) and of (0, 0, 0.25, 1)
    assert found.thresholds == {"T_H": 1.75, "T_L": 1.0, "V_L": 0.125, "V_H": 1.0}
    # 0: right, stable. 1: wrong. 2: right, but its delta varies. 3: acc varies. 4: no delta.
    assert [found.of[q] for q in QUESTIONS] == [VCQ, AQ, None, AQ, None]
    assert found.records[QUESTIONS[3]]["acc_var"] == 0.25
    with_spread = find_sets(runs, QUESTIONS, {**given, "V_H": 0.7})
    assert with_spread.of[QUESTIONS[2]] == AQ  # its variance, 1, is above the quantile
    with pytest.raises(UsageError, match="quantiles"):
        find_sets(runs, QUESTIONS, {**given, "T_L": 0.9})


def test_a_change_that_leaves_a_prompt_as_it_was_is_no_variant():
    clean = {q: measured(acc=1.0, prompt="a") for q in QUESTIONS}
    changed = {q: measured(acc=0.0, prompt="a" if q[1] == "0" else "b") for q in QUESTIONS}
    outcome = Outcome(name="x", prompt=Prompt(), clean=clean, varied={"typos": changed}, shots={})
    found = intervals(outcome, QUESTIONS, Bootstrap(50, 0))
    assert (found["acc"].n, found["acc_worst"].n, found["pdr"].n) == (5, 4, 4)
    assert found["pdr"].value == 1.0 and found["ppl"].value == pytest.approx(math.e)
    none = intervals(outcome, [], Bootstrap(50, 0))
    assert {interval.value for interval in none.values()} == {None}
    same = differences(outcome, outcome, QUESTIONS, Bootstrap(50, 0))
    assert {interval.value for interval, _ in same.values()} == {0.0}
    assert same["acc"][1] == 1.0 and same["pdr"][1] is None


def test_seeds_are_phrasings_without_examples_and_orders_with_them():
    assert seed_prompts(Prompt(), space(), 1) == [Prompt(instruction="Here it is.")]
    orders = [prompt.order for prompt in seed_prompts(Prompt(n_shots=2), space(), 3)]
    assert orders == [1, 2, 3]
    with pytest.raises(UsageError, match="phrasings"):
        seed_prompts(Prompt(), space(), 2)


@pytest.mark.parametrize(
    ("wrong", "error", "match"),
    [
        ({"instruction": ["x"]}, UnknownName, "instructions"),
        ({"instructions": "x"}, UsageError, "list of texts"),
        ({"n_shots": [-1]}, UsageError, ">= 0"),
        ({"directive_place": "in"}, UsageError, "before or after"),
        ({"shots": {"mine": {}}}, UsageError, "rows"),
        ({"shots": {"mine": {"rows": [1]}}}, UsageError, "rows"),
    ],
    ids=str,
)
def test_a_wrong_space_is_refused_in_one_line(wrong, error, match):
    with pytest.raises(error, match=match):
        read_space({**SPACE, **wrong}, "next_token")


@pytest.mark.parametrize(
    ("low", "high", "p", "said"),
    [
        (0.1, 0.3, 0.01, ""),
        (0.1, 0.3, 0.2, " (undecided)"),  # of one comparison it would stand, of thirty it does not
        (0.1, 0.3, None, ""),  # PDR has no test
        (-0.1, 0.3, 0.01, " (undecided)"),
        (0.0, 0.0, 1.0, " (the same)"),
        (None, None, None, ""),
    ],
)
def test_a_difference_stands_by_its_interval_and_by_the_corrected_p(low, high, p, said):
    row = {"difference": 0.2, "difference_ci_low": low, "difference_ci_high": high, "p_holm": p}
    assert _verdict(row) == said
