"""Studies with a known truth as grids, for the tests of the analysis."""

import numpy as np

from tcb_bench.report.grid import Grid

CONTEXTS = ("original", "replace_half", "remove_half", "ner")
TEMPERATURES = (0.0, 0.6, 1.4, 2.0)


def truth(effects=None, temperatures=TEMPERATURES, contexts=CONTEXTS):
    """(T, C) shifts of the mean: ``effects`` maps (temperature or None, context or None) to one."""
    shifts = np.zeros((len(temperatures), len(contexts)))
    for (temperature, context), shift in (effects or {}).items():
        t = slice(None) if temperature is None else temperatures.index(temperature)
        c = slice(None) if context is None else contexts.index(context)
        shifts[t, c] += shift
    return shifts


def simulated(rng, shifts, questions=60, runs=3):
    """(T, C, Q, R) scores near 0.9: question sd 0.03, question x condition 0.01, run 0.015."""
    t, c = shifts.shape
    scores = 0.9 + shifts[:, :, None, None] + rng.normal(0, 0.03, (1, 1, questions, 1))
    scores = scores + rng.normal(0, 0.01, (t, c, questions, 1))
    return np.clip(scores + rng.normal(0, 0.015, (t, c, questions, runs)), 0, 1)


def grid(scores, *, model="m", question_type="bridge", samples=None, **options):
    """A grid of one score (or of several, given as a mapping) on the shared axes."""
    named = scores if isinstance(scores, dict) else {"bertscore_f1": scores}
    t, c, q, _ = next(iter(named.values())).shape
    axes = {
        "temperatures": options.pop("temperatures", TEMPERATURES[:t]),
        "contexts": options.pop("contexts", CONTEXTS[:c]),
        "questions": [f"{question_type}-{i:03d}" for i in range(q)],
        "weights": options.pop("weights", np.ones(q)),
    }
    return Grid(
        model=model,
        task="hotpotqa_tempperturb",
        question_type=question_type,
        scores=named,
        samples=samples or {},
        **axes,
        **options,
    )


def exact(shifts, questions=12, runs=2):
    """A grid's scores without any noise but the questions' own level."""
    levels = np.linspace(0.85, 0.95, questions)
    return np.broadcast_to(
        shifts[:, :, None, None] + levels[:, None], (*shifts.shape, questions, runs)
    ).copy()


def rows_of(table, **chosen):
    """The rows of a table that have the given values."""
    return [row for row in table.rows if all(row.get(k) == v for k, v in chosen.items())]


def row_of(table, **chosen):
    """The one row of a table that has the given values."""
    [row] = rows_of(table, **chosen)
    return row
