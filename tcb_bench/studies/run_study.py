"""One study from settings to files: model, store, the study's own module, results."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from types import ModuleType
from typing import Any

from tcb_bench.config import RunConfig
from tcb_bench.durable import DurableLM, Report
from tcb_bench.errors import ModelError, UnknownName, UsageError
from tcb_bench.models.resolve import ModelSpec, running
from tcb_bench.results import digest, signature
from tcb_bench.run import ENGINE_LOG, claim
from tcb_bench.store import Store, check_writable
from tcb_bench.studies import STUDIES
from tcb_bench.studies.findings import Findings, StudyOutcome, write_findings
from tcb_bench.studies.session import Session
from tcb_bench.studies.settings import Settings
from tcb_bench.studies.shown import LEVEL

Say = Callable[[str], None]
TAG = re.compile(r"[A-Za-z0-9._+-]{0,59}[A-Za-z0-9_+-]")


def run_study(
    name: str,
    config: RunConfig,
    settings: Settings,
    *,
    tag: str = "",
    report: Report | None = None,
    say: Say = lambda line: None,
) -> StudyOutcome:
    """Runs study ``name`` on ``config.model``; started again it continues where it stopped.

    Args:
        name: a key of ``STUDIES``.
        config: as for a run; ``tasks`` are those that the study asks.
        settings: of ``read_settings``, complete.
        tag: keeps a second variant beside the first: its folder is ``NAME-TAG``.
        report: called as the number of stored answers grows.
        say: called with one line about what happens now.

    Raises:
        TcbBenchError: one of its children, with one line for the user.
        KeyboardInterrupt: passed on; every finished answer is in the store by then.
    """
    module = study_module(name)
    spec = config.model_spec()
    _check_back_end(module, name, spec)
    folder = config.output_path / spec.folder / "studies" / _folder_name(name, tag)
    check_writable(folder)
    asked = {**config.settings(), "study": name, "study_settings": settings}
    with ExitStack() as held:  # locked or damaged: said now, and nobody else begins meanwhile
        store = None if config.fresh else held.enter_context(Store(folder))
        loaded = held.enter_context(ExitStack())

        def start() -> DurableLM:
            say(f"loading {spec.label}")
            model = loaded.enter_context(running(spec, folder / ENGINE_LOG))
            _check_chat(config, spec, model)
            # an old store is moved by a study that can start
            kept = store or held.enter_context(Store(folder, fresh=True))
            claim(kept, model.identity)
            return DurableLM(model, kept, kept.begin(asked), config.options.seed, report)

        session = Session(
            name=name, config=config, settings=settings, folder=folder, start=start, say=say
        )
        findings: Findings = module.study(session)
        lm = session.lm
        say(f"asked {lm.asked}, found in the store {lm.reused}")
        facts = _facts(session, spec, lm.inner)
        lm.store.finish(lm.manifest, asked)
        loaded.close()  # the model's memory is free
        write_findings(findings, folder, facts)
    return StudyOutcome(
        findings=findings,
        folder=folder,
        n_errors=len(session.failures),
        signature=facts["signature"],
    )


def study_module(name: str) -> ModuleType:
    """The module of a study.

    Raises:
        UnknownName: there is no such study.
    """
    if name not in STUDIES:
        raise UnknownName("study", name, STUDIES, "`tcb-bench study --help` lists them")
    return importlib.import_module(f"tcb_bench.studies.{name}")


def _check_back_end(module: ModuleType, name: str, spec: ModelSpec) -> None:
    """Whether the model can be what the study needs, before minutes go into loading it."""
    if spec.is_api:
        raise ModelError(
            f"study {name}: an API gives no hidden states, which studies measure; "
            "use hf/... or vllm/..."
        )
    what = getattr(module, "NEEDS", None)
    if what and spec.provider == "vllm":
        raise ModelError(
            f"study {name} needs {what}, which only the transformers back end gives: "
            f"--model {'demo' if spec.name == 'demo' else f'hf/{spec.name}'}"
        )


def _check_chat(config: RunConfig, spec: ModelSpec, model: Any) -> None:
    tokenizer = getattr(model, "tokenizer", None)
    if config.apply_chat_template and not getattr(tokenizer, "chat_template", None):
        raise ModelError(f"{spec.label}: has no chat template; leave --apply_chat_template out")


def _folder_name(name: str, tag: str) -> str:
    if not tag:
        return name
    if not TAG.fullmatch(tag):
        raise UsageError(
            f"--tag {tag[:80]!r}: expected 1 to 60 of the letters A-Z a-z, digits and . _ + -, "
            "not ending in a dot; it is part of a folder's name"
        )
    return f"{name}-{tag}"


def _facts(session: Session, spec: ModelSpec, model: Any) -> dict[str, Any]:
    """Every setting that can change a number, in full and as one line."""
    config, info = session.config, model.info
    options = config.options
    parts = {
        "study": session.name,
        "v": session.settings.get("version"),
        "model": spec.label,
        "rev": info.get("revision"),
        "backend": info.get("backend"),
        "dtype": info.get("dtype"),
        "weights": (info.get("weights_sha256") or "")[:8] or None,
        "data": digest(session.data)[:12] if session.data else None,
        "settings": digest(session.settings)[:8],
        "chat": "yes" if config.apply_chat_template else "no",
        "limit": f"{options.limit:g}" if options.limit else "all",
        "seed": options.seed,
        "paraphrase": options.paraphrase_model,
    }
    source = options.data if options.data in ("hub", "sample") else Path(options.data).name
    return {
        "study": session.name,
        "model": {"name": spec.label, **info},
        "settings": dict(session.settings),
        "data": {"source": source, "sha256": dict(session.data)},
        "seed": options.seed,
        "level": session.settings.get("level", LEVEL),
        "limit": options.limit,
        "paraphrase_model": options.paraphrase_model,
        "apply_chat_template": config.apply_chat_template,
        "signature": signature(parts),
        "errors": len(session.failures),
        "error_reasons": sorted(set(session.failures)),
    }
