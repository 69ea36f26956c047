"""The papers' numbers beside the boards. Oracle: the tables and sentences of the papers' own text."""

import re

import pytest
from conftest import ROOT

from tcb_bench.leaderboards.rank_reported import reported, reported_rows

PAPERS = ROOT.parent / "shared" / "papers"
NAMES = {  # fact or cell -> column of the paper's table, from its heading
    3: {
        "acc": "Acc",
        "mean delta_tcb (raw)": r"Avg. $\delta_{\mathrm{TCB}}$",
        "mean v_eff": r"Avg. $\mathcal{V}_{\mathrm{eff}}$",
        "mean logit margin": r"Avg. $z_{k}-z_{j^{\ast}}$",
        "AccVar, perturbed": r"AccVar${}_{\text{pert}}$",
        "PDR, as printed": "PDR (%)",
        "Acc, worst case": r"Acc${}_{\text{worst}}$",
    },
    4: {
        "acc": "Avg. Acc",
        "mean delta_tcb (raw)": r"Avg. $\delta_{\mathrm{TCB}}\uparrow$",
        "mean PPL": r"Avg. PPL $\downarrow$",
        "Acc, worst case": r"Acc${}_{\text{worst}}$",
    },
}


def paper(name):
    path = PAPERS / name
    if not path.exists():
        pytest.skip("the papers' text is not here (../shared/papers)")
    return path.read_text(encoding="utf-8")


def table(text, number):
    """Rows of one of the paper's tables, as lists of cells; the caption starts it."""
    lines = text[text.index(f"\nTable {number}: ") + 1 :].splitlines()
    first = next(i for i, line in enumerate(lines) if line.startswith("|"))
    rows = []
    for line in lines[first:]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip("|").split("|")])
    return rows


def printed(row):
    """Name -> number of a reported row, cells and facts together, as text."""
    return {name: f"{value:.2f}" for name, value in row.cells.items()} | dict(row.facts)


def table_3(text):
    """(set, benchmark, prompt) -> heading -> number; a cell left empty repeats the one above."""
    rows = table(text, 3)
    head = next(row for row in rows if row[0] == "Benchmark")
    found, kind, benchmark = {}, "", ""
    for row in rows[rows.index(head) + 1 :]:
        if not any(row[1:]):
            kind = row[0]
            continue
        benchmark = row[0] or benchmark
        found[kind, benchmark, row[1]] = dict(zip(head, row, strict=True))
    return found


def test_every_number_of_table_3_is_the_papers_in_that_row_and_column():
    found = table_3(paper("beyond-confidence.md"))
    ours = [row for row in reported().rows if row.place == "table 3"]
    assert len(ours) == len(found) == 8
    seen = set()
    for row in ours:
        benchmark = {"mmlu_tcb": "MMLU", "gsm8k_tcb": "GSM8K"}[row.boards[0]]
        own = row.facts["questions"], benchmark, row.facts["prompt"]
        seen.add(own)
        for name, column in NAMES[3].items():
            assert printed(row)[name] == found[own][column], (own, name)
        assert benchmark in row.model and row.facts["prompt"].lower() in row.model
    assert seen == set(found)


def test_every_number_of_table_4_is_the_papers_in_that_row_and_column():
    rows = table(paper("beyond-confidence.md"), 4)
    plain = {row[0].replace(r"$\delta_{\mathrm{TCB}}$", "delta_TCB"): row for row in rows[2:]}
    ours = [row for row in reported().rows if row.place == "table 4"]
    assert [row.facts["prompt"] for row in ours] == [n.removesuffix(" (Ours)") for n in plain]
    for row, theirs in zip(ours, plain.values(), strict=True):
        numbers = dict(zip(rows[0], theirs, strict=True))
        for name, column in NAMES[4].items():
            assert printed(row)[name] == numbers[column], (row.model, name)


SAID = {
    "gpt": r"GPT models exhibit degradation beginning at $T=1.4$",
    "Llama": r"Llama models demonstrate earlier performance deterioration at $T=0.6$",
    "deepseek": "deepseek-reasoner maintains nearly invariant performance",
}
LEVELS = re.compile(
    r"At lower temperatures \(\$T<1\.4\$\), GPT models achieve superior correctness "
    r"\(BERTScore: ([\d.-]+)\), followed by Llama models \(([\d.-]+)\) "
    r"and deepseek-reasoner \(([\d.]+)\)"
)


def test_what_tempperturb_says_of_each_model_is_in_its_sentences():
    text = paper("tempperturb-eval.md")
    levels = dict(zip(SAID, LEVELS.search(text).groups(), strict=True))
    rows = {row.model: row for row in reported().rows if row.paper == "tempperturb_eval"}
    assert set(rows) == {
        *("gpt-3.5-turbo", "gpt-4o", "Llama-3.1-8B-Instruct", "Llama-3.2-1B-Instruct"),
        "deepseek-reasoner",
    }
    for model, row in rows.items():
        assert model in text
        family = next(name for name in SAID if model.startswith(name))
        assert SAID[family] in text
        assert row.facts["BERTScore F1 at T < 1.4"] == levels[family]
        begins = re.search(r"T=([\d.]+)", SAID[family])
        falls = row.facts["falls, as printed"]
        assert falls == (f"from T = {begins[1]}" if begins else "none: nearly invariant")
        assert not row.cells  # a level and a figure read by eye are no area and no onset
    at_2 = rows["gpt-4o"].facts["BERTScore F1 at T = 2.0, bridge"]
    assert (
        at_2.startswith("frequently 0.70-0.80") and "frequently falling between 0.70–0.80" in text
    )


def test_reported_rows_are_marked_and_never_ranked():
    for board, n in (("mmlu_tcb", 7), ("gsm8k_tcb", 7), ("hotpotqa_tempperturb", 5)):
        rows = reported_rows(board)
        assert len(rows) == n
        for row in rows:
            assert row.tier == "reported" and row.entry is None
            assert re.search(r"arXiv:\d{4}\.\d{5}, (table \d|section \d\.\d)$", row.source)
            assert row.facts["caveat"]
            assert set(row.cells) <= {"acc"}  # raw delta is not relative_delta
            for cell in row.cells.values():
                assert cell.rank_low is cell.rank_high is cell.ci_low is None
                assert "not reproduced" in cell.reason
    assert reported_rows("mmlu_tcb_reasoning") == []
