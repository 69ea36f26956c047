"""From a model's name and arguments to a ``ChatAPI``: where it is, the key, what it takes."""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tcb_bench.errors import ModelError, UnknownName, UsageError
from tcb_bench.models.capabilities import Capability, capability
from tcb_bench.models.capabilities_table import read_probed
from tcb_bench.models.chat_api import ChatAPI
from tcb_bench.models.chat_budget import Budget
from tcb_bench.models.chat_client import NO_KEY, Client, Connection
from tcb_bench.models.chat_faults import Fault
from tcb_bench.models.chat_options import SECONDS, ApiOptions
from tcb_bench.models.chat_probe import probe
from tcb_bench.models.chat_request import OURS
from tcb_bench.models.chat_tokens import counter
from tcb_bench.models.prices import read_prices
from tcb_bench.models.resolve import ModelSpec

BASE_URLS = {"openai": "https://api.openai.com/v1", "deepseek": "https://api.deepseek.com"}
KEYS = {"openai": "OPENAI_API_KEY", "deepseek": "DEEPSEEK_API_KEY"}
ARGUMENTS = (
    *("base_url", "api_key", "api_key_env", "tokenizer", "extra_body", "think_end_token"),
    *SECONDS,
)
SECRET_FIELD = re.compile(r"api[_-]?key|authorization|secret|password", re.IGNORECASE)
LEARNED = "capability.json"
"""File of a run folder with what a probe found; without it the model is probed again."""


def load_chat(spec: ModelSpec, log: Path | None, *, is_offline: bool = False) -> ChatAPI:
    """The model behind ``spec``.

    Args:
        spec: from ``resolve``; its ``api`` says how to ask.
        log: a file in the run folder, beside which a probe's findings are kept.
        is_offline: for counting: nothing is sent, no key is needed, and an unknown model is taken
            to accept everything.

    Raises:
        UsageError: an argument is unknown or does not fit.
        ModelError: no key, or the API refuses.
    """
    options = _with_arguments(spec.api or ApiOptions(), spec.kwargs)
    connection = _connection(spec, is_offline)
    known = capability(spec.provider, spec.name, connection.extra_body)
    if known is None:
        file = log.parent / LEARNED if log is not None else None
        known = _learned(spec, connection, options, file, is_offline)
    if options.think_end_token:
        known = replace(known, is_reasoning=True, counts_reasoning=True)
    price = read_prices(options.prices).of(spec.provider, spec.name)
    if price is None and options.cost_limit is not None:
        raise UsageError(
            f"--cost_limit: no price is known of {spec.label}; write one into a file and name it "
            "with --prices"
        )
    is_batch = options.api_mode == "batch"
    if is_batch and not known.has_batch:
        raise UsageError(f"--api_mode batch: {spec.label} is not in a Batch API; leave it out")
    budget = Budget(price, options.cost_limit, options.token_limit, is_batch)
    tokens = counter(spec.provider, spec.name, spec.kwargs.get("tokenizer"))
    model = ChatAPI(known, connection, options, budget, tokens)
    model.folder = log.parent if log is not None else None
    return model


def _with_arguments(options: ApiOptions, kwargs: Mapping[str, Any]) -> ApiOptions:
    for name in kwargs:
        if name not in ARGUMENTS:
            raise UnknownName("argument of an API model", name, ARGUMENTS)
    given: dict[str, Any] = {}
    for name, option in SECONDS.items():
        if name in kwargs:
            value = kwargs[name]
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise UsageError(f"{name}={value!r}: give seconds")
            given[option] = float(value)
    if "think_end_token" in kwargs:
        if not isinstance(end := kwargs["think_end_token"], str):
            raise UsageError(f"think_end_token={end}: an API shows no ids; give it as a text")
        given["think_end_token"] = end
    return replace(options, **given)


def _connection(spec: ModelSpec, is_offline: bool) -> Connection:
    kwargs = spec.kwargs
    url = kwargs.get("base_url") or BASE_URLS.get(spec.provider)
    if not url:
        raise UsageError(
            f"{spec.label}: where is it? --model_args base_url=http://localhost:8000/v1"
        )
    try:
        parts = urlsplit(str(url))
        is_port = parts.port != 0
    except ValueError:
        raise UsageError("base_url: not an address; expected http://host:port/v1") from None
    if not is_port or parts.scheme not in ("http", "https") or not parts.hostname:
        raise UsageError(f"base_url={parts.scheme}...: expected http://host/v1 or https://host/v1")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise UsageError(
            "base_url holds a user, a password or a query, which could end up in results; give a "
            "key in a variable and name it: api_key_env=NAME"
        )
    return Connection(
        str(url).rstrip("/"), key_of(spec, is_offline=is_offline), _extra_body(kwargs)
    )


def _extra_body(kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of the user's for every request, which must be JSON, harmless and no secret."""
    extra = kwargs.get("extra_body") or {}
    if not isinstance(extra, dict):
        raise UsageError('extra_body: expected a JSON object: extra_body={"provider": {...}}')
    if given := sorted(OURS & extra.keys()):
        raise UsageError(f"extra_body: {given[0]} is set by the task and the options; leave it out")
    try:
        json.dumps(extra, allow_nan=False, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        raise UsageError("extra_body: holds NaN, Infinity or half a character") from None
    if secret := next(filter(SECRET_FIELD.search, _names(extra)), None):
        raise UsageError(
            f"extra_body: {secret} looks like a secret, and results repeat these fields; give "
            "a key in a variable and name it: api_key_env=NAME"
        )
    return extra


def _names(value: object) -> Iterator[str]:
    """Names of all fields of a value of JSON."""
    if isinstance(value, dict):
        yield from map(str, value)
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from _names(item)


def key_of(spec: ModelSpec, *, is_offline: bool = False) -> str:
    """The key, of the arguments or of a variable; a compatible server may need none.

    Raises:
        UsageError: two are named.
        ModelError: there is none, or it cannot be one.
    """
    given, variable = spec.kwargs.get("api_key"), spec.kwargs.get("api_key_env")
    if given and variable:
        raise UsageError("api_key and api_key_env both name a key; give one (better api_key_env)")
    name = variable or KEYS.get(spec.provider)
    key = str(given or (os.environ.get(str(name), "") if name else "")).strip()
    if key.isascii() and key.isprintable() and (key or is_offline or name is None):
        return key or NO_KEY
    if key:
        raise ModelError(f"{spec.label}: the key has characters that no key has; copy it again")
    raise ModelError(
        f"{spec.label}: no key; put it into {name}, or into another variable and name that: "
        "--model_args api_key_env=NAME"
    )


def _learned(
    spec: ModelSpec,
    connection: Connection,
    options: ApiOptions,
    file: Path | None,
    is_offline: bool,
) -> Capability:
    asked = {"base_url": connection.base_url, "model": spec.name}
    if file is not None and file.is_file():
        try:
            record = json.loads(file.read_text(encoding="utf-8"))
            if {name: record[name] for name in asked} == asked:
                return read_probed("capability", spec.provider, spec.name, record["capability"])
        except (ValueError, KeyError, TypeError, RecursionError, OSError, UsageError) as error:
            raise ModelError(
                f"{file}: cannot be read ({error}); delete it to probe again"
            ) from None
    if is_offline:
        return _anything(spec)
    found = asyncio.run(_probe(spec, connection, options))
    if file is not None:
        text = json.dumps({**asked, "capability": asdict(found)}, indent=2)
        part = file.with_suffix(".part")  # a run killed here leaves no half of it
        part.write_text(text + "\n", encoding="utf-8")
        part.replace(file)
    return found


async def _probe(spec: ModelSpec, connection: Connection, options: ApiOptions) -> Capability:
    async with Client(connection, options) as client:
        try:
            return await probe(client, spec.provider, spec.name)
        except Fault as fault:
            raise ModelError(f"{spec.label}: {fault.message}") from None


def _anything(spec: ModelSpec) -> Capability:
    """Of a model that is only counted: everything is taken, as far as counting is concerned."""
    return Capability(
        provider=spec.provider,
        model=spec.name,
        is_known=False,
        temperature=(0.0, 2.0),
        temperature_effective="unknown",
        max_tokens_field="max_tokens",
        max_tokens=None,
        counts_reasoning=True,
        is_reasoning=False,
        stop_limit=4,
        top_logprobs=20,
        seed=True,
        n=1,
        top_p=True,
        system_role="system",
        has_batch=spec.provider == "openai",
        context=None,
        source="",
        note="not probed",
    )
