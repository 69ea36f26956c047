"""Groups of comparable entries, and the boards made of them.

Oracles: the rules, one changed setting at a time; numpy over the same sample rows.
"""

import gzip
import json
import math

import numpy as np
import pytest
from board_entries import make_entry

from tcb_bench.errors import DataError
from tcb_bench.leaderboards.comparable import comparable, conflicts
from tcb_bench.leaderboards.entry_files import Loaded, load_entries, read_entry
from tcb_bench.leaderboards.rank import boards
from tcb_bench.metrics.variability import area_under_curve

SHA = "0" * 64


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Three models on each task."""
    root = tmp_path_factory.mktemp("entries")
    for name in ("org/one", "org/two", "org/three"):
        make_entry(root, name, "mmlu_tcb", 60)
        make_entry(root, name, "gsm8k_tcb", 40)
        make_entry(root, name, "hotpotqa_tempperturb", 12, n_temperatures=3)
    return load_entries(root)


def of(loaded, task):
    return [one for one in loaded if one.entry.task.name == task]


def changed(one, **parts):
    """The same entry with other settings; a dict changes keys of a dict or a record."""
    record = one.entry.model_dump()
    for name, value in parts.items():
        record[name] = (record[name] or {}) | value if isinstance(value, dict) else value
    return Loaded(one.path, type(one.entry).model_validate(record))


def board(loaded, task):
    return next(board for board in boards(loaded) if board.name == task)


def row(group, name):
    return next(row for row in group.rows if row.model == name)


APART = {
    "task version": {"task": {"version": 2}},
    "data revision": {"data": {"revision": "f" * 40}},
    "documents": {"data": {"sha256": SHA}},
    "limit": {"limit": 7},
    "seed": {"seed": 1},
    "shots": {"n_shot": 3},
    "chat template": {"signature_parts": {"chat": "0a1b2c3d"}},
    "system instruction": {"signature_parts": {"system": "abcdef"}},
    "sampling": {"signature_parts": {"gen": "abcdef"}},
    "sampling defaults": {"sampling_defaults": "model"},
    "metric version": {"signature_parts": {"metric": "delta2.extract1"}},
    "BERTScore": {"bert_score": "another encoder"},
    "text scores": {"text_scores": "another version"},
    "reference": {
        "reference": {"kind": "short", "generator": None, "sha256": SHA, "without_answer": []}
    },
}


@pytest.mark.parametrize("name", APART)
def test_what_must_agree_keeps_apart_and_is_said(made, name):
    first, second, _ = of(made, "gsm8k_tcb")
    groups = comparable([first, second, changed(first, **APART[name])])
    assert [len(group.loaded) for group in groups] == [2, 1]
    (line,) = conflicts(groups)
    assert groups[1].key in line and f" {name} (" in line


def test_another_prompt_keeps_apart(made):
    first, second, _ = of(made, "gsm8k_tcb")
    cells = [{**cell.model_dump(), "request_sha256": SHA} for cell in first.entry.conditions]
    groups = comparable([first, second, changed(first, conditions=cells)])
    assert [len(group.loaded) for group in groups] == [2, 1]
    assert "prompt (" in conflicts(groups)[0]


@pytest.mark.parametrize(
    "parts",
    [
        {"model": {"dtype": "bfloat16"}},
        {"model": {"quantisation": "awq"}},
        {"model": {"backend": "vllm"}, "signature_parts": {"backend": "vllm"}},
        {"epsilon": 2.0},
        {"date": "2026-02-02"},
        {"signature_parts": {"tcb-bench": "9.9"}},
    ],
    ids=str,
)
def test_what_belongs_to_the_model_does_not_separate(made, parts):
    first, second, _ = of(made, "gsm8k_tcb")
    assert len(comparable([first, changed(second, **parts)])) == 1


def test_each_models_chat_template_and_own_sampling_are_its_own(made):
    first, second, _ = of(made, "hotpotqa_tempperturb")
    assert first.entry.sampling_defaults == "model"
    pair = [
        changed(one, signature_parts={"chat": mark, "gen": mark})
        for one, mark in ((first, "aaaaaaaa"), (second, "bbbbbbbb"))
    ]
    assert len(comparable(pair)) == 1


def test_groups_do_not_depend_on_the_order_of_entries(made):
    some = [*of(made, "gsm8k_tcb"), changed(of(made, "gsm8k_tcb")[0], seed=5)]
    forth, back = comparable(some), comparable(some[::-1])
    assert [(g.key, [x.path for x in g.loaded]) for g in forth] == [
        (g.key, [x.path for x in g.loaded]) for g in back
    ]


def test_the_three_boards_are_there_without_entries():
    found = boards([])
    assert [b.title for b in found] == ["MMLU-TCB", "GSM8K-TCB", "HotpotQA-TempPerturb"]
    assert all(b.groups == [] and b.reported for b in found)


def test_values_are_the_entries_own_and_rows_are_sorted_by_the_first(made):
    for task in ("mmlu_tcb", "gsm8k_tcb"):
        (group,) = board(made, task).groups
        values = [r.cells["acc"].value for r in group.rows]
        assert values == sorted(values, reverse=True)
        for one in of(made, task):
            own = row(group, one.entry.model.id)
            metrics = {m.name: m for m in one.entry.metrics}
            assert own.cells["acc"].value == metrics["acc"].value
            assert own.cells["acc"].ci_low == metrics["acc"].ci_low
            median = metrics["relative_flip_radius_median"]
            assert own.cells["relative_flip_radius"].value == median.value
            with gzip.open(one.samples) as file:
                rows = [json.loads(line)["rows"][0]["stability"] for line in file]
            logs = [r["log10_delta_tcb"] - math.log10(r["h_norm"]) for r in rows]
            assert own.cells["log10_relative_delta"].value == pytest.approx(np.median(logs))
            assert own.entry == f"{one.path.parent.name}/{task}.json"
            assert 1 <= own.cells["acc"].rank_low <= own.cells["acc"].rank_high <= 3
            assert "delta_tcb" not in own.cells


def test_areas_are_those_of_variability_over_the_same_samples(made):
    (group,) = board(made, "hotpotqa_tempperturb").groups
    one = of(made, "hotpotqa_tempperturb")[0]
    own = row(group, one.entry.model.id)
    with gzip.open(one.samples) as file:
        samples = [json.loads(line) for line in file]
    found = {}
    for context in ("original", "ner"):
        sides = []
        for kind in ("bridge", "comparison"):
            table = [
                [
                    [r["scores"]["bertscore_f1"] for r in s["rows"]]
                    for s in samples
                    if s["condition"] == f"temperature={t},context={context},question_type={kind}"
                ]
                for t in (0.0, 0.2, 0.4)
            ]
            sides.append(area_under_curve([0.0, 0.2, 0.4], table).value)
        found[context] = np.mean(sides)
        assert own.cells[f"area_{context}"].value == pytest.approx(found[context], rel=1e-12)
    parts = [
        own.cells[f"area_{c}"].value for c in ("original", "replace_half", "remove_half", "ner")
    ]
    assert own.cells["area"].value == pytest.approx(np.mean(parts), rel=1e-12)
    assert own.cells["worst_context"].value == min(parts)
    assert own.cells["worst_context"].value == own.cells[f"area_{own.facts['worst context']}"].value
    assert own.cells["area"].ci_low < own.cells["area"].value < own.cells["area"].ci_high
    assert own.cells["onset"].rank_low is None


def test_a_model_that_ignores_temperature_is_shown_and_not_ranked(made):
    first, *others = of(made, "hotpotqa_tempperturb")
    cells = [
        {**cell.model_dump(), "temperature_effective": "false"} for cell in first.entry.conditions
    ]
    flat = changed(first, conditions=cells)
    (group,) = board([flat, *others], "hotpotqa_tempperturb").groups
    own = row(group, first.entry.model.id)
    assert own.facts["temperature"] == "ignored"
    assert own.cells["onset"].value is None
    assert own.cells["area"].value is not None
    for cell in own.cells.values():
        assert cell.rank_low is None and "ignores temperature" in cell.reason
    assert all(row(group, one.entry.model.id).cells["area"].rank_high <= 2 for one in others)


def test_without_hidden_states_stability_is_null_with_a_reason(made):
    first, *others = of(made, "gsm8k_tcb")
    api = changed(
        first,
        weight_radius=None,
        metrics=[m.model_dump() for m in first.entry.metrics if m.name == "acc"],
        model={"backend": "openai"},
        samples={"file": None, "url": "https://example.org/samples.jsonl.gz"},
    )
    (group,) = board([api, *others], "gsm8k_tcb").groups
    own = row(group, first.entry.model.id)
    assert own.cells["acc"].rank_low is not None  # by intervals
    assert own.facts["ranks"] == "from intervals: no samples here"
    for key in ("relative_flip_radius", "log10_relative_delta"):
        assert own.cells[key].value is None and "hidden states" in own.cells[key].reason
        ranks = [row(group, one.entry.model.id).cells[key].rank_high for one in others]
        assert max(ranks) == 2  # of two that have one


def test_without_samples_an_interval_of_the_area_is_no_shorter_than_with_them(made):
    first, *others = of(made, "hotpotqa_tempperturb")
    elsewhere = changed(first, samples={"file": None, "url": "https://example.org/x.gz"})
    name = first.entry.model.id
    (here,) = board([first, *others], "hotpotqa_tempperturb").groups
    (there,) = board([elsewhere, *others], "hotpotqa_tempperturb").groups
    for key in ("area", "area_ner", "drop"):
        known, told = row(here, name).cells[key], row(there, name).cells[key]
        assert told.value == pytest.approx(known.value, rel=1e-9)
        assert told.ci_low < known.ci_low and told.ci_high > known.ci_high
    assert "samples" in row(there, name).cells["onset"].reason


def test_relative_delta_is_shown_at_epsilon_1(made):
    first, second, third = of(made, "gsm8k_tcb")
    (plain,) = board([first, second, third], "gsm8k_tcb").groups
    (group,) = board([changed(first, epsilon=100.0), second, third], "gsm8k_tcb").groups
    name = first.entry.model.id
    cell, before = row(group, name).cells["log10_relative_delta"], row(plain, name).cells
    assert cell.value == pytest.approx(before["log10_relative_delta"].value - 2)
    assert (cell.rank_low, cell.rank_high) == (3, 3)  # two decades below the others
    assert "100" in row(group, name).facts["epsilon"]


def imported(one, task_hash, acc):
    """What an entry of lm-eval's result holds: some metrics, no conditions, no samples."""
    metric = next(m for m in one.entry.metrics if m.name == "acc").model_dump()
    metric |= {"value": acc, "ci_low": acc - 0.01, "ci_high": acc + 0.01}
    parts = {"shots": "5", "chat": "no", "gen": "1c4a3f"} | (
        {"data": task_hash} if task_hash else {}
    )
    unknown = dict.fromkeys(("seed", "counts", "sampling_defaults", "epsilon", "usage"))
    record = one.entry.model_dump() | unknown
    record |= {"origin": "lm-eval", "conditions": [], "metrics": [metric], "weight_radius": None}
    record |= {"signature_parts": parts, "metrics_completed": []}
    record["data"] |= {"source": None, "sha256": None}
    record["samples"] = {"file": None, "sha256": None, "rows": 0, "responses": 0}
    return Loaded(one.path, type(one.entry).model_validate(record))


def test_imported_entries_stand_with_their_like_and_are_ranked_only_where_known(made):
    first, second, third = of(made, "gsm8k_tcb")
    known = [imported(first, "0123456789ab", 0.3), imported(second, "0123456789ab", 0.5)]
    found = board([*known, third], "gsm8k_tcb")
    theirs = next(g for g in found.groups if g.settings.get("result of") == "lm-eval")
    assert [(r.tier, r.cells["acc"].rank_low, r.cells["acc"].rank_high) for r in theirs.rows] == [
        ("imported", 1, 1),
        ("imported", 2, 2),
    ]
    assert all("hidden states" in r.cells["relative_flip_radius"].reason for r in theirs.rows)
    unknown = board([imported(one, None, 0.3) for one in (first, second)], "gsm8k_tcb")
    for own in unknown.groups[0].rows:
        assert own.cells["acc"].value == 0.3 and own.cells["acc"].rank_low is None
        assert "not known" in own.cells["acc"].reason


def test_one_entry_alone_has_no_rank_and_boards_do_not_depend_on_the_order(made):
    (group,) = board(of(made, "gsm8k_tcb")[:1], "gsm8k_tcb").groups
    assert all(cell.rank_low is None for cell in group.rows[0].cells.values())
    assert boards(made) == boards(made[::-1])


def test_another_task_has_a_board_of_its_own(made):
    found = boards([changed(of(made, "gsm8k_tcb")[0], task={"name": "my_task"})])
    assert [b.name for b in found][-1] == "my_task"
    assert [c.key for c in found[-1].columns] == [
        *("acc", "relative_flip_radius", "log10_relative_delta"),
    ]
    assert found[-1].reported == []


def test_a_damaged_sample_file_is_one_clear_error(made, tmp_path):
    home = tmp_path / "org__one"
    home.mkdir()
    source = of(made, "gsm8k_tcb")[0]
    path = home / "gsm8k_tcb.json"
    path.write_bytes(source.path.read_bytes())
    for bad in (b"no gzip", gzip.compress(b"[1, 2]\n"), gzip.compress(b'{"task": "x"}\n')):
        (home / source.samples.name).write_bytes(bad)
        with pytest.raises(DataError, match=r"samples\.jsonl\.gz: "):
            boards([Loaded(path, read_entry(path))])
