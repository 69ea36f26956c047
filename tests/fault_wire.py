"""How replies go out over HTTP, whole or broken on purpose."""

import asyncio
import json
import socket
import struct

from fault_plan import Reply
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState


class Connections(ServerState):
    """uvicorn's record of open connections, with a count of all there have been."""

    def __init__(self):
        super().__init__()
        self.opened = 0


class OpenProtocol(HttpToolsProtocol):
    """uvicorn's protocol, whose scope also holds the transport, so that an app can break it."""

    def connection_made(self, transport):
        self.server_state.opened += 1
        super().connection_made(transport)

    def on_message_begin(self):
        super().on_message_begin()
        self.scope["transport"] = self.transport


async def read(receive):
    """The whole body of the request, or None where the client left before its end."""
    parts = []
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        parts.append(message["body"])
        if not message["more_body"]:
            return b"".join(parts)


def json_reply(record, status=200):
    return Reply(status, json.dumps(record).encode())


async def send_whole(send, reply):
    await send_start(send, reply, length=len(reply.body))
    await send({"type": "http.response.body", "body": reply.body})


async def send_start(send, reply, *, length=None):
    headers = [("content-type", reply.content_type), *reply.headers]
    if length is not None:
        headers.append(("content-length", str(length)))
    encoded = [(name.encode(), value.encode()) for name, value in headers]
    await send({"type": "http.response.start", "status": reply.status, "headers": encoded})


async def gone(receive):
    """Returns when the client, or we, have closed the connection."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def stays(receive, seconds):
    """Waits that long; False as soon as the client leaves."""
    try:
        await asyncio.wait_for(gone(receive), seconds)
    except TimeoutError:
        return True
    return False


async def send_broken(fault, scope, receive, send, reply):
    """Sends ``reply`` as ``fault.wire`` says: in part, or not at all; returns when the client is gone."""
    transport = scope["transport"]
    if fault.wire == "cut":
        await send_start(send, reply, length=len(reply.body))
        half = reply.body[: len(reply.body) // 2]
        await send({"type": "http.response.body", "body": half, "more_body": True})
        transport.close()  # sends what was written, then an orderly end
    elif fault.wire == "close":
        transport.close()
    elif fault.wire == "reset":
        no_linger = struct.pack("ii", 1, 0)  # close() then sends RST instead of FIN
        transport.get_extra_info("socket").setsockopt(
            socket.SOL_SOCKET, socket.SO_LINGER, no_linger
        )
        transport.abort()
    elif fault.wire != "hang":
        raise ValueError(f"no way to send called {fault.wire!r}; see fault_plan.Fault")
    await gone(receive)


async def blank_lines(fault, receive, send, reply):
    """Status and headers at once, then blank lines, chunked; False where the client left."""
    await send_start(send, reply)
    ends_s = asyncio.get_running_loop().time() + fault.seconds
    while asyncio.get_running_loop().time() < ends_s:
        await send({"type": "http.response.body", "body": b"\n", "more_body": True})
        if not await stays(receive, fault.every_s):
            return False
    return True
