"""Analyses that read samples: largest gaps, stability against loss, removed sentences. By hand."""

import numpy as np
import pytest
from scipy import stats
from study_grids import exact, grid, row_of, rows_of, truth

from tcb_bench.report.analysis import analyse
from tcb_bench.report.analysis_cells import FLAT, Settings
from tcb_bench.report.analysis_gaps import gaps_table, text_near
from tcb_bench.report.analysis_stability import stability_predicts_loss
from tcb_bench.report.analysis_subsets import removals, smallest_subsets, subset_counts

QUICK = Settings(resamples=300)
NEVER = "by none of the sets run"


def sample(texts, *, question="Who?", accs=None, **rows):
    return {
        "doc": {"question": question},
        "reference": "It was Ann.",
        "rows": [
            {"repeat": r, "text": text, "acc": accs[r] if accs else None}
            | {key: values[r] for key, values in rows.items()}
            for r, text in enumerate(texts)
        ],
    }


# Gaps


def test_the_largest_gap_is_shown_with_its_texts():
    scores = np.full((1, 2, 3, 3), 0.9)
    scores[0, 1, 1] = [0.2, 0.5, 0.8]  # mean 0.5: the second run is nearest
    samples = {
        (0.0, context, f"bridge-{q:03d}"): sample(
            [f"{context} {q} {r}" for r in range(3)],
            question=f"Who is {q}?",
            scores=[{"bertscore_f1": value} for value in scores[0, c, q]],
        )
        for c, context in enumerate(("original", "replace_half"))
        for q in range(3)
    }
    row = gaps_table([grid(scores, samples=samples)], QUICK).rows[0]
    assert row["gap"] == pytest.approx(0.4)
    assert (row["doc_id"], row["question"]) == ("bridge-001", "Who is 1?")
    assert (row["original"], row["perturbed"]) == ("original 1 0", "replace_half 1 1")
    assert row["reference"] == "It was Ann."


def test_a_run_without_texts_still_has_its_gap():
    scores = exact(truth({(None, "ner"): -0.1}))
    row = row_of(gaps_table([grid(scores)], QUICK), temperature=0.0, context="ner")
    assert (row["gap"], row["original"]) == (pytest.approx(0.1), None)


def test_a_repeat_without_a_score_is_not_chosen():
    scored = sample(["a", "b"], scores=[{}, {"bertscore_f1": 0.1}])
    assert text_near(scored, "bertscore_f1", 0.9) == "b"
    assert text_near(sample([None]), "bertscore_f1", 0.9) is None
    scored["rows"][1] |= {"text": "hm</t>b", "reasoning_chars": 6}
    assert text_near(scored, "bertscore_f1", 0.9) == "b", "reasoning is not the answer"


# Stability


def stable_study(questions=60, **options):
    """Loss falls with the flip radius, but for noise."""
    rng = np.random.default_rng(0)
    radius = rng.random(questions)
    scores = np.full((4, 4, questions, 2), 0.9)
    loss = 0.02 * (1 - radius) + rng.normal(0, 0.003, (4, 4, questions))
    scores -= loss[..., None]
    scores[0, 0] = 0.9
    samples = {
        (0.0, "original", f"bridge-{q:03d}"): sample(
            ["x", "x"],
            stability=[{"relative_flip_radius": radius[q], "p_top1": None}] * 2,
            stability_mean=[None, {"log10_delta_tcb": -radius[q]}],
        )
        for q in range(questions)
    }
    return radius, scores, grid(scores, samples=samples, **options)


def test_a_stability_that_foretells_the_loss_is_found():
    radius, scores, study = stable_study()
    table = stability_predicts_loss([study], QUICK)
    row = row_of(table, quantity="relative_flip_radius", loss="temperature")
    loss = 0.9 - scores[1:, 0].mean(axis=(0, 2))
    assert row["spearman"] == pytest.approx(stats.spearmanr(radius, loss).statistic)
    assert row["spearman_high"] < -0.8
    event = loss > 0.01
    u = stats.mannwhitneyu(-radius[event], -radius[~event]).statistic
    assert row["auroc"] == pytest.approx(u / event.sum() / (~event).sum())
    assert (row["n_events"], row["n"], row["place"]) == (event.sum(), 60, "first answer token")


def test_the_three_losses_are_those_of_their_conditions():
    radius, scores, study = stable_study()
    table = stability_predicts_loss([study], QUICK)
    losses = {
        "perturbation": 0.9 - scores[0, 1:].mean(axis=(0, 2)),
        "both": 0.9 - scores[1:, 1:].mean(axis=(0, 1, 3)),
    }
    for kind, loss in losses.items():
        row = row_of(table, quantity="relative_flip_radius", loss=kind)
        assert row["spearman"] == pytest.approx(stats.spearmanr(radius, loss).statistic)
    mean = row_of(table, quantity="log10_delta_tcb", loss="both")
    assert mean["place"] == "mean over the answer"
    assert mean["spearman"] > 0.8
    assert not rows_of(table, quantity="p_top1")  # null everywhere


def test_few_events_and_no_stability_are_null_with_a_reason():
    _, _, study = stable_study(questions=30)
    row = row_of(
        stability_predicts_loss([study], QUICK), quantity="relative_flip_radius", loss="both"
    )
    assert (row["auroc"], row["spearman"] is None) == (None, False)
    assert row["reason"].startswith("fewer than 20")
    [bare] = stability_predicts_loss([grid(exact(truth()))], QUICK).rows
    assert (bare["spearman"], bare["reason"]) == (
        None,
        "the run stored no stability of these answers",
    )
    few = row_of(
        stability_predicts_loss([stable_study(questions=9)[2]], QUICK),
        quantity="relative_flip_radius", loss="both",
    )  # fmt: skip
    assert (few["spearman"], few["n"]) == (None, 9)


def test_a_model_that_ignores_temperature_has_no_loss_under_it():
    _, _, study = stable_study(temperature_effective="false")
    rows = rows_of(stability_predicts_loss([study], QUICK), quantity="relative_flip_radius")
    assert {row["loss"]: row.get("reason") == FLAT for row in rows} == {
        "temperature": True,
        "perturbation": False,
        "both": True,
    }


# Removed sentences

REMOVED = ("original", "remove:1", "remove:2", "remove:1+2")


def removal_study():
    """Four questions: changed by 2, by 1 and by 2, by 1+2 only, and by nothing."""
    answers = {  # per context of REMOVED: text, acc
        "q0": [("Ann.", 1), ("ann", 1), ("Bob", 0), ("Bob", 0)],
        "q1": [("Ann", 1), ("Ann B.", 1), ("Bob", 0), ("Bob", 0)],
        "q2": [("Ann", 0), ("Ann", 0), ("Ann", 0), ("Eve", 1)],
        "q3": [("Ann", 1), ("ANN", 1), ("Ann!", 1), ("Ann", 1)],
    }
    samples = {
        (0.0, context, q): sample([row[i][0]], accs=[row[i][1]], question=q)
        for q, row in answers.items()
        for i, context in enumerate(REMOVED)
    }
    study = grid(np.full((1, 4, 4, 1), 0.9), contexts=REMOVED, samples=samples)
    return type(study)(
        **{name: getattr(study, name) for name in study.__slots__} | {"questions": list(answers)}
    )


def test_the_smallest_sets_of_each_question():
    table = smallest_subsets([removal_study()])
    found = {row["doc_id"]: (row["changed"], row["flipped"]) for row in table.rows}
    assert found == {
        "q0": ("2", "2"),
        "q1": ("1, 2", "2"),
        "q2": ("1+2", "1+2"),
        "q3": (NEVER, NEVER),
    }
    row = row_of(table, doc_id="q1")
    assert (row["original"], row["perturbed"], row["n"]) == ("Ann", "Ann B.", 3)


def test_other_reasoning_is_no_other_answer():
    study = removal_study()
    for (_, context, _), answer in study.samples.items():
        (row,) = answer["rows"]
        thought = f"About {context}.</t>"
        row |= {"text": thought + row["text"], "reasoning_chars": len(thought)}
    assert smallest_subsets([study]).rows == smallest_subsets([removal_study()]).rows


def test_the_counts_by_size_add_up_to_the_questions():
    rows = subset_counts([removal_study()]).rows
    assert [(r["size"], r["changed"], r["flipped"]) for r in rows] == [
        ("1", 2, 2),
        ("2", 1, 1),
        (NEVER, 1, 1),
    ]
    assert {row["n"] for row in rows} == {4}


def test_the_tables_stand_only_in_a_run_that_removed_sentences():
    names = [table.name for table in analyse([removal_study()], resamples=50)]
    assert names[-2:] == ["subset_counts", "smallest_subsets"]
    assert removals(("original", "remove_half", "remove:1+3", "remove:x")) == {"remove:1+3": (1, 3)}


def test_answers_that_were_not_judged_count_as_changed_only():
    study = removal_study()
    for row in (s["rows"][0] for s in study.samples.values()):
        row["acc"] = None
    assert {row["flipped"] for row in smallest_subsets([study]).rows} == {None}
    assert {row["flipped"] for row in subset_counts([study]).rows} == {None}
