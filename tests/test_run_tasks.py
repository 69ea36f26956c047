"""Groups, lm-eval's own tasks, odd documents and scoring again, in whole runs on SmolLM2."""

import json

import pytest
from run_tools import SWEEP, samples

from tcb_bench.__main__ import main
from tcb_bench.run import score

pytestmark = pytest.mark.slow


def test_a_task_of_lm_evals_own_kind_runs_and_has_lm_evals_own_number(
    do, task_folder, smollm2_folder
):
    """Oracle: lm_eval.simple_evaluate on the same YAML with lm-eval's own HFLM."""
    import lm_eval
    from lm_eval.tasks import TaskManager

    outcome = do("stock", "stock_choice", include=(task_folder,), options={"limit": None})
    manager = TaskManager(include_path=str(task_folder), include_defaults=False)
    theirs = lm_eval.simple_evaluate(
        "hf",
        model_args=f"pretrained={smollm2_folder},dtype=float32",
        tasks=["stock_choice"],
        device="cpu",
        task_manager=manager,
        bootstrap_iters=0,
    )
    assert (
        outcome.result["results"]["stock_choice"]["acc,none"]
        == theirs["results"]["stock_choice"]["acc,none"]
    )
    assert len(samples(outcome, "stock_choice")) == 3
    again = score(outcome.path.parent)
    assert again.result["results"]["stock_choice"] == outcome.result["results"]["stock_choice"]


def test_a_stock_task_and_one_of_ours_run_side_by_side(do, task_folder):
    outcome = do("both", "stock_choice", "mmlu_tcb_philosophy", include=(task_folder,))
    assert set(outcome.result["results"]) == {"stock_choice", "mmlu_tcb_philosophy"}
    assert outcome.result["n-samples"]["stock_choice"]["effective"] == 2


def test_score_refuses_documents_that_changed_since_the_run(do, task_folder, capsys):
    outcome = do("changed", "phrases", include=(task_folder,))
    data = task_folder / "phrases.jsonl"
    original = data.read_text()
    try:
        data.write_text(
            original.replace("France", "Spain").replace("hot", "wet").replace("Two", "One")
        )
        assert main(["score", str(outcome.path.parent)]) == 1
        assert "the documents are not those of the run" in capsys.readouterr().err
    finally:
        data.write_text(original)


def test_missing_subjects_are_listed_and_the_group_is_marked_partial(do, tmp_path):
    (tmp_path / "mmlu/test").mkdir(parents=True)
    (tmp_path / "mmlu/test/philosophy.csv").write_text("Q one?,None,NA,b,c,A\nQ two?,a,b,c,d,B\n")
    outcome = do("partial", "mmlu_tcb_reasoning", options={"data": str(tmp_path)})
    block = outcome.result["tcb_bench"]
    assert block["is_partial"] is True
    assert len(block["missing"]) == 4
    assert block["tasks"]["mmlu_tcb_reasoning"]["is_partial"] is True
    assert len(block["tasks"]["mmlu_tcb_reasoning"]["missing"]) == 4
    assert outcome.result["group_subtasks"] == {
        "mmlu_tcb_reasoning": ["mmlu_tcb_reasoning_philosophy"]
    }
    assert (
        samples(outcome, "mmlu_tcb_reasoning_philosophy")[0]["prompt"].count("\nA. None\nB. NA\n")
        == 1
    )


def test_score_refuses_a_yaml_that_asks_something_else_than_the_run_did(do, task_folder, capsys):
    outcome = do("asked", "phrases", include=(task_folder,), options={"limit": 1})
    path = task_folder / "phrases.yaml"
    original = path.read_text()
    try:
        for before, after in [("max_gen_toks: 6", "max_gen_toks: 7"), ("repeats: 3", "repeats: 2")]:
            path.write_text(original.replace(before, after))
            assert main(["score", str(outcome.path.parent)]) == 1
            assert "its YAML asks something else than in the run" in capsys.readouterr().err
        path.write_text(original.replace("position: first", "epsilon: 2, position: first"))
        assert main(["score", str(outcome.path.parent)]) == 0
    finally:
        path.write_text(original)


def test_a_group_with_a_task_of_lm_evals_own_has_no_numbers_of_its_own(do, task_folder):
    (task_folder / "mixed.yaml").write_text(
        "group: mixed\ntask: [phrases, stock_choice]\nmetadata: {version: 1}\n"
    )
    try:
        outcome = do("mixed", "mixed", include=(task_folder,), options={"limit": 1})
        assert set(outcome.result["results"]) == {"phrases", "stock_choice"}
    finally:
        (task_folder / "mixed.yaml").unlink()


def test_a_date_or_a_nan_in_a_document_does_not_stop_the_files(do, task_folder):
    rows = [{"q": "A day is", "a": "long", "when": "2020-01-01", "x": float("nan")}]
    (task_folder / "odd.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
    (task_folder / "odd.yaml").write_text(
        SWEEP.replace("phrases", "odd").replace("sweep: {temperature: [0.0, 0.6, 1.2]}\n", "")
    )
    outcome = do("odd", "odd", include=(task_folder,))
    doc = samples(outcome, "odd")[0]["doc"]
    assert doc["when"].startswith("2020-01-01")
    assert doc["x"] is None
