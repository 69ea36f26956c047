"""A run from plan to result: tasks and store first, then the model, then lm-eval's evaluate."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from lm_eval import evaluator

from tcb_bench.api_notes import check_key, say_after, say_before, say_closed
from tcb_bench.assemble import assemble, data_digests, request_digests
from tcb_bench.bert_rows import TextScorer, make_scorer
from tcb_bench.config import RunConfig, TaskOptions
from tcb_bench.durable import DurableLM, ReplayLM, Report
from tcb_bench.errors import DataError, ModelError, StoreError, UsageError
from tcb_bench.load_tasks import Loaded, load_tasks, quiet
from tcb_bench.models.resolve import ModelSpec, running
from tcb_bench.results import stamp, write_result, write_samples
from tcb_bench.store import Store, check_writable

STOCK_RESAMPLES = 1000
"""lm-eval's bootstrap for its own tasks, where a metric has no closed-form standard error."""

ENGINE_LOG = "vllm.log"
"""File of a run folder with what an engine's own processes print."""

Say = Callable[[str], None]
"""Called with one line about what happens now."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """A finished run or scoring: the result, its files, and how many responses are errors."""

    result: dict[str, Any]
    path: Path
    sample_paths: list[Path]
    n_errors: int

    @property
    def exit_code(self) -> int:
        """0 done; 3 done with requests that have no answer (the same command asks them again)."""
        return 3 if self.n_errors else 0


def run(config: RunConfig, report: Report | None = None, say: Say = lambda line: None) -> Outcome:
    """Measures ``config.model`` on ``config.tasks``; started again it continues where it stopped.

    Cheap checks come first: folder, names and data before the model, the model before inference.

    Raises:
        TcbBenchError: one of its children, with one line for the user.
        KeyboardInterrupt: passed on; every finished response is in the store by then.
    """
    spec = config.model_spec()
    folder = config.output_path / spec.folder
    check_writable(folder)
    with ExitStack() as held:  # locked or damaged: said now, and nobody else begins meanwhile
        store = None if config.fresh else held.enter_context(Store(folder))
        with quiet():
            loaded = load_tasks(config.tasks, config.options, config.include_path)
        say_missing(loaded, say)
        if spec.is_api:  # a chat API is asked by messages, and its weights are closed
            config = replace(config, apply_chat_template=True)
            check_key(spec)
            say_closed(spec, loaded, say)
        check_compares(config.options, loaded)
        scorer = make_scorer(config.options, say, report) if _compares(loaded) else TextScorer()
        say(f"loading {spec.label}")
        with running(spec, folder / ENGINE_LOG) as lm:
            settings = _settings(config, spec, lm, loaded)
            say_before(lm, loaded, say)
            if store is None:  # an old one is moved by a run that can start
                store = held.enter_context(Store(folder, fresh=True))
            claim(store, lm.identity)
            manifest = store.begin(settings)
            durable = DurableLM(lm, store, manifest, config.options.seed, report)
            with quiet():  # the model's module is loaded by now
                evaluated = evaluate(durable, loaded, config)
            say(f"asked {durable.asked}, found in the store {durable.reused}")
            say_after(lm, say)
            settings["model_info"] |= getattr(lm, "learned", {})
            store.finish(manifest, settings)
        return _write(store, manifest, loaded, evaluated, scorer)  # the model's memory is free


def _settings(config: RunConfig, spec: ModelSpec, lm: Any, loaded: Loaded) -> dict[str, Any]:
    """What a run was asked and found before its first request; kept in its manifest."""
    template = chat_template_of(lm, config, spec)
    settings = {
        **config.settings(),
        "label": spec.label,
        "chat_template": template if template is None else str(template),
        "model_info": {
            **lm.info,
            "temperature_effective": lm.temperature_effective,
            "sampling": lm.model_sampling,
        },
        "data_sha256": data_digests(loaded),
    }
    settings["request_sha256"] = request_digests(loaded)  # of any model: its own sampling is not in
    set_model_sampling(loaded, settings["model_info"])
    settings["resources"] = loaded.resources()
    return settings


def chat_template_of(lm: Any, config: RunConfig, spec: ModelSpec) -> Any:
    """The model's chat template where prompts are made with it, else None.

    Raises:
        ModelError: it has none.
    """
    template = getattr(lm.tokenizer, "chat_template", None) if config.apply_chat_template else None
    if config.apply_chat_template and not template:
        raise ModelError(f"{spec.label}: has no chat template; leave --apply_chat_template out")
    return template


def score(
    folder: Path,
    number: int | None = None,
    *,
    over: Mapping[str, Any] | None = None,
    say: Say = lambda line: None,
) -> Outcome:
    """All metrics again from a run's stored responses; needs its documents, but no model.

    Args:
        folder: the run folder, ``<output_path>/<model>``.
        number: which invocation; None = the newest.
        over: task options that only change scores, in place of the run's own: ``reference``,
            ``references``, ``bert_score_model``, ``bert_score_layer``.
        say: called with one line about what happens now.

    Raises:
        StoreError: no store or no plan there.
        DataError: the documents are not those of the run.
    """
    with Store(folder, create=False) as store, quiet():
        manifest = store.manifest(number)
        settings = manifest.settings
        settings["options"] |= over or {}
        options = TaskOptions(**settings["options"])
        include = [Path(path) for path in settings["include_path"]]
        loaded = load_tasks(settings["tasks"], options, include)
        _check_same_data(loaded, settings["data_sha256"])
        _check_same_requests(loaded, settings["request_sha256"])
        set_model_sampling(loaded, settings["model_info"])
        _say_other_resources(loaded, settings.get("resources", {}), say)
        scorer = make_scorer(options, say) if _compares(loaded) else TextScorer()
        evaluated = evaluate(ReplayLM(store, manifest.id), loaded, None)
        return _write(store, manifest.id, loaded, evaluated, scorer)


def _compares(loaded: Loaded) -> bool:
    """Whether some task compares texts, so that BERTScore's encoder is needed."""
    ours = [task for task in loaded.tasks.values() if hasattr(task, "is_tcb_task")]
    return any(task.documents.references.kind != "none" for task in ours)


def _say_other_resources(loaded: Loaded, then: Mapping[str, Mapping[str, str]], say: Say) -> None:
    """Prompts and answers are the run's; only what is said of the changes is computed again."""
    for name, now in loaded.resources().items():
        if now != then.get(name, {}):
            say(f"{name}: perturbations are described with {now}, the run used {then.get(name)}")


def check_compares(options: TaskOptions, loaded: Loaded) -> None:
    """Refuses references where nothing is compared with them."""
    for name in ("reference", "references"):
        if getattr(options, name) is not None and not _compares(loaded):
            raise UsageError(f"--{name}: no task of this run compares texts; leave it out")


def say_missing(loaded: Loaded, say: Say) -> None:
    """Which tasks have no data."""
    if loaded.missing:
        say(f"left out: {loaded.missing_text}; the result lists all under tcb_bench.missing")


def claim(store: Store, identity: dict[str, Any]) -> None:
    """A folder holds one model: a new store becomes this one's, another model's is refused.

    Raises:
        StoreError: the store holds another model's responses.
    """
    mine = json.dumps({key: identity[key] for key in ("backend", "model")}, sort_keys=True)
    owner = store.meta("model")
    if owner is None:
        store.set_meta("model", mine)
    elif owner != mine:
        raise StoreError(
            f"{store.folder}: holds responses of {json.loads(owner)['model']}, "
            f"not of {identity['model']}; "
            "use another --output_path, or --fresh to start anew"
        )


def set_model_sampling(loaded: Loaded, model_info: Mapping[str, Any]) -> None:
    """Tasks with ``sampling_defaults: model`` get the model's own parameters, written out."""
    for task in loaded.tasks.values():
        spec = getattr(task, "spec", None)
        if spec is not None and spec.sampling_defaults == "model":
            task.model_sampling = dict(model_info["sampling"])


def _check_same_data(loaded: Loaded, expected: dict[str, str]) -> None:
    for name, found in data_digests(loaded).items():
        if name in expected and expected[name] != found:
            raise DataError(
                f"{name}: the documents are not those of the run "
                f"(sha256 {found[:12]}, was {expected[name][:12]})"
            )


def _check_same_requests(loaded: Loaded, expected: dict[str, str]) -> None:
    for name, found in request_digests(loaded).items():
        if expected.get(name) != found:
            raise DataError(
                f"{name}: its YAML asks something else than in the run (prompt, choices, shots, "
                "sampling or repeats); run it again, or bring the YAML back"
            )


def evaluate(
    lm: Any, loaded: Loaded, config: RunConfig | None, *, is_scored: bool = True
) -> dict[str, Any]:
    """lm-eval's evaluate over all tasks.

    Args:
        lm: answers the requests.
        loaded: the tasks.
        config: how prompts are made; None where no model reads them.
        is_scored: whether the answers matter, or only the requests.
    """
    has_stock = any(not hasattr(task, "is_tcb_task") for task in loaded.tasks.values())
    evaluated: dict[str, Any] = evaluator.evaluate(
        lm=lm,
        task_dict={"tasks": loaded.tasks, "groups": {}, "group_map": {}},
        samples=loaded.samples or None,
        # ours have intervals of their own
        bootstrap_iters=STOCK_RESAMPLES if has_stock and is_scored else 0,
        log_samples=is_scored or has_stock,  # some of lm-eval's tasks need them
        system_instruction=config.system_instruction if config else None,
        apply_chat_template=config.apply_chat_template if config else False,
        fewshot_as_multiturn=config.fewshot_as_multiturn if config else False,
    )
    return evaluated


def _safe(task: str) -> str:
    """A name of lm-eval's own as part of a file name."""
    return re.sub(r"[^A-Za-z0-9._+-]", "_", task)[:120]


def _write(
    store: Store,
    manifest: int,
    loaded: Loaded,
    evaluated: dict[str, Any],
    scorer: TextScorer,
) -> Outcome:
    now = time.time()
    result, samples = assemble(store, store.manifest(manifest), loaded, evaluated, scorer)
    name = stamp(now)
    sample_paths = []
    for task, rows in samples.items():
        sample_paths.append(store.folder / f"samples_{_safe(task)}_{name}.jsonl")
        write_samples(sample_paths[-1], rows)
    path = store.folder / f"results_{name}.json"
    write_result(path, {**result, "date": now})
    n_errors = sum(
        row["state"] == "error"
        for rows in samples.values()
        for s in rows
        for row in s.get("rows", [])
    )
    return Outcome(result, path, sample_paths, n_errors)
