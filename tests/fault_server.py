"""A server on loopback that plays an OpenAI-compatible API and misbehaves on demand.

    from fault_plan import Rule, one_of
    from fault_replies import answer
    from fault_server import fault_server
    from fault_status import rate_limited, server_error

    plan = [Rule(rate_limited(after_s=0.2), first=2),                   # two 429s a request
            Rule(server_error(503), share=0.05, seed=1),                # never heals on 5 %
            Rule(one_of(reset(), cut_body()), probability=0.3, first=3)]
    with fault_server(plan, style="deepseek") as server:
        ...                                     # a client of server.url, e.g. openai.AsyncOpenAI
        assert server.requests[0].body == {...}            # what was really sent
        assert text == answer(server.requests[0].body, index=0)
        server.plan = None                      # from now on all is well

Plans: fault_plan.py. Faults: fault_status.py (error statuses), fault_refusals.py (400s that
depend on the body), fault_bodies.py (the wire, bad 200s, lines of a batch), fault_limit.py (a
strict limiter). What the model is like (options): ``Played`` of fault_replies.py. Batches
(``batches={...}``): ``Course`` of fault_batches.py.

In a process of its own: ``python tests/fault_server.py --port 8100 --instant``, or
``with fault_process("--instant") as url:``. It prints its url; ``GET /_stats`` has the counts,
``POST /_plan`` takes rules as JSON (``plan_from_json``), ``POST /_reset`` sets all to 0.
"""

import argparse
import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading

import uvicorn
from fault_app import FaultApp, InstantApp
from fault_names import plan_from_json
from fault_plan import CHAT, as_plan
from fault_replies import Played
from fault_wire import Connections, OpenProtocol

IDLE_S = 75  # a connection without a request is closed after this


@contextlib.contextmanager
def fault_server(plan=None, *, instant=False, keeps_requests=True, batches=None, **played):
    """A FaultServer in a thread of its own.

    Raises on leaving where the server itself broke (a bug in a plan, say).
    """
    kind = InstantApp if instant else FaultApp
    app = kind(plan, Played(**played), batches or {}, keeps_requests=keeps_requests)
    server = FaultServer(app)
    server.start()
    try:
        yield server
    finally:
        server.stop()
    if app.bugs:
        raise RuntimeError(f"the fault server itself failed: {app.bugs[0]!r}") from app.bugs[0]


class FaultServer:
    """The running server: where it is and what it saw.

    Attributes:
        url: ``http://127.0.0.1:PORT/v1``.
        app: has ``batches`` (files and batches as they are), among the rest.
    """

    def __init__(self, app, port=0):
        self.app, self.state = app, Connections()
        # asyncio sets TCP_NODELAY only on sockets that name TCP; without it each reply waits 40 ms
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._socket.bind(("127.0.0.1", port))
        self._socket.listen(2048)  # who connects before the loop runs waits
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}/v1"
        self._ready, self._loop, self._end = threading.Event(), None, None

    requests = property(lambda self: self.app.requests, doc="Arrivals, oldest first.")
    replies = property(lambda self: self.app.replies, doc="Good completions, sent whole.")
    arrivals = property(lambda self: self.app.arrivals, doc="Requests that came, of any path.")
    faults = property(lambda self: self.app.faults, doc="Counter: name of a fault -> times.")
    in_flight = property(lambda self: self.app.in_flight, doc="Requests being answered now.")
    peak_in_flight = property(lambda self: self.app.peak_in_flight, doc="The most at once.")
    connections = property(lambda self: len(self.state.connections), doc="Open now.")
    opened = property(lambda self: self.state.opened, doc="Connections since the start.")

    @property
    def chats(self):
        """Arrivals of chat completions, oldest first."""
        return [arrival for arrival in self.requests if arrival.path == CHAT]

    @property
    def plan(self):
        return self.app.plan

    @plan.setter
    def plan(self, plan):
        self.app.plan = as_plan(plan)

    def reset(self):
        """Forgets requests, attempts and counts; plan, files and batches stay."""
        self.app.reset()

    def break_connections(self):
        """Aborts all connections, as a network that went away does."""
        for connection in list(self.state.connections):
            self._loop.call_soon_threadsafe(connection.transport.abort)

    def start(self):
        self._thread = threading.Thread(target=lambda: asyncio.run(self.serve()), daemon=True)
        self._thread.start()
        if not self._ready.wait(10):
            raise RuntimeError("the fault server did not start within 10 s")

    def stop(self):
        """Ends all connections, answered or not, and the thread; a second time does nothing."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join(10)

    async def _ended(self, parent):
        """Waits for the end; with ``parent`` also for the end of the process of that id."""
        while parent is None or os.getppid() == parent:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._end.wait(), None if parent is None else 0.5)
                return

    async def serve(self, *signals, parent=None):
        """Serves until ``stop``, one of the signals, or until our ``parent`` is another process."""
        config = uvicorn.Config(
            self.app,
            http=OpenProtocol,
            ws="none",
            lifespan="off",
            log_config=None,
            log_level="critical",
            access_log=False,
            timeout_keep_alive=IDLE_S,
        )
        config.load()
        self._loop, self._end = asyncio.get_running_loop(), asyncio.Event()
        for number in signals:
            self._loop.add_signal_handler(number, self._end.set)
        listener = await self._loop.create_server(
            lambda: OpenProtocol(config, self.state, {}), sock=self._socket, backlog=2048
        )
        self._ready.set()
        await self._ended(parent)
        listener.close()
        for connection in list(self.state.connections):
            connection.transport.abort()
        tasks = list(self.state.tasks)
        if tasks:
            await asyncio.wait(tasks, timeout=5)


@contextlib.contextmanager
def fault_process(*options):
    """Url of a server in a process of its own, started with ``options``; ended by its pid."""
    words = [sys.executable, __file__, "--port", "0", "--with-parent", *options]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    try:
        yield process.stdout.readline().strip()
    finally:
        process.terminate()
        process.wait(10)
        process.stdout.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--port", type=int, default=0, help="0: a free one, see the printed url")
    parser.add_argument("--instant", action="store_true", help="prebuilt replies, no faults")
    parser.add_argument("--plan", default="[]", help="rules as JSON, see plan_from_json")
    parser.add_argument("--played", default="{}", help='Played as JSON, e.g. {"delay_s": 0.01}')
    parser.add_argument("--batches", default="{}", help="Course as JSON")
    parser.add_argument("--keeps-requests", action="store_true", help="memory grows with them")
    parser.add_argument("--with-parent", action="store_true", help="end when the parent ends")
    options = parser.parse_args()
    parent = os.getppid() if options.with_parent else None
    kind, rules = InstantApp if options.instant else FaultApp, json.loads(options.plan)
    plan = plan_from_json(rules) if rules else None
    played, batches = Played(**json.loads(options.played)), json.loads(options.batches)
    app = kind(plan, played, batches, keeps_requests=options.keeps_requests)
    server = FaultServer(app, options.port)
    sys.stdout.write(f"{server.url}\n")
    sys.stdout.flush()
    asyncio.run(server.serve(signal.SIGTERM, signal.SIGINT, parent=parent))


if __name__ == "__main__":
    main()
