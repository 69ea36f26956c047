"""The good replies and those that a fault changes.

Oracles: the official SDK's own models, which check types and fields of every reply; ``answer`` for
the text; arithmetic on words for tokens; the laws of probability for log-probabilities.
"""

import asyncio
import json
import math

import fault_bodies as bodies
import openai
import pytest
import requests
from fault_replies import Played, answer, completion, letter, token_bytes
from fault_server import fault_server
from openai.types.chat import ChatCompletion

BODY = {
    "model": "gpt-4o",
    "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "A b c?"}],
    "seed": 11,
    "temperature": 0.6,
}
WITH_LOGPROBS = {**BODY, "logprobs": True, "top_logprobs": 5}


def reply(body=BODY, **played):
    return completion(body, Played(**played))


def texts(made):
    return {choice["index"]: choice["message"]["content"] for choice in made["choices"]}


def spoilt(fault, **fields):
    with fault_server(fault) as server:
        sent = {**BODY, **fields}
        return requests.post(f"{server.url}/chat/completions", json=sent, timeout=5).json()


@pytest.mark.parametrize("style", ["openai", "deepseek"])
def test_the_sdk_accepts_every_good_reply(style):
    for body in (BODY, WITH_LOGPROBS, {**WITH_LOGPROBS, "n": 3, "max_tokens": 2}):
        for thought in (0, 5):
            made = reply(body, style=style, reasoning_tokens=thought, cached_tokens=3)
            parsed = ChatCompletion.model_validate(json.loads(json.dumps(made)))
            assert len(parsed.choices) == body.get("n", 1)


def test_the_async_sdk_gets_the_text_that_was_computed_beforehand():
    async def ask(server):
        async with openai.AsyncOpenAI(base_url=server.url, api_key="x", max_retries=0) as client:
            return await asyncio.gather(
                *(client.chat.completions.create(**{**BODY, "seed": seed}) for seed in range(8))
            )

    with fault_server() as server:
        for seed, got in enumerate(asyncio.run(ask(server))):
            assert got.choices[0].message.content == answer({**BODY, "seed": seed})
            assert got.system_fingerprint.startswith("fp_")
            assert got._request_id.startswith("req_")
        assert len({arrival.body["seed"] for arrival in server.requests}) == 8


def test_the_text_depends_on_model_messages_seed_temperature_and_index_only():
    others = [
        {**BODY, "model": "gpt-4"},
        {**BODY, "seed": 12},
        {**BODY, "temperature": 0.8},
        {**BODY, "messages": BODY["messages"][1:]},
    ]
    assert len({answer(body) for body in (BODY, *others)} | {answer(BODY, 1)}) == 6
    assert answer({**BODY, "top_p": 0.5, "n": 3, "logprobs": True}) == answer(BODY)
    assert answer({**BODY, "temperature": 1}) == answer({**BODY, "temperature": None})


def test_a_model_that_ignores_the_temperature_says_the_same_at_all():
    made = [texts(reply({**BODY, "temperature": t}, ignores_temperature=True)) for t in (0, 1.8)]
    assert made[0] == made[1] == {0: answer({**BODY, "temperature": None})}


def test_choices_may_come_in_another_order_than_their_indices():
    made = reply({**BODY, "n": 3}, shuffles_choices=True)
    assert [choice["index"] for choice in made["choices"]] != [0, 1, 2]
    assert texts(made) == {index: answer(BODY, index) for index in range(3)}


@pytest.mark.parametrize("temperature", [0, 0.6])
def test_log_probabilities_are_those_of_a_distribution_over_the_text(temperature):
    body = {**WITH_LOGPROBS, "temperature": temperature, "top_logprobs": 20, "n": 2}
    ranks = set()
    for choice in reply(body)["choices"]:
        content = choice["logprobs"]["content"]
        assert "".join(entry["token"] for entry in content) == choice["message"]["content"]
        for entry in content:
            top = [other["logprob"] for other in entry["top_logprobs"]]
            assert len({other["token"] for other in entry["top_logprobs"]}) == 20
            assert top == sorted(top, reverse=True)
            assert 0.5 < sum(map(math.exp, top)) < 1
            assert bytes(entry["bytes"]).decode() == entry["token"]
            assert entry["logprob"] in top
            ranks.add(top.index(entry["logprob"]))
    assert (ranks == {0}) == (temperature == 0)


def test_tokens_may_split_a_character_and_their_bytes_still_join_to_the_text():
    body = next(b for s in range(99) if "🙂" in answer(b := {**WITH_LOGPROBS, "seed": s}))
    (choice,) = reply(body, splits_characters=True)["choices"]
    content = choice["logprobs"]["content"]
    assert b"".join(bytes(entry["bytes"]) for entry in content).decode() == answer(body)
    assert [e["token"] for e in content if e["token"].startswith("\\x")][-1] == "\\x99\\x82"


def test_a_letter_is_among_all_four_in_the_top_20():
    body = {**WITH_LOGPROBS, "top_logprobs": 20, "max_tokens": 1}
    (choice,) = reply(body, answer=letter)["choices"]
    (entry,) = choice["logprobs"]["content"]
    assert choice["message"]["content"] == letter(body) == entry["token"]
    assert {"A", "B", "C", "D"} <= {other["token"] for other in entry["top_logprobs"]}


def test_token_limits_cut_the_text_and_say_so():
    words = answer(BODY).split()
    for field in ("max_tokens", "max_completion_tokens"):
        made = reply({**BODY, field: 3})
        assert texts(made) == {0: " ".join(words[:3])}
        assert made["choices"][0]["finish_reason"] == "length"
        assert made["usage"]["completion_tokens"] == 3
    assert reply({**BODY, "max_tokens": len(words)})["choices"][0]["finish_reason"] == "stop"


def test_stop_sequences_end_the_text_before_them():
    words = answer(BODY).split()
    made = reply({**BODY, "stop": ["nowhere", f" {words[3]}"]})
    assert texts(made) == {0: answer(BODY).split(f" {words[3]}")[0]}
    assert texts(reply({**BODY, "stop": answer(BODY)[:2]})) == {0: ""}


def test_reasoning_is_counted_and_shown_by_deepseek_only():
    n_words = len(answer(BODY).split())
    for style, shown in (("openai", False), ("deepseek", True)):
        made = reply({**BODY, "max_tokens": 50}, style=style, reasoning_tokens=7)
        assert made["usage"]["completion_tokens"] == n_words + 7
        assert made["usage"]["completion_tokens_details"]["reasoning_tokens"] == 7
        assert ("reasoning_content" in made["choices"][0]["message"]) is shown
    made = reply({**BODY, "max_tokens": 7}, reasoning_tokens=7)
    assert (texts(made), made["choices"][0]["finish_reason"]) == ({0: ""}, "length")


def test_usage_counts_words_and_each_style_names_its_cache():
    made = reply({**BODY, "n": 2}, cached_tokens=4)["usage"]
    completed = len(answer(BODY).split()) + len(answer(BODY, 1).split())
    assert made["prompt_tokens"] == (4 + 2) + (4 + 3)
    assert (made["completion_tokens"], made["total_tokens"]) == (completed, completed + 13)
    assert made["prompt_tokens_details"]["cached_tokens"] == 4
    made = reply(style="deepseek", cached_tokens=4)["usage"]
    assert (made["prompt_cache_hit_tokens"], made["prompt_cache_miss_tokens"]) == (4, 9)


def test_tokens_join_to_any_text():
    for text in ("", " a  b\n", "one", "🙂 🙂", "\n\n"):
        for splits in (False, True):
            assert b"".join(token_bytes(text, splits_characters=splits)).decode() == text


MESSAGES = [  # fault, content, finish reason, further fields of the message
    (bodies.reasoning_only("Hm."), None, "length", {"reasoning_content": "Hm."}),
    (bodies.content_filtered(), None, "content_filter", {}),
    (bodies.content_filtered("So"), "So", "content_filter", {}),
    (bodies.empty_text(), "", "stop", {}),
    (bodies.refused("No."), None, "stop", {"refusal": "No."}),
    (bodies.error_in_choice(), answer(BODY), "error", {}),
]


@pytest.mark.parametrize(("fault", "content", "reason", "fields"), MESSAGES)
def test_a_changed_message(fault, content, reason, fields):
    (choice,) = spoilt(fault)["choices"]
    message = choice["message"]
    assert (message["content"], choice["finish_reason"]) == (content, reason)
    assert {name: message[name] for name in fields} == fields


def test_changed_choices_and_usage():
    assert spoilt(bodies.no_choices())["choices"] == []
    assert [c["index"] for c in spoilt(bodies.duplicate_index())["choices"]] == [0, 0]
    assert [c["index"] for c in spoilt(bodies.duplicate_index(), n=3)["choices"]] == [0, 0, 0]
    assert [c["index"] for c in spoilt(bodies.missing_choice(), n=3)["choices"]] == [0, 1]
    assert "usage" not in spoilt(bodies.no_usage())
    assert spoilt(bodies.no_logprobs(), logprobs=True)["choices"][0]["logprobs"] is None
    floored = spoilt(bodies.floor_logprobs(), logprobs=True, top_logprobs=20)["choices"][0]
    for entry in floored["logprobs"]["content"]:
        assert entry["logprob"] == -9999.0
        assert entry["token"] not in [other["token"] for other in entry["top_logprobs"]]
