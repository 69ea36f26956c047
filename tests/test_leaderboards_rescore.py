"""Scoring again. Oracle: the run itself, and forgeries whose difference is known."""

import gzip
import json
import shutil

import pytest
from board_entries import make_entry
from submit_runs import written

from tcb_bench.errors import DataError, StoreError
from tcb_bench.leaderboards.entry import Entry
from tcb_bench.leaderboards.entry_files import Loaded, file_sha256, read_entry, write_entry
from tcb_bench.leaderboards.rescore import SHOWN, differences
from tcb_bench.rescore_run import rescored, verify


def state_of(folder):
    return {path.name: (path.stat().st_mtime_ns, file_sha256(path)) for path in folder.iterdir()}


@pytest.mark.slow
@pytest.mark.parametrize("task", ["mmlu_tcb", "phrases"])
def test_an_honest_entry_is_the_run_scored_again_and_the_run_is_only_read(tiny_run, tmp_path, task):
    loaded = written(tiny_run, task, tmp_path, is_partial_ok=True)
    before = state_of(tiny_run)
    assert rescored(tiny_run, loaded) == []
    assert state_of(tiny_run) == before


@pytest.mark.slow
def test_a_forged_score_is_found_in_the_run(tiny_run, tmp_path):
    loaded = written(tiny_run, "phrases", tmp_path, is_partial_ok=True)

    def forge(lines):
        lines[0]["rows"][0]["acc"] = 1.0 - lines[0]["rows"][0]["acc"]

    found = rescored(tiny_run, forged(loaded, tmp_path / "forged", forge))
    assert len(found) == 1
    assert "rows[0].acc: the entry says 1, the run 0" in found[0]


@pytest.mark.slow
def test_another_run_an_imported_entry_and_no_store_are_refused(tiny_run, tmp_path):
    loaded = written(tiny_run, "gsm8k_tcb", tmp_path)
    other = Loaded(loaded.path, loaded.entry.model_copy(update={"limit": 3}))
    with pytest.raises(StoreError, match="no invocation asked gsm8k_tcb .* limit 3"):
        rescored(tiny_run, other)
    imported = Loaded(loaded.path, loaded.entry.model_copy(update={"origin": "lm-eval"}))
    with pytest.raises(DataError, match="imported from lm-eval"):
        rescored(tiny_run, imported)
    with pytest.raises(StoreError, match="no store.sqlite here"):
        rescored(tmp_path, loaded)


@pytest.mark.slow
def test_a_maintainer_verifies_by_name_date_and_hash_of_the_result(tiny_run, tmp_path):
    loaded = written(tiny_run, "gsm8k_tcb", tmp_path)
    verify(tiny_run, loaded, by="maintainer")
    entry = read_entry(loaded.path)
    hashes = {file_sha256(path) for path in tiny_run.glob("results_*.json")}
    assert entry.tier == "verified"
    assert entry.verification.by == "maintainer"
    assert entry.verification.run_sha256 in hashes
    same = entry.model_copy(update={"tier": "self-reported", "verification": None})
    assert same.model_dump() == loaded.entry.model_dump()


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    root = tmp_path_factory.mktemp("entries")
    path = make_entry(root, "org/model", "hotpotqa_tempperturb", 6, n_temperatures=2)
    return Loaded(path, read_entry(path))


def forged(loaded, folder, edit_lines=lambda lines: None, edit_entry=lambda record: None):
    """A copy of an entry whose samples and fields were changed by hand."""
    folder.mkdir(exist_ok=True)
    lines = [json.loads(line) for line in gzip.decompress(loaded.samples.read_bytes()).splitlines()]
    edit_lines(lines)
    text = "".join(f"{json.dumps(line)}\n" for line in lines)
    (folder / loaded.samples.name).write_bytes(gzip.compress(text.encode()))
    record = json.loads(loaded.path.read_text())
    edit_entry(record)
    entry = Entry.model_validate(record)
    write_entry(folder / loaded.path.name, entry)
    return Loaded(folder / loaded.path.name, entry)


def raise_score(lines):
    lines[5]["rows"][1]["scores"]["f1"] += 1e-7


FORGERIES = {
    "nothing": (lambda lines: None, lambda r: None, []),
    "a mean by 1e-8": (
        lambda lines: None,
        lambda r: r["metrics"][0].update(value=r["metrics"][0]["value"] + 1e-8),
        ["metrics[acc].value: the entry says"],
    ),
    "a mean by 1e-11": (
        lambda lines: None,
        lambda r: r["metrics"][0].update(value=r["metrics"][0]["value"] + 1e-11),
        [],
    ),
    "an n of a condition": (
        lambda lines: None,
        lambda r: r["conditions"][2]["metrics"][0].update(n=99),
        ["].metrics[acc].n: the entry says 99"],
    ),
    "one score by 1e-7": (raise_score, lambda r: None, [".rows[1].scores.f1: the entry says"]),
    "a BERTScore by 1e-7": (
        lambda lines: lines[5]["rows"][1]["scores"].update(
            bertscore_f1=lines[5]["rows"][1]["scores"]["bertscore_f1"] + 1e-7
        ),
        lambda r: None,
        [],
    ),
    "the last line lost": (lambda lines: lines.pop(), lambda r: None, ["the run has more rows"]),
    "the model": (lambda lines: None, lambda r: r["model"].update(dtype="x"), ["model.dtype"]),
    "what no scoring decides": (
        lambda lines: None,
        lambda r: r.update(submitted_by="jo", date="2026-02-01", environment={"python": "3.12"}),
        [],
    ),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_every_number_and_row_is_compared(made, tmp_path, name):
    edit_lines, edit_entry, expected = FORGERIES[name]
    found = differences(forged(made, tmp_path / "x", edit_lines, edit_entry), made)
    assert len(found) == len(expected)
    for line, part in zip(found, expected, strict=True):
        assert part in line


def test_many_differences_are_counted(made, tmp_path):
    def forge(lines):
        for line in lines:
            line["rows"][0]["acc"] = 0.5

    found = differences(forged(made, tmp_path / "x", forge), made)
    n_lines = made.entry.samples.rows
    assert len(found) == SHOWN + 1
    assert found[-1] == f"and {n_lines - SHOWN} more"


def test_samples_that_lie_elsewhere_are_asked_for(made, tmp_path):
    alone = tmp_path / made.path.name
    shutil.copy(made.path, alone)
    with pytest.raises(DataError, match="its samples are not beside it"):
        differences(Loaded(alone, made.entry), made)
