"""What a run would ask and cost, without asking: tasks are loaded, requests built, none is sent."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from tcb_bench.api_notes import say_before, say_closed
from tcb_bench.config import RunConfig, mask_secrets
from tcb_bench.data import ID_COLUMN
from tcb_bench.dry_run_counts import ModelCount, TaskCount
from tcb_bench.dry_run_lm import Count, CountingLM, api_count, local_count
from tcb_bench.dry_run_store import StoreView
from tcb_bench.errors import DataError, TcbBenchError
from tcb_bench.load_tasks import Loaded, load_tasks, quiet
from tcb_bench.models.dry_run_local import NoTokenizer, reader_of
from tcb_bench.models.model_args import split_arguments
from tcb_bench.models.resolve import ModelSpec
from tcb_bench.planned import planned
from tcb_bench.run import (
    ENGINE_LOG,
    chat_template_of,
    check_compares,
    claim,
    evaluate,
    say_missing,
    set_model_sampling,
)
from tcb_bench.task_files import catalogue

Say = Callable[[str], None]
SPEED_ONLY = ("batch_size", "max_batch_size", "device")
"""Model arguments that change no response."""

NOT_PROBED = (
    "counted as if it took every field and one choice a request; a run first finds out, with some "
    "20 short requests, and may then need fewer"
)


class Unknown(TcbBenchError):
    """What is needed to count tokens cannot be had here; responses can be counted all the same."""


@dataclass
class DryRun:
    """Counts models one by one; what they share is loaded once.

    Attributes:
        say: called with one line when the count of a model begins.
    """

    say: Say = lambda line: None
    _tasks: dict[str, Loaded | DataError] = field(default_factory=dict)

    def count(self, config: RunConfig, resource: str = "") -> ModelCount:
        """What a run of ``config`` would ask.

        Data that the hub does not give now, and a tokenizer that cannot be had, leave tokens
        unknown; the responses are then counted by the design of the tasks.

        Args:
            config: of the run.
            resource: what the model shares with others of a plan.

        Raises:
            TcbBenchError: as the run would.
        """
        spec = config.model_spec()
        self.say(f"counting {spec.label}")
        found = ModelCount(spec.label, [], is_api=spec.is_api, resource=resource)
        with StoreView(config.output_path / spec.folder, is_empty=config.fresh) as store:
            found.spent = store.spent
            count = self._api if spec.is_api else self._local
            try:
                with quiet():
                    count(config, spec, found, store)
            except Unknown as error:
                found.unknown, found.tasks = str(error), _by_design(config, error)
        return found

    def _api(self, config: RunConfig, spec: ModelSpec, found: ModelCount, store: StoreView) -> None:
        from tcb_bench.models.chat_load import load_chat  # the SDK is an extra

        lm = load_chat(spec, store.folder / ENGINE_LOG, is_offline=True)
        found.price, found.is_batch = lm.budget.price, lm.options.api_mode == "batch"
        found.rate, found.tokens_by = lm.options.requests_per_minute, lm.counter.kind
        found.thinks = lm.capability.is_reasoning
        if not lm.capability.is_known and lm.capability.note == "not probed":
            found.notes.append(f"{spec.label}: {NOT_PROBED}")
        config = replace(config, apply_chat_template=True)
        loaded = self._loaded(config)
        say_closed(spec, loaded, found.notes.append)
        self._count(config, found, store, lm, api_count(lm))
        say_before(lm, loaded, found.notes.append)

    def _local(
        self, config: RunConfig, spec: ModelSpec, found: ModelCount, store: StoreView
    ) -> None:
        loaded = self._loaded(config)
        try:
            reader = reader_of(spec)
        except NoTokenizer as error:
            raise Unknown(str(error)) from error
        found.tokens_by = "the model's own tokenizer"
        chat_template_of(reader, config, spec)
        engine = store.engine(lambda settings: _is_same(settings, config))
        reader.identity = engine or {"backend": _backend(spec), "model": spec.name}
        if engine is None and store.meta("model"):
            found.notes.append(
                f"{spec.label}: what is in its folder was made with other model arguments and "
                "is not counted"
            )
        _forget_prompts(loaded)  # models have chat templates of their own
        self._count(config, found, store, reader, local_count(reader))
        _forget_prompts(loaded)

    def _count(
        self, config: RunConfig, found: ModelCount, store: StoreView, lm: Any, count: Count
    ) -> None:
        loaded = self._loaded(config)
        check_compares(config.options, loaded)
        say_missing(loaded, found.notes.append)
        if store.meta("model"):  # a folder of another model is refused, as by the run
            claim(store, lm.identity)
        set_model_sampling(loaded, {"sampling": lm.model_sampling})
        rows = _rows(loaded)
        counting = CountingLM(lm, store, config.options.seed, rows, count)
        evaluate(counting, loaded, config, is_scored=False)
        found.tasks = list({id(row): row for row in rows.values()}.values())
        for row in found.tasks:
            row.mean = store.completion_mean([name for name in rows if rows[name] is row])

    def _loaded(self, config: RunConfig) -> Loaded:
        """The tasks, loaded once for all models that are asked the same."""
        # What answers are compared with changes no request, and may not be written yet.
        options = replace(config.options, reference="short", references=None)
        key = repr((config.tasks, options, config.include_path))
        if key not in self._tasks:
            try:
                self._tasks[key] = load_tasks(config.tasks, options, config.include_path)
            except DataError as error:
                if options.data != "hub":
                    raise
                self._tasks[key] = error
        found = self._tasks[key]
        if isinstance(found, DataError):
            raise Unknown(str(found)) from found
        return found


def _forget_prompts(loaded: Loaded) -> None:
    for task in loaded.tasks.values():
        if hasattr(task, "is_tcb_task"):
            task.documents.prompts.clear()


def _is_same(settings: dict[str, Any], config: RunConfig) -> bool:
    """Whether an earlier invocation loaded the model that this one would."""
    then, now = settings["model_args"], mask_secrets(config.model_args)
    same_dtype = settings.get("dtype") == config.dtype
    return same_dtype and _that_matter(then) == _that_matter(now)


def _that_matter(model_args: str) -> set[str]:
    parts = split_arguments(model_args, "--model_args")
    return {part for part in parts if part.partition("=")[0] not in SPEED_ONLY}


def _backend(spec: ModelSpec) -> str:
    return "vllm" if spec.provider == "vllm" else "hf"


def _rows(loaded: Loaded) -> dict[str, TaskCount]:
    """Task (with its condition) -> its row; tasks of a group that was asked for share one."""
    group_of = {leaf: group for group, leaves in loaded.groups.items() for leaf in leaves}
    rows: dict[str, TaskCount] = {}
    questions: defaultdict[str, set[tuple[str, Any]]] = defaultdict(set)
    found: dict[str, TaskCount] = {}
    for name, task in loaded.tasks.items():
        base = getattr(task, "base_name", name)
        shown = group_of.get(base, base)
        row = found.setdefault(shown, TaskCount(shown))
        row.conditions += 1
        row.runs = max(row.runs, int(task.config.repeats or 1))
        questions[shown] |= {(base, each) for each in _ids(name, task, loaded)}
        row.questions = len(questions[shown])
        rows[name] = row
    return rows


def _ids(name: str, task: Any, loaded: Loaded) -> list[Any]:
    if hasattr(task, "is_tcb_task"):
        return list(task.eval_docs[ID_COLUMN])
    return loaded.samples.get(name) or list(range(len(task.eval_docs)))


def _by_design(config: RunConfig, error: Unknown) -> list[TaskCount]:
    """The rows without requests; lm-eval's own tasks have no design to be counted by."""
    known = catalogue(config.include_path)
    stock = [n for n in config.tasks if not any(c in n for c in "*?[") and n not in known]
    if stock:
        raise error.__cause__ or error
    return [
        TaskCount(
            row.task,
            conditions=row.conditions,
            questions=row.questions,
            runs=row.runs,
            responses=row.responses,
            is_design=row.is_design,
        )
        for row in planned(config.tasks, config.options, config.include_path)
    ]
