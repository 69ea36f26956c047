"""From the words of a command to its config, and on to the one function that does it."""

from __future__ import annotations

import argparse
import ast
import os
import sys
from collections.abc import Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from tcb_bench.config import RunConfig, TaskOptions
from tcb_bench.errors import UsageError
from tcb_bench.models.chat_options import ApiOptions
from tcb_bench.models.model_args import split_arguments
from tcb_bench.parser import build_parser

if TYPE_CHECKING:
    from tcb_bench.trace import TraceConfig

OPTIONAL = (
    *("reference", "references", "bert_score_model", "bert_score_layer"),
    *("ner_model", "paraphrase_model"),
)
"""Task options that only some commands have."""


def run_command(argv: Sequence[str]) -> int:
    """Parses ``argv`` and runs its command; returns the exit code."""
    import argcomplete

    parser = build_parser()
    argcomplete.autocomplete(parser)
    arguments = parser.parse_args(argv)
    if not sys.stderr.isatty():  # before the libraries that read these are imported
        os.environ.setdefault("HF_DATASETS_DISABLE_PROGRESS_BARS", "1")
        os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    from tcb_bench import commands

    return int(getattr(commands, arguments.command)(arguments))


def task_options(arguments: argparse.Namespace) -> TaskOptions:
    """The task options of a parsed command."""
    return TaskOptions(
        data=arguments.data or os.environ.get("TCB_BENCH_DATA") or "hub",
        limit=arguments.limit,
        num_fewshot=getattr(arguments, "num_fewshot", None),
        seed=arguments.seed,
        trace=getattr(arguments, "trace", False),
        gen_kwargs=parse_pairs(getattr(arguments, "gen_kwargs", ""), "--gen_kwargs"),
        where=parse_where(getattr(arguments, "where", [])),
        **{name: getattr(arguments, name) for name in OPTIONAL if hasattr(arguments, name)},
    )


def run_config(arguments: argparse.Namespace) -> RunConfig:
    """The run that a parsed ``run`` command asks for."""
    return RunConfig(
        model=arguments.model,
        model_args=arguments.model_args,
        tasks=_names(arguments.tasks if hasattr(arguments, "tasks") else arguments.task),
        output_path=arguments.output_path,
        options=task_options(arguments),
        include_path=tuple(arguments.include_path),
        device=arguments.device,
        dtype=arguments.dtype,
        batch_size=arguments.batch_size,
        apply_chat_template=arguments.apply_chat_template,
        system_instruction=getattr(arguments, "system_instruction", None),
        fewshot_as_multiturn=getattr(arguments, "fewshot_as_multiturn", False),
        fresh=arguments.fresh,
        api=api_options(arguments),
    )


def api_options(arguments: argparse.Namespace) -> ApiOptions:
    """How APIs are asked, from those options that the command has and the user gave."""
    given = {field.name: getattr(arguments, field.name, None) for field in fields(ApiOptions)}
    return ApiOptions(**{name: value for name, value in given.items() if value is not None})


def trace_config(arguments: argparse.Namespace) -> TraceConfig:
    """The trace that a parsed ``trace`` command asks for."""
    from tcb_bench.data_files import read_text
    from tcb_bench.trace import TraceConfig
    from tcb_bench.trace_text import Rule

    file = arguments.prompt_file
    sampling = {name: getattr(arguments, name) for name in ("max_gen_toks", "temperature")}
    marks = {name: getattr(arguments, name) for name in ("threshold", "window")}
    given = {name: value for name, value in marks.items() if value is not None}
    return TraceConfig(
        model=arguments.model,
        model_args=arguments.model_args,
        device=arguments.device,
        dtype=arguments.dtype,
        prompt=read_text(file).rstrip("\n") if file is not None else arguments.prompt,
        task=arguments.tasks,
        doc=arguments.doc,
        options=TaskOptions(
            data=arguments.data or os.environ.get("TCB_BENCH_DATA") or "hub",
            seed=arguments.seed,
            gen_kwargs={name: value for name, value in sampling.items() if value is not None},
        ),
        include_path=tuple(arguments.include_path),
        apply_chat_template=arguments.apply_chat_template,
        rule=Rule(**{**given, **({"window": None} if given.get("window") == 0 else {})}),
    )


def study_settings(arguments: argparse.Namespace) -> dict[str, Any]:
    """The settings of a parsed ``study`` command, complete."""
    from tcb_bench.parser_research import SETTING_OPTIONS
    from tcb_bench.studies.settings import read_settings

    over: dict[str, Any] = {}
    for pair in arguments.set:
        over |= parse_pairs(pair, "--set")
    given = {name: getattr(arguments, name, None) for name in SETTING_OPTIONS}
    over |= {name: value for name, value in given.items() if value}
    if arguments.tasks:
        over["tasks"] = list(_names(arguments.tasks))
    return read_settings(arguments.study, arguments.config, over)


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def parse_where(parts: Sequence[str]) -> dict[str, list[str]]:
    """``["temperature=0,0.6", "context=ner"]`` as axis -> values, each as a condition id shows it.

    Raises:
        UsageError: a part without ``=`` or values, or an axis given twice.
    """
    found: dict[str, list[str]] = {}
    for part in parts:
        axis, sep, values = part.partition("=")
        names = [value.strip() for value in values.split(",") if value.strip()]
        if not sep or not axis.strip() or not names:
            raise UsageError(f"--where {part!r}: write axis=value,value as in temperature=0.0,0.6")
        if axis.strip() in found:
            raise UsageError(f"--where: {axis.strip()} is given twice; join its values by commas")
        found[axis.strip()] = names
    return found


def parse_pairs(text: str, option: str) -> dict[str, Any]:
    """``a=1,b=x`` as a dict, values as Python literals where they are such.

    Raises:
        UsageError: a part without ``=``, or a name given twice.
    """
    pairs: dict[str, Any] = {}
    for part in (p.strip() for p in split_arguments(text, option)):
        name, sep, value = part.partition("=")
        if not sep or not name:
            raise UsageError(f"{option}: {part!r} is not name=value")
        if name in pairs:
            raise UsageError(f"{option}: {name} is given twice")
        try:
            pairs[name] = ast.literal_eval(value)
        except (ValueError, SyntaxError):
            pairs[name] = value
    return pairs
