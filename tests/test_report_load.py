"""Run folders to grids. Oracle: folders written with scores that are plain functions of the cell."""

import numpy as np
import pytest
from report_runs import CONTEXTS, PAPER_TEMPERATURES, STAMP, TASK, Written, rewrite, write_run

from tcb_bench.errors import DataError, UsageError
from tcb_bench.report.load import load
from tcb_bench.report.load_grids import effective

OLDER = "2025-01-01T00-00-00.000000"


def digits(axes, question, repeat):
    """A score that says where it came from: T in the tens, context, question and run after it."""
    number = int(question[-3:])
    place = CONTEXTS.index(axes["context"])
    return 10 * axes["temperature"] + place + number / 100 + repeat / 1000


def small(**more):
    return Written(**{"temperatures": (0.0, 0.6), "score": digits, "n_questions": 3, **more})


def test_every_score_stands_at_its_temperature_context_question_and_run(tmp_path):
    study = load([write_run(tmp_path / "m", small())])
    [grid] = [g for g in study.grids if g.question_type == "bridge"]
    assert (grid.temperatures, grid.contexts) == ([0.0, 0.6], list(CONTEXTS))
    assert grid.questions == ["bridge-000", "bridge-001", "bridge-002"]
    t, c, q, r = np.ix_([0.0, 0.6], range(4), range(3), range(3))
    expected = 10 * t + c + q / 100 + r / 1000
    assert grid.scores["bertscore_f1"] == pytest.approx(expected)
    assert grid.scores["acc"][1, 2, 1].tolist() == [1.0, 0.0, 1.0]
    assert study.missing == []


@pytest.mark.parametrize("state", ["error", "filtered", "unscored"])
def test_a_state_without_a_score_is_nan_in_every_metric(tmp_path, state):
    def change(axes, question, row):
        return {**row, "state": state} if row["repeat"] == 1 else row

    grid = load([write_run(tmp_path / "m", small(change_row=change))]).grids[0]
    for name in ("acc", "bertscore_f1"):
        assert np.isnan(grid.scores[name][..., 1]).all()
        assert not np.isnan(grid.scores[name][..., [0, 2]]).any()


@pytest.mark.parametrize("state", ["truncated", "empty"])
def test_truncated_and_empty_texts_have_scores(tmp_path, state):
    run = small(change_row=lambda axes, question, row: {**row, "state": state})
    grid = load([write_run(tmp_path / "m", run)]).grids[0]
    assert not np.isnan(grid.scores["bertscore_f1"]).any()


def test_a_null_score_and_one_that_is_text_are_no_values(tmp_path):
    def change(axes, question, row):
        return {**row, "acc": None, "scores": {"f1": None, "kind": "stemmed", "em": True}}

    grid = load([write_run(tmp_path / "m", small(change_row=change))]).grids[0]
    assert list(grid.scores) == ["em"]
    assert (grid.scores["em"] == 1).all()


def test_samples_are_read_from_their_file_by_place(tmp_path):
    grid = load([write_run(tmp_path / "m", small())]).grids[0]
    sample = grid.samples[(0.6, "ner", "bridge-002")]
    assert sample["condition"] == "temperature=0.6,context=ner,question_type=bridge"
    assert sample["doc"]["question"] == "What is bridge-002?"
    assert [row["text"] for row in sample["rows"]][1] == "The answer to bridge-002 is 1."
    assert len(grid.samples) == 2 * 4 * 3
    assert (0.6, "none", "bridge-002") not in grid.samples


def test_weights_have_mean_one_and_a_question_weighs_the_same_everywhere(tmp_path):
    weights = {"bridge-000": 2.0, "bridge-001": 0.5, "bridge-002": 0.5}
    grid = load([write_run(tmp_path / "m", small(weights=weights))]).grids[0]
    assert grid.weights == pytest.approx([2.0, 0.5, 0.5])
    folder = write_run(tmp_path / "n", small(weights=weights))
    path = folder / f"samples_{TASK}_{STAMP}.jsonl"
    lines = path.read_text().splitlines()
    lines[0] = lines[0].replace('"weight": 2.0', '"weight": 3.0')
    path.write_text("\n".join(lines) + "\n")
    with pytest.raises(DataError, match=r"bridge-000: weighs .* score again"):
        load([folder])


def test_a_study_that_grew_is_put_together_newest_first(tmp_path):
    old = small(keep=lambda axes: axes["temperature"] == 0.0, score=lambda *_: 0.1)
    overlap = small(keep=lambda axes: axes["context"] == "original", score=lambda *_: 0.9)
    write_run(tmp_path / "m", old, OLDER)
    study = load([write_run(tmp_path / "m", overlap)])
    found = study.grids[0].scores["bertscore_f1"][..., 0, 0]
    assert found[:, 0].tolist() == [0.9, 0.9]
    assert found[0, 1:].tolist() == [0.1, 0.1, 0.1]
    assert np.isnan(found[1, 1:]).all()
    assert len(study.missing) == 2 * 3
    assert study.runs[0].tasks[TASK].usage == {
        "prompt_tokens": 100 * 3 * 3 * (4 + 6),
        "completion_tokens": 5 * 3 * 3 * (4 + 6),
    }


def test_older_conditions_of_other_settings_are_left_out_and_that_is_said(tmp_path):
    old = small(keep=lambda axes: axes["temperature"] == 0.0, settings="limit:4")
    new = small(keep=lambda axes: axes["temperature"] == 0.6)
    write_run(tmp_path / "m", old, OLDER)
    study = load([write_run(tmp_path / "m", new)])
    assert study.grids[0].temperatures == [0.6]
    [notice] = study.notices
    assert "8 conditions of results_2025-01-01T00-00-00.000000.json are left out" in notice
    assert "limit 4 then, all now" in notice


def test_the_grid_is_the_union_over_the_models_and_gaps_are_listed(tmp_path):
    one = small(model="a", temperatures=(0.0, 1.2), contexts=("ner", "original"))
    two = small(model="b", temperatures=(0.6,), types=("bridge",))
    study = load([write_run(tmp_path / "a", one), write_run(tmp_path / "b", two)])
    assert [(g.model, g.question_type) for g in study.grids] == [
        ("a", "bridge"),
        ("a", "comparison"),
        ("b", "bridge"),
    ]
    for grid in study.grids:
        assert grid.temperatures == [0.0, 0.6, 1.2]
        assert grid.contexts == ["original", "ner", "replace_half", "remove_half"]
    assert len(study.missing) == 2 * 3 * 4 * 2 - (2 * 2 * 2 + 4)
    assert {m["model"] for m in study.missing if m["question_type"] == "comparison"} == {"a", "b"}


def test_the_papers_440_conditions_come_together(tmp_path):
    models = [small(model=m, temperatures=PAPER_TEMPERATURES, n_questions=1) for m in "abcde"]
    study = load([write_run(tmp_path / run.model, run) for run in models])
    filled = sum(int((~np.isnan(g.scores["acc"][..., 0, 0])).sum()) for g in study.grids)
    assert (filled, study.missing) == (440, [])


def test_temperature_keys_are_rounded_as_condition_ids_are(tmp_path):
    grid = load([write_run(tmp_path / "m", small(temperatures=(0.0, 3 * 0.2)))]).grids[0]
    assert grid.temperatures == [0.0, 0.6]


def test_a_model_without_a_scored_response_keeps_the_metric_as_nan(tmp_path):
    dead = small(model="dead", change_row=lambda axes, question, row: {**row, "state": "error"})
    study = load([write_run(tmp_path / "a", small()), write_run(tmp_path / "b", dead)])
    [grid] = [g for g in study.grids if g.model == "dead" and g.question_type == "bridge"]
    assert np.isnan(grid.scores["bertscore_f1"]).all()


def test_a_task_without_a_sweep_has_no_grid(tmp_path):
    run = Written(temperatures=(), contexts=(), types=(), score=lambda *_: 1.0)
    study = load([write_run(tmp_path / "m", run)])
    assert study.grids == [] == study.missing
    assert study.runs[0].tasks[TASK].cells[""].metrics["acc"]["value"] == 0.5


def test_a_sweep_of_temperature_alone_is_of_original_texts(tmp_path):
    run = Written(contexts=(), types=(), score=lambda axes, *_: axes["temperature"])
    [grid] = load([write_run(tmp_path / "m", run)]).grids
    assert (grid.contexts, grid.question_type) == (["original"], "")
    assert grid.scores["bertscore_f1"][:, 0, 0, 0].tolist() == [0.0, 0.6, 2.0]


def test_folders_of_one_model_are_told_apart_and_an_output_path_stands_for_its_runs(tmp_path):
    for name in ("first", "second"):
        write_run(tmp_path / name / "toy", small())
    both = load([tmp_path / "first", tmp_path / "second" / "toy", tmp_path / "first" / "toy"])
    assert [run.label for run in both.runs] == ["toy [first/toy]", "toy [second/toy]"]


def test_differing_settings_and_questions_of_two_models_are_said(tmp_path):
    a = small(model="a", types=("bridge",))
    b = small(model="b", types=("bridge",), settings="limit:2", n_questions=2)
    study = load([write_run(tmp_path / "a", a), write_run(tmp_path / "b", b)])
    assert study.notices == [
        f"{TASK}: a and b differ in settings: limit all and 2",
        f"{TASK}: the models were asked different bridge questions (a: 3; b: 2)",
    ]


@pytest.mark.parametrize(
    ("values", "meaning"),
    [
        (["true", True], True),
        (["true", "false"], False),
        (["remapped", "unknown"], "remapped"),
        (["true", "unknown"], "unknown"),
        ([None], "unknown"),
    ],
)
def test_the_weakest_claim_about_temperature_holds_for_all(values, meaning):
    assert repr(effective(values)) == repr(meaning)


def test_a_partial_run_and_a_model_deaf_to_temperature_are_said(tmp_path):
    run = small(is_partial=True, effective="false")
    notices = load([write_run(tmp_path / "m", run)]).notices
    assert notices[0] == "toy: partial result (the invocation did not finish)"
    assert "ignores it" in notices[1]


def test_what_is_no_run_folder_is_refused_in_one_line(tmp_path):
    with pytest.raises(UsageError, match="no run folder given"):
        load([])
    with pytest.raises(DataError, match="no such folder"):
        load([tmp_path / "none"])
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match=r"no results_\*\.json"):
        load([tmp_path / "empty"])


def test_files_that_are_not_as_written_are_refused_with_file_and_line(tmp_path):
    folder = write_run(tmp_path / "m", small())
    samples = folder / f"samples_{TASK}_{STAMP}.jsonl"
    good = samples.read_text()
    samples.write_text(good.replace("\n", "\n{broken\n", 1))
    with pytest.raises(DataError, match=rf"{samples.name}:2: not JSON"):
        load([folder])
    samples.write_text(good + good.splitlines()[0] + "\n")
    with pytest.raises(DataError, match="'bridge-000' stands twice"):
        load([folder])
    samples.unlink()
    with pytest.raises(DataError, match="no samples"):
        load([folder])
    rewrite(folder / f"results_{STAMP}.json", lambda value: value.pop("tcb_bench"))
    with pytest.raises(DataError, match="not a result of tcb-bench"):
        load([folder])


def test_usage_leaves_out_reused_repeats_and_flags_are_counted(tmp_path):
    def change(axes, question, row):
        scores = {**row["scores"], "refusal": int(question == "bridge-001")}
        return {**row, "scores": scores, "reused_from": "key" if row["repeat"] else None}

    run = small(temperatures=(0.0,), contexts=("original",), types=("bridge",), change_row=change)
    task = load([write_run(tmp_path / "m", run)]).runs[0].tasks[TASK]
    assert task.usage == {"prompt_tokens": 300, "completion_tokens": 15}
    [cell] = task.cells.values()
    assert cell.samples.flags == {"refusal": 3, "garbled": 0}
    assert cell.counts["scored"] == 9
