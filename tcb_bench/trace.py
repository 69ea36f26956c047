"""``tcb-bench trace``: one prompt, one text, and its stability at every token."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tcb_bench.config import NEUTRAL_SAMPLING, TaskOptions, check_gen_kwargs
from tcb_bench.data import ID_COLUMN
from tcb_bench.durable import request
from tcb_bench.errors import DataError, ModelError, UnknownName, UsageError
from tcb_bench.load_tasks import load_tasks, quiet
from tcb_bench.models.resolve import ModelSpec, resolve, running
from tcb_bench.responses import Failure
from tcb_bench.results import digest, signature
from tcb_bench.trace_text import Rule, TracedText, traced_text

Say = Callable[[str], None]
MAX_GEN_TOKS = 64
NO_WEIGHTS = "an API gives no hidden states, so there is nothing to trace; use hf/... or vllm/..."


@dataclass(frozen=True, kw_only=True)
class TraceConfig:
    """What to trace: a prompt, or the document ``doc`` of the task ``task``.

    Attributes:
        model, model_args, device, dtype: as for a run.
        prompt: the text itself; None where a task is named.
        task, doc: a task and the id of one of its documents; without an id its first.
        options: which data, the seed, and ``gen_kwargs`` over the task's own.
        include_path: folders with a user's tasks.
        apply_chat_template: ask through the model's chat template.
        rule: what is marked.
    """

    model: str
    model_args: str = ""
    device: str | None = None
    dtype: str | None = None
    prompt: str | None = None
    task: str | None = None
    doc: str | None = None
    options: TaskOptions = field(default_factory=TaskOptions)
    include_path: tuple[Path, ...] = ()
    apply_chat_template: bool = False
    rule: Rule = field(default_factory=Rule)

    def __post_init__(self) -> None:
        """Refuses a trace of nothing, or of two things."""
        if (self.prompt is None) == (self.task is None):
            raise UsageError(
                "what to trace? give one of --prompt TEXT, --prompt_file FILE, or --tasks TASK "
                "with --doc ID"
            )
        if self.task is not None and ("," in self.task or not self.task.strip()):
            raise UsageError(
                f"--tasks {self.task!r}: trace takes one task, as in --tasks gsm8k_tcb"
            )
        if self.doc is not None and self.task is None:
            raise UsageError(f"--doc {self.doc}: name its task: --tasks TASK")


@dataclass(frozen=True, kw_only=True)
class Trace:
    """A traced text, and all that it depends on.

    Attributes:
        source: ``prompt``, or task and document.
        prompt: as the model saw it.
        generation: every sampling parameter.
        model: name and facts of the model.
        text: the text and its numbers; delta_tcb is for epsilon = 1.
        signature: one line with every setting that can change a number.
    """

    source: str
    prompt: str
    generation: Mapping[str, Any]
    model: Mapping[str, Any]
    rule: Rule
    text: TracedText
    signature: str


def trace(config: TraceConfig, say: Say = lambda line: None) -> Trace:
    """Generates one text with stability at every token.

    Raises:
        TcbBenchError: one of its children, with one line for the user.
    """
    spec = resolve(
        config.model, config.model_args, device=config.device, dtype=config.dtype, batch_size=1
    )
    if spec.is_api:
        raise ModelError(f"{spec.label}: {NO_WEIGHTS}")
    task, doc = _document(config) if config.task is not None else (None, {})
    generation = _generation(config, task)
    say(f"loading {spec.label}")
    with running(spec) as model:
        if not hasattr(model, "generate_traced"):
            raise ModelError(f"{spec.label}: this back end does not measure stability")
        prompt = _prompt(config, task, doc, model)
        asked = request("generate_traced", {}, (prompt, generation), "trace")
        [found] = model.generate_traced([asked])
        if isinstance(found, Failure):
            raise ModelError(f"{spec.label}: {found.reason}")
        source = "prompt" if task is None else f"{task.base_name} {doc[ID_COLUMN]}"
        return Trace(
            source=source,
            prompt=prompt,
            generation=generation,
            model={"name": spec.label, **model.info},
            rule=config.rule,
            text=traced_text(found, config.rule),
            signature=_signature(config, spec, model, prompt, generation),
        )


def _document(config: TraceConfig) -> tuple[Any, Mapping[str, Any]]:
    """The task and the document, found before the model is loaded."""
    with quiet():
        loaded = load_tasks([str(config.task)], config.options, config.include_path)
    ours = [task for task in loaded.tasks.values() if hasattr(task, "is_tcb_task")]
    documents: list[tuple[Any, Mapping[str, Any]]] = [
        (task, doc) for task in ours for doc in task.eval_docs
    ]
    if not documents:
        raise DataError(
            f"{config.task}: one of lm-eval's own tasks; trace takes tasks of tcb-bench"
        )
    if config.doc is None:
        return documents[0]
    for task, doc in documents:
        if str(doc[ID_COLUMN]) == config.doc:
            return task, doc
    ids = [str(doc[ID_COLUMN]) for _, doc in documents]
    raise UnknownName(f"document of {config.task}", config.doc, ids, f"as in {ids[0]}")


def _generation(config: TraceConfig, task: Any) -> dict[str, Any]:
    """Every sampling parameter: neutral, the task's own, then what the user says."""
    own = {"until": [], "max_gen_toks": MAX_GEN_TOKS, **NEUTRAL_SAMPLING}
    if task is not None:
        own |= task.generation()
    asked = own | config.options.gen_kwargs
    check_gen_kwargs(config.options.gen_kwargs, "trace")
    seed = config.options.seed if asked["temperature"] > 0 else None
    return {**asked, "seed": seed, "stability_at": "all"}


def _prompt(config: TraceConfig, task: Any, doc: Mapping[str, Any], model: Any) -> str:
    has_chat = config.apply_chat_template
    if has_chat and not getattr(model.tokenizer, "chat_template", None):
        raise ModelError(f"{config.model}: has no chat template; leave --apply_chat_template out")
    if task is None:
        text = str(config.prompt)
        turns = [{"role": "user", "content": text}]
        return str(model.apply_chat_template(turns)) if has_chat else text
    rendered = task.fewshot_context(
        doc,
        num_fewshot=task.config.num_fewshot or 0,
        apply_chat_template=has_chat,
        chat_template=model.apply_chat_template if has_chat else None,
        gen_prefix=task.doc_to_prefix(doc),
    )
    return str(rendered)


def _signature(
    config: TraceConfig, spec: ModelSpec, model: Any, prompt: str, generation: Mapping[str, Any]
) -> str:
    info, rule = model.info, config.rule
    parts = {
        "trace": config.task or "prompt",
        "prompt": digest(prompt)[:8],
        "model": spec.label,
        "rev": info.get("revision"),
        "backend": info.get("backend"),
        "dtype": info.get("dtype"),
        "weights": (info.get("weights_sha256") or "")[:8] or None,
        "chat": "yes" if config.apply_chat_template else "no",
        "T": f"{generation['temperature']:g}",
        "seed": generation["seed"],
        "max": generation["max_gen_toks"],
        "dip": f"z<=-{rule.threshold:g}" + (f",window {rule.window}" if rule.window else ""),
        "loop": f"{rule.repeats}x,<={rule.longest},>={rule.least}",
    }
    return signature(parts)
