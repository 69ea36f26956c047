"""What studies refuse before a model is loaded, and the one line that says so.

Oracle: the exit codes and words of the command line, and lm-eval's own index of its tasks.
"""

import pytest
from test_studies import norm_study, study_of  # noqa: F401 - a fixture

from tcb_bench import load_tasks
from tcb_bench.__main__ import main
from tcb_bench.config import TaskOptions
from tcb_bench.errors import DataError, UnknownName
from tcb_bench.studies import run_study
from tcb_bench.studies.findings import Findings


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        ("layers --tasks gsm8k_tcb", 2, "asks for generate_traced"),
        ("layers --tasks mmlu_tcb_virology", 1, "no rows of 'virology'"),
        ("layers --model vllm/demo", 1, "only the transformers back end gives: --model demo"),
        ("geometry --model vllm/org/name", 1, "needs the hidden states"),
        ("geometry --set level=2", 2, "level=2.0: expected from 0.01 to 0.9999"),
        ("correlations --set low_tasks=lvd_tbc", 2, "did you mean 'lvd_tcb'"),
        ("dynamics --set example=ekko", 2, "did you mean 'echo'"),
        ("dynamics --set more_thresholds=[None]", 2, "expected a list of finite numbers"),
        ("interventions --item test/5000", 1, "not among the 30 documents"),
        ("prompts --set delta_scale=ln", 2, "expected log10 or raw"),
        ("layers --tag ../../../outside", 2, "it is part of a folder's name"),
        ("layers --tag .", 2, "it is part of a folder's name"),
        ("layers --tasks mmlu_tbc", 2, "no task 'mmlu_tbc'; did you mean 'mmlu_tcb'"),
        ("audit --set num_fewshot=-5", 2, "num_fewshot=-5: expected from -1 to 1000"),
        ("audit --set perturbations=uper_case", 2, "did you mean 'upper_case'"),
        ("audit --set perturbations=upper_case:2", 2, "takes no argument; write upper_case"),
        ("audit --set perturbations=[typos]", 2, "write each text of a list in quotes"),
        ("audit --set perturbations=['typos:5','typos:5']", 2, "has 'typos:5' twice"),
    ],
)
def test_what_is_cheap_to_check_is_checked_before_a_model_is_loaded(
    words, code, message, tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr(run_study, "running", None)
    place = ["--data", "sample", "--output_path", str(tmp_path / "runs")]
    assert main(["study", *words.split(), *place]) == code
    error = capsys.readouterr().err
    assert message in error and error.count("\n") <= 2 and "Traceback" not in error
    assert {path.name for path in tmp_path.iterdir()} <= {"runs"}


def test_an_unknown_task_is_named_without_lm_evals_index(monkeypatch):
    def index(**options):
        assert not options.get("include_defaults", True), "the index takes a minute"

    monkeypatch.setattr(load_tasks, "TaskManager", index)
    with pytest.raises(UnknownName, match="no task 'gms8k_tcb'; did you mean 'gsm8k_tcb'"):
        load_tasks.load_tasks(["mmlu_tcb_virology", "gms8k_tcb"], TaskOptions(data="sample"))


@pytest.mark.parametrize("name", ["hellaswag", "arc_easy", "mmlu_anatomy", "belebele_fra_Latn"])
def test_names_of_lm_evals_own_tasks_are_found_in_its_files(name):
    assert load_tasks._is_in_lm_eval(name)


def test_a_task_without_documents_is_one_line(study_of):  # noqa: F811
    def study(session):
        [task] = session.load(["mmlu_tcb_abstract_algebra"]).tasks.values()
        session.answers(task.changed(documents=[]))
        return Findings(tables=[], rows=[])

    with pytest.raises(DataError, match="mmlu_tcb_abstract_algebra has no document to ask with"):
        study_of(study)
    _, said = study_of(norm_study)
    assert "asked 7, found in the store 0" in said
