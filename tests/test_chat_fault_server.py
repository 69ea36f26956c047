"""The fault server: what is on the wire is what was asked for.

Oracles: a plain socket and RFC 9110 for the wire; the classes that the official SDK maps statuses
to; email.utils for dates; the binomial distribution for probabilities.
"""

import email.utils
import json
import socket
import time
from concurrent.futures import ThreadPoolExecutor

import fault_bodies as bodies
import fault_refusals as refusals
import fault_status as status
import openai
import pytest
import requests
from fault_limit import RateLimit
from fault_plan import Rule, one_of
from fault_replies import answer
from fault_server import fault_server

BODY = {"model": "gpt-4o", "messages": [{"role": "user", "content": "Name a river."}]}
KEY = "sk-canary-7f3a"


def post(server, **fields):
    return requests.post(f"{server.url}/chat/completions", json={**BODY, **fields}, timeout=5)


def sdk(server):
    return openai.OpenAI(base_url=server.url, api_key=KEY, max_retries=0, timeout=5)


def raw_reply(server, timeout_s=2.0):
    """All bytes that the server sends for BODY until it closes the connection."""
    body = json.dumps(BODY).encode()
    head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: {len(body)}\r\n\r\n"
    with socket.create_connection(("127.0.0.1", int(server.url.split(":")[2][:-3]))) as wire:
        wire.settimeout(timeout_s)
        wire.sendall(head.encode() + body)
        parts = []
        while part := wire.recv(65536):
            parts.append(part)
    return b"".join(parts)


STATUSES = [  # fault, fields that bring it about, the SDK's class, status, code, param
    (refusals.temperature_unsupported(), {"temperature": 0.2}, openai.BadRequestError, 400, "unsupported_value", "temperature"),
    (refusals.temperature_too_high(1.5), {"temperature": 1.8}, openai.BadRequestError, 400, "decimal_above_max_value", "temperature"),
    (refusals.max_tokens_unsupported(), {"max_tokens": 9}, openai.BadRequestError, 400, "unsupported_parameter", "max_tokens"),
    (refusals.max_tokens_too_large(64), {"max_completion_tokens": 65}, openai.BadRequestError, 400, "invalid_value", "max_tokens"),
    (refusals.logprobs_unsupported(), {"logprobs": True}, openai.BadRequestError, 400, "unsupported_parameter", "logprobs"),
    (refusals.stop_too_many(4), {"stop": list("abcde")}, openai.BadRequestError, 400, "array_above_max_length", "stop"),
    (refusals.stop_too_many(0), {"stop": "a"}, openai.BadRequestError, 400, "unsupported_parameter", "stop"),
    (refusals.too_many_choices(1), {"n": 3}, openai.BadRequestError, 400, "unsupported_value", "n"),
    (refusals.unknown_fields("top_k", "min_p"), {"extra_body": {"min_p": 0.1}}, openai.BadRequestError, 400, "unknown_parameter", "min_p"),
    (refusals.system_role_unsupported(), {"messages": [{"role": "system", "content": "Be brief."}]}, openai.BadRequestError, 400, "unsupported_value", "messages[0].role"),
]  # fmt: skip
ALWAYS = [
    (refusals.context_length_exceeded(), openai.BadRequestError, 400, "context_length_exceeded"),
    (refusals.content_policy(), openai.BadRequestError, 400, "content_policy_violation"),
    (status.invalid_key(), openai.AuthenticationError, 401, "invalid_api_key"),
    (status.insufficient_balance(), openai.APIStatusError, 402, "invalid_request_error"),
    (status.forbidden(), openai.PermissionDeniedError, 403, "model_not_allowed"),
    (status.model_not_found(), openai.NotFoundError, 404, "model_not_found"),
    (status.request_timeout(), openai.APIStatusError, 408, None),
    (status.conflict(), openai.ConflictError, 409, None),
    (status.rate_limited(), openai.RateLimitError, 429, "rate_limit_exceeded"),
    (status.insufficient_quota(), openai.RateLimitError, 429, "insufficient_quota"),
    (status.server_error(), openai.InternalServerError, 500, None),
    (status.server_error(502), openai.InternalServerError, 502, None),
    (status.server_error(503), openai.InternalServerError, 503, None),
    (status.server_error(529), openai.InternalServerError, 529, None),
]


@pytest.mark.parametrize(("fault", "fields", "kind", "number", "code", "param"), STATUSES)
def test_a_refused_field_is_named_and_a_request_without_it_passes(
    fault, fields, kind, number, code, param
):
    with fault_server(fault) as server, sdk(server) as client:
        with pytest.raises(kind) as caught:
            client.chat.completions.create(**{**BODY, **fields})
        assert (caught.value.status_code, caught.value.code) == (number, code)
        assert caught.value.param == param
        assert client.chat.completions.create(**BODY).choices[0].message.content == answer(BODY)
        assert [arrival.status for arrival in server.requests] == [number, 200]


@pytest.mark.parametrize(("fault", "kind", "number", "code"), ALWAYS)
def test_a_status_is_what_the_sdk_takes_it_for(fault, kind, number, code):
    with fault_server(fault) as server, sdk(server) as client:
        with pytest.raises(kind) as caught:
            client.chat.completions.create(**BODY)
        assert (caught.value.status_code, caught.value.code) == (number, code)
        assert (server.replies, sum(server.faults.values())) == (0, 1)


def test_temperature_1_is_the_default_and_passes_and_the_message_names_the_other():
    with fault_server(refusals.temperature_unsupported()) as server:
        assert post(server, temperature=1).status_code == 200
        message = post(server, temperature=0.2).json()["error"]["message"]
    assert message == (
        "Unsupported value: 'temperature' does not support 0.2 with this model. "
        "Only the default (1) is supported."
    )


def test_401_repeats_the_key_it_was_sent_and_502_is_a_page():
    with fault_server(status.invalid_key(unless="sk-good")) as server:
        bad, good = (
            requests.get(
                f"{server.url}/models", headers={"Authorization": f"Bearer {key}"}, timeout=5
            )
            for key in (KEY, "sk-good")
        )
        assert (bad.status_code, good.status_code) == (401, 200)
        assert KEY in bad.text
        server.plan = status.server_error(502)
        assert post(server).headers["content-type"] == "text/html"


def test_retry_after_is_said_in_four_ways():
    with fault_server(status.rate_limited(0.25)) as server:
        assert float(post(server).headers["retry-after"]) == 0.25
        server.plan = status.rate_limited(0.25, style="ms")
        assert post(server).headers["retry-after-ms"] == "250"
        server.plan = status.rate_limited(5, style="date")
        asked = time.time()
        named = email.utils.parsedate_to_datetime(post(server).headers["retry-after"])
        assert asked + 5 <= named.timestamp() <= time.time() + 6
        server.plan = status.rate_limited(style="none")
        assert not [name for name in post(server).headers if name.startswith("retry")]
    with pytest.raises(ValueError, match="seconds, date, ms or none, got 'week'"):
        status.rate_limited(1, style="week")


def test_a_cut_body_is_shorter_than_its_content_length():
    with fault_server(bodies.cut_body()) as server:
        head, _, body = raw_reply(server).partition(b"\r\n\r\n")
        length = int(head.lower().split(b"content-length: ")[1].split(b"\r")[0])
        assert b" 200 " in head.splitlines()[0]
        assert len(body) == length // 2
        with pytest.raises(requests.exceptions.ChunkedEncodingError):
            post(server)
        assert server.replies == 0


def test_a_closed_connection_ends_without_a_byte_and_a_reset_one_with_an_error():
    with fault_server(bodies.closed()) as server:
        assert raw_reply(server) == b""
        server.plan = bodies.reset()
        with pytest.raises(ConnectionResetError):
            raw_reply(server)
        assert [arrival.fault for arrival in server.requests] == ["closed", "reset"]


def test_a_request_that_is_never_answered_is_in_flight_until_the_client_leaves():
    with fault_server(bodies.hangs()) as server:
        with pytest.raises(TimeoutError):
            raw_reply(server, timeout_s=0.2)
        wait_until(lambda: server.in_flight == 0)
        assert server.peak_in_flight == 1
        started_s = time.monotonic()
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(post, server)
            wait_until(lambda: server.in_flight == 1)
            server.stop()  # must not wait for what never ends
            assert isinstance(waiting.exception(), requests.ConnectionError)
    assert time.monotonic() - started_s < 3


def test_a_trickled_reply_begins_with_blank_lines_and_a_slow_one_is_late():
    with fault_server(bodies.trickle(0.3, every_s=0.05)) as server, sdk(server) as client:
        started_s = time.monotonic()
        raw = post(server)
        assert time.monotonic() - started_s >= 0.3
        assert 4 <= len(raw.text) - len(raw.text.lstrip("\n")) <= 6
        assert raw.json()["choices"][0]["message"]["content"] == answer(BODY)
        assert client.chat.completions.create(**BODY).choices[0].message.content == answer(BODY)
        server.plan = bodies.slow(0.2)
        started_s = time.monotonic()
        assert post(server).status_code == 200
        assert time.monotonic() - started_s >= 0.2
        server.plan = bodies.trickle(float("inf"))
        with pytest.raises(TimeoutError):
            raw_reply(server, timeout_s=0.01)


def wait_until(holds, within_s=3.0):
    ends_s = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < ends_s, "waited in vain"
        time.sleep(0.01)


def test_bad_replies_with_status_200():
    with fault_server(bodies.invalid_json()) as server:
        with pytest.raises(json.JSONDecodeError):
            post(server).json()
        server.plan = bodies.html_page()
        assert post(server).text.startswith("<html>")
        server.plan = bodies.error_in_body(429)
        assert post(server).json()["error"]["code"] == 429
        assert server.replies == 0


def test_a_strict_limiter_admits_its_rate_and_counts_who_comes_early():
    limiter = RateLimit(per_second=20, burst=2, penalty_s=0.2, grace_s=0.02)
    with fault_server(limiter) as server:
        codes = [post(server).status_code for _ in range(3)]
        time.sleep(0.05)
        codes += [post(server).status_code for _ in range(2)]
        assert codes == [200, 200, 429, 429, 429]
        assert (limiter.admitted, limiter.refused, limiter.early) == (2, 3, 2)
        time.sleep(float(post(server).headers["retry-after"]) + 0.01)
        assert post(server).status_code == 200


def test_one_of_the_faults_is_drawn_for_each_attempt():
    kinds = {status.server_error(503), status.conflict(), bodies.no_choices()}
    with fault_server(Rule(one_of(*kinds, seed=1))) as server:
        for _ in range(30):
            post(server)
        assert set(server.faults) == {kind.name for kind in kinds}
