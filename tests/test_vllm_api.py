"""The API back end against a real server: vLLM's, with the demo model on loopback.

Oracles: a plain call of the official SDK (texts), transformers in float32 (log-probabilities of the
next token: the same messages through the model's own chat template), vLLM's own count of tokens.
"""

import json
import math
import urllib.request
from pathlib import Path

import openai
import pytest
import torch
from transformers import AutoTokenizer

from tcb_bench.config import RunConfig, TaskOptions
from tcb_bench.models.chat_options import ApiOptions
from tcb_bench.models.chat_request import as_messages
from tcb_bench.run import run, score

pytestmark = pytest.mark.vllm
NAME = "compatible/demo"
GSM8K = {"limit": 3, "gen_kwargs": {"max_gen_toks": 48}}


def config(server, folder, tasks, **options):
    return RunConfig(
        model=NAME,
        model_args=f"base_url={server}/v1",
        tasks=tasks,
        output_path=folder,
        options=TaskOptions(data="sample", bert_score_model="none", **options),
        api=ApiOptions(max_connections=8),
    )


@pytest.fixture(scope="module")
def runs(vllm_server, tmp_path_factory):
    """MMLU, a small sweep and GSM8K, each run once, in one folder: the server is probed once."""
    folder = tmp_path_factory.mktemp("api")
    sweep = {
        "temperature": ["0.0", "1.0"],
        "context": ["original", "replace_half"],
        "question_type": ["bridge"],
    }
    ways = {
        "mmlu": (("mmlu_tcb",), {"limit": 5}),
        "sweep": (
            ("hotpotqa_tempperturb",),
            {"limit": 1, "where": sweep, "gen_kwargs": {"max_gen_toks": 24}},
        ),
        "gsm8k": (("gsm8k_tcb",), GSM8K),
    }
    return {
        name: run(config(vllm_server, folder, tasks, **options))
        for name, (tasks, options) in ways.items()
    }


def samples(outcome):
    return [json.loads(line) for path in outcome.sample_paths for line in path.open()]


def test_the_server_of_the_same_environment_answers(vllm_server):
    """What the API back ends are tried against: health, the model's name, one greedy text."""
    body = {
        "model": "demo",
        "prompt": "The capital of France is",
        "max_tokens": 2,
        "temperature": 0,
    }
    request = urllib.request.Request(
        f"{vllm_server}/v1/completions",
        json.dumps(body).encode(),
        {"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=60) as reply:
        text = json.load(reply)["choices"][0]["text"]
    assert text == " Paris."


def test_the_probe_learns_what_the_server_takes(runs):
    found = json.loads((runs["mmlu"].path.parent / "capability.json").read_text())["capability"]
    assert found["top_logprobs"] == 20 and found["n"] > 1 and found["top_p"]
    assert set(found["extra"]) == {"top_k", "min_p", "repetition_penalty"}
    assert found["temperature_effective"] == "true"
    assert found["max_tokens_field"] == "max_tokens" and not found["is_known"]


def test_every_response_is_scored_and_says_what_it_lacks(runs):
    for name, outcome in runs.items():
        assert outcome.exit_code == 0
        rows = [row for sample in samples(outcome) for row in sample["rows"]]
        assert rows and {row["state"] for row in rows} <= {"scored", "truncated"}, name
        assert all(row["stability"].get("delta_tcb") is None for row in rows)
        measured = [row for row in rows if "p_top1" in row["stability"]]
        assert all("output embedding" in row["reason"] for row in measured)
        assert all(row["call"]["system_fingerprint"].startswith("vllm") for row in rows)


def test_texts_at_zero_equal_a_plain_call_of_the_sdk(runs, vllm_server):
    client = openai.OpenAI(base_url=f"{vllm_server}/v1", api_key="none", max_retries=0)
    asked = 0
    for sample in [*samples(runs["gsm8k"]), *samples(runs["sweep"])]:
        row = sample["rows"][0]
        if row["call"]["sent"]["temperature"] > 0:
            continue
        sent = row["call"]["sent"]
        reply = client.chat.completions.create(
            model="demo",
            messages=as_messages(sample["prompt"]),
            temperature=0,
            max_tokens=sent["max_tokens"],
            stop=sent["stop"],
        )
        assert row["text"] == reply.choices[0].message.content.split(sent["stop"][0])[0]
        assert row["prompt_tokens"] == reply.usage.prompt_tokens
        asked += 1
    assert asked >= 5


def test_three_runs_above_zero_are_three_choices_of_one_request(runs):
    groups = [s["rows"] for s in samples(runs["sweep"]) if "temperature=1.0" in s["condition"]]
    assert groups
    for rows in groups:
        assert [row["call"]["choice"] for row in rows] == [0, 1, 2]
        assert len({row["call"]["id"] for row in rows}) == 1
        assert [row.get("usage") is not None for row in rows] == [True, False, False]
    assert any(len({row["text"] for row in rows}) > 1 for rows in groups)


def test_predictions_equal_those_of_transformers(runs, hf_float32):
    tokenizer = AutoTokenizer.from_pretrained(hf_float32.name_or_path)
    for sample in samples(runs["mmlu"]):
        ids = tokenizer.apply_chat_template(
            as_messages(sample["prompt"]), add_generation_prompt=True, return_tensors="pt"
        )
        with torch.no_grad():
            logprobs = hf_float32(**ids).logits[0, -1].double().log_softmax(-1)
        own = sample["rows"][0]["stability"]
        top = logprobs.topk(20).values
        assert own["p_top1"] == pytest.approx(top[0].exp().item(), rel=2e-3)
        assert own["logit_margin"] == pytest.approx((top[0] - top[1]).item(), abs=2e-3)
        assert own["top_mass"] == pytest.approx(top.exp().sum().item(), abs=2e-3)
        v_eff = 1 / (2 * logprobs).exp().sum().item()
        assert own["v_eff_low"] * 0.995 <= v_eff <= own["v_eff_high"] * 1.005
        _check_choices(sample, logprobs, tokenizer)


def _check_choices(sample, logprobs, tokenizer):
    """Every choice that is shown has the probability of its tokens with and without a space."""
    least = logprobs.topk(20).values[-1].item()
    tokens = (logprobs >= least - 1e-3).nonzero().flatten().tolist()
    for letter, shown in zip("ABCD", sample["rows"][0]["choice_logprobs"], strict=True):
        own = [i for i in tokens if tokenizer.decode([i]).strip() == letter]
        if shown is None:
            assert all(logprobs[i] < least + 2e-3 for i in own)
        else:
            total = math.log(sum(logprobs[i].exp().item() for i in own))
            assert shown == pytest.approx(total, abs=5e-3)


def test_scoring_again_and_resuming_ask_nothing(runs, vllm_server):
    outcome = runs["gsm8k"]
    again = score(Path(outcome.path).parent)
    assert again.result["results"] == outcome.result["results"]
    lines = []
    folder = outcome.path.parent.parent
    resumed = run(config(vllm_server, folder, ("gsm8k_tcb",), **GSM8K), say=lines.append)
    assert "asked 0, found in the store 3" in lines
    assert resumed.result["results"] == outcome.result["results"]
