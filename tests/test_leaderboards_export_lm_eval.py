"""A run in lm-eval's layout. Oracles: lm-eval 0.4.13 itself - a run of its dummy model saved by its
own EvaluationTracker has the same keys and types, its make_table, hashes and file-name readers and
its metadata card read the export - the `datasets` loader, and another project's reader of lm-eval
files (every-eval-ever's converter). Values: the run's result file, one by one.
"""

import json
import math

import pytest
from every_eval_files import every_eval
from export_runs import CONTEXTS, TEMPERATURES, write_toy_run

from tcb_bench.leaderboards.export import export
from tcb_bench.leaderboards.export_options import ExportOptions

TINY = """\
task: tiny
dataset_path: json
dataset_kwargs: {data_files: {test: DATA}}
test_split: test
output_type: TYPE
doc_to_text: "{{q}}"
doc_to_target: a
MORE
metadata: {version: 1.0}
"""
CHOICE = """\
doc_to_choice: ["A", "B"]
metric_list: [{metric: acc, aggregation: mean, higher_is_better: true}]"""
TEXT = "repeats: 2\ngeneration_kwargs: {until: ['.'], temperature: 0.5, do_sample: true}"
CONDITIONS = [f"toy_rag@temperature={t},context={c}" for t in TEMPERATURES for c in CONTEXTS]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    return json.loads(write_toy_run(folder).read_text()), folder


@pytest.fixture(scope="module")
def exported(run, tmp_path_factory):
    """Result and sample files of the export: task -> rows."""
    out = tmp_path_factory.mktemp("out")
    files, _ = export(run[1], "lm-eval", out=out, options=ExportOptions(model_id="org/toy"))
    [results] = [path for path in files if path.name.startswith("results_")]
    samples = {
        path.name[len("samples_") : path.name.rfind("_")]: [
            json.loads(line) for line in path.read_text().splitlines()
        ]
        for path in files
        if path.name.startswith("samples_")
    }
    return json.loads(results.read_text()), samples, files


@pytest.fixture(scope="module")
def theirs(tmp_path_factory):
    """What lm-eval's own tracker writes: (result, sample of choices, sample of a generation)."""
    import lm_eval
    from lm_eval.loggers import EvaluationTracker
    from lm_eval.tasks import TaskManager

    folder = tmp_path_factory.mktemp("theirs")
    (folder / "data.jsonl").write_text('{"q": "one?", "a": 0}\n{"q": "two?", "a": 1}\n')
    for name, kind, more in (
        ("tiny_a", "multiple_choice", CHOICE),
        ("tiny_b", "generate_until", TEXT),
    ):
        text = TINY.replace("DATA", str(folder / "data.jsonl")).replace(
            "task: tiny", f"task: {name}"
        )
        (folder / f"{name}.yaml").write_text(text.replace("TYPE", kind).replace("MORE", more))
    (folder / "group.yaml").write_text(
        "group: both\ntask: [tiny_a]\n"
        "aggregate_metric_list: [{metric: acc, aggregation: mean, weight_by_size: true}]\n"
        "metadata: {version: 1}\n"
    )
    tracker = EvaluationTracker(output_path=str(folder / "out"))
    tracker.general_config_tracker.log_experiment_args("dummy", "pretrained=a/b", None, None, False)
    tasks = TaskManager(include_path=str(folder), include_defaults=False)
    with pytest.MonkeyPatch.context() as patch:  # it asks a dozen programs for their versions
        patch.setattr("torch.utils.collect_env.get_pretty_env_info", lambda: "")
        result = lm_eval.simple_evaluate(
            model="dummy", tasks=["both", "tiny_b"], task_manager=tasks, bootstrap_iters=0
        )
    samples = result.pop("samples")
    tracker.save_results_aggregated(result, samples)
    for name in result["configs"]:
        tracker.save_results_samples(name, samples[name])
    found = sorted((folder / "out").rglob("*.json*"))
    return [json.loads(path.read_text().splitlines()[0]) for path in found[1:]] + [
        json.loads(found[0].read_text())
    ]


def test_the_result_has_lm_evals_keys(exported, theirs):
    result, reference = exported[0], theirs[-1]
    tokens = {key for key in reference if "_token" in key}  # only of models with a tokenizer
    assert reference.keys() - tokens <= result.keys()
    for key in ("results", "groups", "configs", "versions", "n-shot", "n-samples", "task_hashes"):
        assert type(result[key]) is type(reference[key]), key
    entry, group = reference["results"]["tiny_a"], reference["groups"]["both"]
    assert entry.keys() <= result["results"]["toy_mc_a"].keys()
    assert group.keys() <= result["groups"]["toy_mc"].keys()
    assert result["groups"]["toy_mc"]["sample_count"]["acc,none"] == 6
    assert reference["configs"].keys() == reference["n-samples"].keys()  # no groups in either
    assert result["configs"].keys() == result["n-samples"].keys()
    assert set(result["configs"]) == {"toy_mc_a", "toy_mc_b", "toy_num", "stock", *CONDITIONS}


def test_samples_have_lm_evals_keys_and_types(exported, theirs):
    for name, reference in (("toy_mc_a", theirs[0]), (CONDITIONS[0], theirs[1])):
        for row in exported[1][name]:
            keys = reference.keys() - {"exact_match"}  # a metric of their task
            assert keys <= row.keys()
            # lm-eval's default filter takes the first repeat; here all of them count
            for key in keys - ({"acc"} if name == "toy_mc_a" else {"filtered_resps"}):
                assert kinds(row[key]) == kinds(reference[key]), key
            assert set(row["metrics"]) <= row.keys()


def kinds(value):
    """A value with its parts replaced by their types, alike parts once."""
    if isinstance(value, dict):
        numbered = {
            key: kinds(v) for key, v in value.items() if key.startswith(("gen_args", "arg_"))
        }
        return numbered if len(numbered) < 2 or "arg_0" in numbered else numbered["gen_args_0"]
    if isinstance(value, list):
        return [list, kinds(value[0])] if value else [list]
    return type(value)


def test_repeats_stand_together_and_failures_are_empty_texts(exported):
    row = exported[1][CONDITIONS[0]][1]
    assert row["resps"] == [["@0 It is 1.", "@1 It is 1."]] == row["filtered_resps"]
    assert row["arguments"]["gen_args_0"]["arg_1"]["temperature"] == 0.0
    assert "stability_at" not in row["arguments"]["gen_args_0"]["arg_1"]
    last = exported[1][CONDITIONS[-1]][1]["arguments"]["gen_args_0"]["arg_1"]
    assert last["temperature"] == 1.4
    failed = exported[1]["toy_num"][5]
    assert (failed["resps"], failed["acc"], failed["tcb_states"]) == ([[""]], None, ["error"])


def test_choices_have_their_log_probabilities_and_the_greedy_one(exported, run):
    rows = [json.loads(x) for x in next(run[1].glob("samples_toy_mc_a*")).read_text().splitlines()]
    for row, ours in zip(exported[1]["toy_mc_a"], rows, strict=True):
        logprobs = ours["rows"][0]["choice_logprobs"]
        assert [float(pair[0]) for pair in row["filtered_resps"]] == logprobs
        greedy = [pair[1] == "True" for pair in row["filtered_resps"]]
        assert sum(greedy) == ours["rows"][0]["greedy_is_choice"]
        assert not any(greedy) or greedy.index(True) == logprobs.index(max(logprobs))
        asked = [row["arguments"][f"gen_args_{i}"] for i in range(4)]
        assert [a["arg_1"] for a in asked] == [" A", " B", " C", " D"]
        assert {a["arg_0"] for a in asked} == {ours["prompt"]}


def test_documents_are_numbered_by_their_row_or_in_order(exported):
    assert [row["doc_id"] for row in exported[1]["toy_mc_a"]] == [7, 8, 9]
    assert [row["doc_id"] for row in exported[1]["toy_num"]] == [40, 39, 38, 37, 36, 35, 34]
    for name in CONDITIONS:
        assert [row["doc_id"] for row in exported[1][name]] == [0, 1, 2, 3]


def test_hashes_are_lm_evals(exported):
    from lm_eval.utils import hash_string

    for name, rows in exported[1].items():
        for row in rows:
            document = json.dumps(row["doc"], indent=2, ensure_ascii=False)
            assert row["doc_hash"] == hash_string(document)
            assert row["prompt_hash"] == hash_string(row["arguments"]["gen_args_0"]["arg_0"])
            assert row["target_hash"] == hash_string(row["target"])
        parts = [row["doc_hash"] + row["prompt_hash"] + row["target_hash"] for row in rows]
        assert exported[0]["task_hashes"][name] == hash_string("".join(parts))


def test_every_number_is_the_results(exported, run):
    result, ours = exported[0], run[0]
    n = 0
    for task, record in ours["tcb_bench"]["tasks"].items():
        for condition, cell in record["conditions"].items():
            for key, name in (("metrics", "none"), ("metrics_completed", "completed")):
                for metric, found in cell[key].items():
                    n += 1
                    flat = f"{task}@{condition}" if condition else task
                    check(result, flat, metric, name, found)
        flat = ours["results"][task]
        for key in (k for k in flat if "_n," in k):
            metric, name = key.replace("_n,", ",").split(",")
            parts = {p: flat[f"{metric}_{p},{name}"] for p in ("stderr", "ci_low", "ci_high", "n")}
            check(result, task, metric, name, {"value": flat[f"{metric},{name}"], **parts})
    assert n > 300


def check(result, task, metric, name, found):
    entry, key = result["results"][task], f"{metric},{name}"
    assert entry.get(key) == found["value"]
    if found["value"] is not None:
        stderr = found["stderr"] if found["stderr"] is not None else "N/A"
        assert entry[f"{metric}_stderr,{name}"] == stderr
    interval = result["tcb_bench_intervals"][task][key]
    assert interval == {part: found[part] for part in ("ci_low", "ci_high", "n")}


def test_samples_add_up_to_the_results(exported):
    """Means over lm-eval's rows, as its own readers make them, are the aggregates."""
    for name, metric in (("toy_mc_a", "nll_mean"), ("toy_num", "acc"), ("toy_mc_b", "acc")):
        values = [row[metric] for row in exported[1][name] if row[metric] is not None]
        mean = exported[0]["results"][name][f"{metric},none"]
        assert math.fsum(values) / len(values) == pytest.approx(mean, rel=1e-12)


def test_make_table_reads_tasks_conditions_and_groups(exported):
    from lm_eval.utils import make_table

    table = make_table(exported[0])
    for name in ("toy_mc", " - toy_mc_a", "toy_rag", *(f" - {c}" for c in CONDITIONS), "stock"):
        assert f"|{name} " in table or f"|{name}|" in table, name
    assert "N/A" in table  # of lm-eval's own task, and of a deviation over questions
    assert "ci_low" not in table
    groups = make_table(exported[0], "groups")
    assert "toy_mc " in groups
    assert "toy_num" not in groups


def test_lm_evals_readers_of_file_names_and_its_card(exported, run, tmp_path, monkeypatch):
    import huggingface_hub
    from lm_eval.loggers import EvaluationTracker
    from lm_eval.utils import get_file_datetime, get_file_task_name, sanitize_model_name

    names = [f"{path.parent.name}/{path.name}" for path in exported[2]]
    assert {name.split("/")[0] for name in names} == {sanitize_model_name("org/toy")}
    tasks = {get_file_task_name(n.split("/")[1]) for n in names if "/samples_" in n}
    assert tasks == exported[0]["configs"].keys() - {"stock"}
    stamps = {get_file_datetime(name).removesuffix(".json") for name in names}
    assert stamps == {next(run[1].glob("results_*")).stem.removeprefix("results_")}

    class Api:
        def list_repo_files(self, **_):
            return names

    cards = []
    folder = exported[2][0].parent.parent
    monkeypatch.setattr(
        huggingface_hub, "hf_hub_url", lambda repo_id, filename, **_: str(folder / filename)
    )
    monkeypatch.setattr(
        huggingface_hub.DatasetCard, "push_to_hub", lambda self, *a, **k: cards.append(self)
    )
    tracker = EvaluationTracker(output_path=str(tmp_path))
    tracker.api = Api()
    tracker.recreate_metadata_card()
    [card] = cards
    assert "toy_rag" in card.content
    assert str(exported[0]["results"]["toy_num"]["acc,none"]) in card.content


def test_the_loader_of_datasets_reads_every_file(exported, tmp_path):
    import datasets

    for path in exported[2]:
        loaded = datasets.load_dataset(
            "json", data_files=str(path), split="train", cache_dir=str(tmp_path)
        )
        assert loaded.num_rows == len(path.read_text().splitlines())


def test_another_projects_reader_of_lm_eval_files_finds_the_same_numbers(exported):
    every_eval()
    from every_eval_ever.converters.lm_eval.adapter import LMEvalAdapter
    from every_eval_ever.converters.lm_eval.instance_level_adapter import LMEvalInstanceLevelAdapter

    [results] = [path for path in exported[2] if path.name.startswith("results_")]
    logs = LMEvalAdapter().transform_from_file(results, {"source_organization_name": "us"})
    assert {log.model_info.id for log in logs} == {"org/toy"}
    found = {log.evaluation_id.split("/")[0]: log for log in logs}
    assert found.keys() == exported[0]["results"].keys()
    by_id = {r.evaluation_result_id: r for r in found["toy_num"].evaluation_results}
    entry = exported[0]["results"]["toy_num"]
    assert by_id["acc:completed"].score_details.score == entry["acc,completed"]
    assert by_id["acc"].score_details.uncertainty.standard_error.value == entry["acc_stderr,none"]
    assert not any("ci_" in name or name.endswith("_n") for name in by_id)
    hot = found[CONDITIONS[-1]].evaluation_results[0].generation_config.generation_args
    assert (hot.temperature, hot.max_tokens) == (1.4, 64)
    [samples] = [path for path in exported[2] if "toy_mc_a_" in path.name]
    rows = LMEvalInstanceLevelAdapter().transform_samples(samples, "x", "org/toy", "toy_mc_a")
    answers = [row.output.raw[0] for row in rows if row.evaluation_result_id == "acc"]
    assert len(answers) == 3
    assert set(answers) <= set("ABCD")
