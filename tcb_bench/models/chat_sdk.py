"""The official SDK with its aiohttp transport, or one line that says how to install them."""

from __future__ import annotations

import importlib

from tcb_bench.errors import ModelError

try:
    import aiohttp as aiohttp
    import openai as openai
except ModuleNotFoundError:
    raise ModelError("requests to an API need more: pip install 'tcb-bench[api]'") from None

HTTP = importlib.import_module(type(openai.DEFAULT_CONNECTION_LIMITS).__module__.split(".")[0])
"""The HTTP library that the SDK is built on: httpx, or its own copy in later versions."""
