"""What a run can be asked for beside the two benchmarks: a user's task, sweeps, traces, chat, lm-eval's tasks.

All on the real SmolLM2; oracles are named at each test.
"""

import json
import re

import pytest
from conftest import ROOT
from run_tools import SWEEP, samples

from tcb_bench.config import RunConfig, TaskOptions
from tcb_bench.run import run

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def swept(do, task_folder):
    return do("sweep", "phrases", include=(task_folder,), options={"limit": None})


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


def test_sampling_defaults_model_sends_the_models_own_parameters(do, task_folder, smollm2_folder):
    """Oracle: the generation_config.json that is put beside the model."""
    import shutil

    own = task_folder / "sampler"
    shutil.copytree(smollm2_folder, own)
    config = {"do_sample": True, "temperature": 0.7, "top_p": 0.85, "top_k": 11, "eos_token_id": 2}
    (own / "generation_config.json").write_text(json.dumps(config))
    (task_folder / "own.yaml").write_text(
        SWEEP.replace("task: phrases", "task: own")
        .replace("sweep: {temperature: [0.0, 0.6, 1.2]}\n", "")
        .replace("answer: exact", "answer: exact, sampling_defaults: model")
    )
    outcome = do("own", "own", include=(task_folder,), options={"limit": 1})
    neutral = outcome.result["configs"]["own"]["generation_kwargs"]
    options = TaskOptions(data="sample", limit=1)
    sampled = run(
        RunConfig(
            model=f"hf/{own}",
            tasks=("own",),
            options=options,
            include_path=(task_folder,),
            output_path=task_folder / "runs",
        )
    )
    sent = sampled.result["configs"]["own"]["generation_kwargs"]
    assert [sent[k] for k in ("temperature", "top_p", "top_k")] == [0.7, 0.85, 11]
    assert neutral["top_p"] == 1.0
    assert "|sampling:model|" in sampled.result["tcb_bench"]["tasks"]["own"]["signature"]
