"""Table 5 of the Token Constraint Bound paper: one problem, eight prompts, accuracy and stability.

A prompt's only freedom is the order of its examples (and sampling, above T = 0): a row is repeated
over seeds, each with an order of its own, so that its figures have an interval.
"""

from __future__ import annotations

from tcb_bench.studies.findings import Findings
from tcb_bench.studies.interventions_figures import Drawing
from tcb_bench.studies.interventions_file import read_interventions
from tcb_bench.studies.interventions_notes import notes
from tcb_bench.studies.interventions_prompts import asked, chosen_items, the_task
from tcb_bench.studies.interventions_rows import check_settings, scored, threshold, with_cases
from tcb_bench.studies.interventions_summary import differences, summary
from tcb_bench.studies.interventions_tables import Facts, flat, tables
from tcb_bench.studies.session import Session


def study(session: Session) -> Findings:
    """Asks every row, item and seed, and compares each row with row 1.

    Raises:
        UsageError: a setting, the file of interventions or the task does not fit.
        DataError: an item that the data do not have, or examples that cannot be used.
    """
    settings, seed = session.settings, session.seed
    check_settings(settings)
    interventions = read_interventions(settings["interventions"])
    task = the_task(session)
    items = chosen_items(session, task)
    requests = asked(session, task, interventions, items)
    session.data[interventions.name] = interventions.sha256
    session.say(
        f"{len(interventions.rows)} rows, {len(items)} items, {settings['seeds']} seeds: "
        f"{len({one.prompt for one in requests})} different prompts"
    )
    answers = session.ask("generate_traced", [(one.id, one.arguments) for one in requests])
    samples = scored(requests, answers, task, interventions)
    at = threshold(samples, settings)
    samples = with_cases(samples, at, settings)
    facts = Facts(
        interventions=interventions,
        items=tuple(items),
        rows=summary(samples, at, settings, seed),
        changes=differences(samples, settings, seed),
        threshold=at,
        settings=settings,
    )
    return Findings(
        tables=tables(facts),
        rows=samples,
        notes=notes(facts),
        draw=Drawing(facts),
        summary={
            "interventions": [row.record() for row in interventions.rows],
            "items": items,
            "stable_by": at.quantity,
            "stable_at": at.value,
            "stable_at_origin": at.origin,
            "rows": [flat(row) for row in facts.rows],
            "changes": [flat(change) for change in facts.changes],
        },
    )
