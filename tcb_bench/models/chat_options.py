"""What a user says about requests to an API: traffic, retries, money, and how long to wait."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from tcb_bench.errors import UsageError

PROVIDERS = ("openai", "deepseek", "compatible")
"""Providers of ``--model provider/name`` that are reached by HTTP."""

REASONING_TOKENS = 8192
"""Room for reasoning beside the answer, for models whose token limit counts both."""

TOP_LOGPROBS = 20
"""More than these no API gives with each token."""

MODES = ("online", "batch")
LEAST = {
    **{"max_connections": 1, "max_retries": 0, "top_logprobs": 0, "reasoning_tokens": 0},
    **{"answer_tokens": 1, "token_limit": 1},
}
SECONDS = {
    **{f"{name}_timeout": f"{name}_timeout_s" for name in ("connect", "read", "total")},
    "poll_s": "poll_s",
}
"""Model argument -> option; both in seconds."""

ABOVE_ZERO = {
    **{"cost_limit": "--cost_limit ", "requests_per_minute": "--requests_per_minute "},
    **{option: f"{argument}=" for argument, option in SECONDS.items()},
}
"""Option -> how a user gives it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiOptions:
    """How an API is asked. Built once by the command line or a caller, then only read."""

    max_connections: int = 32  # requests at the same time, at most; fewer after a 429
    max_retries: int = 6  # further attempts of one request; waiting out a 429 is not counted
    retry_on_error: bool = True  # whether a resumed run asks failed requests again
    cost_limit: float | None = None  # USD of a run folder in all; None = no limit
    token_limit: int | None = None  # prompt and completion tokens of a run folder in all
    requests_per_minute: float | None = None  # None = what the API takes
    answer_tokens: int | None = None  # in place of the task's max_gen_toks
    reasoning_tokens: int = REASONING_TOKENS  # beside those, for reasoning models
    top_logprobs: int = TOP_LOGPROBS  # tokens with log-probabilities at most; 0 = ask for none
    think_end_token: str = ""  # what ends reasoning inside a text; "" = none is there
    api_mode: str = "online"  # or batch: OpenAI's Batch API
    prices: Path | None = None  # a user's price file over the shipped one
    connect_timeout_s: float = 20.0
    read_timeout_s: float = 300.0  # without a byte; blank keep-alive lines count as bytes
    total_timeout_s: float = 1800.0  # for one attempt
    poll_s: float = 60.0  # longest pause between two looks at a batch

    def __post_init__(self) -> None:
        """Refuses what no run could use."""
        for name, least in LEAST.items():
            if (value := getattr(self, name)) is not None and value < least:
                raise UsageError(f"--{name} {value}: give a number >= {least}")
        if self.top_logprobs > TOP_LOGPROBS:
            raise UsageError(
                f"--top_logprobs {self.top_logprobs}: APIs give {TOP_LOGPROBS} at most"
            )
        for name, given in ABOVE_ZERO.items():
            value = getattr(self, name)
            if value is not None and not (math.isfinite(value) and value > 0):
                raise UsageError(f"{given}{value:g}: give a number above 0")
        if self.api_mode not in MODES:
            raise UsageError(f"--api_mode {self.api_mode}: give online or batch")
