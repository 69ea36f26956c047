"""What an error of an API means. Oracle: the providers' lists of error codes, and RFC 9110's dates.

OpenAI's and DeepSeek's pages of error codes say which heal (429, 500, 503), which do not (401, 402,
403, 404, 422), and that 429 insufficient_quota is a bill, not a speed.
"""

import time
from email.utils import formatdate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tcb_bench.models.chat_faults import (
    LONGEST_WAIT_S,
    fault_in_reply,
    fault_of_status,
    retry_after,
    without_secrets,
)


def error(message="", code=None, kind=None, param=None):
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


NO_TEMPERATURE = "Unsupported value: 'temperature' does not support 0.2 with this model. Only the default (1) is supported."


@pytest.mark.parametrize(
    ("status", "body", "kind", "action"),
    [
        *((s, error("x"), str(s), "retry") for s in (408, 409, 500, 502, 503, 504, 520, 524, 529)),
        (599, error("x"), "599", "retry"),
        (502, "<html><body><h1>502 Bad Gateway</h1></body></html>", "502", "retry"),
        (429, error("Rate limit reached", "rate_limit_exceeded"), "429", "wait"),
        (429, "slow down", "429", "wait"),
        (429, None, "429", "wait"),
        (429, error("You exceeded", "insufficient_quota"), "quota", "quota"),
        (429, error("You exceeded", None, "insufficient_quota"), "quota", "quota"),
        (429, error("You exceeded", "429", "insufficient_quota"), "quota", "quota"),
        (429, error("", "billing_hard_limit_reached"), "quota", "quota"),
        (400, error("", "billing_hard_limit_reached"), "quota", "quota"),
        (403, error("", "billing_not_active"), "quota", "quota"),
        (402, error("Insufficient Balance", "invalid_request_error"), "quota", "quota"),
        *((s, error("no"), str(s), "stop") for s in (400, 401, 403, 404, 405, 422)),
        (400, error("Unknown model", "model_not_found", param="model"), "400", "stop"),
        (400, error("max_tokens is too large", "invalid_value", param="max_tokens"), "400", "stop"),
        (400, error("This model's maximum context length is 8192 tokens", "context_length_exceeded"), "400", "unscored"),
        (400, {"object": "error", "message": "prompt is longer than the maximum model length"}, "400", "unscored"),
        (413, "", "413", "unscored"),
        (429, error("Request too large for gpt-4o on tokens per min (TPM): Limit 10, Requested 20.", "rate_limit_exceeded", "tokens"), "429", "unscored"),
        (400, error("rejected", "content_policy_violation"), "400", "filtered"),
        (400, error("The response was filtered", "content_filter"), "400", "filtered"),
        (400, error(NO_TEMPERATURE, "unsupported_value", param="temperature"), "400", "condition"),
        (422, {"detail": "temperature must be less than or equal to 1"}, "422", "condition"),
        (400, error("top_p is not supported by this model"), "400", "condition"),
        (400, error("min_p: extra fields not permitted"), "400", "condition"),
    ],
)  # fmt: skip
def test_what_follows_from_a_status(status, body, kind, action):
    fault = fault_of_status(status, body, {})
    assert (fault.kind, fault.action) == (kind, action)
    assert "\n" not in fault.message and str(status) in fault.message


@pytest.mark.parametrize("name", ["temperature", "top_p", "top_k", "min_p", "repetition_penalty"])
def test_a_refused_parameter_is_named_by_field_or_in_words(name):
    by_param = fault_of_status(400, error("bad value", param=name), {})
    in_words = fault_of_status(400, error(f"'{name}' is unsupported here"), {})
    assert by_param.field == in_words.field == name


def test_a_page_is_one_short_line():
    page = "<html>\n<head><style>a{}</style></head>\n" + "<p>busy\n</p>" * 500
    message = fault_of_status(503, page, {}).message
    assert message.startswith("HTTP 503: ") and len(message) < 330
    assert "<" not in message and "\n" not in message


@pytest.mark.parametrize(
    "body", [None, "", [], {}, {"error": None}, {"error": "broken"}, {"error": {"message": None}},
             {"error": {"code": 7}}, {"message": ["a"]}, 3],
)  # fmt: skip
def test_a_body_of_any_form_is_read(body):
    assert fault_of_status(500, body, {}).action == "retry"
    assert fault_of_status(400, body, {}).action == "stop"


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [({"retry-after": "2"}, 2.0), ({"retry-after": "0.25"}, 0.25), ({"retry-after-ms": "1500"}, 1.5),
     ({"retry-after-ms": "100", "retry-after": "60"}, 0.1), ({"retry-after-ms": "x", "retry-after": "3"}, 3.0),
     ({"retry-after": "-5"}, 0.0), ({"retry-after": "1e9"}, LONGEST_WAIT_S), ({"retry-after": "inf"}, LONGEST_WAIT_S),
     ({"retry-after": "nan"}, None), ({"retry-after": "soon"}, None), ({"retry-after": ""}, None), ({}, None)],
)  # fmt: skip
def test_retry_after_as_a_number(headers, seconds):
    assert retry_after(headers) == seconds


@pytest.mark.parametrize("ahead_s", [-100, 0, 5, 40])
def test_retry_after_as_a_date(ahead_s):
    date = formatdate(time.time() + ahead_s, usegmt=True)  # whole seconds
    found = retry_after({"retry-after": date})
    assert max(0, ahead_s - 1.5) <= found <= max(0, ahead_s)
    old = time.strftime("%A, %d-%b-%y %H:%M:%S GMT", time.gmtime(time.time() + ahead_s))  # RFC 850
    assert retry_after({"retry-after": old}) == pytest.approx(found, abs=1.1)


def test_a_pause_is_read_off_what_heals():
    assert fault_of_status(429, error("x"), {"retry-after": "2"}).wait_s == 2.0
    assert fault_of_status(503, error("x"), {"retry-after-ms": "300"}).wait_s == 0.3


CHOICE = {"index": 0, "message": {"content": "a"}, "finish_reason": "stop"}


@pytest.mark.parametrize(
    ("reply", "kind", "action"),
    [
        ({"choices": [CHOICE]}, None, None),
        ({"choices": [CHOICE], "error": None}, None, None),
        ([], "bad reply", "retry"),
        ("text", "bad reply", "retry"),
        (None, "bad reply", "retry"),
        ({}, "bad reply", "retry"),
        ({"choices": []}, "bad reply", "retry"),
        ({"choices": None}, "bad reply", "retry"),
        ({"choices": {"a": 1}}, "bad reply", "retry"),
        ({"choices": ["text"]}, "bad reply", "retry"),
        ({"error": {"message": "Provider returned error", "code": 502}}, "502", "retry"),
        ({"error": {"message": "busy", "code": 429}}, "429", "wait"),
        ({"error": {"message": "no credits", "code": 402}}, "quota", "quota"),
        ({"error": {"message": "no key", "code": 401}}, "401", "stop"),
        ({"error": {"message": "odd", "code": "server_error"}}, "502", "retry"),
        ({"error": "overloaded", "choices": []}, "502", "retry"),
        ({"choices": [{**CHOICE, "finish_reason": "error", "error": {"code": 502, "message": "x"}}]}, "502", "retry"),
        ({"choices": [{**CHOICE, "finish_reason": "error"}]}, "502", "retry"),
        ({"choices": [{**CHOICE, "finish_reason": "insufficient_system_resource"}]}, "503", "retry"),
        ({"choices": [{**CHOICE, "finish_reason": "abort"}]}, "503", "retry"),
    ],
)  # fmt: skip
def test_a_success_that_is_none(reply, kind, action):
    fault = fault_in_reply(reply)
    assert (fault and fault.kind, fault and fault.action) == (kind, action)


SECRET = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=8, max_size=40)


@given(st.text(max_size=30), SECRET, st.text(max_size=30))
def test_a_secret_is_in_no_text(before, secret, after):
    found = without_secrets(f"{before}{secret}{after}", (secret,))
    assert secret not in found.replace("***", "\0")
    assert without_secrets(before, ()) == before
