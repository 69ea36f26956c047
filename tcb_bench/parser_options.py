"""Groups of options that several commands share."""

from __future__ import annotations

import argparse
from pathlib import Path

DTYPES = ("float32", "bfloat16", "float16", "auto")


def add_data(parser: argparse.ArgumentParser) -> None:
    """Which documents."""
    group = parser.add_argument_group("data")
    group.add_argument(
        "--data",
        type=not_empty,
        metavar="hub|sample|DIR",
        help="pinned data sets from the hub (default, or TCB_BENCH_DATA), "
        "the shipped samples, or local files",
    )
    group.add_argument(
        "--limit",
        type=float,
        metavar="N",
        help="documents per task (per stratum where it has some): a count >= 1 or a share below 1, "
        "drawn by seed",
    )
    group.add_argument(
        "--seed", type=int, default=0, help="of draws, shots and sampling (default: 0)"
    )
    add_include(group)


def add_include(group: argparse._ActionsContainer) -> None:
    """Where a user's own tasks lie."""
    group.add_argument(
        "--include_path",
        type=Path,
        action="append",
        default=[],
        metavar="DIR",
        help="folder with your own task YAMLs; may be given again",
    )


def add_texts(parser: argparse.ArgumentParser, *, is_again: bool = False) -> None:
    """What free answers are compared with, and by which encoder.

    ``is_again``: of a run that is scored again; what is not given is then as it was.
    """
    group = parser.add_argument_group("comparing texts")
    group.add_argument("--reference", choices=("short", "sentence"), help="over the task's own")
    group.add_argument(
        "--references", metavar="FILE", help="reference sentences, of `tcb-bench references`"
    )
    group.add_argument(
        "--bert_score_model",
        default=None if is_again else "roberta-large",
        metavar="NAME",
        help="an encoder of the hub, a folder, demo (MiniLM) or none"
        + ("" if is_again else " (default: %(default)s)"),
    )
    group.add_argument(
        "--bert_score_layer", type=int, metavar="N", help="its layer (default: bert-score's table)"
    )


def add_resources(parser: argparse.ArgumentParser) -> None:
    """What perturbations may need."""
    group = parser.add_argument_group("perturbations")
    group.add_argument(
        "--ner_model", default="en_core_web_sm", help="spaCy's, for entities (default: %(default)s)"
    )
    group.add_argument(
        "--paraphrase_model", metavar="MODEL", help="any seq2seq or causal model of transformers"
    )


def add_device(group: argparse._ArgumentGroup) -> None:
    """Where and in which precision the model runs."""
    group.add_argument("--device", help="cpu, cuda, cuda:1, mps (default: the best there is)")
    group.add_argument(
        "--dtype",
        choices=DTYPES,
        metavar="DTYPE",
        help="float32, bfloat16, float16 or auto; part of every number's signature",
    )


def not_empty(text: str) -> str:
    """An option's value; an unset variable of the shell is no value."""
    if not text.strip():
        raise argparse.ArgumentTypeError("it is empty; give it a value")
    return text


def folder(text: str) -> Path:
    """A path that is not empty."""
    return Path(not_empty(text))


def add_where(run: argparse.ArgumentParser) -> None:
    """Where it runs and where it writes."""
    group = run.add_argument_group("where")
    add_device(group)
    group.add_argument("--batch_size", default="auto", help="a number, or auto (default)")
    group.add_argument(
        "--output_path",
        type=folder,
        default=Path("runs"),
        metavar="DIR",
        help="one folder per model is made in it (default: %(default)s)",
    )
    group.add_argument(
        "--fresh", action="store_true", help="start anew; the old responses are kept aside"
    )
