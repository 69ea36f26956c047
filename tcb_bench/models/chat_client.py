"""One request over HTTP by the official SDK; what goes wrong comes as a ``Fault``."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tcb_bench.errors import ModelError
from tcb_bench.models.chat_faults import Fault, fault_in_reply, fault_of_status, without_secrets
from tcb_bench.models.chat_options import ApiOptions
from tcb_bench.models.chat_sdk import HTTP, aiohttp, openai

NO_KEY = "none"
"""Sent to servers that need no key; the word itself is no secret."""

LEAST_SECRET = 8
"""Characters of a key that is looked for in answers: ``ollama`` may well be a part of one."""


@dataclass(frozen=True, slots=True)
class Connection:
    """Where an API is, and the key to it, which is in no repr.

    Attributes:
        base_url: without a key or a password in it.
        key: the secret.
        extra_body: fields of the user's for every request.
    """

    base_url: str
    key: str = field(repr=False)
    extra_body: Mapping[str, Any] = field(default_factory=dict)

    @property
    def secrets(self) -> tuple[str, ...]:
        """What no file and no message may hold; empty for a server that needs no key."""
        return () if self.key == NO_KEY else (self.key,)


class Client:
    """An open connection; to be used within one event loop, as ``async with Client(...)``."""

    def __init__(self, connection: Connection, options: ApiOptions) -> None:
        """Opens nothing yet.

        Raises:
            ModelError: the SDK's aiohttp transport is not installed.
        """
        self.connection, self.options = connection, options
        timeout = openai.Timeout(
            options.read_timeout_s, connect=options.connect_timeout_s, pool=None
        )
        most = options.max_connections
        limits = HTTP.Limits(max_connections=most, max_keepalive_connections=None)
        try:
            transport = openai.DefaultAioHttpClient(timeout=timeout, limits=limits)
        except RuntimeError:
            raise ModelError("requests to an API need more: pip install 'tcb-bench[api]'") from None
        self.sdk = openai.AsyncOpenAI(
            base_url=connection.base_url,
            api_key=connection.key,
            max_retries=0,
            timeout=timeout,
            http_client=transport,
        )

    async def __aenter__(self) -> Client:
        """The client itself."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Closes all connections."""
        await self.sdk.close()

    async def chat(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """The reply to a chat completion as JSON.

        Raises:
            Fault: there is none, or none that can be used.
        """
        try:
            async with asyncio.timeout(self.options.total_timeout_s):
                # the SDK's typed method spends most of its time on types of what is JSON already
                raw = await self.sdk.post(
                    "/chat/completions", cast_to=HTTP.Response, body=dict(body)
                )
                reply = self.read_json(raw.content)
        except (ValueError, RecursionError):
            raise Fault("bad reply", "retry", "the reply is no JSON") from None
        except (TimeoutError, openai.APIError) as error:
            raise self.fault(error) from None
        fault = fault_in_reply(reply)
        if fault is not None:
            raise self._clean(fault)
        found: dict[str, Any] = reply
        return found

    def fault(self, error: BaseException) -> Fault:
        """What an error of the SDK means, without a secret in it."""
        if isinstance(error, openai.APIStatusError):
            headers = {name.lower(): value for name, value in error.response.headers.items()}
            body = error.body if error.body is not None else error.response.text
            return self._clean(fault_of_status(error.status_code, body, headers))
        causes = list(_causes(error))  # the transport calls broken connections timeouts, too
        if any(isinstance(cause, aiohttp.ConnectionTimeoutError) for cause in causes):
            waited = self.options.connect_timeout_s
            return Fault("timeout", "retry", f"no connection within {waited:g} s")
        if any(isinstance(cause, TimeoutError) for cause in causes):
            waited = min(self.options.read_timeout_s, self.options.total_timeout_s)
            return Fault("timeout", "retry", f"no reply within {waited:g} s")
        own = [cause for cause in causes if isinstance(cause, aiohttp.ClientError)] or causes[-1:]
        said = " ".join(f"{type(own[0]).__name__}: {own[0]}".split())[:200]
        return self._clean(Fault("connection", "retry", f"connection lost ({said})"))

    def _clean(self, fault: Fault) -> Fault:
        fault.message = without_secrets(fault.message, self.connection.secrets)
        return fault

    def read_json(self, content: bytes) -> Any:
        """The JSON of a reply, without a key that it repeats and without halves of characters."""
        reply = json.loads(content)
        secrets = tuple(key for key in self.connection.secrets if len(key) >= LEAST_SECRET)
        forms = {form.encode() for key in secrets for form in (key, key.replace("/", "\\/"))}
        has_halves = b"\\ud" in content.lower() and not _can_be_written(reply)
        if has_halves or any(form in content for form in forms):
            return _each_text(reply, lambda text: without_secrets(_whole(text), secrets))
        return reply


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__


def _can_be_written(reply: Any) -> bool:
    try:
        json.dumps(reply, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def _whole(text: str) -> str:
    """The text with halves of characters, which no file can hold, as U+FFFD."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _each_text(value: Any, change: Callable[[str], str]) -> Any:
    """A value of JSON with each of its texts changed, names of fields left out."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, list):
        return [_each_text(item, change) for item in value]
    if isinstance(value, dict):
        return {name: _each_text(item, change) for name, item in value.items()}
    return value
