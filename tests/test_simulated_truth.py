"""The analysis finds what is there and no more. Oracle: 200 simulated studies of known truth.

60 questions x 4 temperatures x 4 contexts x 3 runs. At a true rate of 0.05 the rate over 200
studies has a standard error of 0.015.
"""

import numpy as np
import pytest
from study_grids import CONTEXTS, TEMPERATURES, grid, rows_of, simulated, truth

from tcb_bench.report.analysis_cells import Settings
from tcb_bench.report.analysis_contexts import contexts_table
from tcb_bench.report.analysis_interaction import ANY, interaction_table
from tcb_bench.report.analysis_onset import onset_table
from tcb_bench.report.analysis_types import types_table

STUDIES = 200
LEVEL = (0.02, 0.09)  # allowed rejection rate at 0.05 where nothing is there
POWER = 0.9
EFFECT = -0.02
MAIN = {(0.6, None): -0.005, (1.4, None): -0.02, (2.0, None): -0.03, (None, "ner"): -0.02}
LOSS_AT_2 = {(2.0, "ner"): EFFECT}
SETTINGS = Settings(resamples=499)


def studies(effects, seed):
    rng = np.random.default_rng(seed)
    shifts = truth(effects)
    for _ in range(STUDIES):
        yield simulated(rng, shifts)


def rate(decisions):
    return float(np.mean(list(decisions)))


def interacts(scores):
    return rows_of(interaction_table([grid(scores)], SETTINGS), context=ANY)[0]["stands"]


def differing(scores):
    rows = contexts_table([grid(scores)], SETTINGS).rows
    return {(r["temperature"], r["context"]) for r in rows if r["p_holm"] < 0.05}


def onsets(scores):
    return [row["onset"] for row in onset_table([grid(scores)], SETTINGS).rows]


def types_differ(first, second):
    pair = [grid(first), grid(second, question_type="comparison")]
    return any(row["p"] < 0.05 for row in types_table(pair, SETTINGS).rows)


@pytest.mark.parametrize("effects", [{}, MAIN], ids=["no effect", "main effects only"])
def test_no_interaction_is_claimed_where_there_is_none(effects):
    found = rate(interacts(scores) for scores in studies(effects, seed=1))
    assert LEVEL[0] <= found <= LEVEL[1]


def test_an_interaction_of_0_02_is_found_and_where_it_is():
    tables = [interaction_table([grid(s)], SETTINGS) for s in studies(MAIN | LOSS_AT_2, seed=2)]
    there = [rows_of(t, temperature=2.0, context="ner")[0]["stands"] for t in tables]
    elsewhere = [
        any(r["stands"] for r in t.rows if (r["temperature"], r["context"]) != (2.0, "ner")
            and r["context"] != ANY)
        for t in tables
    ]  # fmt: skip
    assert rate(there) > POWER
    assert rate(elsewhere) <= LEVEL[1]


@pytest.mark.parametrize(
    "effects",
    [{}, {(1.4, None): -0.02, (2.0, None): -0.03}],
    ids=["no effect", "effect of temperature only"],
)
def test_no_context_is_called_different_that_is_not(effects):
    found = rate(bool(differing(scores)) for scores in studies(effects, seed=3))
    assert LEVEL[0] <= found <= LEVEL[1]


def test_a_context_0_02_below_the_original_is_found_at_every_temperature():
    effects = {(1.4, None): -0.02, (2.0, None): -0.03, (None, "ner"): EFFECT}
    found = [differing(scores) for scores in studies(effects, seed=4)]
    everywhere = {(t, "ner") for t in TEMPERATURES}
    assert rate(everywhere <= pairs for pairs in found) > POWER
    assert rate(bool(pairs - everywhere) for pairs in found) <= LEVEL[1]


@pytest.mark.parametrize(
    "effects", [{}, {(None, "ner"): -0.02}], ids=["no effect", "effect of context only"]
)
def test_no_onset_is_claimed_where_temperature_does_nothing(effects):
    found = [onsets(scores) for scores in studies(effects, seed=5)]
    assert LEVEL[0] <= rate(onset is not None for all_ in found for onset in all_) <= LEVEL[1]


def test_the_onset_of_a_fall_of_0_02_is_found_at_its_temperature():
    falls = {(1.4, None): EFFECT, (2.0, None): EFFECT}
    found = [onset for scores in studies(falls, seed=6) for onset in onsets(scores)]
    assert len(found) == STUDIES * len(CONTEXTS)
    assert rate(onset == 1.4 for onset in found) > POWER
    assert rate(onset == 0.6 for onset in found) <= LEVEL[1]  # too early


@pytest.mark.parametrize("effects", [{}, MAIN], ids=["no effect", "main effects only"])
def test_no_type_is_said_to_lose_more_where_both_lose_alike(effects):
    pairs = zip(studies(effects, seed=7), studies(effects, seed=8), strict=True)
    assert LEVEL[0] <= rate(types_differ(a, b - 0.03) for a, b in pairs) <= LEVEL[1]


def test_a_type_that_loses_0_02_more_is_found():
    more = MAIN | {(1.4, None): -0.04, (2.0, None): -0.05}
    pairs = zip(studies(more, seed=9), studies(MAIN, seed=10), strict=True)
    assert rate(types_differ(a, b) for a, b in pairs) > POWER
