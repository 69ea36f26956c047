"""What is sent to an API. Oracle: bodies written out by hand from the providers' API references."""

import json
from dataclasses import replace

import pytest
from chat_runs import ELEVEN
from hypothesis import given
from hypothesis import strategies as st

from tcb_bench.errors import UsageError
from tcb_bench.models.capabilities import capability
from tcb_bench.models.chat_options import ApiOptions
from tcb_bench.models.chat_request import (
    as_messages,
    as_text,
    body_of,
    lengths,
    sampling_fields,
    unsupported,
)
from tcb_bench.models.sampling import Sampling

USER = {"role": "user", "content": "Hi"}
GPT4O = capability("openai", "gpt-4o")
LOCAL = replace(GPT4O, provider="compatible", model="llama-3.5", is_known=False)
WITHOUT = replace(LOCAL, temperature=None, top_p=False, seed=False, n=1, stop_limit=0)


def sampling(temperature=0.0, **over):
    neutral = {"until": (), "max_gen_toks": 9, "top_p": 1.0, "top_k": 0, "repetition_penalty": 1.0}
    seed = 5 if temperature else None
    return Sampling(**{**neutral, "temperature": temperature, "seed": seed, **over})


def body(known, given, **more):
    return body_of([USER], sampling_fields(given, known), known, max_tokens=9, **more)


@pytest.mark.parametrize("temperature", ELEVEN)
@pytest.mark.parametrize(
    ("provider", "model", "seeded"),
    [("openai", "gpt-3.5-turbo", True), ("openai", "gpt-4o", True), ("openai", "gpt-4.1", True),
     ("openai", "gpt-3.5-turbo-0125", True), ("openai", "ft:gpt-3.5-turbo-0125:org:run5:5abc", True),
     ("deepseek", "deepseek-chat", False)],
)  # fmt: skip
def test_case_1_a_body_holds_what_was_asked_and_nothing_else(provider, model, seeded, temperature):
    sent = body(capability(provider, model), sampling(temperature, until=("Q:", "\n\n")))
    expected = {
        "model": model,
        "messages": [USER],
        "temperature": temperature,
        "top_p": 1.0,
        "stop": ["Q:", "\n\n"],
        "max_tokens": 9,
    }
    assert sent == expected | ({"seed": 5} if seeded and temperature > 0 else {})
    assert type(sent["temperature"]) is float


def test_case_1_a_fine_tuned_reasoning_model_is_none_that_the_table_guesses():
    assert capability("openai", "ft:gpt-35-mine:org::x") is None
    assert capability("openai", "my-gpt-5") is None


@pytest.mark.parametrize("model", ["o1", "o3-mini", "gpt-5", "gpt-5-mini-2025-08-07"])
def test_reasoning_models_are_sent_no_sampling_parameter(model):
    known = capability("openai", model)
    assert body(known, sampling(1.0, until=("Q:",))) == {
        "model": model,
        "messages": [USER],
        "max_completion_tokens": 9,
    }


def test_fields_of_open_servers_are_stated_only_where_they_are_known():
    full = replace(LOCAL, extra=("top_k", "min_p", "repetition_penalty"))
    sent = body(full, sampling(0.6, top_k=40, min_p=0.1, repetition_penalty=1.1))
    assert (sent["top_k"], sent["min_p"], sent["repetition_penalty"]) == (40, 0.1, 1.1)
    off = body(replace(full, top_k_off=0), sampling(0.6))
    assert (off["top_k"], off["min_p"], off["repetition_penalty"]) == (0, 0.0, 1.0)
    assert body(full, sampling(0.6))["top_k"] == -1  # vLLM's value of no restriction
    assert not {"top_k", "min_p", "repetition_penalty"} & body(LOCAL, sampling(0.6)).keys()


@pytest.mark.parametrize("limit", [0, 1, 4, 16])
def test_stop_sequences_up_to_the_limit_are_sent(limit):
    stops = tuple(f"<{i}>" for i in range(6))
    sent = body(replace(GPT4O, stop_limit=limit), sampling(until=stops))
    assert sent.get("stop", []) == list(stops[:limit])


@pytest.mark.parametrize("seed", [0, 1, 2**31 - 1, 2**31, 2**63, 2**64 - 1])
def test_a_seed_fits_what_servers_take_and_zero_temperature_has_none(seed):
    sent = body(GPT4O, sampling(1.2, seed=seed))["seed"]
    assert 0 <= sent < 2**31 and sent == seed & 0x7FFFFFFF
    assert "seed" not in body(GPT4O, sampling(0.0, seed=seed))


def test_log_probabilities_are_asked_for_by_both_fields():
    sent = body(GPT4O, sampling(), top_logprobs=20)
    assert (sent["logprobs"], sent["top_logprobs"]) == (True, 20)
    assert not {"logprobs", "top_logprobs"} & body(GPT4O, sampling()).keys()


def test_a_users_own_fields_go_along_but_not_over_what_is_measured():
    sent = body(GPT4O, sampling(), extra_body={"provider": {"order": ["x"]}})
    assert sent["provider"] == {"order": ["x"]}
    for name in ("temperature", "model", "messages", "max_tokens", "n", "stream"):
        with pytest.raises(UsageError, match=f"extra_body: .*{name}.*leave it out") as caught:
            body(GPT4O, sampling(), extra_body={name: 1})
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("known", "given", "said"),
    [
        (GPT4O, sampling(0.0), None),
        (GPT4O, sampling(2.0), None),
        (GPT4O, sampling(2.2), "openai/gpt-4o takes temperatures from 0 to 2 only"),
        (WITHOUT, sampling(1.0), None),
        (WITHOUT, sampling(0.0), "compatible/llama-3.5 takes no temperature but 1"),
        (WITHOUT, sampling(0.2), "takes no temperature but 1"),
        (WITHOUT, sampling(1.0, top_p=0.9), "takes no top_p but 1"),
        (GPT4O, sampling(1.0, top_p=0.9), None),
        (GPT4O, sampling(1.0, top_k=40), "takes no top_k"),
        (GPT4O, sampling(1.0, min_p=0.1), "takes no min_p"),
        (GPT4O, sampling(1.0, repetition_penalty=1.1), "takes no repetition_penalty"),
        (replace(LOCAL, extra=("top_k",)), sampling(1.0, top_k=40), None),
    ],
)
def test_what_a_model_cannot_do_is_known_before_it_is_sent(known, given, said):
    found = unsupported(given, known)
    assert (found is None) if said is None else said in found


@pytest.mark.parametrize(
    ("answer", "over", "options", "expected"),
    [  # answer tokens, changes of gpt-4o's row, options -> answer, sent
        (256, {}, {}, (256, 256)),
        (256, {}, {"answer_tokens": 100}, (100, 100)),
        (256, {"is_reasoning": True, "counts_reasoning": True}, {}, (256, 256 + 8192)),
        (256, {"is_reasoning": True, "counts_reasoning": True}, {"reasoning_tokens": 0}, (256, 256)),
        (256, {"is_reasoning": True}, {"reasoning_tokens": 500}, (256, 256)),
        (16384, {}, {}, (16384, 16384)),
        (10**6, {"max_tokens": None}, {}, (10**6, 10**6)),
    ],
)  # fmt: skip
def test_room_for_reasoning_is_added_where_the_limit_counts_it(answer, over, options, expected):
    found = lengths(answer, replace(GPT4O, **over), ApiOptions(**options), "m")
    assert (found.answer, found.sent) == expected


def test_case_6_a_reply_beyond_the_range_is_one_line():
    with pytest.raises(UsageError, match="a reply of 16385 tokens was asked for .* at most 16384"):
        lengths(16385, GPT4O, ApiOptions(), "openai/gpt-4o")
    o1 = capability("openai", "o1")
    with pytest.raises(UsageError, match=r"o1: .* \(answer 256 \+ reasoning 100000\)") as caught:
        lengths(256, o1, ApiOptions(reasoning_tokens=100_000), "openai/o1")
    assert "\n" not in str(caught.value)


TURN = st.fixed_dictionaries(
    {"role": st.sampled_from(["user", "assistant"]), "content": st.text(max_size=20)}
)


@given(st.lists(TURN, max_size=4), st.text(max_size=20), st.text(max_size=20))
def test_messages_come_back_from_their_text(turns, first, last):
    history = [
        {"role": "system", "content": first},
        *turns,
        {"role": "user", "content": last},
    ]
    assert as_messages(as_text(history)) == history


@given(st.text().filter(lambda text: not text.startswith('[{"role": ')))
def test_any_other_text_is_one_turn_of_the_user(text):
    assert as_messages(text) == [{"role": "user", "content": text}]


def test_what_opens_the_reply_ends_the_users_turn():
    history = [{"role": "user", "content": "2 + 2?"}, {"role": "assistant", "content": "Answer:"}]
    assert json.loads(as_text(history)) == [{"role": "user", "content": "2 + 2?\nAnswer:"}]
    spaced = [{"role": "user", "content": "2 + 2?\n\n"}, history[1]]
    assert json.loads(as_text(spaced)) == [{"role": "user", "content": "2 + 2?\n\nAnswer:"}]
    shots = [USER, {"role": "assistant", "content": "Ho"}, *history]
    assert [turn["role"] for turn in json.loads(as_text(shots))] == ["user", "assistant", "user"]
    assert shots[-1] == {"role": "assistant", "content": "Answer:"}  # the caller's is not changed


@pytest.mark.parametrize(
    ("role", "expected"),
    [("system", [{"role": "system", "content": "Be brief."}, USER]),
     ("developer", [{"role": "developer", "content": "Be brief."}, USER]),
     ("user", [{"role": "user", "content": "Be brief.\n\nHi"}])],
)  # fmt: skip
def test_a_system_prompt_goes_where_the_model_takes_it(role, expected):
    text = as_text([{"role": "system", "content": "Be brief."}, USER])
    assert as_messages(text, role) == expected
    assert as_messages(as_text([USER]), role) == [USER]
