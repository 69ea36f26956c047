"""From conditions of several models to grids over one set of temperatures and contexts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tcb_bench.errors import DataError
from tcb_bench.report.grid import Floats, Grid
from tcb_bench.report.load_run import Cell, Run, TaskRun
from tcb_bench.report.load_samples import StoredSamples

ORIGINAL = "original"
AXES = ("temperature", "context")
"""A task that is swept over one of these has a grid."""


@dataclass(frozen=True, slots=True)
class Shape:
    """What all models of a task together were asked, for one question type."""

    temperatures: Sequence[float]
    contexts: Sequence[str]
    question_type: str


@dataclass(frozen=True, slots=True)
class Coordinates:
    """Where a condition stands: ``task`` carries the axes that a grid does not have."""

    task: str
    question_type: str
    temperature: float
    context: str


def has_grid(task: TaskRun) -> bool:
    """Whether a task was swept over temperature or context."""
    return any(axis in cell.axes for cell in task.cells.values() for axis in AXES)


def locate(task: TaskRun, cell: Cell) -> Coordinates:
    """Temperature, context and question type of a condition; other axes go into the task's label.

    Without a context axis it is ``original``. Without a temperature axis the task's own
    temperature counts, 0 where it names none.
    """
    given = dict(cell.axes)
    own = (task.config.get("generation_kwargs") or {}).get("temperature") or 0.0
    temperature = round(float(given.pop("temperature", own)), 10)
    context = str(given.pop("context", ORIGINAL))
    question_type = str(given.pop("question_type", ""))
    rest = ", ".join(f"{axis} = {value}" for axis, value in given.items())
    name = f"{task.name} ({rest})" if rest else task.name
    return Coordinates(name, question_type, temperature, context)


def grids_of(runs: Sequence[Run]) -> tuple[list[Grid], list[dict[str, Any]]]:
    """The grids of all models, on axes that are the union over them, and what is missing.

    A model without any condition of a question type has no grid for it; its conditions are among
    the missing.

    Returns:
        grids by task, model, question type; rows with task, model, question_type, temperature and
        context of each condition of the full grid that a model was not asked.
    """
    found: dict[str, dict[str, dict[Coordinates, Cell]]] = {}
    listed: dict[str, list[str]] = {}
    for run in runs:
        for task in filter(has_grid, run.tasks.values()):
            order = [str(c) for c in (task.config.get("sweep") or {}).get("context") or []]
            places = {locate(task, cell): cell for cell in task.cells.values()}
            for place, cell in places.items():
                found.setdefault(place.task, {}).setdefault(run.label, {})[place] = cell
            for label in {place.task for place in places}:
                listed.setdefault(label, []).extend(order)
    grids: list[Grid] = []
    missing: list[dict[str, Any]] = []
    for task_label, models in found.items():
        for model, cells in models.items():
            for shape in _shapes(models, listed[task_label]):
                missing += _missing(task_label, model, cells, shape)
                if any(place.question_type == shape.question_type for place in cells):
                    grids.append(_grid(task_label, model, cells, shape))
    return [_with_metrics(grid, grids) for grid in grids], missing


def _with_metrics(grid: Grid, grids: Sequence[Grid]) -> Grid:
    """The grid with every metric of its task: all NaN where a model has no scored response."""
    same = [other for other in grids if other.task == grid.task]
    names = dict.fromkeys(name for other in same for name in other.scores)
    size = (len(grid.temperatures), len(grid.contexts), len(grid.questions), 1)
    scores = {name: grid.scores.get(name, np.full(size, np.nan)) for name in names}
    return replace(grid, scores=scores)


def _shapes(models: Mapping[str, Mapping[Coordinates, Cell]], listed: Sequence[str]) -> list[Shape]:
    """One shape for each question type, with every temperature and context of any model.

    Contexts stand in the YAML's order (``listed``), ``original`` first.
    """
    places = [place for cells in models.values() for place in cells]
    temperatures = sorted({place.temperature for place in places})
    present = dict.fromkeys(place.context for place in places)
    order = [ORIGINAL, *listed, *present]
    contexts = [name for name in dict.fromkeys(order) if name in present]
    types = dict.fromkeys(place.question_type for place in places)
    return [Shape(temperatures, contexts, name) for name in types]


def _missing(
    task: str, model: str, cells: Iterable[Coordinates], shape: Shape
) -> list[dict[str, Any]]:
    there = set(cells)
    return [
        {
            "task": task,
            "model": model,
            "question_type": shape.question_type or None,
            "temperature": temperature,
            "context": context,
        }
        for temperature in shape.temperatures
        for context in shape.contexts
        if Coordinates(task, shape.question_type, temperature, context) not in there
    ]


def _grid(task: str, model: str, cells: Mapping[Coordinates, Cell], shape: Shape) -> Grid:
    used = {
        (shape.temperatures.index(place.temperature), shape.contexts.index(place.context)): cell
        for place, cell in cells.items()
        if place.question_type == shape.question_type
    }
    samples = {at: cell.samples for at, cell in used.items() if cell.samples}
    questions = sorted({doc for read in samples.values() for doc in read.values})
    if not questions:
        raise DataError(f"{model}, {task}: no samples_*.jsonl beside its results; copy them too")
    places = {
        (shape.temperatures[t], shape.contexts[c], document): place
        for (t, c), read in samples.items()
        for document, place in read.places.items()
    }
    return Grid(
        model=model,
        task=task,
        question_type=shape.question_type,
        temperatures=shape.temperatures,
        contexts=shape.contexts,
        questions=questions,
        scores=_scores({at: read.values for at, read in samples.items()}, shape, questions),
        weights=_weights([read.weights for read in samples.values()], questions),
        temperature_effective=effective([cell.temperature_effective for cell in used.values()]),
        samples=StoredSamples(places),
    )


def _scores(
    values: Mapping[tuple[int, int], Mapping[str, Sequence[Mapping[str, float]]]],
    shape: Shape,
    questions: Sequence[str],
) -> dict[str, Floats]:
    """Metric -> (T, C, Q, R), NaN where there is no value."""
    rows = [(at, doc, found) for at, docs in values.items() for doc, found in docs.items()]
    repeats = max(len(found) for _, _, found in rows)
    size = (len(shape.temperatures), len(shape.contexts), len(questions), repeats)
    index = {document: q for q, document in enumerate(questions)}
    scores: dict[str, Floats] = {}
    for (t, c), document, found in rows:
        for r, named in enumerate(found):
            for name, value in named.items():
                if name not in scores:
                    scores[name] = np.full(size, np.nan)
                scores[name][t, c, index[document], r] = value
    return scores


def _weights(found: Sequence[Mapping[str, float]], questions: Sequence[str]) -> Floats:
    """(Q,) weights with mean 1; a question weighs the same in every condition."""
    weights: dict[str, float] = {}
    for cell in found:
        for document, weight in cell.items():
            if weights.setdefault(document, weight) != weight:
                raise DataError(f"{document}: weighs {weights[document]} and {weight}; score again")
    array = np.array([weights[document] for document in questions])
    return np.asarray(array / array.mean())


def effective(values: Iterable[Any]) -> Any:
    """What can be said of all conditions: False if one ignores T, else the least certain."""
    texts = {str(value).lower() for value in values}
    for text, meaning in (("false", False), ("remapped", "remapped"), ("true", True)):
        if text in texts and (text != "true" or texts == {"true"}):
            return meaning
    return "unknown"
