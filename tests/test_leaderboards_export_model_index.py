"""A run as a model card's front matter. Oracle: huggingface_hub's own parser of model cards, and
the run's result file."""

import json

import pytest
from export_runs import write_toy_run
from huggingface_hub import ModelCard, metadata_load
from huggingface_hub.repocard_data import eval_results_to_model_index, model_index_to_eval_results

from tcb_bench.errors import DataError
from tcb_bench.leaderboards.export import export
from tcb_bench.leaderboards.export_model_index import MAIN
from tcb_bench.leaderboards.export_options import ExportOptions


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    return json.loads(write_toy_run(folder).read_text()), folder


def card_of(run, tmp_path, **options):
    given = ExportOptions(model_id="org/toy", **options)
    [path], _ = export(run[1], "model-index", out=tmp_path, options=given)
    return path, ModelCard.load(path)


def by_name(card):
    return {result.metric_name: result for result in card.data.eval_results}


def test_the_hubs_parser_reads_back_every_main_number(run, tmp_path):
    _, card = card_of(run, tmp_path)
    assert card.data.model_name == "toy"
    found = by_name(card)
    expected = {}
    for task in ("toy_mc", "toy_num", "toy_rag"):
        flat = run[0]["results"][task]
        for name in MAIN:
            if flat.get(f"{name},none") is not None:
                expected[f"{task} {name}"] = flat[f"{name},none"]
    assert {name: result.metric_value for name, result in found.items()} == expected
    assert len(found) == len(card.data.eval_results) >= 9
    own = found["toy_rag bertscore_f1"]
    flat = run[0]["results"]["toy_rag"]
    for part in ("ci_low", "ci_high", "n"):
        assert own.metric_args[part] == flat[f"bertscore_f1_{part},none"]
    assert "model:org/toy" in own.metric_args["signature"]


def test_names_are_the_hubs_where_it_has_one(run, tmp_path):
    found = by_name(card_of(run, tmp_path)[1])
    assert found["toy_rag bertscore_f1"].metric_type == "bertscore"
    assert found["toy_num acc"].metric_type == "accuracy"
    assert found["toy_mc acc"].task_type == "multiple-choice"
    assert found["toy_num acc"].task_type == "text-generation"
    median = found["toy_num relative_flip_radius_median"]
    assert median.metric_type == "relative_flip_radius_median"
    assert (median.dataset_type, median.dataset_revision) == ("toy/data", "c" * 40)


def test_tasks_of_one_data_set_stay_apart(run, tmp_path):
    """The hub joins results of one data set into a block; each says its task all the same."""
    results = card_of(run, tmp_path)[1].data.eval_results
    assert {result.metric_config for result in results} == {"toy_mc", "toy_num", "toy_rag"}
    _, again = model_index_to_eval_results(eval_results_to_model_index("toy", results))
    assert again == results


def test_conditions_with_their_axes_on_request(run, tmp_path):
    found = by_name(card_of(run, tmp_path, has_conditions=True)[1])
    cells = run[0]["tcb_bench"]["tasks"]["toy_rag"]["conditions"]
    for condition, cell in cells.items():
        own = found[f"toy_rag bertscore_f1 ({condition})"]
        assert own.metric_value == cell["metrics"]["bertscore_f1"]["value"]
        assert {key: own.metric_args[key] for key in cell["axes"]} == cell["axes"]


def test_the_shipped_sample_is_not_called_by_the_data_sets_name(tmp_path):
    path = write_toy_run(tmp_path / "run", keep=["toy_num"])
    result = json.loads(path.read_text())
    result["tcb_bench"]["tasks"]["toy_num"]["data"] |= {"source": "sample", "revision": None}
    path.write_text(json.dumps(result))
    _, card = card_of((result, tmp_path / "run"), tmp_path / "out")
    assert {r.dataset_type for r in card.data.eval_results} == {"tcb-bench-sample-data"}


def test_the_front_matter_stands_alone_and_the_table_says_the_same(run, tmp_path):
    path, card = card_of(run, tmp_path)
    assert set(metadata_load(path)) == {"model-index"}
    assert card.text.count("\n| toy_") == len(card.data.eval_results)


def test_a_run_without_any_of_these_numbers_is_one_line(run, tmp_path):
    path = write_toy_run(tmp_path / "run", keep=["toy_num"])
    result = json.loads(path.read_text())
    metrics = result["tcb_bench"]["tasks"]["toy_num"]["conditions"][""]["metrics"]
    for name in MAIN:
        metrics.pop(name, None)
    path.write_text(json.dumps(result))
    with pytest.raises(DataError, match="no number for a model card"):
        export(tmp_path / "run", "model-index", options=ExportOptions(model_id="org/toy"))
