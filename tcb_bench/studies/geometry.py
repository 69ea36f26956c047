"""Table 2 of the paper: competitors moved towards and away from the top-1, the prediction fixed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from tcb_bench.data import ID_COLUMN
from tcb_bench.errors import UsageError
from tcb_bench.metrics.geometry import check_moves, moved_competitors
from tcb_bench.report.figures_style import Picture
from tcb_bench.responses import Failure
from tcb_bench.studies.approximations import approximations_table
from tcb_bench.studies.findings import Findings
from tcb_bench.studies.geometry_figures import pictures
from tcb_bench.studies.geometry_plan import Plan, Point
from tcb_bench.studies.geometry_tables import Statistics, notes, sweep_rows, tables
from tcb_bench.studies.session import Measure, Session

WHAT = "moved competitors/1"
NEEDS = "the hidden states themselves"
NO_DELTA = "delta_tcb is infinite before the move: every row is the top-1's"


@dataclass(frozen=True)
class Prompt:
    """A prompt and where it is from; ``is_repeat``: the same text stood already before it."""

    data: str
    task: str
    id: str
    context: str
    is_repeat: bool


def study(session: Session) -> Findings:
    """Runs ``geometry``.

    Raises:
        UsageError: a setting is out of range, or a task asks for texts.
        TcbBenchError: as a run's.
    """
    plan = Plan(session.settings)
    prompts, missing = _prompts(session)
    head = session.model.head if hasattr(session.model, "head") else None
    if head is not None:
        _check(plan, head.size)
    session.say(f"{len(prompts)} prompts, {len(plan.moves)} moves of each")
    contexts = [prompt.context for prompt in prompts]
    values = session.states(WHAT, contexts, _measure(plan, head), moves=plan.moves)
    rows = [_row(prompt, value, plan) for prompt, value in zip(prompts, values, strict=True)]
    points = [
        _point(prompt, value, plan)
        for prompt, value, row in zip(prompts, values, rows, strict=True)
        if "reason" not in row
    ]
    settings = session.settings
    statistics = Statistics(settings["resamples"], settings["level"], session.seed)
    found = tables(points, plan, statistics)
    if settings["approximations"]:
        found.append(approximations_table(session, list(dict.fromkeys(contexts))))
    swept = sweep_rows(points, plan, statistics)

    def draw(folder: Path) -> Sequence[Picture]:
        return pictures(points, swept, plan, folder)

    return Findings(
        tables=found,
        rows=rows,
        notes=[*notes(points, plan, rows, found[0]), *missing],
        draw=draw,
        summary={"sweeps": swept},
    )


def _prompts(session: Session) -> tuple[list[Prompt], list[str]]:
    """Every prompt of every data set, and a sentence per task without documents.

    A data set is one name in the list of tasks.
    """
    found, missing, seen = [], [], set()
    for data in session.config.tasks:
        loaded = session.load([data])
        missing += [f"{name} was left out: {why}." for name, why in loaded.missing.items()]
        for name, task in loaded.tasks.items():
            for asked in session.prompts(task):
                if asked.request_type != "next_token":
                    raise UsageError(
                        f"task {name} asks for a text; geometry measures the prediction right "
                        "behind a prompt: give tasks of the request next_token, as mmlu_tcb_*"
                    )
                id_, text = str(asked.doc[ID_COLUMN]), str(asked.args[0])
                found.append(Prompt(data, name, id_, text, text in seen))
                seen.add(text)
    return found, missing


def _check(plan: Plan, size: int) -> None:
    try:
        check_moves(plan.moves, size)
    except ValueError as error:
        raise UsageError(f"competitors or sweep_competitors: {error}") from None


def _measure(plan: Plan, head: Any) -> Measure:
    def measure(states: Tensor) -> list[dict[str, Any]]:
        found = moved_competitors(states, head, plan.moves)
        names = ("v_eff", "p_top1", "top1_token", "log10_delta", "log10_moved")
        columns = [getattr(found, name).tolist() for name in names]
        return [dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True)]

    return measure


def _row(prompt: Prompt, value: Any, plan: Plan) -> dict[str, Any]:
    """The prompt as a line of ``samples.jsonl``, its reason where it is not counted."""
    row: dict[str, Any] = {"data": prompt.data, "task": prompt.task, "id": prompt.id}
    row["is_repeat"] = prompt.is_repeat
    if isinstance(value, Failure):
        return {**row, "reason": value.reason}
    point = _point(prompt, value, plan)
    main = plan.main
    row |= {
        "v_eff": point.v_eff,
        "p_top1": point.p_top1,
        "top1_token": point.top1_token,
        "log10_delta_tcb": point.log10_delta,
        "log10_delta_cluster": point.moved[main.cluster],
        "log10_delta_disperse": point.moved[main.disperse],
        "moves": [[*move, log10] for move, log10 in point.moved.items()],
    }
    if math.isinf(point.log10_delta):
        return {**row, "reason": NO_DELTA}
    held = point.moved[main.cluster] > point.log10_delta > point.moved[main.disperse]
    return {**row, "held": held}


def _point(prompt: Prompt, value: Mapping[str, Any], plan: Plan) -> Point:
    return Point(
        data=prompt.data,
        id=prompt.id,
        is_repeat=prompt.is_repeat,
        v_eff=value["v_eff"],
        p_top1=value["p_top1"],
        top1_token=value["top1_token"],
        log10_delta=value["log10_delta"],
        moved=dict(zip(plan.moves, value["log10_moved"], strict=True)),
    )
