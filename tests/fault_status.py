"""Faults with an error status: what stops a model at once, and what heals.

Each function returns a Fault for a plan or a ``Rule``; its docstring says what is sent.
400s that depend on what was sent are in fault_refusals.py.
"""

import json
import time
from email.utils import formatdate

from fault_plan import Fault, Reply

HTML = (
    b"<html><head><title>502 Bad Gateway</title></head><body><h1>502 Bad Gateway</h1></body></html>"
)


def error_reply(
    status, message, *, code=None, kind="invalid_request_error", param=None, headers=()
):
    """A Reply with OpenAI's error object."""
    error = {"message": message, "type": kind, "param": param, "code": code}
    return Reply(status, json.dumps({"error": error}).encode(), tuple(headers))


def status_error(name, status, message, **error):
    """Any error of your own: a Fault ``name`` with that status and error object."""
    return Fault(name, reply=lambda arrival: error_reply(status, message, **error))


# What stops a model: keys, rights, names, money.


def invalid_key(unless=None):
    """401 whose message repeats the key that was sent, in full; not where it is ``unless``."""

    def reply(arrival):
        message = f"Incorrect API key provided: {_key(arrival)}. You can find your API key in your account."
        return error_reply(401, message, code="invalid_api_key")

    fault = Fault("invalid_key", reply=reply)
    return lambda arrival: None if unless is not None and _key(arrival) == unless else fault


def _key(arrival):
    return arrival.headers.get("authorization", "").removeprefix("Bearer ")


def forbidden():
    """403: the project may not use the model."""
    message = "Project does not have access to this model."
    return status_error("forbidden", 403, message, code="model_not_allowed")


def model_not_found():
    """404 model_not_found, with the name that was asked for."""

    def reply(arrival):
        message = f"The model `{arrival.model}` does not exist or you do not have access to it."
        return error_reply(404, message, code="model_not_found", param="model")

    return Fault("model_not_found", reply=reply)


def insufficient_quota():
    """429 insufficient_quota, without Retry-After: waiting does not help."""
    message = "You exceeded your current quota, please check your plan and billing details."
    error = {"code": "insufficient_quota", "kind": "insufficient_quota"}
    return status_error("insufficient_quota", 429, message, **error)


def insufficient_balance():
    """402, DeepSeek's way to say that the money is spent."""
    error = {"code": "invalid_request_error", "kind": "unknown_error"}
    return status_error("insufficient_balance", 402, "Insufficient Balance", **error)


# What heals.


def rate_limited(after_s=0.1, style="seconds"):
    """429; when to come back is said in ``style``: seconds, date, ms (retry-after-ms) or none."""

    retry_headers(after_s, style)  # refuses an unknown style here, not in the server

    def reply(arrival):
        error = {"code": "rate_limit_exceeded", "kind": "requests"}
        error["headers"] = retry_headers(after_s, style)
        return error_reply(429, "Rate limit reached for requests per min.", **error)

    return Fault("rate_limited", reply=reply)


def retry_headers(after_s, style):
    """Headers for ``style``; a date has whole seconds: the first that is not too early."""
    if style == "seconds":
        return (("retry-after", f"{after_s:.3f}"),)
    if style == "date":
        return (("retry-after", formatdate(int(time.time() + after_s + 0.999), usegmt=True)),)
    if style == "ms":
        return (("retry-after-ms", f"{after_s * 1000:.0f}"),)
    if style == "none":
        return ()
    raise ValueError(f"style must be seconds, date, ms or none, got {style!r}")


def request_timeout():
    """408."""
    return status_error("request_timeout", 408, "Request timed out.", kind="timeout")


def conflict():
    """409."""
    return status_error("conflict", 409, "Conflict: the resource is locked, try again.")


def server_error(status=500):
    """500, 503, 529 or another 5xx with an error object; 502 with a proxy's HTML page instead."""
    if status == 502:
        return Fault("server_error", reply=lambda arrival: Reply(502, HTML, (), "text/html"))
    message = "The server had an error while processing your request."
    return status_error("server_error", status, message, kind="server_error")
