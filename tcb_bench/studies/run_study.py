"""One study from settings to files: model, store, the study's own module, results."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from tcb_bench.config import RunConfig
from tcb_bench.durable import DurableLM, Report
from tcb_bench.errors import UnknownName
from tcb_bench.models.resolve import ModelSpec, resolve, running
from tcb_bench.results import digest, signature
from tcb_bench.run import ENGINE_LOG, claim
from tcb_bench.store import Store, check_writable
from tcb_bench.studies import STUDIES
from tcb_bench.studies.findings import Findings, StudyOutcome, write_findings
from tcb_bench.studies.session import Session
from tcb_bench.studies.settings import Settings

Say = Callable[[str], None]


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
    spec = resolve(
        config.model,
        config.model_args,
        device=config.device,
        dtype=config.dtype,
        batch_size=config.batch_size,
    )
    folder = config.output_path / spec.folder / "studies" / (f"{name}-{tag}" if tag else name)
    check_writable(folder)
    with Store(folder, fresh=config.fresh) as store:
        say(f"loading {spec.label}")
        with running(spec, folder / ENGINE_LOG) as model:
            claim(store, model.identity)
            asked = {**config.settings(), "study": name, "study_settings": settings}
            manifest = store.begin(asked)
            lm = DurableLM(model, store, manifest, config.options.seed, report)
            session = Session(
                name=name, config=config, settings=settings, folder=folder, lm=lm, say=say
            )
            findings: Findings = module.study(session)
            say(f"asked {lm.asked}, found in the store {lm.reused}")
            facts = _facts(session, spec, model)
            store.finish(manifest, asked)
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
    }
    source = options.data if options.data in ("hub", "sample") else Path(options.data).name
    return {
        "study": session.name,
        "model": {"name": spec.label, **info},
        "settings": dict(session.settings),
        "data": {"source": source, "sha256": dict(session.data)},
        "seed": options.seed,
        "limit": options.limit,
        "apply_chat_template": config.apply_chat_template,
        "signature": signature(parts),
        "errors": len(session.failures),
        "error_reasons": sorted(set(session.failures)),
    }
