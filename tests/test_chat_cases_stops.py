"""Case 11, and what ends a run: 5xx, resets, keys, servers that are gone. Oracle: means by hand."""

import statistics
import time

import fault_bodies as bodies
import fault_status as status
import pytest
from chat_runs import ask, block, chat, rows, run_api, samples
from fault_plan import Rule, one_of
from fault_replies import answer
from fault_server import fault_server

from tcb_bench.errors import ModelError
from tcb_bench.models import chat_traffic
from tcb_bench.responses import Failure, Generation

ONE = {"options": {"where": {"temperature": ["0.6"]}}}
PROMPTS = [f"Question {i}" for i in range(30)]


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(chat_traffic, "FIRST_BACKOFF_S", 0.05)


def test_case_11_what_never_heals_is_an_error_and_no_zero(tmp_path):
    def half_right(body, index):
        return "a stone" if index == 0 else "a cloud"  # gold is "stone": acc 1, 0, 0

    plan = Rule(status.server_error(503), content="second")
    with fault_server(plan, answer=half_right) as server:
        outcome = run_api(server, tmp_path, "rivers", **ONE, max_retries=2)
        assert server.faults["server_error"] == 3  # one request for three repeats, thrice
        assert outcome.exit_code == 3 and outcome.n_errors == 3
        own = block(outcome, "rivers")
        assert (own["counts"]["error"], own["counts"]["scored"]) == (3, 6)
        metric = own["conditions"]["temperature=0.6"]["metrics"]["acc"]
        by_hand = [row["acc"] for row in rows(outcome) if row["acc"] is not None]
        assert by_hand == [1.0, 0.0, 0.0] * 2
        assert metric["value"] == pytest.approx(statistics.fmean(by_hand)) == pytest.approx(1 / 3)
        assert metric["n"] == 2 and outcome.result["results"]["rivers"]["acc,none"] == metric["value"]  # fmt: skip
        lost = samples(outcome)["temperature=0.6", "1"]
        assert lost["acc"] is None and {row["acc"] for row in lost["rows"]} == {None}
        assert "3 attempts failed, the last with HTTP 503" in lost["rows"][0]["reason"]
        before = len(server.chats)
        left = run_api(server, tmp_path, "rivers", **ONE, retry_on_error=False)
        assert len(server.chats) == before and left.exit_code == 3
        assert block(left, "rivers")["counts"]["error"] == 3
        server.plan = None
        healed = run_api(server, tmp_path, "rivers", **ONE)
    assert len(server.chats) == before + 1 and healed.exit_code == 0
    assert block(healed, "rivers")["counts"]["scored"] == 9


def test_case_11_five_percent_that_never_heal():
    prompts = [f"Question {i}" for i in range(300)]
    with fault_server(Rule(status.server_error(500), share=0.05, seed=4)) as server:
        lm = chat(server, max_retries=1)
        found = ask(lm, prompts)
        lost = {a.text for a in server.chats if a.fault}
    assert 3 <= len(lost) <= 35 and lm.stopped is None
    for prompt, response in zip(prompts, found, strict=True):
        assert isinstance(response, Failure if prompt in lost else Generation)
        if prompt in lost:
            assert response.state == "error" and "HTTP 500" in response.reason
        else:
            body = {"model": "gpt-4o", "messages": [{"role": "user", "content": prompt}]}
            assert response.text == answer({**body, "temperature": 0.0})


HEALING = [
    *(status.server_error(number) for number in (500, 502, 503, 529)),
    *(status.request_timeout(), status.conflict()),
    *(
        bodies.cut_body(),
        bodies.closed(),
        bodies.reset(),
        bodies.invalid_json(),
        bodies.html_page(),
    ),
    *(bodies.error_in_body(), bodies.no_choices(), bodies.error_in_choice()),
]


@pytest.mark.parametrize("fault", HEALING, ids=lambda fault: fault.name)
def test_what_heals_is_healed(fault):
    with fault_server(Rule(fault, first=1)) as server:
        lm = chat(server, max_retries=2)
        found = ask(lm, PROMPTS[:3])
        assert len(server.chats) == 6 and sum(lm.traffic.faults.values()) == 3
    for prompt, response in zip(PROMPTS, found, strict=False):
        body = {"model": "gpt-4o", "messages": [{"role": "user", "content": prompt}]}
        assert response.text == answer({**body, "temperature": 0.0})
    kinds = set(lm.traffic.faults)
    assert kinds <= {"500", "502", "503", "529", "408", "409", "connection", "bad reply"}


def test_random_faults_at_a_third_of_all_attempts_lose_nothing():
    plan = Rule(one_of(*HEALING, status.rate_limited(0.05)), probability=0.3)
    prompts = [f"Question {i}" for i in range(200)]
    with fault_server(plan) as server:
        found = ask(chat(server, max_retries=12), prompts)
        assert sum(server.faults.values()) > 30
    texts = [each.text for each in found]
    bodies_ = ({"model": "gpt-4o", "messages": [{"role": "user", "content": p}]} for p in prompts)
    assert texts == [answer({**body, "temperature": 0.0}) for body in bodies_]


@pytest.mark.parametrize(
    ("fault", "words"),
    [(status.invalid_key(), "HTTP 401: Incorrect API key provided: ***."), (status.forbidden(), "HTTP 403: Project does not have"),
     (status.model_not_found(), "HTTP 404: The model `gpt-4o` does not exist")],
    ids=["401", "403", "404"],
)  # fmt: skip
def test_what_no_request_can_mend_ends_the_run_at_once_in_one_line(fault, words, tmp_path):
    with fault_server(fault) as server:
        begun = time.monotonic()
        with pytest.raises(ModelError) as caught:
            run_api(server, tmp_path, "rivers")
        assert (
            time.monotonic() - begun < 8 and server.arrivals <= 5
        )  # the limiter's first width, and a last one
    assert str(caught.value).startswith("openai/gpt-4o: ") and words in str(caught.value)
    assert "\n" not in str(caught.value) and caught.value.exit_code == 1


def test_an_error_in_the_middle_keeps_what_is_there(tmp_path):
    with fault_server(Rule(status.forbidden(), after=6)) as server:
        with pytest.raises(ModelError, match="403"):
            run_api(server, tmp_path, "rivers", max_connections=1)
        server.plan = None
        run_api(server, tmp_path, "rivers")
        asked = [a.key for a in server.chats if a.status == 200]
    assert len(server.chats) == 15 + 1 and len(asked) == 15


@pytest.mark.parametrize("model", ["openai/gpt-4o", "compatible/m"])
def test_a_server_that_is_not_there(model, tmp_path, monkeypatch):
    from tcb_bench.models import chat_probe

    monkeypatch.setattr(chat_probe, "TRIES", 2)
    lines, url = [], "http://127.0.0.1:9/v1"  # port 9 (discard): nobody listens
    begun = time.monotonic()
    if model == "compatible/m":  # asked already while it is probed
        with pytest.raises(
            ModelError, match="compatible/m: connection lost .*Cannot connect"
        ) as caught:
            run_api(url, tmp_path, "rivers", model)
        assert "\n" not in str(caught.value)
    else:
        outcome = run_api(url, tmp_path, "rivers", model, lines=lines, max_retries=1)
        assert outcome.exit_code == 3 and outcome.n_errors == 27
        assert "failed attempts: " in "\n".join(lines) and "connection" in "\n".join(lines)
    assert time.monotonic() - begun < 15


def test_a_server_that_dies_in_the_middle_and_comes_back(tmp_path):
    with fault_server(delay_s=0.05) as server:

        def dies(arrival):
            if arrival.number == 7:
                server._loop.call_soon(server._end.set)

        server.plan = dies
        outcome = run_api(server, tmp_path, "rivers", max_retries=1, max_connections=2)
        port, kept = int(server.url.split(":")[2][:-3]), block(outcome, "rivers")["counts"]["scored"]  # fmt: skip
    assert outcome.exit_code == 3 and 0 < kept < 27
    from fault_app import FaultApp
    from fault_replies import Played
    from fault_server import FaultServer

    second = FaultServer(FaultApp(None, Played(), {}), port)
    second.start()
    try:
        healed = run_api(second, tmp_path, "rivers")
        assert sum(a.body.get("n", 1) for a in second.chats) == 27 - kept
    finally:
        second.stop()
    assert healed.exit_code == 0 and block(healed, "rivers")["counts"]["scored"] == 27
