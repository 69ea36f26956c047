"""The options of models that are asked by HTTP."""

from __future__ import annotations

import argparse
from pathlib import Path

from tcb_bench.models.chat_options import MODES, REASONING_TOKENS


def add_api(parser: argparse.ArgumentParser) -> None:
    """How an API is asked; without effect on local models."""
    traffic = parser.add_argument_group("APIs: openai/, deepseek/, compatible/")
    traffic.add_argument(
        "--max_connections", type=int, metavar="N", help="requests at a time, at most (default: 32)"
    )
    traffic.add_argument(
        "--max_retries", type=int, metavar="N", help="further attempts of a request (default: 6)"
    )
    traffic.add_argument(
        "--retry_on_error",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="whether a resumed run asks failed requests again (default: it does)",
    )
    traffic.add_argument(
        "--requests_per_minute", type=float, metavar="N", help="start no more than these"
    )
    _add_limits(traffic)
    _add_lengths(traffic)
    traffic.add_argument(
        "--api_mode", choices=MODES, help="batch: OpenAI's Batch API, half the price, up to 24 h"
    )


def _add_limits(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--cost_limit",
        type=float,
        metavar="USD",
        help="of the run folder in all; nothing is sent that could go beyond it",
    )
    group.add_argument(
        "--token_limit", type=int, metavar="N", help="prompt and completion tokens, likewise"
    )
    group.add_argument(
        "--prices", type=Path, metavar="FILE", help="your prices (YAML) over the shipped ones"
    )


def _add_lengths(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--answer_tokens", type=int, metavar="N", help="in place of the task's max_gen_toks"
    )
    group.add_argument(
        "--reasoning_tokens",
        type=int,
        metavar="N",
        help=f"room for reasoning beside the answer, where a model reasons ({REASONING_TOKENS})",
    )
    group.add_argument(
        "--top_logprobs",
        type=int,
        metavar="K",
        help="likeliest tokens asked for where stability is wanted (default: 20; 0 = none)",
    )
