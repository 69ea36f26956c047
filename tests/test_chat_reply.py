"""From a reply to a response. Oracle: replies written by hand, logarithms of given probabilities."""

import math

import pytest
from chat_runs import KEY
from fault_replies import token_bytes
from hypothesis import given
from hypothesis import strategies as st

from tcb_bench.models.chat_client import Client, Connection
from tcb_bench.models.chat_options import ApiOptions
from tcb_bench.models.chat_prediction import CUT, prediction
from tcb_bench.models.chat_reply import (
    FILTERED,
    call_of,
    generation,
    row_of,
    until_stop,
    usage_of,
)
from tcb_bench.models.chat_token_texts import NO_LOGPROBS, OTHER_TEXT, token_texts
from tcb_bench.models.sampling import Sampling
from tcb_bench.responses import Failure

LETTERS = ("A", "B", "C", "D")


def entry(token, p, top=(), text=None):
    """One token of probability ``p`` with the likeliest ones, (token, p) pairs."""
    record = {"token": token, "logprob": math.log(p)}
    record["top_logprobs"] = [{"token": t, "logprob": math.log(q), "bytes": None} for t, q in top]
    return {**record, "bytes": list(token.encode() if text is None else text)}


def choice(content, finish_reason="stop", tokens=None, index=0, **message):
    logprobs = None if tokens is None else {"content": tokens}
    message = {"role": "assistant", "content": content, **message}
    return dict(index=index, message=message, finish_reason=finish_reason, logprobs=logprobs)


def asked(at="none", until=()):
    neutral = {"max_gen_toks": 9, "temperature": 0.0, "top_p": 1.0, "top_k": 0}
    return Sampling(until=until, repetition_penalty=1.0, stability_at=at, **neutral)


def read(made, at="none", until=(), usable=None):
    return generation(made, asked(at, until), {"n": 1, "prompt_tokens": 5}, usable)


@pytest.mark.parametrize(
    ("content", "reason", "more", "text", "finish"),
    [
        ("It is 4.", "stop", {}, "It is 4.", "stop"),
        ("It is", "length", {}, "It is", "length"),
        (None, "length", {"reasoning_content": "I think"}, "", "length"),  # case 7
        (None, "length", {}, "", "length"),
        ("", "length", {"reasoning": "I think"}, "", "length"),
        (None, "stop", {"refusal": "I can't."}, "I can't.", "stop"),
        ("", "stop", {}, "", "stop"),
        (None, None, {}, "", "stop"),
        ("東京 🙂", "stop", {}, "東京 🙂", "stop"),
    ],
)
def test_a_text_and_how_it_ended(content, reason, more, text, finish):
    found = read(choice(content, reason, **more))
    assert (found.text, found.finish_reason) == (text, finish)
    assert found.stability == {} and found.rule == "none" and found.prompt_tokens == 5


@pytest.mark.parametrize("content", [None, "", "Half of"])
def test_case_8_what_a_filter_cut_is_no_text(content):
    found = read(choice(content, "content_filter"))
    assert isinstance(found, Failure) and (found.state, found.reason) == ("filtered", FILTERED)
    assert prediction(choice(content, "content_filter"), LETTERS, {}).state == "filtered"


@pytest.mark.parametrize(
    ("text", "stops", "expected"),
    [("a b c", (), ("a b c", False)), ("a b c", ("x",), ("a b c", False)),
     ("a b c", ("c", "b"), ("a ", True)), ("abc", ("a",), ("", True)), ("aXYb", ("Y", "XY"), ("a", True)),
     ("naïve 🙂 x", ("🙂",), ("naïve ", True))],
)  # fmt: skip
def test_stop_strings_beyond_the_limit_are_applied_here(text, stops, expected):
    assert until_stop(text, stops) == expected
    found = read(choice(text, "length"), until=stops)
    assert found.text == expected[0]
    assert found.finish_reason == ("stop" if expected[1] else "length")


def test_stability_ends_where_the_text_was_cut():
    tokens = [
        entry(t, 0.5, [(t, 0.5), ("x", 0.25)]) for t in ("It", " is", " 4", ".\n", "Q", ": 9")
    ]
    made = choice("It is 4.\nQ: 9", tokens=tokens)
    whole = read(made, "final_number")
    assert whole.text[slice(*whole.offsets[whole.positions[0]])] == ": 9"
    cut = read(made, "final_number", until=("Q:",))
    assert cut.text == "It is 4.\n" and cut.positions == [2] and len(cut.offsets) == 4
    inside = read(made, "all", until=("4",))
    assert inside.text == "It is " and inside.offsets == [[0, 2], [2, 5], [5, 6]]
    assert inside.positions == [0, 1, 2] and len(inside.stability["nll"]) == 3


def test_quantities_at_the_critical_token_by_hand():
    top = [(" 5", 0.5), (" 4", 0.3), (" 6", 0.1)]
    tokens = [
        entry("It is", 0.9, [("It is", 0.9)]),
        entry(" 4", 0.3, top),
        entry(".", 0.9, [(".", 0.9)]),
    ]
    found = read(choice("It is 4.", tokens=tokens), "final_number")
    assert (found.positions, found.rule) == ([1], "final_number/1")
    squares, rest = 0.25 + 0.09 + 0.01, 0.1
    expected = {
        "p_top1": 0.5,
        "p_top2": 0.3,
        "logit_margin": math.log(0.5 / 0.3),
        "top_mass": 0.9,
        "nll": -math.log(0.3),
        "v_eff_low": 1 / (squares + rest * 0.1),
        "v_eff_high": 1 / squares,
    }
    assert {k: v[0] for k, v in found.stability.items()} == pytest.approx(expected, rel=1e-12)


def test_a_token_whose_log_probability_is_not_told_has_none():
    # OpenAI's reference: "-9999.0 is used to signify that the token is very unlikely"
    unlikely = {**entry("x", 0.5, [("y", 0.5), ("z", 0.25)]), "logprob": -9999.0}
    row = row_of(unlikely)
    assert math.isnan(row["nll"]) and row["p_top1"] == pytest.approx(0.5)


def test_why_there_is_no_stability():
    assert read(choice("It is 4."), "final_number").without == NO_LOGPROBS
    tokens = [entry("It is 4.", 0.5, [("It is 4.", 0.5)])]
    assert read(choice("It is 4.", tokens=tokens), "first", usable="tempered").without == "tempered"
    other = read(choice("It is 5.", tokens=tokens), "first")  # tokens of another text
    assert other.without == OTHER_TEXT and other.positions == [] and other.offsets == []
    none = read(choice("No digit", tokens=[entry("No digit", 1.0)]), "final_number")
    assert (none.without, none.positions, none.stability) == ("", [], {})


BYTES = st.lists(st.integers(1, 4), min_size=1, max_size=60)


@given(st.text(alphabet="aé東🙂 \n4", max_size=25), BYTES)
def test_offsets_of_tokens_that_split_characters(text, sizes):
    data, tokens, at = text.encode(), [], 0
    for size in sizes:
        tokens.append(data[at : at + size])
        at += size
    tokens.append(data[at:])
    entries = [entry("?", 0.5, text=token) for token in tokens]
    found = token_texts(choice(text, tokens=entries), text).offsets
    at = 0
    for token, (start, end) in zip(tokens, found, strict=True):
        covered = [i for i in range(len(text)) if len(text[:i].encode()) < at + len(token) and len(text[: i + 1].encode()) > at]  # fmt: skip
        expected = [covered[0], covered[-1] + 1] if token else [len(text)] * 2
        assert [start, end] == expected or not token
        at += len(token)


def test_ends_of_sequence_behind_the_text_are_empty():
    tokens = [entry("Hi", 0.5), entry("<|end|>", 0.9)]
    assert token_texts(choice("Hi", tokens=tokens), "Hi").offsets == [[0, 2], [2, 2]]


def test_the_fault_servers_split_emoji_are_found():
    text = "stone 🙂 7"
    tokens = [entry("?", 0.5, text=t) for t in token_bytes(text, splits_characters=True)]
    found = token_texts(choice(text, tokens=tokens), text).offsets
    assert found == [[0, 5], [5, 7], [6, 7], [7, 9]]


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        (None, {}), ({}, {}),
        ({"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}, {"prompt_tokens": 3, "completion_tokens": 4}),
        ({"prompt_tokens": 3, "prompt_tokens_details": {"cached_tokens": 2}, "completion_tokens_details": {"reasoning_tokens": 1}},
         {"prompt_tokens": 3, "cached_tokens": 2, "reasoning_tokens": 1}),
        ({"prompt_tokens": 3, "prompt_cache_hit_tokens": 2, "prompt_cache_miss_tokens": 1}, {"prompt_tokens": 3, "cached_tokens": 2}),
        ({"prompt_tokens": None, "prompt_tokens_details": None}, {}),
    ],
)  # fmt: skip
def test_a_bill_in_either_providers_words(usage, expected):
    assert usage_of({"usage": usage}) == expected


def test_what_stands_beside_a_response():
    choices = [choice("a", reasoning_content="hm"), choice("b", index=1)]
    reply = {"choices": choices, "id": "x1", "model": "gpt-4o-2024-08-06", "system_fingerprint": "fp_1", "usage": {"prompt_tokens": 5, "completion_tokens": 6}}  # fmt: skip
    sent = {"model": "gpt-4o", "messages": ["long"], "temperature": 0.6, "n": 3}
    first = call_of(reply, choice("a", reasoning_content="hm"), sent, 3)
    assert first == {
        "id": "x1", "model": "gpt-4o-2024-08-06", "system_fingerprint": "fp_1", "finish_reason": "stop",
        "choice": 0, "n": 3, "sent": {"temperature": 0.6, "n": 3}, "prompt_tokens": 5, "reasoning": "hm",
        "usage": {"prompt_tokens": 5, "completion_tokens": 6},
    }  # fmt: skip
    second = call_of(reply, choice("b", index=1), sent, 3)
    assert second["choice"] == 1 and "usage" not in second and "reasoning" not in second
    broken = {**reply, "choices": [choice("a", "error"), choices[1]]}
    assert "usage" in call_of(broken, choices[1], sent, 3), "the bill stands at the first good one"


def test_reasoning_that_a_server_leaves_out_of_its_completion_tokens_is_counted():
    usage = {"prompt_tokens": 32, "completion_tokens": 9, "total_tokens": 151}
    assert usage_of({"usage": usage}) == {"prompt_tokens": 32, "completion_tokens": 119}
    assert usage_of({"usage": {**usage, "total_tokens": 41}})["completion_tokens"] == 9


def test_a_choice_is_every_shown_token_that_is_it_but_for_spaces():
    top = [(" B", 0.4), ("A", 0.2), ("B", 0.1), ("The", 0.1), (" C", 0.05)]
    found = prediction(choice(" B", tokens=[entry(" B", 0.4, top)]), LETTERS, {})
    shown = [0.2, 0.5, 0.05, None]
    assert [v if v is None else math.exp(v) for v in found.choice_logprobs] == pytest.approx(shown)
    assert (found.token, found.token_text) == (1, " B")
    assert found.stability["choice_mass"] == pytest.approx(0.75)
    assert found.stability["choice_margin"] == pytest.approx(math.log(0.5 / 0.2))
    assert found.stability["p_top1"] == pytest.approx(0.4)
    assert found.stability["logit_margin"] == pytest.approx(math.log(2))


def test_the_prediction_is_the_likeliest_token_also_where_another_was_drawn():
    top = [("The", 0.6), ("A", 0.3)]
    found = prediction(choice("A", tokens=[entry("A", 0.3, top)]), LETTERS, {})
    assert (found.token, found.token_text) == (-1, "The")
    assert found.stability["nll"] == pytest.approx(-math.log(0.6))
    assert "choice_margin" not in found.stability


def test_no_choice_shown_has_no_answer():
    found = prediction(choice("The", tokens=[entry("The", 0.6, [("The", 0.6)])]), LETTERS, {})
    assert found.state == "unscored" and "'The'" in found.reason


@pytest.mark.parametrize(
    ("text", "finish", "letter"),
    [("B", "stop", 1), ("**C**", "stop", 2), ("The answer is D.", "stop", 3), ("No idea", "stop", -1), ("B", "length", 1)],
)  # fmt: skip
def test_without_log_probabilities_the_letter_is_read(text, finish, letter):
    found = prediction(choice(text, finish), LETTERS, {})
    assert (found.token, found.token_text, found.without) == (letter, text, NO_LOGPROBS)
    assert found.choice_logprobs == [] and found.stability == {}


def test_a_reply_cut_before_its_letter_is_not_wrong():
    found = prediction(choice("Let us", "length"), LETTERS, {})
    assert (found.state, found.reason) == ("unscored", CUT)


def test_halves_of_characters_and_a_repeated_key_are_read_as_no_such_thing():
    client = Client(Connection("http://127.0.0.1:9/v1", KEY), ApiOptions())
    half = client.read_json(
        b'{"choices": [{"message": {"content": "a \\ud83d b \\uD83D\\uDE42"}}]}'
    )
    assert half["choices"][0]["message"]["content"] == "a \ufffd b 🙂"
    told = client.read_json(f'{{"a": ["key {KEY}."], "n": 3}}'.encode())
    assert told == {"a": ["key ***."], "n": 3}
