"""The command line's words: commands, options, help, and errors that name the nearest option."""

from __future__ import annotations

import argparse
import difflib
from pathlib import Path
from typing import NoReturn

from tcb_bench.errors import UsageError
from tcb_bench.parser_api import add_api
from tcb_bench.parser_boards import add_board_commands
from tcb_bench.parser_options import add_data, add_include, add_resources, add_texts, add_where
from tcb_bench.parser_research import add_research_commands
from tcb_bench.parser_study import add_study_commands
from tcb_bench.parser_trace import add_trace_command
from tcb_bench.version import __version__

EPILOG = """\
examples:
  tcb-bench run --model demo --data sample           the embedded model on the shipped samples
  tcb-bench run --model hf/HuggingFaceTB/SmolLM2-360M --tasks mmlu_tcb,gsm8k_tcb
  tcb-bench run --model hf --model_args pretrained=./ckpt,dtype=bfloat16 --tasks mmlu_tcb
  tcb-bench score runs/demo                          all metrics again, no model needed
  tcb-bench validate my_task.yaml                    load, render one document, check
  tcb-bench ls tasks law                             what there is, with "law" in it
  tcb-bench run --model demo --data sample --tasks hotpotqa_tempperturb --limit 1 \\
      --where temperature=0,1 --bert_score_model demo    damaged contexts x temperature
  tcb-bench report runs/demo                         figures and one HTML file
  tcb-bench run --plan study.yaml --dry-run          several models: what it will ask
  tcb-bench run --model openai/gpt-4o --tasks hotpotqa_tempperturb --dry-run    its price
  tcb-bench submit runs/hf__org__name                leaderboard entries, checked

exit codes: 0 done, 1 failed, 2 usage, 3 done with sample errors (run again to ask them),
            130 interrupted, everything finished is saved
completion: eval "$(register-python-argcomplete tcb-bench)"
"""


class Parser(argparse.ArgumentParser):
    """argparse with the nearest option named, and errors in this project's one line."""

    def error(self, message: str) -> NoReturn:
        """Raises UsageError; an unknown option or command comes with the nearest known one."""
        given = message.split("'")[1:2] if "invalid choice" in message else message.split()
        for word in given:
            name = word.split("=")[0].rstrip(":")
            near = difflib.get_close_matches(name, self._known(), n=1, cutoff=0.6)
            if near and near[0] != name:
                message += f"; did you mean {near[0]}?"
                break
        raise UsageError(f"{message} (`{self.prog} --help`)")

    def _known(self) -> list[str]:
        options = [name for action in self._actions for name in action.option_strings]
        return options + [str(c) for action in self._actions for c in action.choices or ()]

    def parse_known_args(self, args=None, namespace=None):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
        """argparse's, but a command refuses its own unknown options, so it can name the nearest."""
        found, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return found, unknown


def build_parser() -> Parser:
    """The parser of all commands; light, so that ``--help`` answers at once."""
    parser = Parser(
        prog="tcb-bench",
        description="How firmly a language model stands by its answer: "
        "delta_tcb and flip_radius beside accuracy.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"tcb-bench {__version__}")
    commands = parser.add_subparsers(
        dest="command", required=True, metavar="COMMAND", parser_class=Parser
    )
    run = commands.add_parser(
        "run", help="measure a model on tasks; the same command resumes", allow_abbrev=False
    )
    _add_what(run)
    _add_plan(run)
    add_data(run)
    _add_sweep(run)
    _add_how(run)
    add_texts(run)
    add_resources(run)
    add_where(run)
    add_api(run)
    _add_score(commands.add_parser("score", help="all metrics again from the stored responses"))
    validate = commands.add_parser("validate", help="check a task before running it")
    validate.add_argument("task", metavar="TASK", help="a YAML file, a task or a group")
    add_data(validate)
    add_texts(validate)
    add_resources(validate)
    _add_ls(
        commands.add_parser("ls", help="list tasks, models, metrics, perturbations, conditions")
    )
    add_study_commands(commands)
    add_research_commands(commands)
    add_trace_command(commands)
    add_board_commands(commands)
    return parser


def _add_what(run: argparse.ArgumentParser) -> None:
    group = run.add_argument_group("what to measure")
    group.add_argument(
        "--model",
        default="demo",
        help="demo (default), hf/<id or path>, vllm/..., openai/..., deepseek/..., compatible/... "
        "(`tcb-bench ls models`), or hf with --model_args pretrained=",
    )
    group.add_argument(
        "--model_args",
        default="",
        metavar="K=V,...",
        help="as in lm-eval: pretrained=, revision=, dtype=, gguf_file=, ...; of an API: "
        "base_url=, api_key_env=, tokenizer=, extra_body=",
    )
    group.add_argument(
        "--tasks",
        default="mmlu_tcb,gsm8k_tcb",
        help="names, groups or globs, comma-separated (default: %(default)s)",
    )


def _add_plan(run: argparse.ArgumentParser) -> None:
    group = run.add_argument_group("several models, and looking ahead")
    group.add_argument(
        "--plan", type=Path, metavar="FILE", help="a study: models x tasks, one folder per model"
    )
    group.add_argument(
        "--dry-run", action="store_true", help="count what would be asked; no model is loaded"
    )


def _add_sweep(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("sweep")
    group.add_argument(
        "--where",
        action="append",
        default=[],
        metavar="AXIS=V,...",
        help="run these values of an axis only, as in temperature=0.0,0.6; may be given again. "
        "`tcb-bench ls conditions TASK` shows the axes",
    )


def _add_how(run: argparse.ArgumentParser) -> None:
    group = run.add_argument_group("how")
    group.add_argument(
        "--num_fewshot", type=int, metavar="N", help="examples in the prompt (default: the task's)"
    )
    group.add_argument(
        "--apply_chat_template",
        action="store_true",
        help="render prompts with the model's chat template",
    )
    group.add_argument("--system_instruction", metavar="TEXT", help="put before every prompt")
    group.add_argument(
        "--fewshot_as_multiturn", action="store_true", help="examples as turns of the chat"
    )
    group.add_argument(
        "--gen_kwargs",
        default="",
        metavar="K=V,...",
        help="temperature=, top_p=, top_k=, max_gen_toks=, ... over the task's own",
    )
    group.add_argument(
        "--trace",
        action="store_true",
        help="keep stability at every generated token, not only the critical one",
    )


def _add_score(score: argparse.ArgumentParser) -> None:
    score.add_argument("run", type=Path, metavar="RUN", help="run folder, e.g. runs/demo")
    score.add_argument(
        "--manifest", type=int, metavar="N", help="which invocation (default: the newest)"
    )
    add_texts(score, is_again=True)


def _add_ls(ls: argparse.ArgumentParser) -> None:
    kinds = ("tasks", "groups", "models", "metrics", "perturbations", "conditions")
    ls.add_argument("what", choices=kinds)
    ls.add_argument(
        "search", nargs="?", default="", help="only rows with this text; for conditions, the task"
    )
    _add_sweep(ls)
    add_include(ls)
