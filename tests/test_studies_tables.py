"""What the tables of all studies share: names of intervals, their level, n, columns of numbers.

Oracles: intervals written by hand; rich's own rendering; the modules' sources.
"""

import io
import re

import pytest
from rich.console import Console

from tcb_bench.metrics.statistics import Interval
from tcb_bench.report.table import Column, Table
from tcb_bench.studies import correlations_tables, layers_tables, prompts_tables
from tcb_bench.studies.interventions_tables import flat
from tcb_bench.studies.settings import HERE
from tcb_bench.studies.shown import COVERAGE, LEVEL, interval_cells
from tcb_bench.tables import data_table

FOUND = Interval(0.5, 0.25, 0.75, 0.1, 9)


def test_an_interval_has_the_same_names_in_every_row():
    limits = {"x": 0.5, "x_ci_low": 0.25, "x_ci_high": 0.75}
    assert interval_cells("x", FOUND).items() >= limits.items()
    assert flat({"x": FOUND}).items() >= limits.items()
    assert prompts_tables.cells({"acc": FOUND, "x": FOUND}, ["x"]).items() >= limits.items()
    assert layers_tables._interval("x", FOUND).items() >= limits.items()
    for path in HERE.glob("*.py"):  # no other name, also none that an f-string makes
        assert not re.findall(r'(?<!ci)_(?:low|high)["\]]', path.read_text()), path.name


def test_the_level_of_fixed_intervals_is_named_where_they_stand():
    assert COVERAGE == f"{100 * LEVEL:g} %" == "95 %"
    for table in (
        correlations_tables.paper_table([], []),
        correlations_tables.correlations_table([]),
    ):
        assert f"{COVERAGE} bootstrap interval" in table.note
    assert COVERAGE in layers_tables.CHECKED["difference_ci_low"]
    for name in ("correlations", "layers"):
        assert COVERAGE in (HERE / f"{name}.yaml").read_text()


def test_a_number_of_prompts_that_counts_other_questions_says_its_n():
    found = {"acc": FOUND, "nll": Interval(1.0, 0.5, 2.0, None, 7), "pdr": Interval(*[None] * 4, 0)}
    row = prompts_tables.cells(found, ["acc", "nll", "pdr"])
    assert row["n"] == 9 and row["nll_n"] == 7
    assert row["acc_shown"] == "0.50 [0.25, 0.75]"
    assert row["nll_shown"] == "1.00 [0.50, 2.00], n = 7"
    assert row["pdr_shown"] is None and row["pdr_n"] == 0
    assert "another n stands with its number" in prompts_tables.INTERVAL


@pytest.mark.parametrize("digits", [None, 2])
def test_columns_of_numbers_stand_right_and_texts_left(digits):
    columns = [Column("a", "a", digits), Column("b", "words", digits), Column("c", "c", digits)]
    rows = [
        {"a": 7, "b": "one two", "c": "0.5 [0.1, 0.9]"},
        {"a": 12345, "b": "one two three", "c": None},
    ]
    out = io.StringIO()
    for part in data_table(Table("t", "T", "", columns, rows)):
        Console(file=out, width=80).print(part)
    line = next(line for line in out.getvalue().splitlines() if "0.5" in line)
    assert line == "│     7 │ one two       │ 0.5 [0.1, 0.9] │"
