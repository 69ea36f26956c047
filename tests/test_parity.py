"""MMLU-TCB on real data against lm-eval's own HFLM, and delta_tcb against a float64 oracle.

Oracles: HFLM.loglikelihood on prompts rendered by lm-eval's own ConfigurableTask from its standard
MMLU template; metrics.delta_tcb.reference in float64 on hidden states from a plain forward pass.
"""

import json

import numpy as np
import pytest
import torch
from lm_eval.api.instance import Instance

from tcb_bench.config import RunConfig, TaskOptions
from tcb_bench.metrics.delta_tcb import reference
from tcb_bench.run import run

pytestmark = pytest.mark.slow

SUBJECTS = ("philosophy", "formal_logic")


@pytest.fixture(scope="module")
def outcome(shared_data, smollm2_folder, tmp_path_factory):
    tasks = tuple(f"mmlu_tcb_{subject}" for subject in SUBJECTS)
    options = TaskOptions(data=str(shared_data), limit=100)
    return run(
        RunConfig(
            model=f"hf/{smollm2_folder}",
            tasks=tasks,
            options=options,
            output_path=tmp_path_factory.mktemp("parity"),
            dtype="float32",
        )
    )


@pytest.fixture(scope="module")
def samples(outcome):
    return [
        json.loads(line) for path in outcome.sample_paths for line in path.read_text().splitlines()
    ]


def test_a_hundred_questions_of_each_subject_were_drawn(samples):
    assert len(samples) == 200
    assert len({s["doc_id"] for s in samples}) == 200
    rows = [
        int(s["doc_id"].rsplit("/", 1)[1]) for s in samples if s["doc_id"].startswith("philosophy")
    ]
    assert rows == sorted(rows)
    assert max(rows) > 200, "a seeded draw, not the first hundred"


def test_prompts_are_lm_evals_standard_mmlu_prompts(samples):
    for sample in samples:
        doc = sample["doc"]
        subject = sample["doc_id"].split("/")[0].replace("_", " ")
        options = "".join(
            f"{letter}. {text}\n" for letter, text in zip("ABCD", doc["choices"], strict=True)
        )
        head = f"The following are multiple choice questions (with answers) about {subject}.\n\n"
        assert sample["prompt"] == f"{head}{doc['question'].strip()}\n{options}Answer:"


def test_every_prediction_equals_that_of_lm_evals_own_log_likelihood(samples, smollm2_folder):
    from lm_eval.models.huggingface import HFLM

    lm = HFLM(pretrained=str(smollm2_folder), dtype="float32", device="cpu", batch_size=16)
    requests = [
        Instance("loglikelihood", {}, (s["prompt"], f" {letter}"), i, ("mmlu", n, 1))
        for n, s in enumerate(samples)
        for i, letter in enumerate("ABCD")
    ]
    theirs = np.array(
        [value for value, _ in lm.loglikelihood(requests, disable_tqdm=True)]
    ).reshape(-1, 4)
    ours = np.array([s["rows"][0]["choice_logprobs"] for s in samples])
    np.testing.assert_allclose(ours, theirs, atol=2e-4)
    assert ["ABCD"[i] for i in theirs.argmax(1)] == [s["rows"][0]["answer"] for s in samples]
    correct = [
        float(i == s["doc"]["answer"]) for i, s in zip(theirs.argmax(1), samples, strict=True)
    ]
    assert correct == [s["acc"] for s in samples]


def test_delta_and_flip_radius_equal_the_float64_oracle_on_the_same_prompts(samples, smollm2):
    model, tokenizer = smollm2
    weight = model.get_output_embeddings().weight.double()[: len(tokenizer)]
    for sample in samples[::20]:
        ids = tokenizer(sample["prompt"], return_tensors="pt").input_ids
        with torch.no_grad():
            hidden = model.model(ids).last_hidden_state[0, -1:]
        delta, flip = reference(hidden.double(), weight)
        values = sample["rows"][0]["stability"]
        assert values["log10_delta_tcb"] == pytest.approx(float(delta.log10()), abs=1e-4)
        assert values["flip_radius"] == pytest.approx(float(flip), rel=1e-3)


def test_accuracy_in_the_result_is_the_mean_over_questions(outcome, samples):
    for subject in SUBJECTS:
        accs = [s["acc"] for s in samples if s["doc_id"].startswith(subject)]
        entry = outcome.result["results"][f"mmlu_tcb_{subject}"]
        assert entry["acc,none"] == pytest.approx(np.mean(accs))
        assert entry["acc_stderr,none"] == pytest.approx(np.std(accs, ddof=1) / 10)
