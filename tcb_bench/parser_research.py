"""The words of `study`: common options, and each study's own."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from tcb_bench.parser_options import add_data, add_resources, add_where
from tcb_bench.studies import STUDIES

EPILOG = """\
examples:
  tcb-bench study geometry --model demo --data sample
  tcb-bench study correlations --model hf/HuggingFaceTB/SmolLM2-360M --approximations
  tcb-bench study audit --model demo --tasks mmlu_tcb_reasoning --set perturbations=typos
  tcb-bench study layers --model demo --data sample --config my.yaml

files: OUTPUT/MODEL/studies/NAME holds study.json, samples.jsonl, figures/ and study.html;
`tcb-bench report OUTPUT/MODEL` shows all studies of a model. The same command resumes.
"""


def add_research_commands(commands: Any) -> None:
    """Adds `study` with one sub-command per study."""
    study = commands.add_parser(
        "study",
        help="the Token Constraint Bound paper's experiments, and ours",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    names = study.add_subparsers(
        dest="study", required=True, metavar="STUDY", parser_class=type(study)
    )
    for name, summary in STUDIES.items():
        parser = names.add_parser(name, help=summary, description=summary, allow_abbrev=False)
        _add_common(parser)
        if name in OWN:
            OWN[name](parser)


def _add_common(parser: argparse.ArgumentParser) -> None:
    what = parser.add_argument_group("what to measure")
    what.add_argument("--model", default="demo", help="as in `tcb-bench run` (default: demo)")
    what.add_argument("--model_args", default="", metavar="K=V,...")
    what.add_argument("--tasks", help="names, groups or globs, over the study's own")
    what.add_argument(
        "--apply_chat_template", action="store_true", help="render prompts as the model's chat"
    )
    how = parser.add_argument_group("settings of the study")
    how.add_argument("--config", type=Path, metavar="FILE", help="a YAML over the shipped one")
    how.add_argument(
        "--set", action="append", default=[], metavar="K=V", help="one setting; may be given again"
    )
    how.add_argument(
        "--tag", default="", metavar="TEXT", help="keep this variant in a folder STUDY-TEXT"
    )
    add_data(parser)
    add_resources(parser)
    add_where(parser)


def _approximations(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--approximations",
        action="store_true",
        help="the refined, diffuse and peaked forms of delta_tcb, and their error",
    )


def _interventions(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--item", help="document id (default: test/811 of GSM8K)")
    parser.add_argument("--interventions", metavar="FILE", help="a YAML with your own rows")


def _prompts(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--space", metavar="FILE", help="a YAML with your own phrases and shots")
    parser.add_argument("--task", dest="tasks", metavar="NAME", help="the same as --tasks")


OWN = {
    "correlations": _approximations,
    "geometry": _approximations,
    "audit": _approximations,
    "interventions": _interventions,
    "prompts": _prompts,
}
"""Options that only one study has; each is a setting of its YAML too."""

SETTING_OPTIONS = ("approximations", "item", "interventions", "space")
"""Options that stand for a setting of the same name."""
