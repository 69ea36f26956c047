"""Which request gets which fault, what is counted and recorded, and the server as a process.

Oracles: the conditions as written in each test; the binomial distribution; psutil for processes.
"""

import asyncio
import contextlib
import json
import random
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import aiohttp
import fault_bodies as bodies
import fault_refusals as refusals
import fault_status as status
import openai
import psutil
import pytest
import requests
from fault_plan import CHAT, Rule, draw, one_of
from fault_replies import answer
from fault_server import fault_process, fault_server

get, post = partial(requests.get, timeout=5), partial(requests.post, timeout=5)


def body(number=0, **fields):
    messages = [{"role": "user", "content": f"question {number}"}]
    return {"model": "gpt-4o", "messages": messages, **fields}


def ask(server, number=0, **fields):
    """Status of the reply."""
    return post(f"{server.url}/chat/completions", json=body(number, **fields)).status_code


def test_the_first_attempts_of_each_request_fail_and_reset_forgets_them():
    with fault_server(Rule(status.server_error(), first=2)) as server:
        codes = [ask(server, number) for number in (1, 2, 1, 2, 1, 2)]
        assert codes == [500, 500, 500, 500, 200, 200]
        assert [arrival.attempt for arrival in server.requests] == [1, 1, 2, 2, 3, 3]
        server.reset()
        assert server.requests == []
        assert (server.arrivals, server.replies, dict(server.faults)) == (0, 0, {})
        assert ask(server, 1) == 500


CONDITIONS = [
    ({"model": "o3"}, [{"model": "o3"}, {"model": "o3-mini"}]),
    ({"temperature": 0.2}, [{"temperature": 0.2}, {"temperature": 0.4}]),
    ({"content": "question 1"}, [{"number": 1}, {"number": 2}]),
    ({"until": 1}, [{}, {}]),
    ({"when": lambda arrival: "seed" in arrival.fields}, [{"seed": 1}, {}]),
]


@pytest.mark.parametrize(("conditions", "requests"), CONDITIONS, ids=[*"abcde"])
def test_a_rule_applies_where_its_condition_holds(conditions, requests):
    with fault_server([Rule(status.conflict(), **conditions)]) as server:
        assert [ask(server, **request) for request in requests] == [409, 200]


def test_a_rule_can_begin_late_and_the_first_that_applies_decides():
    plan = [Rule(status.insufficient_quota(), after=2), Rule(status.server_error(503))]
    with fault_server(plan) as server:
        assert [ask(server) for _ in range(4)] == [503, 503, 429, 429]
        assert dict(server.faults) == {"server_error": 2, "insufficient_quota": 2}


def test_other_paths_are_spared_unless_the_rule_names_them():
    with fault_server(status.server_error()) as server:
        assert get(f"{server.url}/models").status_code == 200
        server.plan = Rule(status.server_error(), path="/v1/models")
        assert (get(f"{server.url}/models").status_code, ask(server)) == (500, 200)
        server.plan = Rule(status.server_error(), path=None)
        assert (get(f"{server.url}/models").status_code, ask(server)) == (500, 500)
        assert get(f"{server.url}/nothing").status_code == 500


def test_draws_do_not_depend_on_the_order_of_requests():
    plan = Rule(status.server_error(), probability=0.3, seed=5)

    def outcome(order):
        with fault_server(plan) as server:
            for number in order:
                ask(server, number)
            return {arrival.text: arrival.fault for arrival in server.requests}

    order = list(range(60))
    first = outcome(order)
    random.Random(1).shuffle(order)
    assert outcome(order) == first
    assert len(set(first.values())) == 2


def test_draws_are_uniform_and_change_with_the_seed():
    drawn = [draw(1, "name", str(i), 1) for i in range(10_000)]
    hits = sum(x < 0.3 for x in drawn)
    assert abs(hits - 3000) < 4 * (10_000 * 0.3 * 0.7) ** 0.5  # four standard deviations
    assert 0 <= min(drawn) and max(drawn) < 1
    assert drawn != [draw(2, "name", str(i), 1) for i in range(10_000)]


def test_a_share_of_requests_never_heals_and_a_probability_does():
    with fault_server(Rule(status.server_error(), share=0.3)) as server:
        codes = [{ask(server, number) for _ in range(4)} for number in range(40)]
        assert all(len(one) == 1 for one in codes)
        assert 3 <= codes.count({500}) <= 22  # 12 expected
        server.plan = Rule(status.server_error(), probability=0.5)
        server.reset()
        assert {ask(server) for _ in range(30)} == {200, 500}


def test_a_request_is_recorded_as_it_was_sent():
    with fault_server() as server:
        client = openai.OpenAI(base_url=server.url, api_key="sk-1", max_retries=0)
        sent = {**body(model="gpt-3.5-turbo"), "temperature": 0.2}
        client.chat.completions.create(**sent)
        client.models.list()
        (chat, models) = server.requests
        assert chat.fields == ["messages", "model", "temperature"]
        assert (chat.body, chat.path, chat.method) == (sent, CHAT, "POST")
        assert (chat.headers["authorization"], chat.status, chat.fault) == ("Bearer sk-1", 200, "")
        assert (models.path, models.body) == ("/v1/models", {})
        assert [arrival.number for arrival in server.chats] == [1]


def test_the_most_requests_in_flight_are_counted_and_connections_too():
    with fault_server(delay_s=0.2) as server:
        with ThreadPoolExecutor(5) as pool:
            assert list(pool.map(lambda i: ask(server, i), range(5))) == [200] * 5
        assert (server.peak_in_flight, server.replies, server.opened) == (5, 5, 5)


def test_one_connection_is_kept_for_many_requests():
    with fault_server() as server, requests.Session() as client:
        for number in range(5):
            client.post(f"{server.url}/chat/completions", json=body(number))
        assert (server.opened, server.connections) == (1, 1)
        (connection,) = server.state.connections
        wire = connection.transport.get_extra_info("socket")
        assert wire.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)  # else 40 ms a reply


def test_aiohttp_sees_the_wire_faults_as_its_own_errors():
    async def fails():
        async with aiohttp.ClientSession() as session:
            async with session.post(f"{server.url}/chat/completions", json=body()) as reply:
                await reply.json()

    kinds = {
        bodies.closed(): aiohttp.ServerDisconnectedError,
        bodies.reset(): aiohttp.ClientOSError,
        bodies.cut_body(): aiohttp.ClientPayloadError,
        bodies.html_page(): aiohttp.ContentTypeError,
    }
    for fault, kind in kinds.items():
        with fault_server(fault) as server, pytest.raises(kind):
            asyncio.run(fails())


HEALING = (
    *(bodies.closed(), bodies.reset(), bodies.cut_body(), bodies.invalid_json()),
    *(bodies.error_in_body(), bodies.no_choices(), bodies.trickle(0.05), status.rate_limited()),
    *(status.server_error(500), status.server_error(502), status.server_error(529)),
)


def test_with_faults_at_random_each_request_gets_its_text_at_the_fourth_attempt():
    async def text_of(session, url, number):
        for _ in range(4):
            with contextlib.suppress(aiohttp.ClientError, ValueError, LookupError):
                async with session.post(url, json=body(number)) as reply:
                    return (await reply.json())["choices"][0]["message"]["content"]
        return None

    async def texts(url):
        async with aiohttp.ClientSession() as session:
            return await asyncio.gather(*(text_of(session, url, i) for i in range(200)))

    plan = Rule(one_of(*HEALING, seed=3), probability=0.5, first=3, seed=3)
    with fault_server(plan) as server:
        got = asyncio.run(texts(f"{server.url}/chat/completions"))
        assert got == [answer(body(number)) for number in range(200)]
        assert set(server.faults) == {fault.name for fault in HEALING}
        assert max(arrival.attempt for arrival in server.requests) == 4
        assert server.replies == 200


def test_a_bug_in_a_plan_is_no_fault_of_the_client():
    def broken(arrival):
        return arrival.no_such_field

    with pytest.raises(RuntimeError, match="fault server itself failed: AttributeError"):
        with fault_server(broken) as server:
            assert ask(server) == 500
    with pytest.raises(ValueError, match="openai or deepseek"):
        with fault_server(style="gemini"):
            pass


def test_a_server_in_its_own_process_takes_plans_and_gives_counts():
    rule = {"fault": ["conflict", "reset"], "probability": 0.0}
    with fault_process("--plan", json.dumps([rule])) as url:
        root, chat = url.removesuffix("/v1"), f"{url}/chat/completions"
        assert post(chat, json=body()).status_code == 200
        rules = [{"fault": "server_error", "with": {"status": 503}, "first": 1}]
        rules.append({"fault": "unknown_fields", "with": {}, "model": "none"})
        post(f"{root}/_plan", json=rules)
        assert post(chat, json=body(1)).status_code == 503
        stats = get(f"{root}/_stats").json()
        assert (stats["arrivals"], stats["replies"]) == (2, 1)
        assert stats["faults"] == {"server_error": 1}
        post(f"{root}/_reset")
        assert get(f"{root}/_stats").json()["arrivals"] == 0


def test_a_server_ends_with_the_process_that_started_it():
    code = "import time\nfrom fault_server import fault_process\nwith fault_process('--instant') as url:\n    print(url, flush=True)\n    time.sleep(60)"
    here = Path(__file__).parent
    parent = subprocess.Popen(
        [sys.executable, "-c", code], cwd=here, stdout=subprocess.PIPE, text=True
    )
    with parent, requests.Session() as client:
        url = parent.stdout.readline().strip()
        (server,) = psutil.Process(parent.pid).children()
        assert client.get(f"{url}/models").status_code == 200
        parent.kill()
        psutil.wait_procs([server], timeout=5)
        assert not server.is_running()


def test_an_instant_server_is_quick_and_its_memory_is_flat():
    async def flood(url, n_each):
        async def one():
            async with aiohttp.ClientSession() as session:
                for number in range(n_each):
                    async with session.post(chat, data=sent, headers=head) as reply:
                        assert len(json.loads(await reply.read())["choices"]) == 3, number

        chat, sent = f"{url}/chat/completions", json.dumps(body(n=3)).encode()
        head = {"content-type": "application/json"}
        await asyncio.gather(*(one() for _ in range(8)))

    with fault_process("--instant") as url:
        (server,) = [p for p in psutil.Process().children() if "--instant" in p.cmdline()]
        asyncio.run(flood(url, 50))
        before, seconds = server.memory_info().rss, sum(server.cpu_times()[:2])
        asyncio.run(flood(url, 250))
        seconds = sum(server.cpu_times()[:2]) - seconds
        assert server.memory_info().rss - before < 4 * 2**20
        assert 2000 / seconds > 2000  # a second of its processor time; over 5,000 seen
        assert get(url.replace("/v1", "/_stats")).json()["replies"] == 2400
        refusal = post(url.replace("/v1", "/_plan"), json=[])
        assert refusal.status_code == 409
    assert not server.is_running()


def test_refusals_leave_requests_without_their_field_alone():
    plan = [refusals.temperature_unsupported(), refusals.unknown_fields("top_k")]
    with fault_server(plan) as server:
        sent = [{}, {"temperature": 1.0}, {"top_k": 5}, {"temperature": 0, "top_k": 5}]
        assert [ask(server, **fields) for fields in sent] == [200, 200, 400, 400]
        assert [a.fault for a in server.requests][2:] == ["unknown_fields", "temperature_unsupported"]  # fmt: skip


def test_a_slow_reply_is_left_when_the_client_is():
    with fault_server(bodies.slow(30)) as server:
        with pytest.raises(requests.Timeout):
            requests.post(f"{server.url}/chat/completions", json=body(), timeout=0.1)
        ends_s = time.monotonic() + 3
        while server.in_flight and time.monotonic() < ends_s:
            time.sleep(0.01)
        assert (server.in_flight, server.replies) == (0, 0)
