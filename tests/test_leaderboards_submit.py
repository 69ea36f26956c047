"""Entries of a run. Oracle: the run's own files as raw JSON, read here without the package."""

import gzip
import json
import re
from collections import Counter

import pytest
from submit_runs import MODEL_ID, submission, written

from tcb_bench.__main__ import main
from tcb_bench.errors import DataError, UnknownName, UsageError
from tcb_bench.leaderboards.checks import Problem, problems
from tcb_bench.leaderboards.entry_files import file_sha256, load_entries
from tcb_bench.leaderboards.submit_publish import build_of, publish
from tcb_bench.leaderboards.submit_results import find_tasks
from tcb_bench.leaderboards.submit_samples import known_reason
from tcb_bench.scoring import NOT_FOUND

pytestmark = pytest.mark.slow


def raw_result(run, task):
    """Newest result file with the task, and its content."""
    for path in sorted(run.glob("results_*.json"), reverse=True):
        result = json.loads(path.read_text())
        if task in result["tcb_bench"]["tasks"]:
            return path, result
    raise AssertionError(task)


def raw_samples(run, task):
    [path] = run.glob(f"samples_{task}_2*.jsonl")
    return [json.loads(line) for line in path.read_text().splitlines()]


def change(run, task, edit):
    """Rewrites the newest result of a task after ``edit(block of the task, whole result)``."""
    path, result = raw_result(run, task)
    edit(result["tcb_bench"]["tasks"][task], result)
    path.write_text(json.dumps(result))


def sample_lines(loaded):
    return [json.loads(line) for line in gzip.decompress(loaded.samples.read_bytes()).splitlines()]


@pytest.mark.parametrize("task", ["gsm8k_tcb", "mmlu_tcb", "phrases"])
def test_an_entry_has_the_numbers_and_settings_of_its_result(tiny_run, tmp_path, task):
    entry = written(tiny_run, task, tmp_path, is_partial_ok=True).entry
    _, result = raw_result(tiny_run, task)
    block, flat = result["tcb_bench"]["tasks"][task], result["results"][task]
    for found, filter_ in ((entry.metrics, "none"), (entry.metrics_completed, "completed")):
        assert len(found) == sum(key.endswith(f"_n,{filter_}") for key in flat)
        for metric in found:
            assert metric.value == flat[f"{metric.name},{filter_}"]
            for part in ("ci_low", "ci_high", "stderr", "n"):
                assert getattr(metric, part) == flat[f"{metric.name}_{part},{filter_}"]
            assert metric.higher_is_better == result["higher_is_better"][task][metric.name]
    assert [condition.id for condition in entry.conditions] == list(block["conditions"])
    for condition in entry.conditions:
        raw = block["conditions"][condition.id]
        assert condition.axes == raw["axes"]
        assert condition.counts.model_dump() == raw["counts"]
        assert condition.request_sha256 == raw["request_sha256"]
        assert {m.name: m.value for m in condition.metrics} == {
            name: metric["value"] for name, metric in raw["metrics"].items()
        }
    assert entry.data.sha256 == block["data"]["sha256"]
    assert (entry.limit, entry.seed) == (block["limit"], block["seed"])
    assert entry.usage.model_dump(exclude_none=True) == block["usage"]
    assert entry.counts.model_dump() == block["counts"]
    assert entry.model.backend_version == result["tcb_bench"]["model"]["transformers_version"]


def test_samples_hold_numbers_and_hashes_and_no_text(tiny_run, tmp_path):
    loaded = written(tiny_run, "gsm8k_tcb", tmp_path)
    raw, lines = raw_samples(tiny_run, "gsm8k_tcb"), sample_lines(loaded)
    assert [(s["doc_id"], s["doc_sha256"]) for s in lines] == [
        (s["doc_id"], s["doc_sha256"]) for s in raw
    ]
    for mine, theirs in zip(lines, raw, strict=True):
        for row, own in zip(mine["rows"], theirs["rows"], strict=True):
            assert row["stability"] == own["stability"]
            assert (row["state"], row["acc"]) == (own["state"], own["acc"])
            assert not {"text", "key", "greedy_token", "reused_from"} & row.keys()
        assert mine.keys() <= {"doc_id", "task", "condition", "doc_sha256", "perturbation", "rows"}
    text = gzip.decompress(loaded.samples.read_bytes()).decode()
    words = re.findall(r"[A-Za-z]{5,}", " ".join(raw[0]["doc"].values()) + raw[0]["prompt"])
    assert len(words) > 100
    assert [word for word in set(words) if f" {word} " in text] == []


def test_free_answers_are_left_out_and_letters_stay(tiny_run, tmp_path):
    texts = sample_lines(written(tiny_run, "phrases", tmp_path))
    assert {row["answer"] for line in texts for row in line["rows"]} == {None}
    letters = sample_lines(written(tiny_run, "mmlu_tcb", tmp_path, is_partial_ok=True))
    raw = {
        s["doc_id"]: s["rows"][0]["answer"] for s in raw_samples(tiny_run, "mmlu_tcb_philosophy")
    }
    found = {s["doc_id"]: s["rows"][0]["answer"] for s in letters if s["doc_id"] in raw}
    assert found == raw
    assert set(found.values()) <= set("ABCD")


def test_reasons_are_our_own_words_alone(tiny_run, tmp_path):
    assert known_reason(NOT_FOUND, "scored") == NOT_FOUND
    told = "HTTPStatusError 401 for https://api.example/v1, key sk-abcdef0123456789abcd"
    assert known_reason(told, "error") == "error"
    assert known_reason("the prompt has 9000 tokens and /home/jo/m takes 2048; x", "unscored") == (
        "the prompt is longer than the model reads"
    )
    lines = sample_lines(written(tiny_run, "gsm8k_tcb", tmp_path))
    reasons = Counter(row["reason"] for line in lines for row in line["rows"])
    raw = Counter(row["reason"] for s in raw_samples(tiny_run, "gsm8k_tcb") for row in s["rows"])
    assert reasons == raw


def test_the_newest_result_of_each_task_counts_unless_one_is_named(own_run):
    old, result = raw_result(own_run, "gsm8k_tcb")
    newer = own_run / "results_2099-01-01T00-00-00.000000.json"
    kept = {"gsm8k_tcb": result["tcb_bench"]["tasks"]["gsm8k_tcb"]}
    block = result["tcb_bench"] | {"tasks": kept, "missing": {}}
    newer.write_text(json.dumps(result | {"date": result["date"] + 9e9, "tcb_bench": block}))
    found = {one.task: one.path for one in find_tasks(own_run)}
    assert set(found) == {"mmlu_tcb", "gsm8k_tcb", "phrases"}  # no member of the group
    assert found["gsm8k_tcb"] == newer
    assert found["mmlu_tcb"] == old
    assert found["phrases"] == raw_result(own_run, "phrases")[0]
    assert [one.path for one in find_tasks(own_run, ["gsm8k_tcb"], old)] == [old]
    assert [one.task for one in find_tasks(own_run, ["mmlu_tcb_philosophy"])] == [
        "mmlu_tcb_philosophy"
    ]


def test_tasks_that_are_not_there_are_named(own_run, tmp_path):
    with pytest.raises(UnknownName, match="did you mean 'gsm8k_tcb'"):
        find_tasks(own_run, ["gsm8k_tbc"])
    with pytest.raises(DataError, match="mmlu_tcb_anatomy: not in this run: .*no rows"):
        find_tasks(own_run, ["mmlu_tcb_anatomy"])
    with pytest.raises(DataError, match="no result of tcb-bench there"):
        find_tasks(tmp_path)
    path, _ = raw_result(own_run, "gsm8k_tcb")
    path.write_text("{")
    with pytest.raises(DataError, match="no JSON"):
        find_tasks(own_run)


def test_what_is_missing_is_refused_and_with_partial_written_down(own_run, tmp_path):
    with pytest.raises(UsageError, match=r"missing mmlu_tcb_anatomy, .* and 49 more; .*--partial"):
        written(own_run, "mmlu_tcb", tmp_path)
    entry = written(own_run, "mmlu_tcb", tmp_path, is_partial_ok=True).entry
    assert entry.is_partial
    assert len(entry.missing) == 52  # of 57 subjects
    limited = written(own_run, "gsm8k_tcb", tmp_path).entry
    assert (limited.is_partial, limited.missing, limited.limit) == (False, [], 2)


def test_a_lost_condition_an_error_and_an_interruption_are_missing(own_run, tmp_path):
    def break_it(block, result):
        del block["conditions"]["temperature=0.6"]
        block["counts"] |= {"error": 2}
        result["tcb_bench"]["wall_time_s"] = None

    change(own_run, "phrases", break_it)
    with pytest.raises(UsageError, match="condition temperature=0.6, answers: 2 responses"):
        written(own_run, "phrases", tmp_path)
    found = written(own_run, "phrases", tmp_path, is_partial_ok=True).entry.missing
    assert found == [
        "condition temperature=0.6",
        "answers: 2 responses in state error",
        "the end: the run was interrupted",
    ]


def test_a_range_in_the_yaml_names_its_conditions(own_run, tmp_path):
    def as_range(block, result):
        steps = {"start": 0.0, "stop": 1.2, "step": 0.2}
        result["configs"]["phrases"]["sweep"]["temperature"] = steps

    change(own_run, "phrases", as_range)
    found = written(own_run, "phrases", tmp_path, is_partial_ok=True).entry.missing
    assert found == [f"condition temperature={t}" for t in (0.2, 0.4, 0.8, 1.0)]


def listing(folder):
    return {str(p.relative_to(folder)): p.is_file() and p.read_bytes() for p in folder.rglob("*")}


def test_nothing_is_left_where_a_check_fails(tiny_run, tmp_path):
    build = build_of(find_tasks(tiny_run, ["gsm8k_tcb"]), submission())
    (tmp_path / "kept").write_text("x")
    before = listing(tmp_path)
    out = tmp_path / "leaderboards" / "entries"
    seen = []

    def refuse(made):
        seen.extend(loaded.path.is_file() and loaded.samples.is_file() for loaded in made)
        return [Problem(made[0].path, "acc is 2")]

    with pytest.raises(
        DataError, match=r"nothing was written:\n  tests__tiny-llama/gsm8k_tcb.json"
    ):
        publish(build, out, check=refuse)
    assert seen == [True]
    assert listing(tmp_path) == before


def test_an_entry_is_replaced_only_when_asked(tiny_run, tmp_path):
    def put(by, **options):
        build = build_of(find_tasks(tiny_run, ["gsm8k_tcb"]), submission(submitted_by=by))
        return publish(build, tmp_path, check=problems, **options)

    put("first")
    before = listing(tmp_path)
    with pytest.raises(DataError, match="there already; --replace"):
        put("second")
    assert listing(tmp_path) == before
    put("second", replaces=True)
    [loaded] = load_entries(tmp_path)
    assert loaded.entry.submitted_by == "second"
    assert listing(tmp_path).keys() == before.keys()


def test_samples_can_lie_at_an_address(tiny_run, tmp_path):
    build = build_of(find_tasks(tiny_run, ["gsm8k_tcb"]), submission())
    url = "https://example.org/data"
    (tmp_path / "up").mkdir()
    out, up = tmp_path / "entries", tmp_path / "up"
    made = publish(build, out, check=problems, samples_url=url, uploads=up)
    [loaded] = load_entries(out)
    assert loaded.entry.samples.file is None
    assert loaded.entry.samples.url == f"{url}/tests__tiny-llama/gsm8k_tcb.samples.jsonl.gz"
    assert made.to_upload == [up / "gsm8k_tcb.samples.jsonl.gz"]
    assert file_sha256(made.to_upload[0]) == loaded.entry.samples.sha256
    assert [path.name for path in loaded.path.parent.iterdir()] == ["gsm8k_tcb.json"]


def test_the_command_from_run_to_pull_request(tiny_run, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    out, text = tmp_path / "entries", tmp_path / "pr.md"
    words = ["submit", str(tiny_run), "--out", str(out), "--model-id", MODEL_ID]
    words += ["--task", "mmlu_tcb,gsm8k_tcb", "--submitted-by", "jo", "--description", str(text)]
    assert main(words) == 2  # partial
    assert not out.exists()
    capsys.readouterr()
    assert main([*words, "--partial"]) == 0
    shown = capsys.readouterr().out
    names = {loaded.path.name for loaded in load_entries(out)}
    assert names == {"mmlu_tcb.json", "gsm8k_tcb.json"}
    table = [line for line in shown.splitlines() if line.startswith(("│", "┃", "└"))]
    assert table
    assert max(map(len, table)) <= 80
    assert "git switch -c submit/tests__tiny-llama" in shown
    assert text.read_text() in shown
    for said in ("`--limit 2`", "**partial**", "the shipped sample", "submitted by: jo"):
        assert said in text.read_text()


def test_the_command_runs_every_check(tiny_run, tmp_path, capsys):
    words = ["submit", str(tiny_run), "--out", str(tmp_path / "x"), "--model-id", MODEL_ID]
    assert main([*words, "--task", "phrases"]) == 1  # a task that is in no catalogue
    assert "no task 'phrases'" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
