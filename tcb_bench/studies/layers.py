"""How strongly the prediction depends on the residual stream after every block.

Beyond Confidence names it as future work; it has no numbers for it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tcb_bench.data import ID_COLUMN
from tcb_bench.errors import ModelError, UsageError
from tcb_bench.responses import Failure
from tcb_bench.studies.findings import Findings
from tcb_bench.studies.layers_tables import (
    Series,
    agreement,
    check_table,
    depth_table,
    names_of,
    summarised,
)
from tcb_bench.studies.session import Session

WHAT = "layers/1"
NEEDS = "gradients through the model"
Row = dict[str, Any]


def study(session: Session) -> Findings:
    """‖J_l‖_F for every prompt and block, its course over depth, and the check at the head."""
    from tcb_bench.studies.layers_figures import draw_depth

    prompts, values = _measured(session)
    rows = [_row(*prompt, value) for prompt, value in zip(prompts, values, strict=True)]
    good = [row for row in rows if row["state"] == "scored"]
    if not good:
        reasons = sorted({row["reason"] for row in rows})
        raise ModelError(f"study layers: none of {len(rows)} prompts was measured: {reasons[0]}")
    series = _series(good, session.seed)
    exact = np.array([row["exact"] for row in good])
    end = series[0]
    check = agreement(end.norm[:, -1], end.error[:, -1], exact, _rounding(session.model))
    tables = [depth_table(one, exact, session.settings) for one in series]
    return Findings(
        tables=[*tables, check_table(check)],
        rows=rows,
        notes=_notes(series, check, len(rows) - len(good)),
        draw=lambda folder: draw_depth(folder, series),
        summary={
            "n_prompts": len(rows),
            "n_scored": len(good),
            "check": check,
            "series": summarised(series),
        },
    )


def _measured(session: Session) -> tuple[list[tuple[str, str]], list[Any]]:
    """(task, document) of every prompt, and its value or ``Failure``."""
    from tcb_bench.models.hf_layers import Probing

    keys = ("probes", "directions", "all_positions")
    given = {key: session.settings[key] for key in keys}
    if given["probes"] < 2 or given["directions"] < 0:
        raise UsageError(
            f"probes must be >= 2 and directions >= 0; got {given['probes']} and "
            f"{given['directions']}"
        )
    prompts, contexts = [], []
    for name, task in session.load().tasks.items():
        for request in session.prompts(task):
            if request.request_type != "next_token":
                raise UsageError(
                    f"study layers probes the prediction behind a prompt; {name} asks for "
                    f"{request.request_type}: give tasks that score choices, such as mmlu_tcb"
                )
            prompts.append((name, str(request.doc[ID_COLUMN])))
            contexts.append(str(request.args[0]))
    if not hasattr(session.model, "measure_layers"):
        raise ModelError(f"study layers needs {NEEDS}: --model hf/... gives them")
    probing = Probing(**given, seed=session.seed)
    session.say(f"probing {len(contexts)} prompts")
    values = session.computed(
        WHAT,
        contexts,
        lambda missing, keep: session.model.measure_layers(missing, probing, keep),
        **given,
        seed=session.seed,
    )
    return prompts, values


def _row(task: str, document: str, value: Any) -> Row:
    place = {"task": task, "id": document}
    if isinstance(value, Failure):
        return {**place, "state": value.state, "reason": value.reason}
    return {**place, "state": "scored", "reason": None, **value}


def _rounding(model: Any) -> float:
    """What the arithmetic explains of a difference in log10: 1e-4 of a norm in float32."""
    import torch

    return max(1e-4, float(torch.finfo(model.weights_dtype).eps)) / math.log(10)


def _series(rows: Sequence[Row], seed: int) -> list[Series]:
    """One per kind of perturbation: (prompts, L + 2) of log10 norms, relative ones, errors."""

    def stacked(values: Sequence[Sequence[float | None]]) -> NDArray[np.float64]:
        return np.array([[math.nan if v is None else v for v in row] for row in values])

    lengths = stacked([row["log10_x_norm"] for row in rows])
    found = []
    for name, title in (("last", "the last position"), ("all", "every position")):
        if name not in rows[0]:
            continue
        norm = stacked([row[name]["log10_norm"] for row in rows])
        relative = norm + lengths
        if name == "all":
            relative = stacked([row["all_relative"]["log10_norm"] for row in rows])
        error = stacked([row[name]["error"] for row in rows])
        found.append(Series(name, title, norm, relative, error, seed))
    return found


def _notes(series: Sequence[Series], check: Mapping[str, Any], n_lost: int) -> list[str]:
    notes = [line for one in series for line in _where(one)]
    start, last, normed = (series[0].norm_intervals[i].value for i in (0, -2, -1))
    if start is not None and last is not None and normed is not None:
        notes.append(
            "A change of the residual stream by one unit of length is felt most "
            f"{'early' if start > last else 'late'}: log10 ‖J‖ is {start:.2f} at the embeddings, "
            f"{last:.2f} behind the last block, {normed:.2f} at the normed state."
        )
    if check["n"]:
        notes.append(
            "Check: at the normed state probes and closed form differ by at most "
            f"{check['largest']:.2g} in log10; |z| <= 2 for {check['within']} of {check['n']} "
            f"prompts, largest |z| {check['z_largest']:.2f}."
        )
    if n_lost:
        notes.append(f"{n_lost} prompts were not measured; samples.jsonl says why.")
    return notes


def _where(one: Series) -> list[str]:
    """At which depth the prediction is most and least fragile; the normed state left out."""
    middles = [interval.value for interval in one.relative_intervals[:-1]]
    found = np.array([math.nan if value is None else value for value in middles])
    if np.isnan(found).all():
        return []
    top, low = int(np.nanargmax(found)), int(np.nanargmin(found))
    names = names_of(one.norm.shape[1])
    peaks = np.where(np.isnan(one.relative), -np.inf, one.relative)[:, :-1].argmax(1)
    share = f"the peak of {int((peaks == top).sum())} of {len(peaks)} prompts"
    return [
        f"Perturbed at {one.title} in proportion to the state's length, the prediction is most "
        f"fragile at: {names[top]} (log10 {found[top]:.2f}; {share}), least at: {names[low]} "
        f"(log10 {found[low]:.2f})."
    ]
