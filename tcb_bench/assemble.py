"""What lm-eval evaluated, put together as a result and as sample rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from tcb_bench.aggregate import Document
from tcb_bench.bert_rows import TextScorer, add_distances
from tcb_bench.data import ID_COLUMN
from tcb_bench.load_tasks import Loaded
from tcb_bench.result_file import result_file
from tcb_bench.results import TaskResult, digest
from tcb_bench.samples import Sample, label_conflicts, samples_by_cell, stock_sample
from tcb_bench.store import Manifest, Store
from tcb_bench.task_sweep import PERTURBED
from tcb_bench.task_yaml import FILE_BUILDERS
from tcb_bench.text_scores import TEXT_SCORES_SIGNATURE


def data_digests(loaded: Loaded) -> dict[str, str]:
    """Task -> sha256 of the documents it asks, ids included, in order."""
    made: dict[int, str] = {}  # conditions that ask the same documents share one object
    found = {}
    for name, task in loaded.tasks.items():
        if hasattr(task, "is_tcb_task"):
            documents = task.eval_docs
            if id(documents) not in made:
                made[id(documents)] = digest(list(documents))
            found[name] = made[id(documents)]
    return found


ASKED = (
    *("doc_to_text", "doc_to_choice", "description", "gen_prefix", "target_delimiter", "repeats"),
    *("fewshot_delimiter", "num_fewshot", "fewshot_split", "training_split", "process_docs"),
)
"""Keys of a task that decide what a model is asked; epsilon, answer and position do not."""


def request_digests(loaded: Loaded) -> dict[str, str]:
    """Task -> sha256 of what its YAML and options ask the model, scoring left out."""
    found = {}
    for name, task in loaded.tasks.items():
        if hasattr(task, "is_tcb_task"):
            config = task.config.to_dict()
            asked = {key: config.get(key) for key in ASKED}
            asked |= {k: v for k, v in task.options.condition.items() if k in PERTURBED}
            sent = {k: v for k, v in task.generation().items() if k != "stability_at"}
            found[name] = digest([asked, task.spec.request, task.spec.shots, sent])
    return found


def assemble(
    store: Store,
    manifest: Manifest,
    loaded: Loaded,
    evaluated: Mapping[str, Any],
    scorer: TextScorer | None = None,
) -> tuple[dict[str, Any], dict[str, list[Sample]]]:
    """The result (lm-eval's shape with a ``tcb_bench`` block) and the sample rows of each task.

    ``scorer`` compares texts, for tasks that have references; None leaves BERTScore out.
    """
    scorer = scorer or TextScorer()
    ours = {name: task for name, task in loaded.tasks.items() if hasattr(task, "is_tcb_task")}
    cells = samples_by_cell(store, manifest, ours, evaluated["samples"])
    samples = {
        base: [s for docs in by_cell.values() for s in docs] for base, by_cell in cells.items()
    }
    label_conflicts(samples)
    for rows in samples.values():
        scorer.add(rows, store.folder)
        add_distances(rows, scorer.encoder)
    mark = scorer.signature
    results = [_task_result(base, ours, cells[base], manifest, mark) for base in cells]
    for name, members in loaded.groups.items():
        if not set(members) - cells.keys():  # lm-eval's own tasks have no rows to add up
            results.append(_group_result(name, members, results, loaded.absent[name]))
    asked = manifest.settings["tasks"]  # what was asked for comes first, in that order
    results.sort(key=lambda task: asked.index(task.name) if task.name in asked else len(asked))
    for name in sorted(evaluated["samples"].keys() - ours.keys()):
        samples[name] = [stock_sample(s) for s in evaluated["samples"][name]]
    return result_file(manifest, loaded.groups, loaded.missing, results, evaluated), samples


def _task_result(
    base: str,
    ours: Mapping[str, Any],
    cells: Mapping[str, Sequence[Sample]],
    manifest: Manifest,
    bert_score: str | None,
) -> TaskResult:
    names = {task.condition.id: name for name, task in ours.items() if task.base_name == base}
    tasks = {cell: ours[name] for cell, name in names.items()}
    task = next(iter(tasks.values()))
    settings = manifest.settings
    asked = settings["request_sha256"]
    data = {
        "id": task.config.dataset_path,
        "config": task.config.dataset_name,
        "split": task.config.test_split or task.config.validation_split,
        "source": _source(task),
        "revision": task.own.get("dataset_revision") if _source(task) == "hub" else None,
        "sha256": digest(_documents(task)),
        "available": task.documents.selection.available,
        **_selection_facts(task),
    }
    version = (task.config.metadata or {}).get("version")
    return TaskResult(
        name=base,
        version=version,
        cells=cells,
        axes={cell: dict(t.condition.axes) for cell, t in tasks.items()},
        request_sha256={cell: asked[name] for cell, name in names.items() if name in asked},
        signature_parts=_signature_parts(task, version, data, settings)
        | _text_parts(task, bert_score),
        config=_clean_config(task),
        n_shot=task.config.num_fewshot or 0,
        temperature_effective=settings["model_info"]["temperature_effective"],
        facts={
            "data": data,
            "epsilon": task.spec.epsilon,
            "sampling_defaults": task.spec.sampling_defaults,
            "weight_radius": settings["model_info"]["weight_radius"],
            "limit": task.options.limit,
            "seed": task.options.seed,
            "resources": settings.get("resources", {}).get(base, {}),
            **_text_facts(task, bert_score),
        },
    )


def _documents(task: Any) -> list[list[str]]:
    """Id and hash of every chosen document, whichever conditions were asked this time."""
    rows = task.documents.selection.documents
    return sorted(
        [row[ID_COLUMN], digest({key: value for key, value in row.items() if key != ID_COLUMN})]
        for row in rows
    )


def _selection_facts(task: Any) -> dict[str, Any]:
    """Which documents were chosen, where that is more than a draw from one list."""
    documents = task.documents
    if not documents.selection.strata and not documents.left_out:
        return {}
    strata = documents.selection.strata.items()
    return {
        "strata": {name: {"taken": taken, "there": there} for name, (taken, there) in strata},
        "left_out": dict(documents.left_out),
        "ids": list(documents.selection.documents[ID_COLUMN]),
    }


def _text_facts(task: Any, bert_score: str | None) -> dict[str, Any]:
    """What free answers were compared with, and by what."""
    documents = task.documents
    if documents.references.kind == "none":
        return {}
    return {
        "reference": documents.references.facts,
        "bert_score": bert_score,
        "text_scores": TEXT_SCORES_SIGNATURE,
    }


def _text_parts(task: Any, bert_score: str | None) -> dict[str, Any]:
    references = task.documents.references
    parts: dict[str, Any] = {}
    if references.kind == "none":
        return parts
    sha = references.facts["sha256"]
    parts["ref"] = f"{references.kind}@{references.generator or 'data'}:{sha[:8]}"
    parts["bert"] = "none" if bert_score is None else bert_score.replace(" ", "_")
    parts["text"] = TEXT_SCORES_SIGNATURE
    return parts


def _source(task: Any) -> str:
    """Where the documents came from: hub, sample, local (--data DIR), or the task's own files."""
    if task.config.dataset_path in FILE_BUILDERS:
        return "file"
    return task.options.data if task.options.data in ("hub", "sample") else "local"


def _sampling_digest(task: Any, system_instruction: str | None) -> str:
    """Short hash of the sampling parameters and the instruction, a sweep's axes left out."""
    own = task.generation() if task.spec.request != "next_token" else {}
    fixed = {k: v for k, v in own.items() if k not in {*task.condition.axes, "stability_at"}}
    return digest([fixed, system_instruction])[:6]


def _signature_parts(
    task: Any, version: Any, data: Mapping[str, Any], settings: Mapping[str, Any]
) -> dict[str, Any]:
    info, options = settings["model_info"], task.options
    return {
        "task": task.base_name,
        "v": version,
        "model": settings["label"],
        "rev": info.get("revision"),
        "backend": info.get("backend"),
        "dtype": info.get("dtype"),
        "weights": (info.get("weights_sha256") or "")[:8] or None,
        "data": _data_mark(data),
        "shots": task.config.num_fewshot or 0,
        "chat": digest(settings["chat_template"])[:8] if settings["chat_template"] else "no",
        "turns": "multi" if settings["fewshot_as_multiturn"] else None,
        "system": digest(system)[:6] if (system := settings["system_instruction"]) else None,
        "sampling": task.spec.sampling_defaults,
        "gen": _sampling_digest(task, settings["system_instruction"]),
        "limit": f"{options.limit:g}" if options.limit else "all",
        "seed": options.seed,
        "eps": f"{task.spec.epsilon:g}",
    }


def _data_mark(data: Mapping[str, Any]) -> str:
    """Source and revision, or hash; where strata of a pinned set were drawn from, both."""
    mark = f"{data['source']}@{(data['revision'] or data['sha256'])[:12]}"
    is_chosen = data["revision"] and data.get("strata")
    return f"{mark}#{data['sha256'][:8]}" if is_chosen else mark


def _clean_config(task: Any) -> dict[str, Any]:
    """The YAML as lm-eval read it, without addresses of functions and paths of this machine."""
    config = {**task.config.to_dict(), **task.own, "task": task.base_name}
    config.pop("fewshot_config", None)
    config["class"] = f"{type(task).__module__}.{type(task).__name__}"
    config["generation_kwargs"] = task.generation()
    return config


def _group_result(
    name: str, members: Sequence[str], results: Sequence[TaskResult], absent: Sequence[str]
) -> TaskResult:
    """A group: all its tasks' documents together (micro), and each task alike (macro)."""
    parts = [task for task in results if task.name in members]
    cells: dict[str, list[Document]] = {}
    for task in parts:
        for cell, documents in task.cells.items():
            cells.setdefault(cell, []).extend(documents)
    first = parts[0]
    chosen = {task.name: task.facts["data"] for task in parts}
    data = {
        **first.facts["data"],
        "config": None,
        "sha256": digest([part["sha256"] for part in chosen.values()]),
        "available": sum(part["available"] for part in chosen.values()),
        "members": {
            task: {key: part[key] for key in ("available", "sha256")}
            for task, part in chosen.items()
        },
    }
    asked = {c: [task.request_sha256.get(c) for task in parts if c in task.cells] for c in cells}
    return replace(
        first,
        name=name,
        cells=cells,
        request_sha256={cell: digest(found) for cell, found in asked.items()},
        members={task.name: task.documents for task in parts},
        signature_parts={**first.signature_parts, "task": name, "data": _data_mark(data)},
        config={"group": name, "task": [task.name for task in parts]},
        facts={**first.facts, "data": data, "is_partial": bool(absent), "missing": list(absent)},
    )
