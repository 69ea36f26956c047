"""The parts of an lm-eval result that an entry takes: numbers, data set, signature."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from tcb_bench.leaderboards.entry import EntryMetric, ModelRecord
from tcb_bench.leaderboards.import_samples import Documents
from tcb_bench.leaderboards.submit_names import public_name
from tcb_bench.records import DataFacts
from tcb_bench.results import digest

Z = 1.959963984540054  # of a two-sided 95 % interval of the normal distribution
SHARES = ("acc", "acc_norm", "exact_match")
"""Metrics of lm-eval that are shares in every task; of all others the unit is unknown."""

SEEDS = ("random_seed", "numpy_seed", "torch_seed", "fewshot_seed")


def lm_eval_metrics(result: Mapping[str, Any], task: str) -> list[EntryMetric]:
    """The numbers of ``results[task]``; filter ``none`` is left out of a name."""
    flat = result["results"][task]
    directions = result.get("higher_is_better", {}).get(task) or {}
    effective = sum(_count(result, name, "effective") for name in members_of(result, task))
    found = []
    for key, value in flat.items():
        name, _, filter_ = key.partition(",")
        if not filter_ or name.endswith("_stderr") or not _is_number(value):
            continue
        n = flat.get("sample_count", {}).get(key, effective)
        stderr = flat.get(f"{name}_stderr,{filter_}")
        found.append(
            EntryMetric(
                name=name if filter_ == "none" else key,
                higher_is_better=directions.get(name),
                unit="share" if name in SHARES else "unknown",
                n=int(n),
                **_interval(name, float(value), stderr),
            )
        )
    return found


def _interval(name: str, value: float, stderr: Any) -> dict[str, Any]:
    """Value, standard error and value -/+ 1.96 stderr (a share's ends within 0 and 1)."""
    if not math.isfinite(value):
        return {"value": None, "stderr": None, "ci_low": None, "ci_high": None}
    if not _is_number(stderr) or not math.isfinite(stderr):
        return {"value": value, "stderr": None, "ci_low": None, "ci_high": None}
    low, high = value - Z * stderr, value + Z * stderr
    if name in SHARES:
        low, high = max(0.0, low), min(1.0, high)
    ends = {"ci_low": low, "ci_high": high, "interval": "normal"}
    return {"value": value, "stderr": float(stderr), **ends}


def members_of(result: Mapping[str, Any], task: str) -> list[str]:
    """The tasks of a group, of groups within it too; a task alone is its own."""
    own = result.get("group_subtasks", {}).get(task)
    if not own:
        return [task]
    return [leaf for member in own for leaf in members_of(result, member)]


def data_of(result: Mapping[str, Any], task: str, documents: Mapping[str, Documents]) -> DataFacts:
    """The data set as the task's config names it; hashed where its samples were given."""
    members = members_of(result, task)
    configs = [result["configs"].get(name, {}) for name in members]
    splits = [c.get("test_split") or c.get("validation_split") for c in configs]
    hashes = [documents[name].sha256 for name in members if name in documents]
    is_group = members != [task]
    sha256 = digest(hashes) if is_group else next(iter(hashes), None)
    return DataFacts(
        id="+".join(_distinct(public_name(str(c.get("dataset_path"))) for c in configs)),
        config=_only(c.get("dataset_name") for c in configs),
        split=_only(splits),
        source=None,
        revision=_only((c.get("dataset_kwargs") or {}).get("revision") for c in configs),
        sha256=sha256 if len(hashes) == len(members) else None,
        available=sum(_count(result, name, "original") for name in members),
    )


def signature_of(result: Mapping[str, Any], task: str, model: ModelRecord) -> dict[str, str]:
    """What can change a number, as far as the file says it, in a fixed order."""
    config, members = result["config"], members_of(result, task)
    configs = [result["configs"].get(name, {}) for name in members]
    hashes = [result.get("task_hashes", {}).get(name) for name in members]
    asked = [config.get("gen_kwargs"), [c.get("generation_kwargs") for c in configs]]
    limit, template = config.get("limit"), result.get("chat_template_sha")
    parts: dict[str, Any] = {
        "task": task,
        "v": result["versions"].get(task),
        "model": model.id,
        "rev": model.revision,
        "backend": model.backend,
        "dtype": model.dtype,
        "data": digest(hashes)[:12] if all(hashes) else None,
        "shots": _only(result.get("n-shot", {}).get(name) for name in members),
        "chat": template[:8] if template else "no",
        "gen": digest([asked, result.get("system_instruction")])[:6],
        "limit": "all" if limit is None else f"{limit:g}",
        "seeds": ",".join(str(config.get(name)) for name in SEEDS),
        "lm-eval": result.get("lm_eval_version"),
    }
    return {name: str(value) for name, value in parts.items() if value is not None}


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _count(result: Mapping[str, Any], task: str, kind: str) -> int:
    return int(result.get("n-samples", {}).get(task, {}).get(kind, 0))


def _distinct(values: Any) -> list[Any]:
    return list(dict.fromkeys(values))


def _only(values: Any) -> Any:
    """The one value that all have; None where they differ."""
    found = _distinct(values)
    return found[0] if len(found) == 1 else None
