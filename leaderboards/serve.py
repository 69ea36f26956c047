"""The site on this machine, for looking at it."""

from __future__ import annotations

import functools
from http import HTTPStatus
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import BinaryIO

from tcb_bench.errors import TcbBenchError

HOST = "127.0.0.1"


class _Pages(SimpleHTTPRequestHandler):
    """Files of one folder; no listing of folders, nothing said of each request."""

    def list_directory(self, path: object) -> None:
        """A folder without an index is not found."""
        self.send_error(HTTPStatus.NOT_FOUND, "no listing")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base's name
        """Silence: the address is all that is printed."""

    def copyfile(self, source: BinaryIO, outputfile: BinaryIO) -> None:  # type: ignore[override]
        """A reader who leaves early is no error."""
        try:
            super().copyfile(source, outputfile)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True


def server(site: Path, port: int = 0) -> ThreadingHTTPServer:
    """A server of a folder on loopback; ``serve_forever`` runs it.

    Args:
        site: the folder; what lies outside it cannot be asked for.
        port: 0 = a free one.

    Raises:
        TcbBenchError: the port cannot be used.
    """
    handler = functools.partial(_Pages, directory=str(site))
    try:
        made = ThreadingHTTPServer((HOST, port), handler)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise TcbBenchError(
            f"port {port} on {HOST}: {reason}; leave --port out for a free one"
        ) from None
    made.daemon_threads = True
    return made


def address(made: ThreadingHTTPServer) -> str:
    """Where a browser finds it."""
    return f"http://{HOST}:{made.server_address[1]}/"
