"""Cases 9, 10 and 12: rate limits, quota, hangs. Oracle: the fault server's clock and counts."""

import _thread
import threading
import time

import fault_bodies as bodies
import pytest
from chat_runs import ask, block, chat, rows, run_api, samples
from fault_limit import RateLimit
from fault_plan import Rule
from fault_server import fault_server
from fault_status import insufficient_balance, insufficient_quota, rate_limited

from tcb_bench.models.chat_limiter import Limiter
from tcb_bench.responses import Generation

PROMPTS = [f"Question {i}" for i in range(60)]


@pytest.fixture
def widths(monkeypatch):
    """The limiter's width after each success and each cut."""
    found = []
    for name in ("succeeded", "slow_down"):
        original = getattr(Limiter, name)

        def noted(self, *args, original=original):
            result = original(self, *args)
            found.append(self.width)
            return result

        monkeypatch.setattr(Limiter, name, noted)
    return found


@pytest.mark.parametrize("style", ["seconds", "ms", "none"])
def test_case_9_a_strict_limiter_is_obeyed_and_all_are_answered(style, widths):
    limit = RateLimit(per_second=60, burst=10, penalty_s=0.6, style=style, grace_s=0.3)
    with fault_server(limit) as server:
        lm = chat(server, max_retries=0)
        found = ask(lm, PROMPTS)
    assert all(isinstance(each, Generation) for each in found)
    assert limit.admitted == 60 and lm.traffic.faults.keys() == {"429"}
    assert 1 <= limit.refused <= limit.admitted
    if style != "none":  # else nobody can know when a penalty ends
        assert limit.early <= 0.1 * limit.refused
    lowest = min(widths)
    assert lowest < max(widths[: widths.index(lowest)])  # it fell, and then grew again
    assert max(widths[widths.index(lowest) :]) > lowest


def test_case_9_a_date_is_waited_for(widths):
    with fault_server(Rule(rate_limited(1.2, "date"), until=4)) as server:
        lm = chat(server, max_retries=0, max_connections=4)
        found = ask(lm, PROMPTS[:12])
        first = [a for a in server.chats if a.status == 200][0].at_s
        refused = server.chats[0].at_s
    assert all(isinstance(each, Generation) for each in found)
    assert 1.0 <= first - refused <= 4
    assert lm.traffic.faults["429"] == 4


def test_case_9_while_the_gate_is_closed_nobody_comes_back_early():
    with fault_server(Rule(rate_limited(0.8), until=1)) as server:
        lm = chat(server, max_connections=8, max_retries=0)
        ask(lm, PROMPTS[:30])
        refused = server.chats[0].at_s
        early = [a for a in server.chats if refused + 0.15 < a.at_s < refused + 0.75]
    assert early == []


def test_the_number_on_the_way_is_never_more_than_was_allowed_and_starts_are_spaced():
    with fault_server(delay_s=0.02) as server:
        ask(chat(server, max_connections=5), PROMPTS)
        assert 3 <= server.peak_in_flight <= 5
        server.reset()
        begun = time.monotonic()
        ask(chat(server, requests_per_minute=1200), PROMPTS[:12])
        assert time.monotonic() - begun >= 11 * 0.05
        starts = [a.at_s for a in server.chats]
    assert max(starts) - min(starts) >= 11 * 0.05 - 0.03


@pytest.mark.parametrize("fault", [insufficient_quota(), insufficient_balance()])
def test_case_10_no_money_stops_within_seconds_and_the_same_command_continues(fault, tmp_path):
    lines = []
    with fault_server(Rule(fault, after=8)) as server:
        begun = time.monotonic()
        outcome = run_api(server, tmp_path, "rivers", lines=lines, max_connections=4)
        assert time.monotonic() - begun < 8  # no pause for what a pause does not heal
        assert outcome.exit_code == 3
        counts = block(outcome, "rivers")["counts"]
        answered = sum(a.body.get("n", 1) for a in server.chats if a.status == 200)
        assert (counts["scored"], counts["error"]) == (answered, 27 - answered)
        assert server.faults[fault.name] <= 4 + 1
        kept = {row["key"] for row in rows(outcome) if row["state"] == "scored"}
        [stopped] = [line for line in lines if line.startswith("stopped: ")]
        assert "the same command continues" in stopped and "HTTP 4" in stopped
        server.plan = None
        before = len(server.chats)
        again = run_api(server, tmp_path, "rivers", max_connections=4)
        asked = server.chats[before:]
    assert again.exit_code == 0 and block(again, "rivers")["counts"]["scored"] == 27
    assert sum(a.body.get("n", 1) for a in asked) == 27 - len(kept)
    ids = {row["key"]: row["call"]["id"] for row in rows(outcome) if row["key"] in kept}
    assert ids.items() <= {row["key"]: row["call"]["id"] for row in rows(again)}.items()
    assert again.result["tcb_bench"]["model"]["spent"]["requests"] == 15


def test_case_10_a_quota_from_the_first_request_on(tmp_path):
    with fault_server(insufficient_quota()) as server:
        outcome = run_api(server, tmp_path, "sums,rivers")
        assert outcome.exit_code == 3 and server.arrivals <= 12
    assert {row["state"] for row in rows(outcome)} == {"error"}
    assert {row["acc"] for row in rows(outcome)} == {None}


def test_case_12_a_hang_is_a_timeout_is_asked_again_and_then_an_error(tmp_path):
    plan = [Rule(bodies.hangs(), content="second"), Rule(bodies.hangs(), content="third", first=1)]
    with fault_server(plan) as server:
        where = {"where": {"temperature": ["0.6"]}}
        begun = time.monotonic()
        outcome = run_api(server, tmp_path, "rivers", args="read_timeout=0.4", max_retries=1, options=where)  # fmt: skip
        assert time.monotonic() - begun < 15
        attempts = [a.text for a in server.chats]
    found = samples(outcome)
    assert [row["state"] for row in found["temperature=0.6", "1"]["rows"]] == ["error"] * 3
    assert [row["state"] for row in found["temperature=0.6", "2"]["rows"]] == ["scored"] * 3
    reason = found["temperature=0.6", "1"]["rows"][0]["reason"]
    assert reason == "2 attempts failed, the last with no reply within 0.4 s"
    assert attempts.count("Name the second river.") == 2 == attempts.count("Name the third river.")
    assert outcome.exit_code == 3
    assert outcome.result["tcb_bench"]["model"]["failed_attempts"] == {"timeout": 3}


def test_a_limit_of_tokens_stops_a_run_that_a_higher_one_continues(tmp_path):
    with fault_server() as server:
        outcome = run_api(server, tmp_path, "rivers", token_limit=500)
        first = outcome.result["tcb_bench"]["model"]
        assert outcome.exit_code == 3 and first["stopped"].startswith("--token_limit 500")
        spent = first["spent"]
        assert spent["prompt_tokens"] + spent["completion_tokens"] <= 500
        same = run_api(server, tmp_path, "rivers", token_limit=500)
        again = same.result["tcb_bench"]["model"]["spent"]
        assert again["prompt_tokens"] + again["completion_tokens"] <= 500  # of the folder in all
        full = run_api(server, tmp_path, "rivers", token_limit=5000)
    assert full.exit_code == 0 and block(full, "rivers")["counts"]["scored"] == 27
    usage = block(full, "rivers")["usage"]
    total = full.result["tcb_bench"]["model"]["spent"]
    assert {name: total[name] for name in usage} == usage


def test_waiting_for_a_place_ends_with_the_run(tmp_path):
    """Ctrl-C while the gate is closed for an hour: the run ends at once, what is there is kept."""

    def press():
        while not server.faults["rate_limited"]:
            time.sleep(0.05)
        time.sleep(0.3)
        pressed.append(time.monotonic())
        _thread.interrupt_main()

    pressed = []
    with fault_server(Rule(rate_limited(3000), after=5)) as server:
        thread = threading.Thread(target=press)
        thread.start()
        with pytest.raises(KeyboardInterrupt):
            run_api(server, tmp_path, "rivers")
        thread.join()
        assert time.monotonic() - pressed[0] < 3
        server.plan = None
        before = len(server.chats)
        outcome = run_api(server, tmp_path, "rivers")
        assert len(server.chats) - before == 10 and outcome.exit_code == 0
