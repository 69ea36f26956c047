"""Cases 5, 7, 8 and 14, and replies that are not whole. Oracle: the fault server's own answers.

``fault_replies.answer`` says which text each (messages, seed, temperature, choice) must have got.
"""

import json

import fault_bodies as bodies
import pytest
from chat_runs import ask, block, chat, rows, run_api, samples, text_request
from fault_plan import Rule
from fault_replies import FINGERPRINT, answer
from fault_server import fault_server

from tcb_bench.responses import Failure, Generation

HOT = {"options": {"where": {"temperature": ["0.6"]}}}
QUESTION = "Name a river."


def three(lm, prompt=QUESTION):
    """Three repeats of one prompt, with seeds of their own."""
    asked = [text_request(prompt, temperature=0.6, seed=seed) for seed in (11, 22, 33)]
    return lm.generate_traced(asked)


def expected(seed, index, prompt=QUESTION):
    body = {"model": "gpt-4o", "messages": [{"role": "user", "content": prompt}]}
    return answer({**body, "seed": seed, "temperature": 0.6}, index)


def test_case_5_blank_lines_for_longer_than_the_read_timeout_are_no_timeout():
    with fault_server(bodies.trickle(1.5, every_s=0.05), style="deepseek") as server:
        lm = chat(server, "deepseek/deepseek-chat", "read_timeout=0.5")
        [found] = ask(lm, [QUESTION])
        assert isinstance(found, Generation) and found.text
        assert len(server.chats) == 1 and not lm.traffic.faults


def test_case_5_blank_lines_without_an_end_are_one():
    with fault_server(bodies.trickle(float("inf"), every_s=0.05)) as server:
        lm = chat(server, args="read_timeout=0.5,total_timeout=0.7", max_retries=1)
        [found] = ask(lm, [QUESTION])
    assert found == Failure("2 attempts failed, the last with no reply within 0.5 s")
    assert lm.traffic.faults == {"timeout": 2}


def test_case_7_a_budget_spent_on_reasoning_is_a_truncated_text(tmp_path):
    with fault_server(bodies.reasoning_only()) as server:
        outcome = run_api(server, tmp_path, "rivers", **HOT)
    own = block(outcome, "rivers")["counts"]
    assert own["truncated"] == 9 and own["scored"] == own["empty"] == 0
    for row in rows(outcome, "rivers"):
        assert (row["state"], row["text"], row["finish_reason"]) == ("truncated", "", "length")
    metrics = block(outcome, "rivers")["conditions"]["temperature=0.6"]
    assert metrics["metrics"]["acc"]["n"] == 3 and metrics["metrics"]["acc"]["value"] == 0
    assert metrics["metrics_completed"].get("acc", {"value": None})["value"] is None


def test_case_7_reasoning_that_leaves_no_room_is_cut_by_the_server_itself():
    with fault_server(style="deepseek", reasoning_tokens=20) as server:
        lm = chat(server, "deepseek/deepseek-reasoner", answer_tokens=5, reasoning_tokens=10)
        [found] = ask(lm, [QUESTION], temperature=1.0)
        assert server.chats[0].body["max_tokens"] == 15
    assert (found.text, found.finish_reason) == ("", "length")
    assert found.call["reasoning"] and found.call["usage"]["reasoning_tokens"] == 15


def test_an_empty_text_and_a_refusal_are_what_they_are(tmp_path):
    plan = [Rule(bodies.empty_text(), content="first"), Rule(bodies.refused(), content="second")]
    with fault_server(plan) as server:
        outcome = run_api(server, tmp_path, "rivers", **HOT)
    counts = block(outcome, "rivers")["counts"]
    assert (counts["empty"], counts["scored"]) == (3, 6)
    texts = {row["text"] for row in samples(outcome)["temperature=0.6", "1"]["rows"]}
    assert texts == {"I can't help with that."}


@pytest.mark.parametrize("text", [None, "Half of an"])
def test_case_8_a_filtered_answer_is_its_own_state_and_asked_again(text, tmp_path):
    with fault_server(Rule(bodies.content_filtered(text), content="second")) as server:
        outcome = run_api(server, tmp_path, "rivers", **HOT)
        first = len(server.chats)
        counts = block(outcome, "rivers")["counts"]
        assert (counts["filtered"], counts["scored"], outcome.exit_code) == (3, 6, 0)
        filtered = samples(outcome)["temperature=0.6", "1"]["rows"]
        assert {(row["state"], row["acc"]) for row in filtered} == {("filtered", None)}
        assert "text" not in filtered[0]
        left = run_api(server, tmp_path, "rivers", **HOT, retry_on_error=False)
        assert len(server.chats) == first and block(left, "rivers")["counts"]["filtered"] == 3
        server.plan = None
        again = run_api(server, tmp_path, "rivers", **HOT)
    assert block(again, "rivers")["counts"]["scored"] == 9
    assert len(server.chats) == first + 1  # the filtered ones alone, as one request


def test_case_8_a_refused_prompt_is_filtered_too(tmp_path):
    from fault_refusals import content_policy, context_length_exceeded

    plan = [Rule(content_policy(), content="second"), Rule(context_length_exceeded(), content="third")]  # fmt: skip
    with fault_server(plan) as server:
        outcome = run_api(server, tmp_path, "rivers", **HOT)
    counts = block(outcome, "rivers")["counts"]
    assert (counts["filtered"], counts["unscored"], counts["scored"]) == (3, 3, 3)
    long = samples(outcome)["temperature=0.6", "2"]["rows"][0]
    assert "prompt and reply are too long" in long["reason"] and long["acc"] is None


def test_case_14_the_fingerprint_is_recorded_and_nothing_is_claimed(tmp_path):
    def other(reply):
        return {**reply, "system_fingerprint": "fp_other"}

    changed = bodies.Fault("other", change=other)
    with fault_server(Rule(changed, content="third")) as server:
        outcome = run_api(server, tmp_path, "rivers", **HOT)
        text = outcome.path.read_text()
    assert block(outcome, "rivers")["system_fingerprints"] == {FINGERPRINT: 6, "fp_other": 3}
    found = [row["call"] for row in rows(outcome, "rivers")]
    assert [call["system_fingerprint"] for call in found] == [FINGERPRINT] * 6 + ["fp_other"] * 3
    assert all(call["id"].startswith("chatcmpl-") for call in found)
    assert "determinis" not in text.lower()


def test_choices_are_matched_by_their_index_and_the_prompt_is_paid_once(tmp_path):
    with fault_server(shuffles_choices=True) as server:
        lm = chat(server)
        found = three(lm)
        [body] = [arrival.body for arrival in server.chats]
    assert (body["n"], body["seed"]) == (3, 11)
    assert [each.text for each in found] == [expected(11, i) for i in range(3)]
    assert [each.call["choice"] for each in found] == [0, 1, 2]
    assert ["usage" in each.call for each in found] == [True, False, False]
    assert lm.budget.usage["requests"] == 1
    assert [each.completion_tokens for each in found] == [None] * 3


@pytest.mark.parametrize("fault", [bodies.missing_choice(), bodies.duplicate_index()])
def test_what_a_reply_lacks_is_asked_for_with_its_own_seed(fault):
    with fault_server(Rule(fault, until=1)) as server:
        found = three(chat(server))
        sent = [(a.body.get("n"), a.body["seed"]) for a in server.chats]
    if fault.name == "missing_choice":
        assert sent == [(3, 11), (None, 33)]
        assert [e.text for e in found] == [expected(11, 0), expected(11, 1), expected(33, 0)]
    else:
        assert sent == [(3, 11), (2, 22)]
        assert [e.text for e in found] == [expected(11, 0), expected(22, 0), expected(22, 1)]
    assert len({e.text for e in found}) == 3


def test_a_server_that_gives_one_choice_whatever_n_says_is_asked_until_all_are_there():
    def only_one(reply):
        return {**reply, "choices": reply["choices"][:1]}

    with fault_server(bodies.Fault("only_one", change=only_one)) as server:
        found = three(chat(server))
    assert [each.text for each in found] == [expected(seed, 0) for seed in (11, 22, 33)]


def test_a_choice_that_was_broken_off_is_no_text():
    def one_broken(reply):
        reply["choices"][1] |= {"finish_reason": "error", "error": {"code": 502, "message": "x"}}
        return reply

    with fault_server(Rule(bodies.Fault("one_broken", change=one_broken), until=1)) as server:
        found = three(chat(server))
    assert [e.text for e in found] == [expected(11, 0), expected(22, 0), expected(11, 2)]
    with fault_server(bodies.error_in_choice()) as server:
        [lost] = ask(chat(server, max_retries=0), [QUESTION])
    assert isinstance(lost, Failure) and "Provider disconnected" in lost.reason


def test_a_reply_without_usage_or_choices_of_the_wrong_kind():
    with fault_server(bodies.no_usage()) as server:
        [found] = ask(chat(server), [QUESTION])
    assert found.text and found.call["usage"] == {} and found.prompt_tokens == 0
    assert found.completion_tokens is None
    with fault_server(Rule(bodies.no_choices(), first=1)) as server:
        [healed] = ask(chat(server), [QUESTION])
    assert healed.text == found.text


def test_stop_strings_beyond_the_limit_end_the_text_here():
    stops = ["<1>", "<2>", "<3>", "<4>", "STOP"]
    with fault_server(answer=lambda body, index: "one two STOP three 4") as server:
        [found] = ask(chat(server), [QUESTION], until=stops, temperature=1.0, stability_at="all")
        assert server.chats[0].body["stop"] == stops[:4]
    assert (found.text, found.finish_reason) == ("one two ", "stop")
    assert found.offsets == [[0, 3], [3, 7], [7, 8]]
    assert len(found.stability["p_top1"]) == 3


def test_characters_split_over_tokens_have_their_own_offsets():
    text = "stone 🙂 東京 7"
    with fault_server(answer=lambda body, index: text, splits_characters=True) as server:
        lm = chat(server)
        [found] = ask(lm, [QUESTION], temperature=1.0, stability_at="final_number")
    assert found.text == text and found.offsets == [[0, 5], [5, 7], [6, 7], [7, 10], [10, 12]]
    assert found.positions == [4] and found.without == ""


def test_a_file_holds_whatever_a_reply_holds(tmp_path):
    """Line separators, NUL, emoji and halves of characters: every line of the samples is JSON."""
    strange = "a\u2028b\u0000c🙂\x85\ud83d"
    with fault_server(answer=lambda body, index: "x") as server:

        def change(reply):
            for choice in reply["choices"]:
                choice["message"]["content"] = strange
            return reply

        server.plan = bodies.Fault("strange", change=change)
        outcome = run_api(server, tmp_path, "rivers", **HOT)
    texts = {row["text"] for row in rows(outcome, "rivers")}
    assert texts == {strange.replace("\ud83d", "\ufffd")}
    assert json.loads(outcome.path.read_text())
