"""What one run was asked to do, checked once and then only read."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tcb_bench.errors import UnknownName, UsageError
from tcb_bench.models.chat_options import ApiOptions
from tcb_bench.models.model_args import SECRET, parse_model_args
from tcb_bench.models.resolve import ModelSpec, resolve

GEN_KWARGS = {
    "temperature": float,
    "top_p": float,
    "top_k": int,
    "min_p": float,
    "repetition_penalty": float,
    "max_gen_toks": int,
    "until": list,
}
"""Sampling parameters a user may set, with their types; every one is always sent explicitly."""

NEUTRAL_SAMPLING: dict[str, Any] = {
    "temperature": 0.0,
    "top_p": 1.0,
    "top_k": 0,
    "min_p": 0.0,
    "repetition_penalty": 1.0,
}
"""Sampling that changes nothing but the temperature (``sampling_defaults: neutral``)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskOptions:
    """What a run says to every task; travels to ``TcbTask`` in lm-eval's task metadata."""

    data: str = "hub"  # "hub", "sample", or a folder in the layout of each task's `local`
    limit: float | None = None  # documents per task: a count >= 1 or a share in (0, 1)
    num_fewshot: int | None = None  # None = the YAML's own
    seed: int = 0  # of the draws, the shots and the sampling
    trace: bool = False  # keep stability at every generated token
    gen_kwargs: dict[str, Any] = field(default_factory=dict)  # over the YAML's generation_kwargs
    condition: dict[str, Any] = field(default_factory=dict)  # axes of the sweep's cell
    where: dict[str, list[str]] = field(
        default_factory=dict
    )  # axis -> values in place of the YAML's
    reference: str | None = None  # short or sentence, over the YAML's own
    references: str | None = None  # JSONL with the reference sentences
    ner_model: str = "en_core_web_sm"  # spaCy's, for the entity perturbations
    paraphrase_model: str | None = None  # any seq2seq or causal model of transformers
    bert_score_model: str = "roberta-large"  # an encoder, "demo", or "none"
    bert_score_layer: int | None = None  # None = bert-score's own table

    def __post_init__(self) -> None:
        """Refuses what no task could use."""
        if self.num_fewshot is not None and self.num_fewshot < 0:
            raise UsageError(f"--num_fewshot {self.num_fewshot}: give 0 or more examples")
        if not 0 <= self.seed < 2**63:
            raise UsageError(f"--seed {self.seed}: give a whole number from 0 to 2^63 - 1")
        if self.limit is not None and not (math.isfinite(self.limit) and self.limit > 0):
            raise UsageError(
                f"--limit {self.limit:g} takes no document; give a number >= 1 or a share in (0, 1)"
            )
        if self.reference not in (None, "short", "sentence"):
            raise UsageError(f"--reference {self.reference}: give short or sentence")
        check_gen_kwargs(self.gen_kwargs, "--gen_kwargs")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunConfig:
    """One evaluation run. Built once by the command line or a caller, then only read."""

    model: str  # "demo", "hf/<id or path>", or "hf" with pretrained= in model_args
    model_args: str = ""  # lm-eval's key=value,key=value
    tasks: tuple[str, ...]  # names, groups or globs
    output_path: Path = Path("runs")
    options: TaskOptions = field(default_factory=TaskOptions)
    include_path: tuple[Path, ...] = ()  # folders with a user's tasks
    device: str | None = None
    dtype: str | None = None
    batch_size: str = "auto"  # a count, or "auto"
    apply_chat_template: bool = False
    system_instruction: str | None = None
    fewshot_as_multiturn: bool = False
    fresh: bool = False  # start anew; the old store is kept aside
    api: ApiOptions = field(default_factory=ApiOptions)  # of models that are asked by HTTP

    def __post_init__(self) -> None:
        """Refuses combinations that cannot run, before anything is loaded."""
        if not self.tasks:
            raise UsageError("no tasks given: --tasks mmlu_tcb,gsm8k_tcb (`tcb-bench ls tasks`)")
        if self.batch_size != "auto" and not (
            self.batch_size.isdigit() and int(self.batch_size) > 0
        ):
            raise UsageError(f"--batch_size {self.batch_size!r}: give a whole number >= 1 or auto")
        if self.fewshot_as_multiturn and not self.apply_chat_template:
            raise UsageError("--fewshot_as_multiturn needs --apply_chat_template")

    def model_spec(self) -> ModelSpec:
        """The model that the run names, and how to load it.

        Raises:
            TcbBenchError: as ``resolve``.
        """
        return resolve(
            self.model,
            self.model_args,
            device=self.device,
            dtype=self.dtype,
            batch_size=self.batch_size,
            api=self.api,
        )

    def settings(self) -> dict[str, Any]:
        """The run as JSON types, for the manifest; secrets in ``model_args`` are masked."""
        record = asdict(self)
        record["output_path"] = str(self.output_path)
        record["include_path"] = [str(path.resolve()) for path in self.include_path]
        files = ["references"]  # so that `score` works from anywhere
        files += ["data"] if self.options.data not in ("hub", "sample") else []
        encoder = self.options.bert_score_model
        is_folder = encoder not in ("demo", "none") and Path(encoder).is_dir()
        files += ["bert_score_model"] if is_folder else []
        for name in files:
            given = record["options"][name]
            record["options"][name] = None if given is None else str(Path(given).resolve())
        record["model_args"] = mask_secrets(self.model_args)
        record["api"]["prices"] = None if self.api.prices is None else str(self.api.prices)
        return record


def mask_secrets(model_args: str) -> str:
    """``model_args`` as they were understood, with the values of key-like arguments as ``***``."""
    parsed = parse_model_args(model_args)
    return ",".join(f"{k}={'***' if SECRET.search(k) else v}" for k, v in parsed.items())


def check_gen_kwargs(values: dict[str, Any], where: str) -> None:
    """Refuses unknown sampling parameters and values outside their range.

    Raises:
        UnknownName: a parameter nobody knows, with the nearest.
        UsageError: a value of the wrong type or out of range.
    """
    for name, value in values.items():
        if name not in GEN_KWARGS:
            raise UnknownName(f"generation parameter in {where}", name, GEN_KWARGS)
        if GEN_KWARGS[name] is not list and (
            isinstance(value, bool) or not isinstance(value, int | float)
        ):
            raise UsageError(f"{where}: {name}={value!r} is not a number")
    until = values.get("until", [])
    if not all(
        isinstance(stop, str) and stop for stop in (until if isinstance(until, list) else [until])
    ):
        raise UsageError(f"{where}: until={until!r} is no text or list of texts")
    bounds = {
        "temperature": (0, math.inf),
        "top_p": (1e-6, 1),
        "top_k": (0, math.inf),
        "min_p": (0, 1),
        "repetition_penalty": (1e-6, math.inf),
        "max_gen_toks": (1, math.inf),
    }
    for name, (low, high) in bounds.items():
        if name in values and not (low <= values[name] <= high and math.isfinite(values[name])):
            raise UsageError(f"{where}: {name}={values[name]} is outside [{low:g}, {high:g}]")
