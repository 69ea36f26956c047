"""What a probe finds out. Oracle: the fault server's plan, which says what the model takes."""

import asyncio
import gc
import math
import random

import fault_bodies as bodies
import fault_refusals as refusals
import pytest
from chat_runs import ask, chat
from fault_plan import Fault, Rule
from fault_server import fault_server
from fault_status import rate_limited, server_error

from tcb_bench.errors import ModelError
from tcb_bench.models.capabilities import capability
from tcb_bench.models.chat_client import Client
from tcb_bench.models.chat_faults import Fault as ApiFault
from tcb_bench.models.chat_probe import logprobs_depend_on_temperature

FIELDS = ("top_p", "seed", "stop", "n", "top_k", "min_p", "repetition_penalty")


def varied(body, index):
    """A text that is still at temperature 0 and another each time above."""
    return "river" if body.get("temperature") == 0 else f"river {random.random()}"


def probed(plan=None, **played):
    """The capability of an unknown model, and the bodies that were sent for it."""
    with fault_server(plan, **{"answer": varied, **played}) as server:
        lm = chat(server, "compatible/new-model-5")
        return lm.capability, [arrival.body for arrival in server.chats]


def test_a_server_that_takes_all_is_known_to():
    found, sent = probed()
    assert found.temperature == (0.0, 2.0) and found.temperature_effective == "true"
    assert (found.top_p, found.seed, found.stop_limit, found.n) == (True, True, 4, 128)
    assert found.extra == ("top_k", "min_p", "repetition_penalty") and found.top_k_off == -1
    assert (found.top_logprobs, found.max_tokens_field, found.system_role) == (20, "max_tokens", "system")  # fmt: skip
    assert not found.is_known and not found.is_reasoning and not found.has_batch
    assert len(sent) < 25 and all(body.get("max_tokens", 0) <= 24 for body in sent)


@pytest.mark.parametrize("field", FIELDS)
def test_a_field_that_is_refused_is_not_sent_later(field):
    found, _ = probed(refusals.unknown_fields(field))
    taken = {
        "top_p": found.top_p,
        "seed": found.seed,
        "stop": found.stop_limit > 0,
        "n": found.n > 1,
        **{name: name in found.extra for name in ("top_k", "min_p", "repetition_penalty")},
    }
    assert taken == {name: name != field for name in FIELDS}


@pytest.mark.parametrize(("limit", "expected"), [(0, 0), (1, 1), (4, 4), (16, 4)])
def test_stop_sequences_up_to_four(limit, expected):
    assert probed(refusals.stop_too_many(limit))[0].stop_limit == expected


def test_a_choice_too_few_is_no_n():
    def only_one(reply):
        return {**reply, "choices": reply["choices"][:1]}

    assert probed(Fault("only_one", change=only_one))[0].n == 1
    assert probed(refusals.too_many_choices(1))[0].n == 1


def test_a_top_k_of_zero_where_minus_one_is_refused():
    def refuse(arrival):
        return refusals.unknown_fields("top_k")(arrival) if arrival.body.get("top_k") == -1 else None  # fmt: skip

    found, _ = probed(refuse)
    assert "top_k" in found.extra and found.top_k_off == 0


@pytest.mark.parametrize(("shown", "expected"), [(20, 20), (10, 10), (5, 5), (0, 0)])
def test_as_many_log_probabilities_as_are_given(shown, expected):
    def refuse(arrival):
        too_many = (arrival.body.get("top_logprobs") or 0) > shown
        return refusals.logprobs_unsupported()(arrival) if too_many else None

    assert probed(refuse)[0].top_logprobs == expected
    assert probed(bodies.no_logprobs())[0].top_logprobs == 0


def test_a_reasoning_model_is_seen_by_what_it_refuses_and_shows():
    plan = [refusals.temperature_unsupported(), refusals.max_tokens_unsupported()]
    found, _ = probed(plan)
    assert found.temperature is None and found.temperature_effective == "false"
    assert found.max_tokens_field == "max_completion_tokens"
    assert not found.is_reasoning and found.counts_reasoning
    billed, _ = probed(plan, reasoning_tokens=30)  # more than the probe has room for
    assert billed.is_reasoning and billed.counts_reasoning
    shown, _ = probed(None, style="deepseek", reasoning_tokens=2)
    assert shown.is_reasoning and shown.temperature_effective == "unknown"


def test_a_temperature_that_is_ignored_is_not_said_to_act():
    assert probed(answer=lambda body, index: "river")[0].temperature_effective == "unknown"
    noise = probed(answer=lambda body, index: f"{random.random()}")[0]
    assert noise.temperature_effective == "unknown"


def test_a_system_prompt_that_is_refused_goes_to_the_user():
    assert probed(refusals.system_role_unsupported())[0].system_role == "user"


@pytest.mark.parametrize("fault", [rate_limited(0.05), server_error(503), bodies.reset()])
def test_what_heals_is_waited_out(fault, monkeypatch):
    monkeypatch.setattr("tcb_bench.models.chat_probe.random.uniform", lambda low, high: 0.01)
    found, _ = probed(Rule(fault, first=1, when=lambda a: a.number % 5 == 1))
    assert found.seed and found.n == 128 and found.top_logprobs == 20


def test_a_name_that_is_not_served_is_one_line():
    from fault_status import invalid_key, model_not_found

    for fault, words in ((model_not_found(), "HTTP 404"), (invalid_key(), "HTTP 401")):
        with pytest.raises(ModelError, match=f"compatible/new-model-5: {words}") as caught:
            probed(fault)
        assert "\n" not in str(caught.value)


def test_a_refusal_in_the_midst_of_the_tries_is_one_line_and_ends_the_others(recwarn):
    from fault_status import invalid_key

    with pytest.raises(ModelError, match="compatible/new-model-5: HTTP 401") as caught:
        probed(Rule(invalid_key(), when=lambda a: a.number > 2))
    assert "\n" not in str(caught.value)
    gc.collect()  # a coroutine that nobody awaited is said when it goes
    assert not [w for w in recwarn if "never awaited" in str(w.message)]


def depends(plan=None, **played):
    async def asked(lm):
        async with Client(lm.connection, lm.options) as client:
            return await logprobs_depend_on_temperature(client, capability("openai", "gpt-4o"), 20)

    with fault_server(plan, **played) as server:
        return asyncio.run(asked(chat(server)))


def shows(logits, *, scales):
    """Replies whose first token shows these logits, divided by the temperature or not."""

    def change(reply):
        temperature = temperatures.pop(0) if scales else 1.0
        scaled = {token: value / temperature for token, value in logits.items() if value > -99}
        total = math.log(sum(map(math.exp, scaled.values())))
        told = {token: scaled[token] - total if token in scaled else -9999.0 for token in logits}
        top = [{"token": token, "logprob": v, "bytes": None} for token, v in told.items()]
        entry = {**top[0], "top_logprobs": top}
        for each in reply["choices"]:
            each["logprobs"] = {"content": [entry]}
        return reply

    temperatures = [0.5, 1.5]
    return Fault("shows", change=change)


@pytest.mark.parametrize(
    ("logits", "scales", "expected"),
    [
        ({"a": -0.1, "b": -0.15, "c": -3.0}, True, True),  # the first two lie too near to tell
        ({"a": -0.1, "b": -0.15, "c": -3.0}, False, False),
        ({"a": -0.1, "b": -9999.0, "c": -3.0}, True, True),  # a token that is not told
        ({"a": -0.1, "b": -0.15}, True, None),
    ],
)
def test_the_widest_pair_of_tokens_tells_whether_log_probabilities_depend(logits, scales, expected):
    assert depends(shows(logits, scales=scales)) is expected


def test_an_api_that_is_down_says_nothing_of_its_log_probabilities(monkeypatch):
    monkeypatch.setattr("tcb_bench.models.chat_probe.random.uniform", lambda low, high: 0.01)
    with pytest.raises(ApiFault, match="HTTP 503"):
        depends(server_error(503))


def test_what_a_user_adds_to_every_request_is_in_the_probes_too():
    with fault_server(answer=varied) as server:
        lm = chat(server, "compatible/m", 'extra_body={"reasoning_effort":"low"}')
        ask(lm, ["a"], stability_at="all", temperature=0.7)
        assert all(arrival.body["reasoning_effort"] == "low" for arrival in server.chats)


def test_whether_log_probabilities_depend_is_not_known_where_the_api_says_nothing():
    assert depends(bodies.no_logprobs()) is None
    assert depends(refusals.logprobs_unsupported()) is None
    assert depends(ignores_temperature=True) is False
