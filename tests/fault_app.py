"""The ASGI app behind ``fault_server``: routes, counts and records what arrives, sends replies."""

import json
import re
import time
from collections import Counter
from dataclasses import replace

from fault_batches import Batches
from fault_names import plan_from_json
from fault_plan import CHAT, LINE, Arrival, as_plan, key_of
from fault_replies import completion
from fault_status import error_reply
from fault_wire import blank_lines, json_reply, read, send_broken, send_whole, stays


class FaultApp:
    """An OpenAI-compatible API for one plan; see ``FaultServer`` for what can be read off it."""

    def __init__(self, plan, played, batches, *, keeps_requests=True):
        self.plan, self.played = as_plan(plan), played
        self.keeps_requests = keeps_requests
        self.batches = Batches(self.complete_line, **batches)
        self.bugs = []
        self.reset()

    def reset(self):
        self.requests, self.attempts, self.faults = [], Counter(), Counter()
        self.arrivals = self.replies = self.in_flight = self.peak_in_flight = 0

    async def __call__(self, scope, receive, send):
        try:
            await self.answer(scope, receive, send)
        except Exception as bug:
            self.bugs.append(bug)
            raise

    async def answer(self, scope, receive, send):
        body = await read(receive)
        if body is None:
            return
        if scope["path"].startswith("/_"):
            await send_whole(send, self.about_itself(scope, body))
            return
        self.in_flight += 1
        self.peak_in_flight = max(self.peak_in_flight, self.in_flight)
        try:
            await self.reply_or_fail(scope, receive, send, body)
        finally:
            self.in_flight -= 1

    async def reply_or_fail(self, scope, receive, send, body):
        arrival = self.arrive(scope, body)
        fault = self.fault_of(arrival)
        if fault is None:
            reply = self.good(scope, arrival, body)
        else:
            reply = self.spoilt(scope, arrival, body, fault)
        named = ("x-request-id", f"req_{arrival.number:06d}")
        reply = replace(reply, headers=(*reply.headers, named))
        wait_s = fault.seconds if fault else self.played.delay_s * (arrival.path == CHAT)
        if fault is not None and fault.wire == "trickle":
            if await blank_lines(fault, receive, send, reply):
                self.count(arrival, fault, reply)
                await send({"type": "http.response.body", "body": reply.body})
        elif fault is not None and fault.wire != "whole":
            await send_broken(fault, scope, receive, send, reply)
        elif not wait_s or await stays(receive, wait_s):
            self.count(arrival, fault, reply)
            await send_whole(send, reply)

    def count(self, arrival, fault, reply):
        """Before the last byte goes out: who has read the reply finds it counted."""
        arrival.status = reply.status
        is_good = fault is None or (fault.reply is None and fault.change is None)
        if is_good and (arrival.method, arrival.path) == ("POST", CHAT):
            self.replies += 1

    def spoilt(self, scope, arrival, body, fault):
        if fault.reply is not None:
            return fault.reply(arrival)
        good = self.good(scope, arrival, body)
        return json_reply(fault.change(json.loads(good.body))) if fault.change else good

    def arrive(self, scope, body):
        headers = {name.decode(): value.decode("latin-1") for name, value in scope["headers"]}
        is_json = headers.get("content-type", "").startswith("application/json")
        sent = json.loads(body) if body and is_json else {}
        return self.record(scope["method"], scope["path"], headers, sent)

    def record(self, method, path, headers, sent):
        key = key_of(f"{method} {path}", sent)
        self.arrivals += 1
        self.attempts[key] += 1
        now = time.monotonic()
        counted = (self.arrivals, self.attempts[key], now)
        arrival = Arrival(*counted, method, path, headers, sent, key)
        if self.keeps_requests:
            self.requests.append(arrival)
        return arrival

    def fault_of(self, arrival):
        fault = self.plan(arrival)
        if fault is not None:
            arrival.fault = fault.name
            self.faults[fault.name] += 1
        return fault

    def good(self, scope, arrival, body):
        """The reply when nothing goes wrong."""
        path, method = arrival.path, arrival.method
        if (method, path) == ("POST", CHAT):
            return json_reply(completion(arrival.body, self.played, arrival.number))
        if (method, path) == ("GET", "/v1/models"):
            return json_reply({"object": "list", "data": [*map(model_record, self.played.models)]})
        if named := re.fullmatch("/v1/models/(.+)", path):
            return json_reply(model_record(named[1]))
        if path.startswith(("/v1/files", "/v1/batches")):
            return self.batches.reply(arrival, scope["query_string"].decode(), body)
        return error_reply(404, f"Unknown request URL: {method} {path}.", code="unknown_url")

    def complete_line(self, body):
        """(fault or None, Reply) for one line of a batch."""
        arrival = self.record("POST", LINE, {}, body)
        fault = self.fault_of(arrival)
        if fault is not None and fault.wire != "whole":
            raise ValueError(f"{fault.name} is of the wire; a line of a batch has none")
        if fault is not None and fault.reply is not None:
            reply = fault.reply(arrival)
        else:
            good = completion(body, self.played, arrival.number)
            reply = json_reply(fault.change(good) if fault and fault.change else good)
        arrival.status = reply.status
        return fault, reply

    def stats(self):
        counts = ("arrivals", "replies", "in_flight", "peak_in_flight")
        return {**{name: getattr(self, name) for name in counts}, "faults": dict(self.faults)}

    def about_itself(self, scope, body):
        """``GET /_stats``, ``POST /_plan`` (see plan_from_json) and ``POST /_reset``."""
        if scope["path"] == "/_plan":
            self.plan = plan_from_json(json.loads(body))
        elif scope["path"] == "/_reset":
            self.reset()
        elif scope["path"] != "/_stats":
            return error_reply(404, "there are /_stats, /_plan and /_reset")
        return json_reply(self.stats())


def model_record(name):
    return {"id": name, "object": "model", "created": 1700000000, "owned_by": "fault-server"}


class InstantApp(FaultApp):
    """Replies prebuilt for each ``n`` with and without log-probabilities; keeps counts only.

    The text is the same for every request, and there are no faults: for the measurement of a
    client's speed, memory and file handles.
    """

    def __init__(self, plan, played, batches, **options):
        if plan is not None:
            raise ValueError("an instant server takes no plan: its replies are made beforehand")
        super().__init__(plan, played, batches, keeps_requests=False)
        self.prebuilt = {}

    async def answer(self, scope, receive, send):
        if scope["path"] != CHAT:
            await super().answer(scope, receive, send)
            return
        body = await read(receive)
        if body is None:
            return
        self.arrivals += 1
        self.in_flight += 1
        self.peak_in_flight = max(self.peak_in_flight, self.in_flight)
        try:
            if self.played.delay_s and not await stays(receive, self.played.delay_s):
                return
            start, end = self.messages(body)
            self.replies += 1
            await send(start)
            await send(end)
        finally:
            self.in_flight -= 1

    def about_itself(self, scope, body):
        if scope["path"] == "/_plan":
            return error_reply(409, "an instant server takes no plan")
        return super().about_itself(scope, body)

    def messages(self, body):
        """The two ASGI messages of the reply."""
        found = re.search(rb'"n": ?(\d+)', body)
        kind = (int(found[1]) if found else 1, b'"top_logprobs"' in body)
        if kind not in self.prebuilt:
            asked = {"model": "instant", "messages": [], "n": kind[0]}
            asked |= {"logprobs": True, "top_logprobs": 20} if kind[1] else {}
            reply = json_reply(completion(asked, self.played))
            length = str(len(reply.body)).encode()
            headers = [(b"content-type", b"application/json"), (b"content-length", length)]
            start = {"type": "http.response.start", "status": 200, "headers": headers}
            self.prebuilt[kind] = (start, {"type": "http.response.body", "body": reply.body})
        return self.prebuilt[kind]
