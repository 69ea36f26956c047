"""A study over several models: one YAML, one run folder and one process per model."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tcb_bench.config import RunConfig
from tcb_bench.errors import TcbBenchError, UsageError
from tcb_bench.models.chat_options import PROVIDERS as API_PROVIDERS
from tcb_bench.models.resolve import resolve
from tcb_bench.strict_yaml import parse, wrong
from tcb_bench.task_section import Section

KEYS = ("tasks", "models", "output_path", "run")
MODEL_KEYS = ("model", "model_args", "resource", "run")
RUN_KEYS = (
    *("data", "limit", "seed", "num_fewshot", "apply_chat_template", "system_instruction"),
    *("gen_kwargs", "trace", "device", "dtype", "batch_size", "reference", "references"),
    *("bert_score_model", "bert_score_layer", "ner_model", "paraphrase_model", "include_path"),
    *("where", "fewshot_as_multiturn"),
    *("max_connections", "max_retries", "requests_per_minute", "cost_limit", "token_limit"),
    *("answer_tokens", "reasoning_tokens", "top_logprobs", "api_mode", "prices"),
)
"""Options of ``tcb-bench run`` that ``run:`` may set, for all models or for one."""

DONE, FAILED, WITH_ERRORS, INTERRUPTED = 0, 1, 3, 130
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Entry:
    """One model of a plan: the words of its ``tcb-bench run``, and what it needs for itself."""

    model: str
    arguments: tuple[str, ...]
    resource: str
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Plan:
    """A study: tasks x models, each model into its own folder of ``output_path``."""

    tasks: tuple[str, ...]
    output_path: Path
    entries: tuple[Entry, ...]


def read_plan(path: Path) -> Plan:
    """The plan in a YAML file, every key checked.

    ``tasks`` is a list of names, ``models`` a list of ``{model, model_args, resource, run}``.
    Models that name the same ``resource`` run one after the other, different ones side by side;
    without one a local model is in ``local``, a model of an API by itself. ``run`` holds options
    of ``tcb-bench run``, a model's own over the plan's.

    Raises:
        UsageError: ``FILE:LINE: what was found; what was expected``.
    """
    parsed = parse(path, str(path))
    root = Section(parsed.config, "plan", lambda key: _at(path, parsed.lines, key))
    root.allow(KEYS)
    tasks, models = root.values.get("tasks"), root.values.get("models")
    if not isinstance(tasks, list) or not tasks or not all(isinstance(t, str) for t in tasks):
        raise root.bad("tasks", "expected a list of tasks")
    if not isinstance(models, list) or not models:
        raise root.bad("models", "expected a list like [{model: hf/org/name}]")
    output = Path(root.text("output_path") or "runs")
    common = _run_options(root)
    if not all(isinstance(model, dict) for model in models):
        raise root.bad("models", "expected a list like [{model: hf/org/name}]")
    entries = tuple(_entry(Section(m, "models", root.at), common) for m in models)
    for entry in entries:
        try:
            run_config(entry, tasks, output)
        except TcbBenchError as error:
            raise wrong(root.at("plan.models"), entry.model, str(error)) from None
    folders = [_folder(entry) for entry in entries]
    twice = {e.model for e, own in zip(entries, folders, strict=True) if folders.count(own) > 1}
    if twice:
        expected = f"expected one per run folder; {', '.join(sorted(twice))} would share one"
        raise root.bad("models", expected)
    return Plan(tuple(tasks), output, entries)


def _words_of(entry: Entry, tasks: Sequence[str], output: Path) -> list[str]:
    words = ["run", *entry.arguments, "--tasks", ",".join(tasks)]
    return [*words, "--output_path", str(output)]


def run_config(entry: Entry, tasks: Sequence[str], output: Path) -> RunConfig:
    """What the ``tcb-bench run`` of an entry would be asked to do.

    Raises:
        TcbBenchError: an option has a value that a run would refuse.
    """
    from tcb_bench import cli
    from tcb_bench.parser import build_parser

    return cli.run_config(build_parser().parse_args(_words_of(entry, tasks, output)))


def _folder(entry: Entry) -> str:
    """The run folder of an entry; its name where no provider is there to say."""
    try:
        return resolve(entry.model, entry.arguments[3]).folder
    except TcbBenchError:
        return entry.model


def _at(path: Path, lines: Mapping[str, int], key: str) -> str:
    short = key.removeprefix("plan.").partition(".")[0]
    return f"{path}:{lines.get(short, 1)}"


def _entry(model: Section, common: Mapping[str, Any]) -> Entry:
    model.allow(MODEL_KEYS)
    name = model.text("model")
    if name is None:
        raise model.bad("model", "expected a model, like hf/org/name")
    options = {**common, **_run_options(model)}
    arguments = ["--model", name, "--model_args", model.text("model_args") or ""]
    for key, value in options.items():
        arguments += _words(key, value)
    is_api = name.partition("/")[0] in API_PROVIDERS
    resource = model.text("resource") or (name if is_api else "local")
    return Entry(name, tuple(arguments), resource, options)


def _run_options(section: Section) -> dict[str, Any]:
    if "run" not in section.values:
        return {}
    found = section.inside("run")
    found.allow(RUN_KEYS)
    return dict(found.values)


def _words(key: str, value: Any) -> list[str]:
    """An option as the command line takes it; a list gives the option several times."""
    if value is None:
        return []
    if isinstance(value, bool):
        return [f"--{key}"] if value else []
    if isinstance(value, Mapping):
        joined = {k: ",".join(map(str, v)) if isinstance(v, list) else v for k, v in value.items()}
        return [word for k, v in joined.items() for word in (f"--{key}", f"{k}={v}")]
    values = value if isinstance(value, list) else [value]
    return [word for each in values for word in (f"--{key}", str(each))]


def run_plan(plan: Plan, say: Say, extra: Sequence[str] = ()) -> int:
    """Runs every model of the plan; one that fails does not stop the others.

    Args:
        plan: from ``read_plan``.
        say: called with one line when a model starts and when it ends.
        extra: further words for every ``tcb-bench run``.

    Returns:
        The worst exit code: 1 where a model failed, 3 where one has sample errors, 130 after
        Ctrl-C, else 0. The same command continues whatever is left.
    """
    lanes: dict[str, list[Entry]] = defaultdict(list)
    for entry in plan.entries:
        lanes[entry.resource].append(entry)
    processes: list[subprocess.Popen[str]] = []
    stop = threading.Event()

    def lane(entries: list[Entry]) -> list[int]:
        codes = []
        for entry in entries:
            if not stop.is_set():
                codes.append(_run_one(plan, entry, extra, len(lanes) == 1, processes, say))
        return codes

    with ThreadPoolExecutor(len(lanes)) as pool:
        futures = [pool.submit(lane, entries) for entries in lanes.values()]
        try:
            codes = [code for future in futures for code in future.result()]
        except KeyboardInterrupt as signalled:  # after Ctrl-C the children have had it too
            stop.set()
            for process in processes:
                if signalled.args:
                    process.terminate()
                process.wait()
            say("interrupted: every finished response is saved; the same command continues")
            return INTERRUPTED
    bad = [code for code in codes if code not in (DONE, WITH_ERRORS)]
    return INTERRUPTED if INTERRUPTED in bad else FAILED if bad else max(codes)


def _run_one(
    plan: Plan,
    entry: Entry,
    extra: Sequence[str],
    is_alone: bool,
    processes: list[subprocess.Popen[str]],
    say: Say,
) -> int:
    words = [*_words_of(entry, plan.tasks, plan.output_path), *extra]
    say(f"{entry.model}: starts")
    log = plan.output_path / f"{entry.model.replace('/', '__')}.log"
    plan.output_path.mkdir(parents=True, exist_ok=True)
    with log.open("a", encoding="utf-8") as file:
        target = None if is_alone else file  # side by side their bars would write over each other
        process = subprocess.Popen(
            [sys.executable, "-m", "tcb_bench", *words], stdout=target, stderr=target, text=True
        )
        processes.append(process)
        code = process.wait()
    where = "" if is_alone else f", see {log}"
    ends = {DONE: "done", WITH_ERRORS: "done with sample errors", INTERRUPTED: "interrupted"}
    say(f"{entry.model}: {ends.get(code, f'failed (exit {code})')}{where}")
    if is_alone and log.stat().st_size == 0:
        log.unlink()
    return code


def plan_configs(plan: Plan) -> list[tuple[RunConfig, str]]:
    """The run of every model, and the resource that it shares with others."""
    return [(run_config(e, plan.tasks, plan.output_path), e.resource) for e in plan.entries]


def check_files(plan: Plan) -> None:
    """Refuses a plan whose files are not there, before the first model is loaded.

    Raises:
        UsageError: ``references`` or ``include_path`` name something that does not exist.
    """
    for entry in plan.entries:
        for key in ("references", "include_path", "prices"):
            given = entry.options.get(key) or []
            for name in given if isinstance(given, list) else [given]:
                if not Path(str(name)).exists():
                    raise UsageError(f"{entry.model}: {key} {name} is not there")
