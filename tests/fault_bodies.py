"""Faults of the wire and of replies with status 200, and of lines of a batch.

Each function returns a Fault for a plan or a ``Rule``; its docstring says what is sent.
"""

import json

from fault_plan import Fault, Reply
from fault_status import HTML

# The wire.


def cut_body():
    """200 and half of the body, then the connection is closed."""
    return Fault("cut_body", wire="cut")


def closed():
    """The connection is closed in order, before any byte of a reply."""
    return Fault("closed", wire="close")


def reset():
    """The connection is reset (TCP RST), before any byte of a reply."""
    return Fault("reset", wire="reset")


def hangs():
    """The request is accepted and never answered; it ends when the client goes."""
    return Fault("hangs", wire="hang")


def slow(seconds):
    """The good reply, ``seconds`` late, nothing before it."""
    return Fault("slow", seconds=seconds)


def trickle(seconds, every_s=0.02):
    """200 at once, a blank line each ``every_s`` for ``seconds`` (DeepSeek under load), the reply.

    ``float("inf")`` never gets to the reply.
    """
    return Fault("trickle", wire="trickle", seconds=seconds, every_s=every_s)


# 200 and no JSON of a completion.


def invalid_json():
    """200, application/json, and a body that is no JSON."""
    body = b'{"id": "chatcmpl-1", "choices": [{"index": 0,'
    return Fault("invalid_json", reply=lambda arrival: Reply(200, body))


def html_page():
    """200 and the HTML page of a proxy or a login."""
    return Fault("html_page", reply=lambda arrival: Reply(200, HTML, (), "text/html"))


def error_in_body(code=502):
    """200 with an error object in place of a completion (OpenRouter); ``code`` is a number."""
    body = {"error": {"message": "Provider returned error", "code": code, "metadata": {}}}
    return Fault("error_in_body", reply=lambda arrival: Reply(200, json.dumps(body).encode()))


# 200 and a completion that is not whole: the good reply, changed.


def no_choices():
    """``choices`` is an empty list."""
    return Fault("no_choices", change=lambda reply: {**reply, "choices": []})


def error_in_choice(code=502):
    """An error object in each choice, whose finish_reason is ``error`` (OpenRouter)."""
    error = {"message": "Provider disconnected", "code": code}
    return _each("error_in_choice", finish_reason="error", error=error)


def reasoning_only(text="I should think about"):
    """content null, reasoning_content set, finish_reason length: the budget went into thought."""
    message = {"content": None, "reasoning_content": text}
    return _each("reasoning_only", message, finish_reason="length", logprobs=None)


def content_filtered(text=None):
    """finish_reason content_filter, with the content null or the ``text`` so far."""
    return _each("content_filtered", {"content": text}, finish_reason="content_filter")


def refused(text="I can't help with that."):
    """content null and the text in ``refusal``."""
    return _each("refused", {"content": None, "refusal": text})


def empty_text():
    """content "" and finish_reason stop."""
    return _each("empty_text", {"content": ""}, finish_reason="stop", logprobs=None)


def no_logprobs():
    """logprobs null although they were asked for."""
    return _each("no_logprobs", logprobs=None)


def _each(name, message=None, **fields):
    def change(reply):
        choices = [
            {**choice, **fields, "message": {**choice["message"], **(message or {})}}
            for choice in reply["choices"]
        ]
        return {**reply, "choices": choices}

    return Fault(name, change=change)


def floor_logprobs():
    """Sampled tokens have the log-probability -9999.0, as OpenAI gives it outside the top 20."""

    def change(reply):
        for choice in reply["choices"]:
            for entry in (choice["logprobs"] or {"content": []})["content"]:
                entry["logprob"] = -9999.0
                others = entry["top_logprobs"]
                entry["top_logprobs"] = [o for o in others if o["token"] != entry["token"]]
        return reply

    return Fault("floor_logprobs", change=change)


def duplicate_index():
    """Every choice has index 0; one choice more where there is only one."""

    def change(reply):
        choices = reply["choices"] * (2 if len(reply["choices"]) == 1 else 1)
        return {**reply, "choices": [{**choice, "index": 0} for choice in choices]}

    return Fault("duplicate_index", change=change)


def missing_choice():
    """The choice with the highest index is left out."""

    def change(reply):
        last = max(choice["index"] for choice in reply["choices"])
        kept = [choice for choice in reply["choices"] if choice["index"] != last]
        return {**reply, "choices": kept}

    return Fault("missing_choice", change=change)


def no_usage():
    """usage is left out."""
    return Fault("no_usage", change=lambda reply: {k: v for k, v in reply.items() if k != "usage"})


# Lines of a batch (Rule(..., path=LINE)).


def line_expired():
    """The line is in the error file with the code batch_expired."""
    return Fault("line_expired")


def line_missing():
    """The line is in no file."""
    return Fault("line_missing")
