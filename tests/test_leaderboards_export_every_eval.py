"""A run as Every Eval Ever's records. Oracles: the Draft-7 schemas and the validator of the package
every-eval-ever 0.3.0 (its own repository checks, aggregate and samples against each other); values:
the run's result and sample files, one by one; ranges: the definitions of the metrics, by hand."""

import hashlib
import json
import math
from collections import Counter

import jsonschema
import pytest
from every_eval_files import every_eval
from export_runs import TEMPERATURES, write_toy_run

from tcb_bench.errors import DataError
from tcb_bench.leaderboards.export import export
from tcb_bench.leaderboards.export_every_eval_metrics import bounds
from tcb_bench.leaderboards.export_options import ExportOptions

WHO = ExportOptions(model_id="org/toy", organization="A lab", relationship="third_party")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    return json.loads(write_toy_run(folder).read_text()), folder


@pytest.fixture(scope="module")
def out(run, tmp_path_factory):
    folder = tmp_path_factory.mktemp("out")
    export(run[1], "every-eval-ever", out=folder, options=WHO)
    return folder


@pytest.fixture(scope="module")
def records(out):
    """Task -> (record, its instance rows)."""
    found = {}
    for path in out.glob("data/*/org/toy/*.json"):
        samples = path.with_name(f"{path.stem}_samples.jsonl")
        rows = samples.read_text().splitlines() if samples.exists() else []
        found[path.parts[-4]] = json.loads(path.read_text()), [json.loads(row) for row in rows]
    return found


def results(records, task):
    return {r["evaluation_result_id"]: r for r in records[task][0]["evaluation_results"]}


def test_every_file_is_valid_by_the_formats_own_schemas_and_validator(out):
    every_eval()
    from every_eval_ever.schema import schema_json
    from every_eval_ever.validator.validation_core import validate_file

    names = [p.relative_to(out).as_posix() for p in out.rglob("*.json*") if p.name[0] != "."]
    assert len(names) == 7  # four records, three with samples
    for name in names:
        aggregate = name.endswith(".json")
        kind = "eval" if aggregate else "instance_level_eval"
        check = jsonschema.Draft7Validator(schema_json(f"{kind}.schema.json"))
        text = (out / name).read_text()
        for document in [text] if aggregate else text.splitlines():
            assert list(check.iter_errors(json.loads(document))) == []
        report = validate_file(
            out / name,
            repo_path=name,
            available_files=set(names),
            read_repo_file=lambda path: (out / path).read_text(),
            run_semantic_checks=True,
        )
        assert (report.valid, report.errors, report.warnings) == (True, [], []), name


def test_one_record_per_task_or_group_and_one_result_per_number_and_condition(records, run):
    assert records.keys() == {"toy_mc", "toy_num", "toy_rag", "stock"}
    for task in records:
        ids = [r["evaluation_result_id"] for r in records[task][0]["evaluation_results"]]
        assert max(Counter(ids).values()) == 1
    names = {r["evaluation_name"] for r in records["toy_mc"][0]["evaluation_results"]}
    assert names == {"toy_mc", "toy_mc_a", "toy_mc_b"}
    cells = run[0]["tcb_bench"]["tasks"]["toy_rag"]["conditions"]
    names = {r["evaluation_name"] for r in records["toy_rag"][0]["evaluation_results"]}
    assert names == {"toy_rag", *(f"toy_rag/{cell}" for cell in cells)}


def test_every_number_with_its_uncertainty_is_the_results(records, run):
    n = 0
    for task, record in run[0]["tcb_bench"]["tasks"].items():
        head = "toy_mc" if task.startswith("toy_mc") else task
        found = results(records, head)
        for condition, cell in record["conditions"].items():
            name = f"{task}/{condition}" if condition else task
            all_finished = cell["counts"]["truncated"] + cell["counts"]["empty"] == 0
            for key, end in (("metrics", ""), ("metrics_completed", ":completed")):
                for metric, number in cell[key].items():
                    own = found.pop(f"{name}/{metric}{end}", None)
                    if number["value"] is None or (end and all_finished):
                        assert own is None
                        continue
                    n += 1
                    assert own["score_details"]["score"] == number["value"]
                    check_uncertainty(own["score_details"], number)
    assert n > 250


def check_uncertainty(details, number):
    found = details["uncertainty"]
    assert found["num_samples"] == number["n"]
    error = found.get("standard_error")
    assert (error and error["value"]) == number["stderr"]
    ends = (number["ci_low"], number["ci_high"])
    if None in ends:  # the format has no interval that is open at one side
        assert "confidence_interval" not in found
        written = details.get("details", {})
        for name, end in zip(("ci_low", "ci_high"), ends, strict=True):
            assert end is None or float(written[name]) == end
        return
    interval = found["confidence_interval"]
    assert (interval["lower"], interval["upper"]) == ends
    assert interval["confidence_level"] == 0.95


def test_directions_ranges_and_names(records):
    found = {
        r["metric_config"]["metric_name"]: r["metric_config"]
        for r in results(records, "toy_rag").values()
    }
    assert found["acc"]["metric_id"] == "accuracy"
    assert found["garbled"]["lower_is_better"]
    assert found["bertscore_f1_cv"]["lower_is_better"]
    assert not found["relative_flip_radius_median"]["lower_is_better"]
    assert found["nll_mean"]["additional_details"] == {"polarity": "not_applicable"}
    assert "additional_details" not in found["acc"]
    ranges = {name: (c["min_score"], c["max_score"]) for name, c in found.items()}
    assert ranges["acc"] == (0, 1)
    assert ranges["delta_tcb_median"] == ranges["h_norm_median"] == (0, "Infinity")
    assert ranges["log10_delta_tcb_mean"] == ("-Infinity", "Infinity")
    assert ranges["v_eff_mean"] == (1, 500)
    assert ranges["entropy_mean"] == (0, math.log(500))
    assert ranges["p_top2_median"] == (0, 0.5)
    assert ranges["bertscore_f1"] == (-1, 1)
    assert ranges["f1_run_std"] == (
        0,
        pytest.approx(math.sqrt(0.5)),
    )  # of 0 and 1: |1 - 0| / sqrt(2)
    assert found["delta_tcb_median"]["metric_parameters"] == {"responses": "all", "epsilon": 1.0}
    assert bounds("v_eff_mean", None) == (1, math.inf)


def test_each_condition_has_its_temperature_and_all_together_have_none(records):
    hot = {}
    for name, result in results(records, "toy_rag").items():
        config = result["generation_config"]
        hot.setdefault(result["evaluation_name"], set()).add(
            config["generation_args"]["temperature"]
        )
        assert config["generation_args"]["max_tokens"] == 64, name
        assert config["additional_details"]["temperature_effective"] == "true"
    whole = hot.pop("toy_rag")
    assert whole == {None}
    assert hot == {name: {float(name.split("=")[1].split(",")[0])} for name in hot}
    assert {t for values in hot.values() for t in values} == set(TEMPERATURES)
    [first] = [
        r
        for r in results(records, "toy_rag").values()
        if r["evaluation_result_id"] == "toy_rag/acc"
    ]
    assert first["generation_config"]["additional_details"]["axis.temperature"] == "[0.0, 1.4]"
    choice = results(records, "toy_mc")["toy_mc_a/acc"]["generation_config"]
    assert "temperature" not in choice["generation_args"]  # nothing is sampled
    assert choice["additional_details"]["request"].startswith("next_token")


@pytest.mark.parametrize("kind", ["sample", "local", "file"])
def test_documents_from_elsewhere_are_not_the_hubs(kind, tmp_path):
    path = write_toy_run(tmp_path / "run", keep=["toy_num"])
    result = json.loads(path.read_text())
    result["tcb_bench"]["tasks"]["toy_num"]["data"] |= {"source": kind, "revision": None}
    path.write_text(json.dumps(result))
    files, _ = export(tmp_path / "run", "every-eval-ever", out=tmp_path / "out", options=WHO)
    [record] = [json.loads(file.read_text()) for file in files if file.suffix == ".json"]
    data = record["evaluation_results"][0]["source_data"]
    assert (data["source_type"], "hf_repo" in data) == ("other", False)
    assert kind.removesuffix("file") in data["additional_details"]["source"]


def test_the_documents_are_the_hubs_where_they_came_from_there(records):
    data = results(records, "toy_num")["toy_num/acc"]["source_data"]
    assert (data["source_type"], data["hf_repo"], data["hf_split"]) == (
        "hf_dataset",
        "toy/data",
        "test",
    )
    assert data["additional_details"]["revision"] == "c" * 40


def test_instances_are_the_right_and_wrong_responses(records, run):
    rows = records["toy_num"][1]
    assert [row["sample_id"] for row in rows] == [f"test/{40 - i}" for i in (0, 1, 2, 3, 6)]
    details = records["toy_num"][0]["detailed_evaluation_results"]
    assert details["additional_details"] == {"responses_without_a_score": "2"}
    assert [row["evaluation"]["score"] for row in rows] == [1, 0, 0, 0, 1]
    assert [row["evaluation"]["is_correct"] for row in rows] == [True, False, False, False, True]
    assert rows[1]["answer_attribution"][0]["extracted_value"] == "-5"
    assert rows[2]["metadata"]["state"] == "truncated"
    assert rows[0]["token_usage"] == {"input_tokens": 70, "output_tokens": 9, "total_tokens": 79}
    for task in ("toy_num", "toy_rag", "toy_mc"):
        ids = results(records, task)
        for row in records[task][1]:
            assert row["evaluation_result_id"] in ids
            joined = row["input"]["raw"] + "".join(row["input"]["reference"])
            assert row["sample_hash"] == hashlib.sha256(joined.encode()).hexdigest()
    [path] = run[1].glob("samples_toy_mc_a*")
    ours = [json.loads(line)["rows"][0] for line in path.read_text().splitlines()]
    for row, own in zip(records["toy_mc"][1][:3], ours, strict=True):
        assert row["output"]["raw"] == [own["answer"]]
        assert row["input"]["reference"] == ["C"]
        assert (
            float(row["metadata"]["relative_flip_radius"])
            == own["stability"]["relative_flip_radius"]
        )


def test_means_over_instances_are_the_scores(records):
    for task, name in (("toy_num", "toy_num"), ("toy_mc", "toy_mc_b")):
        scores = [
            r["evaluation"]["score"] for r in records[task][1] if r["evaluation_name"] == name
        ]
        found = results(records, task)[f"{name}/acc"]["score_details"]["score"]
        assert math.fsum(scores) / len(scores) == pytest.approx(found, rel=1e-12)


def test_who_ran_it_and_what_it_is(records):
    record = records["toy_rag"][0]
    assert record["source_metadata"]["source_organization_name"] == "A lab"
    assert record["source_metadata"]["evaluator_relationship"] == "third_party"
    assert record["model_info"]["additional_details"]["deployment_type"] == "self_deployed"
    assert record["model_info"]["inference_engine"] == {"name": "transformers", "version": "5.0"}
    assert "model:org/toy" in record["source_metadata"]["additional_details"]["signature"]


def test_the_same_settings_are_one_record_and_others_another(run, out, tmp_path):
    def names(folder, options=WHO):
        files, _ = export(folder, "every-eval-ever", out=tmp_path, options=options)
        return {path.name for path in files if "toy_num" in str(path) and path.suffix == ".json"}

    [first] = names(run[1])
    assert first in {path.name for path in out.rglob("*.json")}
    write_toy_run(tmp_path / "again", date=1796040000.0, keep=["toy_num"])
    assert names(tmp_path / "again") == {first}
    assert names(tmp_path / "again", ExportOptions(model_id="org/other")) != {first}


def test_a_number_outside_its_range_is_refused(tmp_path):
    path = write_toy_run(tmp_path / "run")
    result = json.loads(path.read_text())
    result["tcb_bench"]["tasks"]["toy_num"]["conditions"][""]["metrics"]["acc"]["value"] = 1.2
    path.write_text(json.dumps(result))
    with pytest.raises(DataError, match=r"toy_num: acc is 1\.2, outside its range from 0 to 1"):
        export(tmp_path / "run", "every-eval-ever", out=tmp_path / "out", options=WHO)
    assert not (tmp_path / "out").exists()


def test_without_samples_there_is_no_companion(run, tmp_path):
    options = ExportOptions(model_id="org/toy", has_samples=False)
    files, notes = export(run[1], "every-eval-ever", out=tmp_path, options=options)
    assert not [path for path in files if path.suffix == ".jsonl"]
    assert all("detailed_evaluation_results" not in path.read_text() for path in files)
    assert "who ran it" in notes[0]
