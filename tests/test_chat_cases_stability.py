"""Stability from an API's likeliest tokens. Oracle: formulas of science.md by hand, in this file.

The fault server's log-probabilities are computed again here (``fault_replies.distribution``), or
are those of a given table of logits.
"""

import math

import pytest
from chat_runs import ask, block, chat, choose, rows, run_api, samples
from fault_bodies import floor_logprobs, no_logprobs
from fault_plan import Fault
from fault_replies import distribution, letter, token_bytes
from fault_server import fault_server

from tcb_bench.scoring import CLOSED, CLOSED_REASON

TEXT = "So it is 3 , no : the sum is 2 in all"
TEMPERED = "the API's log-probabilities depend on the temperature, so only those at 1 are used"


def by_hand(top, own):
    """What the likeliest tokens say; ``top`` and ``own`` are log-probabilities."""
    top = sorted(top, reverse=True)
    p = [math.exp(value) for value in top]
    squares, rest = sum(x * x for x in p), max(0.0, 1 - sum(p))
    return {
        "p_top1": p[0],
        "p_top2": p[1],
        "logit_margin": top[0] - top[1],
        "top_mass": sum(p),
        "nll": -own,
        "v_eff_low": 1 / (squares + rest * min(rest, p[-1])),
        "v_eff_high": 1 / squares,
    }


def expected_of(arrival, text, position):
    """``by_hand`` for a token of the reply to a request."""
    tokens = token_bytes(text)
    body = {**arrival.body}
    ranked = distribution(body, tokens, 0, position)
    return by_hand([value for _, value in ranked[:20]], dict(ranked)[tokens[position]])


def temperature_changes(is_tempered):
    """Log-probabilities of a table of logits, divided by the temperature or as they are."""
    logits = {" 2": 3.0, " 3": 2.0, " 5": 1.0, " 7": 0.0}

    def change(reply, temperature):
        scale = temperature if is_tempered and temperature else 1.0
        total = math.log(sum(math.exp(value / scale) for value in logits.values()))
        logprobs = {token: value / scale - total for token, value in logits.items()}
        top = [{"token": t, "logprob": v, "bytes": list(t.encode())} for t, v in logprobs.items()]
        for choice in reply["choices"]:
            for entry in (choice["logprobs"] or {"content": []})["content"]:
                entry["logprob"] = logprobs.get(entry["token"], -3.0)
                entry["top_logprobs"] = top
        return reply

    def plan(arrival):
        temperature = arrival.body.get("temperature", 1.0)
        return Fault("logits", change=lambda reply: change(reply, temperature))

    return plan


@pytest.mark.parametrize("rule", ["final_number", "first", "last"])
def test_quantities_at_the_critical_token_are_those_computed_by_hand(rule):
    position = {"final_number": 10, "first": 0, "last": 12}[rule]
    assert token_bytes(TEXT)[10] == b" 2"
    with fault_server(answer=lambda body, index: TEXT) as server:
        [found] = ask(chat(server), ["1 + 1?"], temperature=1.0, stability_at=rule)
        [arrival] = server.chats
    assert (arrival.body["logprobs"], arrival.body["top_logprobs"]) == (True, 20)
    assert found.positions == [position]
    own = {name: values[0] for name, values in found.stability.items()}
    assert own == pytest.approx(expected_of(arrival, TEXT, position), rel=1e-9)


def test_a_trace_has_every_token(tmp_path):
    with fault_server(answer=lambda body, index: TEXT) as server:
        [found] = ask(chat(server), ["1 + 1?"], temperature=1.0, stability_at="all")
        [arrival] = server.chats
    for position in range(len(token_bytes(TEXT))):
        own = {name: values[position] for name, values in found.stability.items()}
        assert own == pytest.approx(expected_of(arrival, TEXT, position), rel=1e-9)


def test_a_run_has_what_can_be_known_and_says_why_the_rest_is_null(tmp_path):
    options = {"options": {"gen_kwargs": {"temperature": 1.0}}}
    with fault_server(answer=lambda body, index: TEXT) as server:
        outcome = run_api(server, tmp_path, "sums", **options)
        arrivals = {arrival.text: arrival for arrival in server.chats}
    for sample in samples(outcome).values():
        [row] = sample["rows"]
        own = row["stability"]
        expected = expected_of(arrivals[sample["doc"]["q"]], TEXT, 10)
        assert {name: own[name] for name in expected} == pytest.approx(expected, rel=1e-6)
        assert own["critical_token"] == 10 and row["answer"] == "2"
        assert all(own[name] is None for name in CLOSED) and row["reason"] == CLOSED_REASON
        assert row["acc"] == float(sample["target"] == "2")
    metrics = block(outcome, "sums")["conditions"][""]["metrics"]
    values = sorted(row["stability"]["logit_margin"] for row in rows(outcome))
    assert metrics["logit_margin_median"]["value"] == pytest.approx((values[1] + values[2]) / 2)
    assert metrics.get("delta_tcb_median", {"value": None})["value"] is None


def test_letters_are_the_likeliest_first_token_with_spaces_left_out(tmp_path):
    with fault_server(answer=letter) as server:
        outcome = run_api(server, tmp_path, "letters")
        arrivals = {arrival.text: arrival for arrival in server.chats}
    for sample in samples(outcome).values():
        [row] = sample["rows"]
        arrival = arrivals[sample["doc"]["q"]]
        assert arrival.body["max_tokens"] == 1 and arrival.body["temperature"] == 1.0
        text = letter(arrival.body)
        ranked = dict(distribution(arrival.body, [text.encode()], 0, 0)[:20])
        shown = [ranked[each.encode()] for each in "ABCD"]
        assert row["choice_logprobs"] == pytest.approx(shown, abs=1e-5)
        best = max(range(4), key=shown.__getitem__)
        assert (row["answer"], row["acc"]) == ("ABCD"[best], float(best == sample["target"]))
        expected = by_hand(ranked.values(), max(ranked.values()))
        expected["answer_mass"] = sum(map(math.exp, shown))
        first, second = sorted(shown, reverse=True)[:2]
        expected["choice_margin"] = first - second
        own = {name: row["stability"][name] for name in expected}
        assert own == pytest.approx(expected, rel=1e-5)
        assert row["stability"]["delta_tcb"] is None and row["reason"] == CLOSED_REASON


def test_a_letter_shown_with_and_without_a_space_counts_once_with_both():
    def change(reply):
        top = [(" B", 0.4), ("A", 0.25), ("B", 0.2), ("C", 0.1)]
        entries = [{"token": t, "logprob": math.log(p), "bytes": None} for t, p in top]
        reply["choices"][0]["logprobs"] = {"content": [{**entries[0], "top_logprobs": entries}]}
        return reply

    with fault_server(Fault("both", change=change)) as server:
        [found] = choose(chat(server), ["Which?"])
    assert found.choice_logprobs[:3] == pytest.approx([math.log(v) for v in (0.25, 0.6, 0.1)])
    assert found.choice_logprobs[3] is None
    assert found.stability["choice_margin"] == pytest.approx(math.log(0.6 / 0.25))


@pytest.mark.parametrize("temperature", [0.0, 0.6, 1.4])
def test_log_probabilities_that_depend_on_the_temperature_are_found_and_not_used(temperature):
    with fault_server(temperature_changes(True), answer=lambda body, index: "It is 2") as server:
        lm = chat(server)
        [found] = ask(lm, ["1 + 1?"], temperature=temperature, stability_at="final_number")
        [at_one] = ask(lm, ["1 + 1?"], temperature=1.0, stability_at="final_number")
        sent = [a.body["temperature"] for a in server.chats]
    assert lm.learned["logprobs_depend_on_temperature"] is True
    assert (found.stability, found.without) == ({}, TEMPERED) and found.text == "It is 2"
    assert at_one.stability["logit_margin"] == pytest.approx([1.0])
    assert sent == [0.5, 1.5, temperature, 1.0]  # the two of the check, once


@pytest.mark.parametrize("temperature", [0.0, 0.6, 1.4])
def test_log_probabilities_that_do_not_are_used_at_every_temperature(temperature):
    with fault_server(temperature_changes(False), answer=lambda body, index: "It is 2") as server:
        lm = chat(server)
        [found] = ask(lm, ["1 + 1?"], temperature=temperature, stability_at="final_number")
    assert lm.learned["logprobs_depend_on_temperature"] is False
    assert found.stability["logit_margin"] == pytest.approx([1.0]) and found.without == ""


def test_a_token_beyond_the_shown_ones_has_no_nll_and_the_rest(tmp_path):
    options = {"options": {"gen_kwargs": {"temperature": 1.0}}}
    with fault_server(floor_logprobs(), answer=lambda body, index: TEXT) as server:
        outcome = run_api(server, tmp_path, "sums", **options)
    for row in rows(outcome):
        assert row["stability"]["nll"] is None and 0 < row["stability"]["p_top1"] < 1
        assert row["reason"].startswith("not finite: nll; ")
    metrics = block(outcome, "sums")["conditions"][""]["metrics"]
    assert metrics.get("nll_mean", {"value": None})["value"] is None


@pytest.mark.parametrize("task", ["sums", "letters"])
def test_an_api_that_shows_none_after_all_gives_answers_without_stability(task, tmp_path):
    words = {"sums": lambda body, index: TEXT, "letters": letter}
    with fault_server(no_logprobs(), answer=words[task]) as server:
        outcome = run_api(server, tmp_path, task)
    assert block(outcome, task)["counts"]["scored"] == 4 and outcome.exit_code == 0
    for row in rows(outcome):
        assert not any(v is not None for v in row["stability"].values()) and row["answer"]
        assert row["reason"]


def test_none_are_asked_for_where_the_user_wants_none():
    with fault_server() as server:
        lm = chat(server, top_logprobs=0)
        [found] = ask(lm, ["1 + 1?"], stability_at="final_number")
        choose(lm, ["Which?"])
        assert not any("logprobs" in a.body for a in server.chats)
        assert found.without and server.chats[1].body["max_tokens"] == 64
        few = chat(server, top_logprobs=5)
        ask(few, ["1 + 1?"], temperature=1.0, stability_at="first")
    assert server.chats[-1].body["top_logprobs"] == 5
