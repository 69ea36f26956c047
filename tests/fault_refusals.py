"""400s: what a model does not take. Each looks at the body and lets good requests through.

Functions return a callable (Arrival) -> Fault | None that goes into a plan or a ``Rule`` as it is;
the last two return a Fault and refuse whatever is sent.
"""

from fault_plan import Fault
from fault_status import error_reply, status_error


def where(applies, fault):
    """The fault for arrivals for which ``applies(body)`` holds."""
    return lambda arrival: fault(arrival) if applies(arrival.body) else None


def temperature_unsupported():
    """400 unsupported_value where a temperature other than 1 is sent (o1, o3, gpt-5)."""

    def reply(arrival):
        sent = arrival.body["temperature"]
        message = f"Unsupported value: 'temperature' does not support {sent} with this model. Only the default (1) is supported."
        return error_reply(400, message, code="unsupported_value", param="temperature")

    fault = Fault("temperature_unsupported", reply=reply)
    return where(lambda body: body.get("temperature") not in (None, 1), fault)


def temperature_too_high(highest=2):
    """400 where the temperature is above ``highest``."""
    message = f"Invalid 'temperature': decimal above maximum value. Expected a value <= {highest}, but got another value instead."
    error = {"code": "decimal_above_max_value", "param": "temperature"}
    fault = status_error("temperature_too_high", 400, message, **error)
    return where(lambda body: (body.get("temperature") or 0) > highest, fault)


def max_tokens_unsupported():
    """400 unsupported_parameter where max_tokens is sent: use max_completion_tokens (o1, gpt-5)."""
    message = "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
    error = {"code": "unsupported_parameter", "param": "max_tokens"}
    fault = status_error("max_tokens_unsupported", 400, message, **error)
    return where(lambda body: "max_tokens" in body, fault)


def max_tokens_too_large(limit):
    """400 where more than ``limit`` new tokens are asked for, by either field."""

    def asked(body):
        return body.get("max_completion_tokens", body.get("max_tokens")) or 0

    def reply(arrival):
        message = f"max_tokens is too large: {asked(arrival.body)}. This model supports at most {limit} completion tokens, whereas you provided {asked(arrival.body)}."
        return error_reply(400, message, code="invalid_value", param="max_tokens")

    return where(lambda body: asked(body) > limit, Fault("max_tokens_too_large", reply=reply))


def logprobs_unsupported():
    """400 where logprobs or top_logprobs is asked for (deepseek-reasoner, reasoning models)."""
    message = "This model does not support logprobs."
    error = {"code": "unsupported_parameter", "param": "logprobs"}
    fault = status_error("logprobs_unsupported", 400, message, **error)
    return where(lambda body: body.get("logprobs") or "top_logprobs" in body, fault)


def stop_too_many(limit=4):
    """400 where more than ``limit`` stop sequences are sent; 0: where stop is sent at all."""

    def reply(arrival):
        if limit == 0:
            message = "Unsupported parameter: 'stop' is not supported with this model."
            return error_reply(400, message, code="unsupported_parameter", param="stop")
        sent = len(arrival.body["stop"])
        message = f"Invalid 'stop': array too long. Expected an array with maximum length {limit}, but got an array with length {sent} instead."
        return error_reply(400, message, code="array_above_max_length", param="stop")

    def applies(body):
        stop = body.get("stop") or []
        return len([stop] if isinstance(stop, str) else stop) > limit

    return where(applies, Fault("stop_too_many", reply=reply))


def too_many_choices(highest=1):
    """400 where ``n`` is above ``highest``."""
    message = f"Invalid 'n': only up to {highest} choices are supported by this model."
    fault = status_error("too_many_choices", 400, message, code="unsupported_value", param="n")
    return where(lambda body: (body.get("n") or 1) > highest, fault)


def unknown_fields(*names):
    """400 with the first of ``names`` that is sent (top_k, min_p, seed, ...) as param."""

    def reply(arrival):
        name = next(name for name in names if name in arrival.body)
        message = f"Unrecognized request argument supplied: {name}"
        return error_reply(400, message, code="unknown_parameter", param=name)

    fault = Fault("unknown_fields", reply=reply)
    return where(lambda body: any(name in body for name in names), fault)


def system_role_unsupported():
    """400 where a message has the role ``system`` (o1-mini)."""
    message = "Unsupported value: 'messages[0].role' does not support 'system' with this model."
    error = {"code": "unsupported_value", "param": "messages[0].role"}
    fault = status_error("system_role_unsupported", 400, message, **error)
    return where(lambda body: any(m["role"] == "system" for m in body.get("messages", ())), fault)


def context_length_exceeded(limit=8192):
    """400 whatever was sent: the prompt does not fit. Put it into a Rule with ``content``."""
    message = f"This model's maximum context length is {limit} tokens. However, your messages resulted in {limit + 1000} tokens. Please reduce the length of the messages."
    error = {"code": "context_length_exceeded", "param": "messages"}
    return status_error("context_length_exceeded", 400, message, **error)


def content_policy():
    """400 content_policy_violation: this prompt is refused, others are not."""
    message = "Your request was rejected as a result of our safety system."
    return status_error("content_policy", 400, message, code="content_policy_violation")
