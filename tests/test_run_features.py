"""What a run can be asked for beside the two benchmarks: a user's task, sweeps, traces, chat, lm-eval's tasks.

All on the real SmolLM2; oracles are named at each test.
"""

import json
import re

import pytest
from conftest import ROOT

from tcb_bench.__main__ import main
from tcb_bench.config import RunConfig, TaskOptions
from tcb_bench.run import run, score

pytestmark = pytest.mark.slow

QUESTIONS = [
    {"q": "The capital of France is", "a": "Paris"},
    {"q": "Two plus two is", "a": "4"},
    {"q": "The opposite of hot is", "a": "cold"},
]
SWEEP = """\
task: phrases
class: !function tcb_bench.task.TcbTask
dataset_path: json
dataset_kwargs: {data_files: {test: phrases.jsonl}}
test_split: test
doc_to_text: q
doc_to_target: a
generation_kwargs: {until: ["\\n"], max_gen_toks: 6}
repeats: 3
sweep: {temperature: [0.0, 0.6, 1.2]}
tcb: {request: generate_traced, position: first, answer: exact}
metadata: {version: 1, license: CC0-1.0}
"""
STOCK = """\
task: stock_choice
dataset_path: json
dataset_kwargs: {data_files: {test: DATA}}
test_split: test
output_type: multiple_choice
doc_to_text: "{{q}}"
doc_to_choice: "{{['Paris', '4', 'cold']}}"
doc_to_target: "{{['Paris', '4', 'cold'].index(a)}}"
metric_list: [{metric: acc, aggregation: mean, higher_is_better: true}]
metadata: {version: 1.0}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tasks")
    data = folder / "phrases.jsonl"
    data.write_text("".join(json.dumps(q) + "\n" for q in QUESTIONS))
    (folder / "phrases.yaml").write_text(SWEEP)
    (folder / "stock.yaml").write_text(STOCK.replace("DATA", str(data)))
    return folder


@pytest.fixture(scope="module")
def do(smollm2_folder, tmp_path_factory):
    """run(...) on the real model with everything small."""
    output = tmp_path_factory.mktemp("runs")

    def do(name, *tasks, include=(), **more):
        options = TaskOptions(**{"data": "sample", "limit": 2, **more.pop("options", {})})
        return run(
            RunConfig(
                model=f"hf/{smollm2_folder}",
                tasks=tasks,
                options=options,
                include_path=include,
                output_path=output / name,
                **more,
            )
        )

    return do


@pytest.fixture(scope="module")
def swept(do, folder):
    return do("sweep", "phrases", include=(folder,), options={"limit": None})


def samples(outcome, task):
    [path] = [p for p in outcome.sample_paths if p.name.startswith(f"samples_{task}_2")]
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_sweep_makes_one_condition_per_cell_with_its_axes_and_counts(swept):
    conditions = swept.result["tcb_bench"]["tasks"]["phrases"]["conditions"]
    assert list(conditions) == ["temperature=0.0", "temperature=0.6", "temperature=1.2"]
    for cell in conditions.values():
        assert cell["axes"]["temperature"] in (0.0, 0.6, 1.2)
        assert sum(cell["counts"].values()) == 9
        assert cell["metrics"]["acc"]["n"] == 3


def test_stability_at_one_prompt_does_not_depend_on_the_temperature(swept):
    radii = {}
    for sample in samples(swept, "phrases"):
        radii.setdefault(sample["doc_id"], []).append(sample["rows"][0]["stability"]["flip_radius"])
    for values in radii.values():
        assert len(values) == 3
        assert values == pytest.approx([values[0]] * 3, rel=1e-4)


def test_three_repeats_at_zero_are_one_text_that_says_so_and_at_1_2_they_differ(swept):
    by_cell = {"temperature=0.0": set(), "temperature=1.2": set()}
    for sample in samples(swept, "phrases"):
        if sample["condition"] in by_cell:
            texts = [row["text"] for row in sample["rows"]]
            by_cell[sample["condition"]].add(len(set(texts)))
            copies = [row["reused_from"] is not None for row in sample["rows"]]
            assert copies == (
                [False, True, True] if sample["condition"] == "temperature=0.0" else [False] * 3
            )
    assert by_cell["temperature=0.0"] == {1}
    assert max(by_cell["temperature=1.2"]) > 1


def test_every_row_carries_its_conflict_case(swept):
    row = samples(swept, "phrases")[0]["rows"][0]
    assert re.fullmatch(r"(in)?accurate_but_\w+|consistent_\w+", row["conflict"]["accuracy"])


def test_a_trace_has_stability_at_every_token_and_agrees_with_the_critical_one(do):
    from tcb_bench.store import Store

    options = {"gen_kwargs": {"max_gen_toks": 40}}
    plain = do("plain", "gsm8k_tcb_zeroshot", options=options)
    traced = do("traced", "gsm8k_tcb_zeroshot", options={**options, "trace": True})
    for a, b in zip(
        samples(plain, "gsm8k_tcb_zeroshot"), samples(traced, "gsm8k_tcb_zeroshot"), strict=True
    ):
        assert a["rows"][0]["text"] == b["rows"][0]["text"]
        assert a["rows"][0]["stability"] == pytest.approx(b["rows"][0]["stability"], rel=1e-4)
    with Store(traced.path.parent, create=False) as store:
        response = store.get(samples(traced, "gsm8k_tcb_zeroshot")[0]["rows"][0]["key"])
    assert response.positions == list(range(len(response.tokens)))
    assert len(response.stability["delta_tcb"]) == len(response.tokens) > 5


def test_with_a_chat_template_the_assistants_turn_is_opened_with_answer_once(do):
    outcome = do(
        "chat", "mmlu_tcb_philosophy", apply_chat_template=True, system_instruction="Be brief."
    )
    for sample in samples(outcome, "mmlu_tcb_philosophy"):
        assert sample["prompt"].endswith("<|im_start|>assistant\nAnswer:")
        assert sample["prompt"].count("Answer:") == 1
        assert sample["prompt"].count("<|im_start|>system") == 1
    assert (
        "|chat:no|" not in outcome.result["tcb_bench"]["tasks"]["mmlu_tcb_philosophy"]["signature"]
    )


def test_shots_come_from_the_dev_split_and_are_the_same_in_a_later_run(do):
    from tcb_bench.data_files import read_jsonl

    dev = [
        r
        for r in read_jsonl(ROOT / "tasks/mmlu_tcb/sample/dev.jsonl")
        if r["subject"] == "philosophy"
    ]
    first = samples(
        do("shots", "mmlu_tcb_philosophy", options={"num_fewshot": 2}), "mmlu_tcb_philosophy"
    )
    for sample in first:
        assert sample["prompt"].count("Answer:") == 3
        assert [sample["prompt"].index(d["question"].strip()[:40]) > 0 for d in dev[:2]] == [
            True,
            True,
        ]
    again = do("shots2", "mmlu_tcb_philosophy", options={"num_fewshot": 2, "limit": 1})
    assert samples(again, "mmlu_tcb_philosophy")[0]["prompt"] in [s["prompt"] for s in first]


def test_a_task_of_lm_evals_own_kind_runs_and_has_lm_evals_own_number(do, folder, smollm2_folder):
    """Oracle: lm_eval.simple_evaluate on the same YAML with lm-eval's own HFLM."""
    import lm_eval
    from lm_eval.tasks import TaskManager

    outcome = do("stock", "stock_choice", include=(folder,), options={"limit": None})
    manager = TaskManager(include_path=str(folder), include_defaults=False)
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


def test_a_stock_task_and_one_of_ours_run_side_by_side(do, folder):
    outcome = do("both", "stock_choice", "mmlu_tcb_philosophy", include=(folder,))
    assert set(outcome.result["results"]) == {"stock_choice", "mmlu_tcb_philosophy"}
    assert outcome.result["n-samples"]["stock_choice"]["effective"] == 2


def test_score_refuses_documents_that_changed_since_the_run(do, folder, capsys):
    outcome = do("changed", "phrases", include=(folder,))
    data = folder / "phrases.jsonl"
    original = data.read_text()
    try:
        data.write_text(
            original.replace("France", "Spain").replace("hot", "wet").replace("Two", "One")
        )
        assert main(["score", str(outcome.path.parent)]) == 1
        assert "the documents are not those of the run" in capsys.readouterr().err
    finally:
        data.write_text(original)


def test_another_dtype_asks_again_and_its_numbers_say_so(do):
    first = do("dtype", "mmlu_tcb_philosophy", dtype="float32")
    second = do("dtype", "mmlu_tcb_philosophy", dtype="bfloat16")
    signature = second.result["tcb_bench"]["tasks"]["mmlu_tcb_philosophy"]["signature"]
    assert "|dtype:bfloat16|" in signature
    values = [
        o.result["results"]["mmlu_tcb_philosophy"]["delta_tcb_median,none"] for o in (first, second)
    ]
    assert values[0] != values[1]
    assert values[0] == pytest.approx(values[1], rel=0.2)


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


def test_a_run_extended_by_a_larger_limit_asks_only_the_new_documents(do):
    from tcb_bench.store import Store

    do("grow", "mmlu_tcb_philosophy", options={"limit": 3})
    outcome = do("grow", "mmlu_tcb_philosophy", options={"limit": 5})
    with Store(outcome.path.parent, create=False) as store:
        assert store.count() == 5


def test_a_model_without_a_chat_template_is_refused_before_anything_is_asked(do, smollm2_folder):
    from tcb_bench.errors import ModelError
    from tcb_bench.models.hf import HF

    class Bare(HF):
        @property
        def tokenizer(self):
            return self._tokenizer

        @tokenizer.setter
        def tokenizer(self, tokenizer):
            tokenizer.chat_template = None
            self._tokenizer = tokenizer

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tcb_bench.models.hf_load.HF", Bare)
        with pytest.raises(ModelError, match="has no chat template"):
            do("bare", "mmlu_tcb_philosophy", apply_chat_template=True)


def test_sampling_defaults_model_sends_the_models_own_parameters(do, folder, smollm2_folder):
    """Oracle: the generation_config.json that is put beside the model."""
    import shutil

    own = folder / "sampler"
    shutil.copytree(smollm2_folder, own)
    config = {"do_sample": True, "temperature": 0.7, "top_p": 0.85, "top_k": 11, "eos_token_id": 2}
    (own / "generation_config.json").write_text(json.dumps(config))
    (folder / "own.yaml").write_text(
        SWEEP.replace("task: phrases", "task: own")
        .replace("sweep: {temperature: [0.0, 0.6, 1.2]}\n", "")
        .replace("answer: exact", "answer: exact, sampling_defaults: model")
    )
    outcome = do("own", "own", include=(folder,), options={"limit": 1})
    neutral = outcome.result["configs"]["own"]["generation_kwargs"]
    options = TaskOptions(data="sample", limit=1)
    sampled = run(
        RunConfig(
            model=f"hf/{own}",
            tasks=("own",),
            options=options,
            include_path=(folder,),
            output_path=folder / "runs",
        )
    )
    sent = sampled.result["configs"]["own"]["generation_kwargs"]
    assert [sent[k] for k in ("temperature", "top_p", "top_k")] == [0.7, 0.85, 11]
    assert neutral["top_p"] == 1.0
    assert "|sampling:model|" in sampled.result["tcb_bench"]["tasks"]["own"]["signature"]


def test_score_refuses_a_yaml_that_asks_something_else_than_the_run_did(do, folder, capsys):
    outcome = do("asked", "phrases", include=(folder,), options={"limit": 1})
    path = folder / "phrases.yaml"
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


def test_a_group_with_a_task_of_lm_evals_own_has_no_numbers_of_its_own(do, folder):
    (folder / "mixed.yaml").write_text(
        "group: mixed\ntask: [phrases, stock_choice]\nmetadata: {version: 1}\n"
    )
    try:
        outcome = do("mixed", "mixed", include=(folder,), options={"limit": 1})
        assert set(outcome.result["results"]) == {"phrases", "stock_choice"}
    finally:
        (folder / "mixed.yaml").unlink()


def test_a_date_or_a_nan_in_a_document_does_not_stop_the_files(do, folder):
    rows = [{"q": "A day is", "a": "long", "when": "2020-01-01", "x": float("nan")}]
    (folder / "odd.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
    (folder / "odd.yaml").write_text(
        SWEEP.replace("phrases", "odd").replace("sweep: {temperature: [0.0, 0.6, 1.2]}\n", "")
    )
    outcome = do("odd", "odd", include=(folder,))
    doc = samples(outcome, "odd")[0]["doc"]
    assert doc["when"].startswith("2020-01-01")
    assert doc["x"] is None
