"""Cases 1-4 and 6: what is sent, and what is said of it. Oracle: the fault server's record of bodies.

The server is driven over HTTP; bodies are compared with ones written by hand, and the order of
lines for the user with the server's clock.
"""

import time
from collections import Counter

import pytest
from chat_runs import ELEVEN, ask, block, chat, rows, run_api, samples, text_request
from fault_plan import Rule
from fault_refusals import (
    logprobs_unsupported,
    max_tokens_too_large,
    max_tokens_unsupported,
    temperature_too_high,
    temperature_unsupported,
)
from fault_server import fault_server

from tcb_bench.errors import ModelError, UsageError


class Lines(list):
    """Lines for the user with the time at which they came."""

    def append(self, line):
        super().append((time.monotonic(), line))

    def saying(self, words):
        return [at for at, line in self if words in line]


def messages(prompt):
    return [{"role": "user", "content": prompt}]


@pytest.mark.parametrize("model", ["gpt-3.5-turbo", "gpt-4o", "gpt-4.1", "ft:gpt-3.5-turbo-0125:org::a5"])  # fmt: skip
def test_case_1_eleven_temperatures_arrive_as_they_were_asked(model):
    with fault_server() as server:
        lm = chat(server, f"openai/{model}", max_connections=1)
        asked = [text_request("Name a river.", temperature=t, until=["Q:", "\n\n"]) for t in ELEVEN]
        lm.generate_traced(asked)
        bodies = [arrival.body for arrival in server.chats]
    for temperature, body in zip(ELEVEN, bodies, strict=True):
        assert body == {
            "model": model,
            "messages": messages("Name a river."),
            "temperature": temperature,
            "top_p": 1.0,
            "stop": ["Q:", "\n\n"],
            "max_tokens": 60,
            **({"seed": 7} if temperature else {}),
        }


def test_case_1_a_compatible_model_with_a_5_in_its_name(tmp_path):
    with fault_server() as server:
        lm = chat(server, "compatible/qwen2.5-7b", folder=tmp_path, max_connections=1)
        server.reset()
        ask(lm, ["Name a river."], temperature=0.2, until=["Q:"])
        ask(lm, ["Name a river."], temperature=1.8, until=["Q:"])
        bodies = [arrival.body for arrival in server.chats]
    assert [body["temperature"] for body in bodies] == [0.2, 1.8]
    assert all(body["stop"] == ["Q:"] and body["model"] == "qwen2.5-7b" for body in bodies)


def test_case_2_a_model_that_the_table_knows_to_refuse_is_not_asked(tmp_path):
    lines = Lines()
    with fault_server([temperature_unsupported(), max_tokens_unsupported()]) as server:
        outcome = run_api(server, tmp_path, "rivers", "openai/o3", lines=lines)
        assert server.arrivals == 0
    assert lines.saying("unsupported: 3 of 3 conditions, not sent: openai/o3 takes no temperature")
    assert outcome.exit_code == 0
    for condition in block(outcome, "rivers")["conditions"].values():
        assert "takes no temperature but 1" in condition["unsupported"]
        assert condition["counts"]["scored"] == 0 and condition["counts"]["unscored"] == 9
        assert condition["metrics"].get("acc", {"value": None})["value"] is None


def test_case_2_a_refusal_at_run_time_costs_its_conditions_and_nothing_else(tmp_path):
    where = {"options": {"where": {"temperature": ["0.6", "1.0", "1.4"]}}, "max_connections": 2}
    with fault_server([Rule(temperature_unsupported(), model="gpt-4o")]) as server:
        outcome = run_api(server, tmp_path, "rivers", **where)
        sent = Counter(arrival.body["temperature"] for arrival in server.chats)
        other = run_api(server, tmp_path, "rivers", "openai/gpt-4.1", **where)
    assert outcome.exit_code == other.exit_code == 0
    assert sent[1.0] == 3 and 1 <= sent[0.6] <= 2 and 1 <= sent[1.4] <= 2
    conditions = block(outcome, "rivers")["conditions"]
    for name in ("temperature=0.6", "temperature=1.4"):
        assert "Only the default (1) is supported" in conditions[name]["unsupported"]
        assert conditions[name]["counts"]["unscored"] == 9
    assert "unsupported" not in conditions["temperature=1.0"]
    assert conditions["temperature=1.0"]["counts"]["scored"] == 9
    assert block(other, "rivers")["counts"]["scored"] == 27


def test_case_2_a_range_that_ends_early_is_found_by_its_refusal(tmp_path):
    with fault_server(temperature_too_high(1)) as server:
        lm = chat(server, "compatible/claude", folder=tmp_path, max_connections=1)
        found = [ask(lm, ["a", "b"], temperature=t) for t in (0.6, 1.4)]
    assert [getattr(r, "state", r.__class__.__name__) for r in found[0]] == ["Generation"] * 2
    assert [r.state for r in found[1]] == ["unsupported"] * 2
    assert lm.traffic.refusals.keys() == {("temperature", 1.4)}


def test_case_2_an_unknown_model_is_probed_before_it_is_asked(tmp_path):
    lines = Lines()
    with fault_server([temperature_unsupported(), logprobs_unsupported()]) as server:
        outcome = run_api(server, tmp_path, "rivers", "compatible/new", lines=lines)
        first = [a.body for a in server.chats]
        n = len(server.chats)
        run_api(server, tmp_path, "rivers", "compatible/new")
        assert len(server.chats) == n  # what was learned is kept beside the store
    assert all(body["messages"] != messages("Name the first river.") for body in first)
    assert outcome.exit_code == 0 and len(first) < 30
    assert lines.saying("unsupported: 3 of 3 conditions")


def test_case_3_deepseek_reasoner_is_warned_of_before_it_is_asked(tmp_path):
    lines = Lines()
    played = {"style": "deepseek", "ignores_temperature": True, "reasoning_tokens": 3}
    with fault_server(logprobs_unsupported(), **played) as server:
        outcome = run_api(server, tmp_path, "rivers,letters", "deepseek/deepseek-reasoner", lines=lines)  # fmt: skip
        first = server.chats[0].at_s
        bodies = [arrival.body for arrival in server.chats]
    [warned] = lines.saying("the temperature has no effect (accepted and ignored)")
    assert warned < first and outcome.exit_code == 0
    assert lines.saying("stopped serving this name on 2026-07-24")[0] < first
    assert not any({"logprobs", "top_logprobs", "seed", "n"} & body.keys() for body in bodies)
    assert all(body["max_tokens"] >= 8192 for body in bodies)
    conditions = block(outcome, "rivers")["conditions"]
    assert [c["temperature_effective"] for c in conditions.values()] == ["false"] * 3
    assert sorted(c["axes"]["temperature"] for c in conditions.values()) == [0.0, 0.6, 1.4]
    assert block(outcome, "rivers")["usage"]["reasoning_tokens"] == 27 * 3
    reasons = {row["reason"] for row in rows(outcome, "letters")}
    assert reasons == {
        "the API gives no log-probabilities of this model, so nothing is known of stability"
    }


@pytest.mark.parametrize("model", ["o1-2024-12-17", "gpt-5-mini"])
def test_case_3_o_series_at_their_only_temperature(model, tmp_path):
    only = {"options": {"where": {"temperature": ["1.0"]}}}
    refusals = [temperature_unsupported(), max_tokens_unsupported(), logprobs_unsupported()]
    with fault_server(refusals) as server:
        outcome = run_api(server, tmp_path, "rivers", f"openai/{model}", **only)
        fields = {tuple(arrival.fields) for arrival in server.chats}
    assert fields == {("max_completion_tokens", "messages", "model")}
    [condition] = block(outcome, "rivers")["conditions"].values()
    assert condition["temperature_effective"] == "unknown"
    assert condition["counts"]["scored"] == 9 and outcome.exit_code == 0


def test_case_4_a_remapped_temperature_is_said_and_the_one_asked_for_is_kept(tmp_path):
    lines = Lines()
    with fault_server(style="deepseek") as server:
        outcome = run_api(server, tmp_path, "rivers", "deepseek/deepseek-chat", lines=lines)
        first, sent = server.chats[0].at_s, {a.body["temperature"] for a in server.chats}
    [warned] = lines.saying("the temperature is changed by the provider (0.3 T up to 1, T - 0.7")
    assert warned < first and sent == {0.0, 0.6, 1.4}
    conditions = block(outcome, "rivers")["conditions"].values()
    assert {c["temperature_effective"] for c in conditions} == {"remapped"}
    assert sorted(c["axes"]["temperature"] for c in conditions) == [0.0, 0.6, 1.4]
    by_hand = {sample[0] for sample in samples(outcome, "rivers")}
    assert by_hand == {"temperature=0.0", "temperature=0.6", "temperature=1.4"}


@pytest.mark.parametrize(
    ("model", "field", "room"),
    [("openai/gpt-4o", "max_tokens", 60), ("openai/o3", "max_completion_tokens", 60 + 8192),
     ("openai/gpt-5.4", "max_completion_tokens", 60), ("deepseek/deepseek-chat", "max_tokens", 60),
     ("deepseek/deepseek-reasoner", "max_tokens", 60 + 8192)],
)  # fmt: skip
def test_case_6_each_model_gets_its_own_field(model, field, room):
    with fault_server() as server:
        ask(chat(server, model), ["Name a river."], temperature=1.0)
        [body] = [arrival.body for arrival in server.chats]
    assert {name: body[name] for name in body if name.startswith("max_")} == {field: room}


@pytest.mark.parametrize("field", ["max_tokens", "max_completion_tokens"])
def test_case_6_a_probed_model_gets_the_field_that_it_takes(field, tmp_path):
    plan = max_tokens_unsupported() if field == "max_completion_tokens" else None
    with fault_server(plan) as server:
        lm = chat(server, "compatible/m", folder=tmp_path)
        server.reset()
        ask(lm, ["Name a river."])
        assert field in server.chats[0].body and lm.capability.max_tokens_field == field


def test_case_6_more_than_the_model_gives_is_said_before_anything_is_sent(tmp_path):
    with fault_server() as server:
        with pytest.raises(UsageError, match="openai/gpt-4o: a reply of 16385 tokens .* lower --answer_tokens") as caught:  # fmt: skip
            run_api(server, tmp_path, "rivers", answer_tokens=16385)
        assert server.arrivals == 0
    assert "\n" not in str(caught.value) and caught.value.exit_code == 2


def test_case_6_a_range_that_only_the_server_knows_is_one_line(tmp_path):
    with fault_server(max_tokens_too_large(50)) as server:
        with pytest.raises(ModelError, match="max_tokens is too large: 60.* at most 50") as caught:
            run_api(server, tmp_path, "rivers")
    assert "\n" not in str(caught.value) and caught.value.exit_code == 1
