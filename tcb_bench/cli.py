# PYTHON_ARGCOMPLETE_OK
"""The command line: each command parses, builds a config, calls one function and prints."""

from __future__ import annotations

import argparse
import ast
import difflib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from tcb_bench.config import RunConfig, TaskOptions
from tcb_bench.errors import UsageError
from tcb_bench.version import __version__

EPILOG = """\
examples:
  tcb-bench run --model demo --data sample                 the embedded model on the shipped samples
  tcb-bench run --model hf/HuggingFaceTB/SmolLM2-360M --tasks mmlu_tcb,gsm8k_tcb --output_path runs
  tcb-bench run --model hf --model_args pretrained=./ckpt,dtype=bfloat16 --tasks mmlu_tcb --limit 20
  tcb-bench score runs/demo                                all metrics again, no model needed
  tcb-bench validate my_task.yaml                          load, render one document, check
  tcb-bench ls tasks law                                   what there is, with "law" in it

exit codes: 0 done, 1 failed, 2 usage, 3 done with sample errors (run again to ask them), 130 interrupted
shell completion: eval "$(register-python-argcomplete tcb-bench)"
"""


class Parser(argparse.ArgumentParser):
    """argparse with the nearest option named, and errors in this project's one line."""

    def error(self, message: str) -> NoReturn:
        """Raises UsageError; an unknown option or command comes with the nearest known one."""
        for word in message.split("'" if "invalid choice" in message else None):
            known = self._known()
            near = difflib.get_close_matches(word.split("=")[0], known, n=1, cutoff=0.6)
            if near and word not in known:
                message += f"; did you mean {near[0]}?"
                break
        raise UsageError(f"{message} (`{self.prog} --help`)")

    def _known(self) -> list[str]:
        names = [name for action in self._actions for name in action.option_strings]
        return names + [str(c) for action in self._actions for c in action.choices or ()]


def build_parser() -> Parser:
    """The parser of all commands; light, so that ``--help`` answers at once."""
    parser = Parser(
        prog="tcb-bench",
        description="How firmly a language model stands by its answer: delta_tcb and flip_radius beside accuracy.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"tcb-bench {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND", parser_class=Parser)
    _add_run(commands.add_parser("run", help="measure a model on tasks; the same command resumes", allow_abbrev=False))
    score = commands.add_parser("score", help="compute all metrics again from a run's stored responses")
    score.add_argument("run", type=Path, metavar="RUN", help="run folder, e.g. runs/demo")
    score.add_argument("--manifest", type=int, help="which invocation of the run (default: the newest)")
    validate = commands.add_parser("validate", help="check a task: load it, render one document, show the critical point")
    validate.add_argument("task", metavar="TASK", help="a YAML file, a task or a group")
    _add_shared(validate)
    ls = commands.add_parser("ls", help="list tasks, groups, models or metrics")
    ls.add_argument("what", choices=("tasks", "groups", "models", "metrics"))
    ls.add_argument("search", nargs="?", default="", help="show only names or descriptions with this text")
    ls.add_argument("--include_path", type=Path, action="append", default=[], metavar="DIR")
    return parser


def _add_run(run: argparse.ArgumentParser) -> None:
    what = run.add_argument_group("what to measure")
    what.add_argument("--model", default="demo", help="demo, hf/<id or path>, or hf with --model_args pretrained=...")
    what.add_argument("--model_args", default="", metavar="K=V,...", help="as in lm-eval: pretrained=, revision=, dtype=, gguf_file=, ...")
    what.add_argument("--tasks", default="mmlu_tcb,gsm8k_tcb", help="names, groups or globs, comma-separated (default: %(default)s)")
    _add_shared(run)
    how = run.add_argument_group("how")
    how.add_argument("--num_fewshot", type=int, metavar="N", help="examples before the question (default: the task's)")
    how.add_argument("--apply_chat_template", action="store_true", help="render prompts with the model's chat template")
    how.add_argument("--system_instruction", metavar="TEXT")
    how.add_argument("--fewshot_as_multiturn", action="store_true", help="examples as turns of the chat")
    how.add_argument("--gen_kwargs", default="", metavar="K=V,...", help="temperature=, top_p=, top_k=, max_gen_toks=, ... over the task's")
    how.add_argument("--trace", action="store_true", help="keep stability at every generated token, not only the critical one")
    where = run.add_argument_group("where")
    where.add_argument("--device", help="cpu, cuda, cuda:1, mps (default: the best there is)")
    where.add_argument("--dtype", help="float32, bfloat16, float16 or auto; part of every number's signature")
    where.add_argument("--batch_size", default="auto", help="a number, or auto (default)")
    where.add_argument("--output_path", type=Path, default=Path("runs"), metavar="DIR", help="one folder per model is made in it (default: %(default)s)")
    where.add_argument("--fresh", action="store_true", help="start anew; the old responses are kept aside")


def _add_shared(parser: argparse.ArgumentParser) -> None:
    data = parser.add_argument_group("data")
    data.add_argument("--data", default=None, metavar="hub|sample|DIR", help="pinned data sets from the hub (default, or TCB_BENCH_DATA), the shipped samples, or local files")
    data.add_argument("--limit", type=float, metavar="N", help="documents per task: a count >= 1 or a share below 1, seeded")
    data.add_argument("--seed", type=int, default=0, help="of draws, shots and sampling (default: 0)")
    data.add_argument("--include_path", type=Path, action="append", default=[], metavar="DIR", help="folder with your own task YAMLs; may be given again")


def run_command(argv: Sequence[str]) -> int:
    """Parses ``argv`` and runs its command; returns the exit code."""
    parser = build_parser()
    try:
        import argcomplete

        argcomplete.autocomplete(parser)
    except ModuleNotFoundError:
        pass
    arguments = parser.parse_args(argv)
    from tcb_bench import commands

    return int(getattr(commands, arguments.command)(arguments))


def task_options(arguments: argparse.Namespace) -> TaskOptions:
    """The task options of a parsed command."""
    import os

    return TaskOptions(
        data=arguments.data or os.environ.get("TCB_BENCH_DATA") or "hub",
        limit=arguments.limit,
        num_fewshot=getattr(arguments, "num_fewshot", None),
        seed=arguments.seed,
        trace=getattr(arguments, "trace", False),
        gen_kwargs=parse_pairs(getattr(arguments, "gen_kwargs", ""), "--gen_kwargs"),
    )


def run_config(arguments: argparse.Namespace) -> RunConfig:
    """The run that a parsed ``run`` command asks for."""
    return RunConfig(
        model=arguments.model,
        model_args=arguments.model_args,
        tasks=tuple(name.strip() for name in arguments.tasks.split(",") if name.strip()),
        output_path=arguments.output_path,
        options=task_options(arguments),
        include_path=tuple(arguments.include_path),
        device=arguments.device,
        dtype=arguments.dtype,
        batch_size=arguments.batch_size,
        apply_chat_template=arguments.apply_chat_template,
        system_instruction=arguments.system_instruction,
        fewshot_as_multiturn=arguments.fewshot_as_multiturn,
        fresh=arguments.fresh,
    )


def parse_pairs(text: str, option: str) -> dict[str, Any]:
    """``a=1,b=x`` as a dict, values as Python literals where they are such.

    Raises:
        UsageError: a part without ``=``, or a name given twice.
    """
    pairs: dict[str, Any] = {}
    for part in filter(None, (p.strip() for p in text.split(","))):
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


def is_terminal() -> bool:
    """Whether a person watches stderr (progress bars are shown only then)."""
    return sys.stderr.isatty()
