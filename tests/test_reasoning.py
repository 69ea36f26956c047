"""A reasoning part of the real SmolLM2's texts, from the tokens to the sample rows (case 34).

The model continues PROMPT by TEXT at temperature 0; its plus sign is taken for the end of reasoning.
"""

import json

import pytest
import torch
from run_tools import samples
from toy_models import ask, generation

from tcb_bench.metrics.delta_tcb import reference
from tcb_bench.responses import answer_text
from tcb_bench.run import score as score_run
from tcb_bench.scoring import score
from tcb_bench.task_files import tcb_spec

PROMPT = "3 + 4 = 7. 5 + 5 = 10. 9 + 9 ="
TEXT = " 18. 11 + 11 = 22.\n\nThis pattern"
TASK = """\
task: reasoned
class: !function tcb_bench.task.TcbTask
dataset_path: json
dataset_kwargs: {data_files: {test: reasoned.jsonl}}
test_split: test
doc_to_text: question
doc_to_target: answer
generation_kwargs: {until: ["."], max_gen_toks: 20}
tcb: {request: generate_traced, position: first, answer: short_answer, reference: short,
      columns: {question: question, answer: answer}}
metadata: {version: 1, license: CC0-1.0}
"""


@pytest.fixture
def answer(hf_demo, monkeypatch):
    """One greedy text of the demo model with an end of reasoning."""

    def answer(think_end, **changes):
        monkeypatch.setattr(hf_demo, "think_end_token", think_end)
        wanted = generation(max_gen_toks=20, **changes)
        (found,) = hf_demo.generate_traced([ask("generate_traced", PROMPT, wanted)])
        return found

    return answer


def text_spec(**more):
    return tcb_spec({"tcb": {"request": "generate_traced", **more}}, "t")


def test_a_stop_string_inside_the_reasoning_does_not_stop_the_text(answer):
    assert answer(None).text.startswith(TEXT)
    assert answer(None, until=["."]).text == " 18"
    found = answer(" +", until=["."])
    assert (found.text, found.finish_reason) == (" 18. 11 + 11 = 22", "stop")
    assert found.answer == "11 = 22"


@pytest.mark.parametrize(("rule", "token"), [("first", "1"), ("final_number", "2")])
def test_the_critical_position_lies_in_the_answer_and_has_the_oracles_numbers(
    hf_demo, answer, rule, token
):
    """Oracle: float64, on the state before that token in one pass over prompt and text."""
    found = answer(" +", until=["."], stability_at=rule)
    (position,) = found.positions
    begin = found.offsets[position][0]
    expected = found.answer_start if rule == "first" else found.text.index("22")
    assert (begin, found.text[begin]) == (expected, token)
    prompt = hf_demo.tokenizer(PROMPT)["input_ids"]
    with torch.no_grad():
        ids = torch.tensor([prompt + found.tokens[:position]])
        h = hf_demo.model.model(ids).last_hidden_state[:, -1]
    delta, flip = reference(h.double(), hf_demo.model.lm_head.weight.double())
    assert found.stability["delta_tcb"] == pytest.approx(delta.tolist(), rel=1e-3)
    assert found.stability["flip_radius"] == pytest.approx(flip.tolist(), rel=1e-3)
    row = score(found, "#### 22", text_spec(position=rule, answer="final_number"))
    assert (row["acc"], row["answer"]) == (1.0, "22")
    assert row["stability"]["critical_token"] == position


def test_a_token_ends_the_reasoning_as_its_text_does(hf_demo, answer):
    (token,) = hf_demo.tokenizer(" +")["input_ids"]
    assert answer(token, until=["."], stability_at="first") == answer(
        " +", until=["."], stability_at="first"
    )


def test_a_number_of_the_reasoning_is_no_answer(answer):
    found = answer("22.", stability_at="final_number")
    assert "18" in found.text
    assert found.answer.startswith("This pattern")
    assert (found.positions, found.stability) == ([], {})
    row = score(found, "#### 18", text_spec())
    assert (row["acc"], row["answer"], row["reason"]) == (
        0.0,
        None,
        "no number found in the answer",
    )


def test_reasoning_without_an_end_is_the_text_of_before(answer):
    assert answer("</think>", stability_at="all") == answer(None, stability_at="all")


@pytest.mark.slow
def test_a_run_scores_the_answer_and_its_rows_keep_the_whole_text(do, tmp_path):
    rows = [{"question": PROMPT, "answer": gold} for gold in ("22", "18")]
    (tmp_path / "reasoned.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "reasoned.yaml").write_text(TASK)
    outcome = do(
        "reasoned",
        "reasoned",
        include=(tmp_path,),
        model_args="think_end_token=+",
        options={"bert_score_model": "none"},
    )
    right, wrong = (sample["rows"][0] for sample in samples(outcome, "reasoned"))
    assert (right["acc"], wrong["acc"]) == (1.0, 0.0)  # 18 stands in the reasoning only
    for row in (right, wrong):
        assert row["text"] == " 18. 11 + 11 = 22"
        assert row["reasoning_chars"] == len(" 18. 11 + ")
        assert answer_text(row) == "11 = 22"
        assert row["state"] == "scored"
    assert right["scores"]["rouge1"] == pytest.approx(2 / 3)  # 22 of "11 22": P 1/2, R 1
    assert wrong["scores"]["rouge1"] == 0.0
    again = score_run(outcome.path.parent)
    assert again.result["results"]["reasoned"] == outcome.result["results"]["reasoned"]
    plain = do("plain", "reasoned", include=(tmp_path,), options={"bert_score_model": "none"})
    for sample in samples(plain, "reasoned"):
        assert "reasoning_chars" not in sample["rows"][0]
        assert sample["rows"][0]["text"] == " 18"
