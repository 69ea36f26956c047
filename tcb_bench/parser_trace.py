"""The words of `trace`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from tcb_bench.parser_options import add_device, add_include, not_empty

EPILOG = """\
examples:
  tcb-bench trace --prompt "The child said go, go, go, and the river said"
  tcb-bench trace --model hf/HuggingFaceTB/SmolLM2-360M --prompt_file story.txt --out story
  tcb-bench trace --data sample --tasks gsm8k_tcb --doc test/3 --max_gen_toks 200 --all

marks: dip = log10 delta_tcb far below that of the tokens around it; loop = the text repeats itself.
--out DIR writes trace.json, trace.png, trace.svg and trace.html (hover or focus a token).
"""


def add_trace_command(commands: Any) -> None:
    """Adds `trace`."""
    trace = commands.add_parser(
        "trace",
        help="one generated text, token by token: stability, dips, loops",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    _add_what(trace)
    _add_generation(trace)
    _add_marks(trace)
    where = trace.add_argument_group("where")
    add_device(where)
    where.add_argument("--out", type=Path, metavar="DIR", help="also write JSON, figure and page")


def _add_what(trace: argparse.ArgumentParser) -> None:
    group = trace.add_argument_group("what to trace")
    group.add_argument("--model", default="demo", help="as in `tcb-bench run` (default: demo)")
    group.add_argument("--model_args", default="", metavar="K=V,...")
    source = group.add_mutually_exclusive_group()
    source.add_argument(
        "--prompt", type=not_empty, metavar="TEXT", help="the text that the model continues"
    )
    source.add_argument("--prompt_file", type=Path, metavar="FILE", help="a file with it, UTF-8")
    source.add_argument("--tasks", metavar="TASK", help="a task; the prompt is its document's")
    group.add_argument("--doc", metavar="ID", help="id of the document (default: the first)")
    group.add_argument(
        "--apply_chat_template", action="store_true", help="ask as the user of the model's chat"
    )
    group.add_argument(
        "--data", metavar="hub|sample|DIR", help="documents of --tasks, as in `tcb-bench run`"
    )
    add_include(group)


def _add_generation(trace: argparse.ArgumentParser) -> None:
    group = trace.add_argument_group("generation")
    group.add_argument(
        "--max_gen_toks",
        type=int,
        metavar="N",
        help="new tokens at most (default: 64, or the task's)",
    )
    group.add_argument("--temperature", type=float, metavar="T", help="default: 0, or the task's")
    group.add_argument("--seed", type=int, default=0, help="of the sampling (default: 0)")


def _add_marks(trace: argparse.ArgumentParser) -> None:
    group = trace.add_argument_group("marks and table")
    group.add_argument(
        "--threshold",
        type=float,
        metavar="Z",
        help="a dip lies Z robust standard deviations below its surroundings (default: 1.5)",
    )
    group.add_argument(
        "--window",
        type=int,
        metavar="N",
        help="surroundings: N tokens to either side (default: 12; 0 = the whole text)",
    )
    group.add_argument("--all", action="store_true", help="a row for every token of a long text")
