"""One request over HTTP by the official SDK; what goes wrong comes as a ``Fault``."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any

import openai

from tcb_bench.errors import ModelError
from tcb_bench.models.chat_faults import Fault, fault_in_reply, fault_of_status, without_secrets
from tcb_bench.models.chat_options import ApiOptions

SDK_FIELDS = frozenset(
    "model messages temperature top_p n stop seed logprobs top_logprobs max_tokens "
    "max_completion_tokens".split()
)
"""Fields that the SDK's method takes by name; others go as its extra body."""


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
        limits = {"max_connections": options.max_connections, "max_keepalive_connections": None}
        try:
            transport = openai.DefaultAioHttpClient(timeout=timeout, limits=_limits(limits))
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
        own = {name: value for name, value in body.items() if name in SDK_FIELDS}
        more = {name: value for name, value in body.items() if name not in SDK_FIELDS}
        try:
            async with asyncio.timeout(self.options.total_timeout_s):
                raw = await self.sdk.chat.completions.with_raw_response.create(
                    **own, extra_body=more or None
                )
                reply = json.loads(raw.http_response.content)
        except ValueError:
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
        if isinstance(error, TimeoutError | openai.APITimeoutError):
            waited = min(self.options.read_timeout_s, self.options.total_timeout_s)
            return Fault("timeout", "retry", f"no reply within {waited:g} s")
        cause = error.__cause__ or error
        said = " ".join(f"{type(cause).__name__}: {cause}".split())[:200]
        return self._clean(Fault("connection", "retry", f"connection lost ({said})"))

    def _clean(self, fault: Fault) -> Fault:
        fault.message = without_secrets(fault.message, (self.connection.key,))
        return fault


def _limits(given: Mapping[str, Any]) -> Any:
    """The transport's own class of limits, whichever HTTP library the SDK is built on."""
    own = openai.DEFAULT_CONNECTION_LIMITS
    return type(own)(**given)


Opened = AbstractAsyncContextManager[Client]
