"""`leaderboard check` on entries of a real run, its options, and what it says.

Oracles: the run itself (a random model of two layers on the shipped samples) and the samples' own
gold answers; for numbers, the entry as the run wrote it.
"""

import json
import re

import pytest
import yaml
from board_entries import make_entry
from board_forge import forged, read, write
from conftest import ROOT
from submit_runs import written

from tcb_bench.__main__ import main
from tcb_bench.known_tasks import TaskDocuments, known_tasks
from tcb_bench.leaderboards import checks, draws

pytestmark = pytest.mark.slow
MMLU, GSM8K = "mmlu_tcb", "gsm8k_tcb"


@pytest.fixture(scope="module")
def root(tiny_run, tmp_path_factory):
    """Entries of the tiny run: a partial group and GSM8K, two questions a task."""
    folder = tmp_path_factory.mktemp("entries")
    for task in (MMLU, GSM8K):
        written(tiny_run, task, folder, is_partial_ok=True)
    return folder


@pytest.fixture(scope="module")
def known():
    return known_tasks()


@pytest.fixture(scope="module")
def sample_data():
    return TaskDocuments("sample", (), lambda line: None)


def check(*words):
    return main(["leaderboard", "check", *map(str, words)])


def path_of(root, task):
    [path] = root.glob(f"*/{task}.json")
    return path


def test_entries_of_a_run_pass_with_and_without_the_data(root, capsys):
    assert check("--entries", root) == 0
    assert "entries 2, with problems 0, problems 0" in capsys.readouterr().out
    assert check(path_of(root, GSM8K).parent, "--data", "sample") == 0


def test_a_wrong_acc_is_seen_with_the_data(root, tmp_path, known, sample_data):
    def all_right(samples):
        for sample in samples:
            sample["rows"][0]["acc"] = 1.0
        return samples

    path = forged(path_of(root, MMLU), tmp_path, samples=all_right)
    assert checks.problems([path], known_tasks=known) == []
    found = [p.text for p in checks.problems([path], known_tasks=known, expected=sample_data)]
    assert any("acc counts" in text and "as right" in text for text in found)


def test_other_documents_are_seen_with_the_data(root, tmp_path, known, sample_data):
    def edited(samples):
        samples[0]["doc_sha256"] = "a" * 64
        return samples

    path = forged(path_of(root, GSM8K), tmp_path, samples=edited)
    found = [p.text for p in checks.problems([path], known_tasks=known, expected=sample_data)]
    assert any("1 documents have other hashes, such as test/" in text for text in found)


def test_data_of_another_source_are_not_compared(root, known):
    hub = TaskDocuments("hub", (), lambda line: None)
    assert checks.problems([path_of(root, GSM8K)], known_tasks=known, expected=hub) == []


def test_the_full_run_verifies_an_entry(root, tiny_run, tmp_path, capsys):
    path = forged(path_of(root, GSM8K), tmp_path)
    assert check(path, "--rescore", tiny_run, "--verified-by", "maintainer") == 0
    assert "the run says the same; tier verified by maintainer" in capsys.readouterr().out
    entry = json.loads(path.read_text())
    assert (entry["tier"], entry["verification"]["by"]) == ("verified", "maintainer")
    assert check(path) == 0


def test_an_entry_that_the_run_contradicts_is_not_verified(root, tiny_run, tmp_path, capsys):
    """Tokens of one response, changed together with the usage: only the run knows better."""

    def more_tokens(samples):
        samples[0]["rows"][0]["completion_tokens"] += 1
        return samples

    path = forged(path_of(root, GSM8K), tmp_path, samples=more_tokens)
    assert check(path) == 0
    assert check(path, "--rescore", tiny_run, "--verified-by", "maintainer") == 1
    assert "completion_tokens" in capsys.readouterr().out
    assert json.loads(path.read_text())["tier"] == "self-reported"


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--rescore", "run"], 2, "name the entries"),
        (["x.json", "--verified-by", "me"], 2, "--rescore RUN"),
        (["no/such.json"], 1, "no entry there"),
        (["--entries", "no/such/folder"], 1, "no such folder"),
    ],
)
def test_options_that_do_not_go_together(words, code, said, capsys):
    assert check(*words) == code
    assert said in capsys.readouterr().err


def test_an_empty_folder_is_no_failure(tmp_path, capsys):
    assert check("--entries", tmp_path) == 0
    assert "entries 0" in capsys.readouterr().out


def notes(path, known):
    [one] = checks.check_all([path], known_tasks=known)
    return one.problems, one.note


def test_an_older_version_of_a_task_is_said_and_its_draw_not_made(root, tmp_path, known):
    newer = {name: task for name, task in known.items() if name != GSM8K}
    newer[GSM8K] = type(known[GSM8K])(name=GSM8K, version=2)
    problems, note = notes(path_of(root, GSM8K), newer)
    assert problems == ()
    assert "older version 1 of the task, here 2" in note


def test_without_a_radius_its_bounds_are_said_not_to_be_applied(root, tmp_path, known):
    path = forged(path_of(root, GSM8K), tmp_path, entry=lambda e: e.update(weight_radius=None))
    assert notes(path, known) == ((), "R is null: bounds with R are not applied")


def test_samples_at_an_address_are_said_not_to_be_read(root, tmp_path, known):
    def move(entry):
        entry["samples"] |= {"file": None, "url": "https://a.example/gsm8k_tcb.jsonl.gz"}

    path = forged(path_of(root, GSM8K), tmp_path, entry=move)
    assert notes(path, known) == ((), "samples lie elsewhere: numbers are not computed again")


def test_several_processes_find_what_one_finds(known, tmp_path):
    made = [make_entry(tmp_path, f"org/m{i}", GSM8K, 4) for i in range(checks.FEW + 1)]
    entry, samples = read(made[2])
    samples[0]["rows"][0]["stability"]["v_eff"] = 0.5
    write(made[2], entry, samples)
    done = []
    together = checks.check_all(made, known_tasks=known, report=lambda *n: done.append(n))
    alone = [checks.check_entry(path, known) for path in made]
    assert [one.problems for one in together] == [one.problems for one in alone]
    assert [bool(one.problems) for one in together] == [False, False, True, False, False]
    assert done[-1] == (5, 5)


def test_official_sizes_are_those_of_the_files(shared_data):
    """Oracle: the rows of the files themselves, and the totals of the papers."""
    import csv

    sizes = draws.official_sizes()
    mmlu = {subject: splits["test"] for subject, splits in sizes["cais/mmlu"].items()}
    assert (len(mmlu), sum(mmlu.values())) == (57, 14_042)
    for path in (shared_data / "mmlu" / "test").glob("*.csv"):
        with path.open(newline="", encoding="utf-8") as file:
            assert mmlu[path.stem] == sum(1 for _ in csv.reader(file))
    lines = (shared_data / "gsm8k" / "test.jsonl").read_text(encoding="utf-8").splitlines()
    assert sizes["openai/gsm8k"]["main"]["test"] == len(lines) == 1319


def test_every_known_task_is_from_its_yaml(known):
    task = known["hotpotqa_tempperturb"]
    assert (task.version, task.repeats, task.draw, task.split) == (1, 3, 100, "train")
    assert list(task.axes) == ["temperature", "context", "question_type"]
    assert task.document_axes == {"question_type": "type"}
    assert len(known[MMLU].members) == 57
    assert known["mmlu_tcb_anatomy"].doc_id == "{config}/{split}/{row}"


def test_the_workflow_may_only_read_and_has_no_secret():
    """Oracle: GitHub's advice on checks of strangers' pull requests."""
    text = (ROOT / ".github" / "workflows" / "leaderboard.yml").read_text(encoding="utf-8")
    workflow = yaml.safe_load(text)
    assert workflow["permissions"] == {"contents": "read"}
    assert set(workflow[True]) == {"pull_request", "workflow_dispatch"}  # YAML 1.1 reads `on` so
    assert "secrets" not in text.replace("without secrets", "")
    uses = [step["uses"] for step in workflow["jobs"]["check"]["steps"] if "uses" in step]
    assert all(re.fullmatch(r"actions/[a-z-]+@v\d+", use) for use in uses)
    assert "leaderboard check --entries entries" in text
