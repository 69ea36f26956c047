"""All analyses of a study, in the order in which a person reads them."""

from __future__ import annotations

from collections.abc import Sequence

from tcb_bench.errors import UsageError
from tcb_bench.report.analysis_ceiling import ceiling_table
from tcb_bench.report.analysis_cells import Settings, by_model, means, perturbed
from tcb_bench.report.analysis_contexts import contexts_table
from tcb_bench.report.analysis_crossings import crossings_table
from tcb_bench.report.analysis_despite import RIGHT, despite_table
from tcb_bench.report.analysis_gaps import gaps_table
from tcb_bench.report.analysis_interaction import interaction_table
from tcb_bench.report.analysis_models import model_crossings_table, ranks_table
from tcb_bench.report.analysis_onset import onset_table
from tcb_bench.report.analysis_shares import shares_table
from tcb_bench.report.analysis_stability import stability_predicts_loss
from tcb_bench.report.analysis_subsets import removals, smallest_subsets, subset_counts
from tcb_bench.report.analysis_summary import baseline_table, summary_table
from tcb_bench.report.analysis_types import types_table
from tcb_bench.report.grid import Grid
from tcb_bench.report.recommend import recommend_table
from tcb_bench.report.table import Table


def analyse(
    grids: Sequence[Grid],
    *,
    metric: str = "bertscore_f1",
    margin: float = 0.01,
    seed: int = 0,
    resamples: int = 10_000,
) -> list[Table]:
    """Return the tables of a study: what to do first, then why, then the samples.

    Tables that cannot say anything are left out: those of types for one type, of perturbations
    without any, of models for one model, of right answers without ``acc``, of removed sentences for
    a run that removed none. A table that is there has a row for every condition, also missing ones.

    Args:
        grids: of one task; one grid per model and question type.
        metric: name of the score, higher is better.
        margin: what counts as no difference, in the score's unit, > 0.
        seed: of every bootstrap and permutation.
        resamples: of each.

    Raises:
        UsageError: no grid, grids of several tasks, or ``margin`` or ``resamples`` out of range;
            UnknownName where a grid has no such score.

    Cost: about a second per grid of 44 conditions and 300 questions.
    """
    settings = Settings(metric=metric, margin=margin, seed=seed, resamples=resamples)
    tasks = {grid.task for grid in grids}
    if len(tasks) != 1:
        raise UsageError(f"an analysis is of one task; got {sorted(tasks) or 'no run'}")
    for grid in grids:
        means(grid, metric)  # an unknown score is refused before any work
    tables = [recommend_table, ceiling_table, onset_table]
    if any(map(perturbed, grids)):
        tables += [contexts_table, interaction_table, crossings_table]
    if any(len(same) > 1 for same in by_model(grids)):
        tables.append(types_table)
    tables.append(shares_table)
    if len(by_model(grids)) > 1:
        tables += [ranks_table, model_crossings_table]
    if any(RIGHT in grid.scores for grid in grids):
        tables.append(despite_table)
    tables += [stability_predicts_loss, summary_table, baseline_table]
    if any(map(perturbed, grids)):
        tables.append(gaps_table)
    found = [table(grids, settings) for table in tables]
    if any(removals(grid.contexts) for grid in grids):
        found += [subset_counts(grids), smallest_subsets(grids)]
    return found
