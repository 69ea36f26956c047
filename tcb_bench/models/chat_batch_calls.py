"""Files and batches of OpenAI's API over HTTP: each call is made again until it is answered."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from tcb_bench.models.chat_batch_parts import ENDPOINT, Part
from tcb_bench.models.chat_client import Client
from tcb_bench.models.chat_faults import QUOTA_CODES, Fault
from tcb_bench.models.chat_sdk import HTTP, openai
from tcb_bench.models.chat_traffic import FIRST_BACKOFF_S, LONGEST_BACKOFF_S, STALL_S, Traffic

Record = dict[str, Any]
"""A batch as the API describes it."""

QUEUE_CODES = frozenset({"token_limit_exceeded"})
"""More tokens wait in batches than the account may have at a time; room comes as others end."""

NAME, HASH = "tcb_bench_part", "tcb_bench"
PAGE = 100
OLDER_S = 86400.0  # the list is searched back to a day before, whatever the clocks say
LOOKS = 5  # for a batch whose creation may still be on its way
SETTLED_S = 600.0  # after which it is not

# What the SDK's HTTP library raises while a body is read; the SDK itself knows only the beginning.
BROKEN: type[Exception] = HTTP.HTTPError

T = TypeVar("T")


class BatchCalls:
    """What the Batch API can be asked.

    Every method raises ``Fault``: of action ``stop`` where asking again has no use, and of action
    ``quota`` where the same command has to go on another day.
    """

    def __init__(self, client: Client, traffic: Traffic, look_s: float) -> None:
        """``look_s`` is the pause between two looks for a batch that may appear yet."""
        self.client, self.traffic, self.look_s = client, traffic, look_s

    async def upload(self, path: Path) -> str:
        """The id of the file at the provider; a file that is sent twice costs nothing."""
        files = self.client.sdk.files.with_raw_response

        async def once() -> Record:
            with path.open("rb") as file:
                return await self._json(files.create(file=(path.name, file), purpose="batch"))

        return str((await self._until_answered(once))["id"])

    async def create(self, part: Part) -> Record:
        """Submits the uploaded file; where no answer comes, a batch that was made is found."""
        batches = self.client.sdk.batches.with_raw_response

        async def once() -> Record:
            asked = batches.create(
                input_file_id=part.file_id,
                endpoint=ENDPOINT,
                completion_window="24h",
                metadata={HASH: part.sha256, NAME: part.name},
            )
            try:
                return await self._json(asked)
            except Fault as fault:
                found = await self.find(part) if fault.action == "retry" else None
                if found is None:
                    raise
                return found

        return await self._until_answered(once)

    async def find(self, part: Part) -> Record | None:
        """The batch that was made of a part, by what it carries; None where there is none."""
        for look in range(LOOKS):
            if look:
                await asyncio.sleep(self.look_s)
            found = await self._listed(part)
            if found is not None or time.time() - part.uploaded_s > SETTLED_S:
                return found
        return None

    async def retrieve(self, batch_id: str) -> Record:
        """The batch as it is now; asked once, since it will be looked at again anyway."""
        return await self._json(self.client.sdk.batches.with_raw_response.retrieve(batch_id))

    async def download(self, file_id: str, path: Path) -> None:
        """Writes a file of the provider to ``path``, as it comes."""

        async def once() -> None:
            try:
                async with asyncio.timeout(self.client.options.total_timeout_s):
                    await self._stream(file_id, path)
            except (TimeoutError, openai.APIError, BROKEN) as error:
                raise self._fault(error) from None

        await self._until_answered(once)

    async def _stream(self, file_id: str, path: Path) -> None:
        files = self.client.sdk.files.with_streaming_response
        async with files.content(file_id) as response:
            with path.open("wb") as file:
                async for chunk in response.iter_bytes():
                    file.write(chunk)

    async def _listed(self, part: Part) -> Record | None:
        after: str | openai.Omit = openai.omit
        while True:
            page = await self._until_answered(partial(self._page, after))
            for record in page.get("data") or []:
                if (record.get("metadata") or {}).get(NAME) == part.name:
                    found: Record = record
                    return found
                if float(record.get("created_at") or 0) < part.uploaded_s - OLDER_S:
                    return None
            if not page.get("has_more") or not page.get("data"):
                return None
            after = str(page["data"][-1]["id"])

    async def _page(self, after: str | openai.Omit) -> Record:
        batches = self.client.sdk.batches.with_raw_response
        return await self._json(batches.list(after=after, limit=PAGE))

    async def _json(self, call: Awaitable[Any]) -> Record:
        try:
            async with asyncio.timeout(self.client.options.total_timeout_s):
                raw = await call
            record = json.loads(raw.http_response.content)
        except ValueError:
            raise Fault("bad reply", "retry", "the reply is no JSON") from None
        except (TimeoutError, openai.APIError) as error:
            raise self._fault(error) from None
        if not isinstance(record, Mapping) or not ("id" in record or "data" in record):
            raise Fault("bad reply", "retry", "the reply is neither a file nor a batch")
        return dict(record)

    def _fault(self, error: Exception) -> Fault:
        fault = self.client.fault(error)
        if isinstance(error, openai.APIError):
            return with_code(fault, str(error.code))
        return fault

    async def _until_answered(self, once: Callable[[], Awaitable[T]]) -> T:
        """What ``once`` gives, with as many further attempts as any request has."""
        begun, failed, waited = time.monotonic(), 0, 0
        while True:
            try:
                return await once()
            except Fault as fault:
                self.traffic.faults[fault.kind] += 1
                if fault.action not in ("retry", "wait"):
                    raise
                failed += fault.action == "retry"
                waited += fault.action == "wait"
                is_lost = failed > self.traffic.options.max_retries
                if is_lost or time.monotonic() - begun > STALL_S:
                    what = f"{failed + waited} attempts failed, the last with {fault.message}"
                    raise Fault(fault.kind, "quota", what) from None
                pause_s = fault.wait_s or 0.0
            longest = min(LONGEST_BACKOFF_S, FIRST_BACKOFF_S * 2 ** (failed + waited - 1))
            jittered = random.uniform(longest / 2, longest)  # noqa: S311 - jitter, no secret
            await asyncio.sleep(max(pause_s, jittered))


def with_code(fault: Fault, code: str) -> Fault:
    """The fault, or what a code of the Batch API makes of it: no room, or no money."""
    if code in QUEUE_CODES:
        return Fault("queue", "quota", fault.message)
    if code in QUOTA_CODES:
        return Fault("quota", "quota", fault.message)
    return fault
