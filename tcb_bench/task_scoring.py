"""What a task file says about scores: what is refused, and the gold answer among choices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tcb_bench.errors import DataError, UnknownName, UsageError
from tcb_bench.metrics import METRICS


def check_scoring(config: Mapping[str, Any], name: str) -> None:
    """Scores come from ``tcb: {answer: ...}``; what would be ignored is refused.

    Raises:
        UnknownName: a metric nobody knows in ``metric_list`` (every known one is always computed).
        UsageError: ``process_results`` or ``filter_list``.
    """
    for key in ("process_results", "filter_list"):
        if config.get(key) is not None:
            raise UsageError(
                f"{name}: {key} has no effect here; use `tcb: {{answer: ...}}`, "
                "or a plain lm-eval task without `class`"
            )
    for entry in config.get("metric_list") or []:
        if entry.get("metric") not in METRICS:
            raise UnknownName("metric", str(entry.get("metric")), METRICS, "`tcb-bench ls metrics`")


def gold_choice(gold: Any, choices: Sequence[str], where: str) -> int:
    """Index of the gold answer, also where the data give the choice's text.

    Raises:
        DataError: it is none of the choices; the message begins with ``where``.
    """
    index = choices.index(gold) if isinstance(gold, str) and gold in choices else gold
    if not isinstance(index, int) or not 0 <= index < len(choices):
        raise DataError(
            f"{where}: answer {gold!r} is none of {choices} "
            f"and no index from 0 to {len(choices) - 1}"
        )
    return index
