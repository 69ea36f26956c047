"""What lm-eval evaluated, put together as a result and as sample rows."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from tcb_bench.data import ID_COLUMN
from tcb_bench.load_tasks import Loaded
from tcb_bench.metrics.robustness import conflict_case
from tcb_bench.results import (
    SCHEMA_VERSION,
    TaskResult,
    block_entry,
    digest,
    directions,
    environment,
    lm_eval_entry,
)
from tcb_bench.store import Manifest, Store

Sample = dict[str, Any]


def data_digests(loaded: Loaded) -> dict[str, str]:
    """Task -> sha256 of the documents it asks, ids included, in order."""
    return {
        name: digest(list(task.eval_docs))
        for name, task in loaded.tasks.items()
        if hasattr(task, "is_tcb_task")
    }


def assemble(
    store: Store, manifest: Manifest, loaded: Loaded, evaluated: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, list[Sample]]]:
    """The result (lm-eval's shape with a ``tcb_bench`` block) and the sample rows of each task."""
    ours = {name: task for name, task in loaded.tasks.items() if hasattr(task, "is_tcb_task")}
    cells = _cells(store, manifest, ours, evaluated["samples"])
    samples = {base: [s for docs in by_cell.values() for s in docs] for base, by_cell in cells.items()}
    _label_conflicts(samples)
    results = [_task_result(base, ours, cells[base], manifest) for base in cells]
    results += [_group_result(name, members, results) for name, members in loaded.groups.items()]
    for name in evaluated["samples"].keys() - ours.keys():
        samples[name] = [_stock_sample(s) for s in evaluated["samples"][name]]
    return _result(manifest, loaded, results, evaluated), samples


def _cells(
    store: Store, manifest: Manifest, ours: Mapping[str, Any], samples: Mapping[str, Any]
) -> dict[str, dict[str, list[Sample]]]:
    """Task -> condition id -> samples with their scored rows and the keys of their responses."""
    keys = store.keys(manifest.id)
    cells: dict[str, dict[str, list[Sample]]] = {}
    for name, task in ours.items():
        documents = [_sample(store, keys, name, task, example) for example in samples[name]]
        cells.setdefault(task.base_name, {})[task.condition.id] = documents
    return cells


def _sample(
    store: Store, keys: Mapping[Any, str], name: str, task: Any, example: Mapping[str, Any]
) -> Sample:
    doc = dict(example["doc"])
    document = doc.pop(ID_COLUMN)
    rows = []
    prompt = None
    for repeat, (row, response) in enumerate(zip(example["tcb_rows"], example["resps"][0], strict=True)):
        key = keys[name, document, 0, repeat]
        request = store.request(key)
        prompt = request["arguments"][0] if request else None
        text = getattr(response, "text", None)
        extra = {"text": text} if text is not None else {}
        tokens = {"prompt_tokens": getattr(response, "prompt_tokens", None)}
        rows.append({"repeat": repeat, "key": key, **row, **tokens, **extra, "reused_from": store.reused_from(key)})
    return {
        "doc_id": document,
        "task": task.base_name,
        "condition": task.condition.id,
        "doc_sha256": digest(doc),
        "doc": doc,
        "target": example["target"],
        "prompt": prompt,
        "acc": example["acc"],
        "rows": rows,
    }


def _label_conflicts(samples: Mapping[str, Sequence[Sample]]) -> None:
    """Each row's case of accuracy and confidence against stability.

    Stable means at or above the task's own median relative_flip_radius: the cases compare the
    answers of one run with each other, since no length is stable in itself.
    """
    for documents in samples.values():
        rows = [row for doc in documents for row in doc["rows"]]
        radii = [r for row in rows if (r := row["stability"].get("relative_flip_radius")) is not None]
        stable_at = statistics.median(radii) if radii else 0.0
        for row in rows:
            values = row["stability"]
            case = conflict_case(
                correct=None if row["acc"] is None else bool(row["acc"]),
                p_top1=values.get("p_top1"),
                stability=values.get("relative_flip_radius"),
                stable_at=stable_at,
            )
            row["conflict"] = {**case._asdict(), "stable_at": stable_at}


def _task_result(base: str, ours: Mapping[str, Any], cells: Mapping[str, Sequence[Sample]], manifest: Manifest) -> TaskResult:
    tasks = {task.condition.id: task for task in ours.values() if task.base_name == base}
    task = next(iter(tasks.values()))
    settings = manifest.settings
    data = {
        "id": task.config.dataset_path,
        "config": task.config.dataset_name,
        "split": task.config.test_split or task.config.validation_split,
        "source": task.options.data if task.options.data in ("hub", "sample") else "local",
        "revision": task.own.get("dataset_revision") if task.options.data == "hub" else None,
        "sha256": digest([[d["doc_id"], d["doc_sha256"]] for docs in cells.values() for d in docs]),
        "available": task.available,
    }
    version = (task.config.metadata or {}).get("version")
    facts = {
        "signature_parts": _signature_parts(base, version, task, data, settings),
        "data": data,
        "epsilon": task.spec.epsilon,
        "sampling_defaults": task.spec.sampling_defaults,
        "weight_radius": settings["model_info"].get("weight_radius"),
        "temperature_effective": settings["model_info"].get("temperature_effective", "unknown"),
        "n_shot": task.config.num_fewshot or 0,
        "config": _clean_config(task),
    }
    return TaskResult(
        name=base,
        version=version,
        cells=cells,
        axes={cell: dict(t.condition.axes) for cell, t in tasks.items()},
        facts=facts,
    )


def _signature_parts(base: str, version: Any, task: Any, data: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    info, options = settings["model_info"], task.options
    return {
        "task": base,
        "v": version,
        "model": settings["label"],
        "rev": info.get("revision"),
        "backend": info.get("backend"),
        "dtype": info.get("dtype"),
        "data": f"{data['source']}@{(data['revision'] or data['sha256'])[:12]}",
        "shots": task.config.num_fewshot or 0,
        "chat": "yes" if settings["apply_chat_template"] else "no",
        "sampling": task.spec.sampling_defaults,
        "gen": digest([task.options.gen_kwargs, settings["system_instruction"]])[:6],
        "limit": options.limit or "all",
        "seed": options.seed,
        "eps": f"{task.spec.epsilon:g}",
    }


def _clean_config(task: Any) -> dict[str, Any]:
    """The YAML as lm-eval read it, without functions' addresses and without paths of this machine."""
    config = {**task.config.to_dict(), **task.own, "task": task.base_name}
    config.pop("fewshot_config", None)
    config["class"] = f"{type(task).__module__}.{type(task).__name__}"
    config["generation_kwargs"] = task.generation()
    return config


def _group_result(name: str, members: Sequence[str], results: Sequence[TaskResult]) -> TaskResult:
    """A group: all its tasks' documents together (micro), and each task alike (macro)."""
    parts = [task for task in results if task.name in members]
    cells: dict[str, list[Sample]] = {}
    for task in parts:
        for cell, documents in task.cells.items():
            cells.setdefault(cell, []).extend(documents)
    first = parts[0]
    data = {**first.facts["data"], "config": None, "sha256": digest([t.facts["data"]["sha256"] for t in parts])}
    data["available"] = sum(task.facts["data"]["available"] for task in parts)
    own = {"task": name, "data": f"{data['source']}@{(data['revision'] or data['sha256'])[:12]}"}
    facts = {**first.facts, "data": data, "signature_parts": {**first.facts["signature_parts"], **own}}
    facts["config"] = {"group": name, "task": [task.name for task in parts]}
    return TaskResult(
        name=name,
        version=first.version,
        cells=cells,
        axes=first.axes,
        members={task.name: task.documents for task in parts},
        facts=facts,
    )


def _stock_sample(example: Mapping[str, Any]) -> Sample:
    """A sample of one of lm-eval's own tasks, with its metrics as lm-eval computed them."""
    metrics = {name: example[name] for name in example["metrics"]}
    return {"doc_id": str(example["doc_id"]), "doc": example["doc"], "target": example["target"], "filter": example["filter"], **metrics}


def _result(manifest: Manifest, loaded: Loaded, results: Sequence[TaskResult], evaluated: Mapping[str, Any]) -> dict[str, Any]:
    settings = manifest.settings
    options = settings["options"]
    seed = options["seed"]
    stock = {name for name, task in loaded.tasks.items() if not hasattr(task, "is_tcb_task")}
    entries = {task.name: lm_eval_entry(task, seed) for task in results}
    by_name = {task.name: task for task in results}
    info = settings["model_info"]
    return {
        "results": {**{n: _without_text(evaluated["results"][n]) for n in stock}, **entries},
        "group_subtasks": loaded.groups,
        "configs": {**{n: evaluated["configs"][n] for n in stock}, **{n: t.facts["config"] for n, t in by_name.items()}},
        "versions": {**{n: evaluated["versions"][n] for n in stock}, **{n: t.version for n, t in by_name.items()}},
        "n-shot": {**{n: evaluated["n-shot"][n] for n in stock}, **{n: t.facts["n_shot"] for n, t in by_name.items()}},
        "higher_is_better": {**{n: evaluated["higher_is_better"][n] for n in stock}, **{n: directions(e) for n, e in entries.items()}},
        "n-samples": {
            **{n: evaluated["n-samples"][n] for n in stock},
            **{n: {"original": t.facts["data"]["available"], "effective": len({d["doc_id"] for d in t.documents})} for n, t in by_name.items()},
        },
        "config": {
            "model": settings["label"],
            "model_args": settings["model_args"],
            "model_num_parameters": info.get("n_parameters"),
            "model_dtype": info.get("dtype"),
            "model_revision": info.get("revision"),
            "batch_size": settings["batch_size"],
            "device": info.get("device"),
            "limit": options["limit"],
            "bootstrap_iters": 10_000,
            "gen_kwargs": options["gen_kwargs"],
            **dict.fromkeys(("random_seed", "numpy_seed", "torch_seed", "fewshot_seed"), seed),
        },
        "model_source": info.get("backend"),
        "model_name": settings["label"],
        "system_instruction": settings["system_instruction"],
        "fewshot_as_multiturn": settings["fewshot_as_multiturn"],
        "max_length": info.get("max_length"),
        "transformers_version": environment().get("transformers"),
        "lm_eval_version": environment().get("lm_eval"),
        "total_evaluation_time_seconds": str(_wall_time(manifest)),
        "tcb_bench": {
            "schema_version": SCHEMA_VERSION,
            "environment": environment(),
            "model": info,
            "seeds": {"run": seed},
            "wall_time_s": _wall_time(manifest),
            "is_partial": manifest.finished_s is None or bool(loaded.missing),
            "missing": {name: reason for name, reason in loaded.missing.items()},
            "tasks": {task.name: _block(task, seed) for task in results},
        },
    }


def _block(task: TaskResult, seed: int) -> dict[str, Any]:
    hidden = ("signature_parts", "config", "temperature_effective", "n_shot")
    return {key: value for key, value in block_entry(task, seed).items() if key not in hidden}


def _wall_time(manifest: Manifest) -> float | None:
    return None if manifest.finished_s is None else round(manifest.finished_s - manifest.created_s, 3)


def _without_text(entry: Mapping[str, Any]) -> dict[str, Any]:
    """lm-eval writes a standard error it does not have as the text "N/A"; here it is null."""
    return {key: None if value == "N/A" else value for key, value in entry.items()}
