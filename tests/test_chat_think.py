"""Reasoning that stands inside the text of a reply, up to ``think_end_token``. Oracle: by hand."""

import re

import pytest
from chat_runs import ask, chat, choose, rows, run_api
from fault_plan import Fault
from fault_server import fault_server

from tcb_bench.errors import UsageError
from tcb_bench.models.chat_prediction import CUT, IN_REASONING
from tcb_bench.models.chat_reply import reasoning_end

ARGS = "think_end_token=</think>"
CUT_OFF = Fault("cut_off", change=lambda reply: ended(reply, "length"))
THOUGHT = "<think>\nQuestion: is it 7?\n\nNo, 9.\n</think>\n\n"


def ended(reply, reason):
    return {**reply, "choices": [{**each, "finish_reason": reason} for each in reply["choices"]]}


@pytest.mark.parametrize(
    ("text", "answer"),
    [("a</think>\n\n4", "4"), ("a</think>b</think> 4", "4"), ("4", "4"), ("a</think>", ""), ("", ""),
     ("</think>4 ", "4 "), ("\u00e9\U0001f642</think>4", "4")],
)  # fmt: skip
def test_the_answer_begins_behind_the_last_end_and_its_white_space(text, answer):
    assert text[reasoning_end(text, "</think>") :] == answer
    assert reasoning_end(text, "") == 0


def test_stop_strings_are_not_sent_and_count_behind_the_reasoning():
    told = f"{THOUGHT}It is 4.\n\nQuestion: 8"
    with fault_server(answer=lambda body, index: told) as server:
        lm = chat(server, args=ARGS)
        [found] = ask(lm, ["2 + 2?"], until=["\n\n", "Question:"])
        assert "stop" not in server.chats[0].body
        plain = chat(server)
        [other] = ask(plain, ["2 + 2?"], until=["\n\n"])
        assert server.chats[1].body["stop"] == ["\n\n"]
    assert found.text == f"{THOUGHT}It is 4." and found.answer == "It is 4."
    assert found.finish_reason == "stop"
    assert other.text == "<think>\nQuestion: is it 7?" and other.answer_start == 0
    assert lm.identity != plain.identity


def test_a_text_that_never_ends_to_reason_is_kept_whole_and_truncated():
    with fault_server(CUT_OFF, answer=lambda body, index: "<think>\nQuestion:") as server:
        [found] = ask(chat(server, args=ARGS), ["2 + 2?"], until=["Question:"])
    assert (found.text, found.answer_start) == ("<think>\nQuestion:", 0)
    assert found.finish_reason == "length"


def test_a_choice_is_read_behind_the_reasoning_and_never_in_it():
    texts = iter(["<think>A or B?</think>\n\nC", "<think>The answer is A"])
    with fault_server(answer=lambda body, index: next(texts)) as server:
        lm = chat(server, args=ARGS)
        [found] = choose(lm, ["Which?"])
        body = server.chats[0].body
    assert (found.token, found.without) == (2, IN_REASONING)
    assert "logprobs" not in body and body["max_tokens"] > 8192
    with fault_server(CUT_OFF, answer=lambda body, index: next(texts)) as server:
        [cut] = choose(chat(server, args=ARGS), ["Which?"])
    assert (cut.state, cut.reason) == ("unscored", CUT)


def test_a_run_scores_what_stands_behind_the_reasoning(tmp_path):
    def answer(body, index):
        asked = re.search(r"(\d+) \+ 1", body["messages"][-1]["content"])
        n = int(asked[1]) if asked else 0  # the rest looks how the API behaves
        return f"<think>Question: it may be {n + 5}</think>\n\nIt is {n + 1}."

    with fault_server(answer=answer) as server:
        outcome = run_api(server, tmp_path, "sums", args=ARGS)
    assert outcome.exit_code == 0
    assert outcome.result["results"]["sums"]["acc,none"] == 1.0
    assert all(row["text"].startswith("<think>") for row in rows(outcome))


def test_stop_strings_win_over_a_later_end_of_reasoning_as_on_local_models():
    told = "<think>x</think>\n\nIt is 4.\n\nQuestion: 3?\n<think>y</think>\n\nIt is 6."
    with fault_server(answer=lambda body, index: told) as server:
        [found] = ask(chat(server, args=ARGS), ["2 + 2?"], until=["\n\nQuestion:"])
    assert found.answer == "It is 4." and found.finish_reason == "stop"


def test_reasoning_in_a_field_of_its_own_leaves_the_text_to_its_stop_strings():
    told = "It is 4.\n\nQuestion: 5?"
    with fault_server(
        answer=lambda body, index: told, style="deepseek", reasoning_tokens=2
    ) as server:
        [found] = ask(chat(server, args=ARGS), ["2 + 2?"], until=["\n\nQuestion:"])
    assert (found.text, found.answer_start) == ("It is 4.", 0)


def test_an_id_is_no_text():
    with fault_server() as server, pytest.raises(UsageError, match="an API shows no ids"):
        chat(server, args="think_end_token=151668")


def test_a_model_that_was_seen_to_reason_is_asked_for_its_answer_not_for_its_first_token():
    with fault_server(
        answer=lambda body, index: "B", style="deepseek", reasoning_tokens=3
    ) as server:
        lm = chat(server, "compatible/new-thinker")
        [found] = choose(lm, ["Which?"])
        assert "logprobs" not in server.chats[-1].body
    assert lm.capability.is_reasoning
    assert found.token == 1 and found.choice_logprobs == []
