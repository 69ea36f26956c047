"""Entries from lm-eval. Oracle: files that lm-eval's own evaluator and tracker wrote, as raw JSON."""

import hashlib
import json

import pytest

from tcb_bench.__main__ import main
from tcb_bench.errors import DataError, UnknownName, UsageError
from tcb_bench.leaderboards.checks import problems
from tcb_bench.leaderboards.entry_files import load_entries
from tcb_bench.leaderboards.import_lm_eval import build_of_lm_eval, read_lm_eval
from tcb_bench.leaderboards.submit import Submission

ROWS = [("The capital of France is", "Paris"), ("2 + 2 is", "4"), ("Hot's opposite is", "cold")]
BASE = """\
dataset_path: json
dataset_kwargs: {data_files: {test: DATA}}
test_split: test
doc_to_text: "{{q}}"
metadata: {version: 1.0}
"""
CHOICES = """\
task: toy_choice
output_type: multiple_choice
doc_to_choice: "{{['Paris', '4', 'cold']}}"
doc_to_target: "{{['Paris', '4', 'cold'].index(a)}}"
metric_list:
  - {metric: acc, aggregation: mean, higher_is_better: true}
  - {metric: acc_norm, aggregation: mean, higher_is_better: true}
"""
TEXTS = """\
task: toy_text
output_type: generate_until
doc_to_target: a
generation_kwargs: {until: ["\\n"], max_gen_toks: 5}
metric_list: [{metric: exact_match, aggregation: mean, higher_is_better: true}]
filter_list:
  - {name: first-word, filter: [{function: take_first}]}
"""
GROUP = """\
group: toy_group
task: [toy_choice, toy_text]
aggregate_metric_list: [{metric: acc, weight_by_size: true}]
metadata: {version: 2.0}
"""


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """(result file, sample file per task) of lm-eval's dummy model."""
    import random

    from lm_eval import evaluator
    from lm_eval.loggers import EvaluationTracker
    from lm_eval.tasks import TaskManager

    home = tmp_path_factory.mktemp("lm-eval")
    data = home / "data.jsonl"
    data.write_text("".join(json.dumps({"q": q, "a": a}) + "\n" for q, a in ROWS))
    base = BASE.replace("DATA", str(data))
    for name, text in (("choice", CHOICES + base), ("text", TEXTS + base), ("group", GROUP)):
        (home / f"{name}.yaml").write_text(text)
    tracker = EvaluationTracker(output_path=str(home / "out"))
    random.seed(0)
    results = evaluator.simple_evaluate(
        model="dummy",
        tasks=["toy_group"],
        task_manager=TaskManager(include_path=str(home)),
        evaluation_tracker=tracker,
        bootstrap_iters=10,
        log_samples=True,
        random_seed=3,
    )
    samples = results.pop("samples")
    tracker.save_results_aggregated(results=results, samples=samples)
    for task in results["configs"]:
        tracker.save_results_samples(task_name=task, samples=samples[task])
    [path] = (home / "out").rglob("results_*.json")
    return path, {task: next(path.parent.glob(f"samples_{task}_*")) for task in samples}


def imported(path, root, *tasks, samples=(), **changes):
    found = read_lm_eval(path, tasks)
    said = Submission(**{"model_id": "org/dummy", "submitted_by": "tests", **changes})
    return {
        loaded.entry.task.name: loaded.entry
        for loaded in build_of_lm_eval(found, said, samples)(root)
    }


def test_numbers_are_lm_evals_and_intervals_the_normal_approximation(written, tmp_path):
    path, _ = written
    raw = json.loads(path.read_text())["results"]["toy_choice"]
    [acc, norm] = imported(path, tmp_path, "toy_choice")["toy_choice"].metrics
    for metric in (acc, norm):
        value, stderr = raw[f"{metric.name},none"], raw[f"{metric.name}_stderr,none"]
        assert (metric.value, metric.stderr, metric.n) == (value, stderr, len(ROWS))
        assert metric.ci_low == pytest.approx(max(0, value - 1.959964 * stderr), abs=1e-6)
        assert metric.ci_high == pytest.approx(min(1, value + 1.959964 * stderr), abs=1e-6)
        assert (metric.interval, metric.unit, metric.higher_is_better) == ("normal", "share", True)
    assert 0 < acc.value < 1  # so that the interval is one


def test_a_filter_is_part_of_the_name(written, tmp_path):
    entry = imported(written[0], tmp_path, "toy_text")["toy_text"]
    assert [metric.name for metric in entry.metrics] == ["exact_match,first-word"]


def test_groups_come_alone_and_members_when_asked(written, tmp_path):
    found = imported(written[0], tmp_path)
    assert list(found) == ["toy_group"]
    [acc] = found["toy_group"].metrics
    assert acc.n == len(ROWS)  # the one member that has it: lm-eval's own sample_count
    assert found["toy_group"].data.available == 2 * len(ROWS)
    assert set(imported(written[0], tmp_path, "toy_text", "toy_choice")) == {
        "toy_text",
        "toy_choice",
    }


def test_what_lm_eval_does_not_say_is_null(written, tmp_path):
    entry = imported(written[0], tmp_path, "toy_choice")["toy_choice"]
    assert entry.origin == "lm-eval"
    assert entry.tier == "self-reported"
    assert entry.conditions == []
    unknown = ("seed", "counts", "epsilon", "weight_radius", "sampling_defaults", "usage")
    assert [getattr(entry, name) for name in unknown] == [None] * len(unknown)
    assert (entry.samples.file, entry.samples.url, entry.samples.rows) == (None, None, 0)
    assert (entry.data.sha256, entry.data.source) == (None, None)
    assert entry.signature_parts["seeds"] == "3,1234,1234,1234"
    assert entry.environment["lm_eval"] == json.loads(written[0].read_text())["lm_eval_version"]
    assert str(written[0].parent.parent.parent) not in entry.model_dump_json()


def test_an_imported_entry_passes_the_check(written, tmp_path):
    imported(written[0], tmp_path)
    assert problems(load_entries(tmp_path)) == []


def test_samples_give_the_hash_of_the_documents(written, tmp_path):
    path, samples = written
    entry = imported(path, tmp_path, "toy_choice", samples=[samples["toy_choice"]])["toy_choice"]

    def sha(value):
        text = json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

    pairs = [[str(i), sha({"q": q, "a": a})] for i, (q, a) in enumerate(ROWS)]
    assert entry.data.sha256 == sha(pairs)


def test_samples_whose_mean_is_another_are_refused(written, tmp_path):
    path, samples = written
    rows = [json.loads(line) for line in samples["toy_choice"].read_text().splitlines()]
    rows[0]["acc"] = 1.0 - rows[0]["acc"]
    forged = tmp_path / samples["toy_choice"].name
    forged.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(DataError, match="the mean of acc,none is .* and the result says"):
        imported(path, tmp_path / "out", "toy_choice", samples=[forged])
    other = tmp_path / "samples_nix_2026-01-31T00-00-00.jsonl"
    other.write_text("")
    with pytest.raises(UsageError, match="of no task of the result"):
        imported(path, tmp_path / "out", "toy_choice", samples=[other])


def test_no_number_is_null_and_text_is_no_number(written, tmp_path):
    result = json.loads(written[0].read_text())
    numbers = {"acc,none": float("nan"), "acc_norm_stderr,none": "N/A", "word,none": "text"}
    result["results"]["toy_choice"] |= numbers
    path = tmp_path / "results_x.json"
    path.write_text(json.dumps(result))
    acc, norm = imported(path, tmp_path, "toy_choice")["toy_choice"].metrics
    assert (acc.value, acc.ci_low, acc.interval) == (None, None, None)
    assert norm.value is not None
    assert (norm.stderr, norm.ci_low, norm.interval) == (None, None, None)


def test_other_files_and_names_are_refused(written, tmp_path):
    path, _ = written
    with pytest.raises(UsageError, match="--from-lm-eval needs --model-id"):
        imported(path, tmp_path, model_id=None)
    with pytest.raises(UnknownName, match="did you mean 'toy_text'"):
        read_lm_eval(path, ["toy_test"])
    other = tmp_path / "results.json"
    other.write_text(json.dumps({"tcb_bench": {}}))
    with pytest.raises(DataError, match="submit its run folder"):
        read_lm_eval(other)
    other.write_text("[]")
    with pytest.raises(DataError, match="no result"):
        read_lm_eval(other)
    other.write_text('{"results": {}}')
    with pytest.raises(DataError, match="no result file of lm-eval"):
        read_lm_eval(other)


def test_the_command_imports(written, tmp_path, capsys):
    path, samples = written
    out = tmp_path / "entries"
    words = ["submit", "--from-lm-eval", str(path), "--out", str(out), "--model-id", "org/dummy"]
    assert main([*words, "--samples", *map(str, samples.values())]) == 0
    assert "imported from lm-eval" in capsys.readouterr().out
    assert [loaded.entry.task.name for loaded in load_entries(out)] == ["toy_group"]
    assert main([*words, "--samples-url", "https://example.org/x"]) == 2
    assert main(["submit", "--out", str(out)]) == 2
