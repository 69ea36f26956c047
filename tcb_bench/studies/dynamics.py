"""Stability along generated texts: dips, loops, and whether the first precede these (BC figure 4).

Every text is generated once with the quantities of ``trace`` at each of its tokens; all else is
arithmetic on them, so that another threshold asks the model nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tcb_bench.errors import UnknownName, UsageError
from tcb_bench.report.table import Row
from tcb_bench.studies.dynamics_figures import draw_all
from tcb_bench.studies.dynamics_tables import before_table, second_table, summary, texts_table
from tcb_bench.studies.dynamics_texts import Case, cases, rule_of
from tcb_bench.studies.dynamics_windows import Design, Found, contrasts, texts_of
from tcb_bench.studies.findings import Findings
from tcb_bench.studies.session import Session

SIGNIFICANT = 0.05
FEW_LOOPS = 10


def study(session: Session) -> Findings:
    """Texts, their marks, and what these have to do with each other."""
    settings, seed = session.settings, session.seed
    rule = rule_of(settings)
    _check(settings)
    found = cases(session)
    texts = texts_of(found)
    how = {"resamples": settings["resamples"], "seed": seed}
    design = Design(window=rule.window, width=settings["before"], **how)
    thresholds = [rule.threshold, *(t for t in settings["more_thresholds"] if t != rule.threshold)]
    before = contrasts(texts, thresholds, design)
    tables = {
        "texts": texts_table(found, rule, how),
        "before": before_table(before, design),
        "second": second_table(texts, rule, how),
    }
    example = _example(found, settings["example"])
    return Findings(
        tables=list(tables.values()),
        rows=[case.row() for case in found],
        notes=_notes(before, tables["second"].rows),
        draw=lambda folder: draw_all(folder, example, texts, settings["aligned"], seed),
        summary={**summary(tables), "example": example and example.prompt.id},
    )


def _check(settings: Mapping[str, Any]) -> None:
    least = {"max_gen_toks": 1, "before": 1, "aligned": 1, "resamples": 100}
    for name, low in least.items():
        if settings[name] < low:
            raise UsageError(f"{name}={settings[name]}: expected a whole number >= {low}")
    wrong = [t for t in settings["more_thresholds"] if not t > 0]
    if wrong:
        raise UsageError(f"more_thresholds={wrong[0]!r}: expected numbers > 0")


def _example(found: Sequence[Case], name: str | None) -> Case | None:
    """The text of the first figure.

    Raises:
        UnknownName: no text has that id.
    """
    there = [case for case in found if case.text is not None]
    if name is not None:
        named = [case for case in there if case.prompt.id == name]
        if not named:
            raise UnknownName("text", name, [case.prompt.id for case in there], "--set example=ID")
        return named[0]
    looping = [case for case in there if case.text is not None and case.text.loop is not None]
    return max(looping or there, key=_lead, default=None)


def _lead(case: Case) -> int:
    """Tokens before the loop."""
    assert case.text is not None
    return case.text.loop.onset if case.text.loop else len(case.text)


def _notes(before: Sequence[Found], second: Sequence[Row]) -> list[str]:
    """What the numbers say of BC's two sentences, whichever way."""
    notes = []
    for one in before[:2]:
        contrast, n = one.contrast, one.contrast.difference.n
        if contrast.p is None or contrast.first is None or contrast.others is None:
            notes.append(f"Dips before loops, against {one.control}: no loop can be compared.")
            continue
        is_more = contrast.first > contrast.others
        verdict = (
            f"{'more' if is_more else 'fewer'} than chance gives"
            if contrast.p < SIGNIFICANT
            else "not told apart from chance"
        )
        few = f" (only {n} loops)" if n < FEW_LOOPS else ""
        notes.append(
            f"Dips before loops, against {one.control}: {contrast.first:.3f} of the tokens, "
            f"elsewhere {contrast.others:.3f}: {verdict} (p = {contrast.p:.3f}, n = {n}){few}."
        )
    shares = {row["what"]: row["value"] for row in second if row["scope"] == "all tokens"}
    dips, others = (
        shares.get(name) for name in ("dips that are spikes of P(2nd)", "other tokens that are")
    )
    if dips is not None and others is not None:
        notes.append(
            f"{dips:.0%} of the dips are spikes of P(2nd), of the other tokens {others:.0%}."
        )
    return notes
