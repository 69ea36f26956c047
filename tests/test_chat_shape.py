"""Replies that are not as the protocol says. Oracle: good replies, changed by hand here."""

import copy
import json
import math

import pytest
from chat_runs import ask, block, chat, choose, rows, run_api
from fault_plan import Fault
from fault_replies import answer
from fault_server import fault_server

from tcb_bench.models import chat_traffic
from tcb_bench.models.chat_reply import usage_of
from tcb_bench.models.chat_token_texts import BAD_LOGPROBS, NO_LOGPROBS
from tcb_bench.responses import Failure, Generation, NextToken

NAN, INF = float("nan"), float("inf")
HOT = {"stability_at": "all", "temperature": 1.0}


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch):
    monkeypatch.setattr(chat_traffic, "FIRST_BACKOFF_S", 0.01)


def odd(change):
    """Replies whose every choice was ``change``d."""

    def changed(reply):
        reply = copy.deepcopy(reply)
        for choice in reply["choices"]:
            change(choice)
        return reply

    return Fault("odd", change=changed)


def message(**fields):
    return odd(lambda choice: choice["message"].update(fields))


def each_token(change):
    """Replies whose every token with log-probabilities was ``change``d."""

    def changed(choice):
        entries = (choice["logprobs"] or {"content": []})["content"]
        choice["logprobs"] = {"content": [change(entry) for entry in entries]}

    return odd(changed)


def likeliest(**fields):
    return each_token(
        lambda entry: {**entry, "top_logprobs": [t | fields for t in entry["top_logprobs"]]}
    )


def only_text(server, **over):
    [found] = ask(chat(server, max_retries=1), ["Name a river."], **over)
    return found


TEXT = {"type": "text", "text": "It is "}
THOUGHT = {"type": "thinking", "thinking": [{"type": "text", "text": "7?"}]}


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ([TEXT, {"type": "text", "text": "4."}], "It is 4."),
        ([THOUGHT, TEXT], "It is "),
        ([], ""),
    ],
)
def test_a_content_in_parts_is_their_text(content, text):
    with fault_server(message(content=content)) as server:
        found = only_text(server)
    assert isinstance(found, Generation) and found.text == text


@pytest.mark.parametrize("content", [42, {"a": 1}, [1, "x"], [{"type": "text", "text": 4}]])
def test_a_content_that_is_no_text_is_an_error_and_no_answer(content):
    with fault_server(message(content=content)) as server:
        found = only_text(server)
        assert len(server.chats) == 2  # it was asked again
    assert isinstance(found, Failure) and found.state == "error"
    assert found.reason.endswith("a choice of the reply has a message that is no text")


@pytest.mark.parametrize("index", ["abc", -1, [1], INF, 0.5, True])
def test_an_index_that_is_none_is_an_error(index):
    with fault_server(odd(lambda choice: choice.update(index=index))) as server:
        found = only_text(server)
    assert isinstance(found, Failure) and found.state == "error" and "index" in found.reason


@pytest.mark.parametrize("index", ["0", 0.0, None])
def test_an_index_of_another_type_is_read(index):
    with fault_server(odd(lambda choice: choice.update(index=index))) as server:
        found = only_text(server)
        assert found.text == answer(server.chats[0].body, 0)


@pytest.mark.parametrize(
    "usage",
    [
        [1],
        "many",
        {"prompt_tokens": "12", "completion_tokens": "abc"},
        {"prompt_tokens": -100, "completion_tokens": -5},
        {"prompt_tokens": NAN, "completion_tokens": INF},
        {"prompt_tokens": 10**30, "completion_tokens": True},
        {"prompt_tokens_details": "x", "completion_tokens_details": [1]},
    ],
    ids=str,
)
def test_a_bill_that_is_none_counts_as_the_most_that_it_could_be(usage):
    fault = Fault("odd", change=lambda reply: {**reply, "usage": usage})
    assert usage_of({"usage": usage}) == {}
    with fault_server(fault) as server:
        lm = chat(server, token_limit=10**6)
        ask(lm, ["Name a river."])
        sent = server.chats[0].body
    most = sent.get("max_tokens") or sent["max_completion_tokens"]
    assert lm.budget.usage["completion_tokens"] == most and lm.budget.usage["prompt_tokens"] > 0


def test_half_a_bill_is_completed():
    fault = Fault("odd", change=lambda reply: {**reply, "usage": {"completion_tokens": 3}})
    with fault_server(fault) as server:
        lm = chat(server, token_limit=10**6)
        ask(lm, ["Name a river."])
    assert lm.budget.usage["completion_tokens"] == 3 and lm.budget.usage["prompt_tokens"] > 0


BAD_TOKENS = {
    "entry_null": each_token(lambda entry: None),
    "no_token": each_token(lambda entry: {**entry, "token": None}),
    "no_number": each_token(lambda entry: {**entry, "logprob": None}),
    "number_as_text": each_token(lambda entry: {**entry, "logprob": "-1.0"}),
    "nan": each_token(lambda entry: {**entry, "logprob": NAN}),
    "above_0": each_token(lambda entry: {**entry, "logprob": 1.5}),
    "bytes": each_token(lambda entry: {**entry, "bytes": [300, -1]}),
    "bytes_a_size": each_token(lambda entry: {**entry, "bytes": 10**12}),
    "bytes_a_text": each_token(lambda entry: {**entry, "bytes": "abc"}),
    "top_a_mapping": each_token(lambda entry: {**entry, "top_logprobs": {"a": -1.0}}),
    "top_no_token": likeliest(token=None),
    "top_nan": likeliest(logprob=NAN),
    "top_above_0": likeliest(logprob=0.7),
    "top_all_impossible": likeliest(logprob=-INF),
    "top_all_certain": likeliest(logprob=0.0),  # a server that does not compute them
    "a_list": odd(lambda choice: choice.update(logprobs=[1])),
    "a_text": odd(lambda choice: choice.update(logprobs="x")),
    "content_a_mapping": odd(lambda choice: choice.update(logprobs={"content": {"a": 1}})),
}


@pytest.mark.parametrize("kind", BAD_TOKENS)
def test_numbers_that_are_no_log_probabilities_are_not_used(kind):
    with fault_server(BAD_TOKENS[kind]) as server:
        found = only_text(server, **HOT)
        assert found.text == answer(server.chats[0].body, 0)
        assert (found.stability, found.without) == ({}, BAD_LOGPROBS)
        [chosen] = choose(chat(server, max_retries=1), ["Question?"])
    is_letter = isinstance(chosen, NextToken) and chosen.stability == {}
    assert is_letter or (chosen.state == "unscored" and chosen.reason.startswith(BAD_LOGPROBS))


def test_a_token_without_log_probabilities_says_what_to_do():
    with fault_server(odd(lambda choice: choice.update(logprobs=None))) as server:
        [chosen] = choose(chat(server), ["Question?"])
    assert chosen.state == "unscored" and chosen.reason.startswith(NO_LOGPROBS)
    assert "--top_logprobs 0" in chosen.reason


def test_a_run_survives_all_of_it_and_writes_strict_json(tmp_path):
    """Impossible tokens, control characters, fields of other types; no NaN or Infinity in files."""

    def change(choice):
        choice["message"]["content"] = "a\x00\x1b[31mb\u2028 4"
        choice["finish_reason"] = ["a"]
        for entry in (choice["logprobs"] or {"content": []})["content"]:
            entry["logprob"] = -INF

    fault = odd(change)
    spoilt = Fault("odd", change=lambda reply: {**fault.change(reply), "system_fingerprint": NAN})
    with fault_server(spoilt) as server:
        outcome = run_api(server, tmp_path, "sums,letters")
    assert block(outcome, "sums")["counts"]["scored"] == 4
    assert {row["text"] for row in rows(outcome, "sums")} == {"a\x00\x1b[31mb\u2028 4"}

    def refuse(word):
        raise AssertionError(word)

    for path in (outcome.path, *outcome.sample_paths):
        for line in [path.read_text()] if path == outcome.path else path.read_text().split("\n"):
            if line:
                json.loads(line, parse_constant=refuse)


def test_the_mass_of_rounded_probabilities_may_be_a_little_above_1():
    def rounded(entry):
        top = entry["top_logprobs"]
        return {**entry, "top_logprobs": [{**t, "logprob": t["logprob"] + 0.01} for t in top]}

    with fault_server(each_token(rounded)) as server:
        found = only_text(server, **HOT)
    assert found.without == "" and all(map(math.isfinite, found.stability["p_top1"]))
