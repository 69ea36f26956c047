"""``tcb-bench perturb`` and ``ls perturbations``. Oracle: the texts of the shipped sample."""

import re

import pytest

from tcb_bench.__main__ import main
from tcb_bench.perturb.kinds import KINDS
from tcb_bench.perturb_view import _marked


def shown(capsys, *words):
    code = main(["perturb", "--data", "sample", "--limit", "1", *words])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_before_and_after_stand_side_by_side_with_what_was_done(capsys):
    code, out, _ = shown(capsys, "--kind", "ner")
    assert code == 0
    assert "[MASK]" in out
    assert "token overlap" in out
    assert "masked" in out


def test_a_task_without_documents_shows_its_question(capsys):
    code, out, _ = shown(capsys, "--kind", "typos", "--task", "gsm8k_tcb")
    assert code == 0
    assert "edits" in out


def test_a_kind_that_does_not_exist_for_a_document_says_so(capsys):
    code, out, _ = shown(capsys, "--kind", "remove:4")
    assert code == 0
    assert re.search(r"ours-b2-\d+: .*sentence", out)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--kind", "nre"], "did you mean 'ner'"),
        (["--kind", "ner", "--task", "gsm8k_tcb"], "no query perturbation 'ner'"),
        (["--kind", "shots_reordering"], "put it in a sweep"),
        (["--kind", "remove"], "give the numbers of sentences"),
        (["--kind", "ner:3"], "takes no argument"),
    ],
)
def test_what_does_not_fit_is_one_line(capsys, words, message):
    code, _, err = shown(capsys, *words)
    assert code == 2
    assert message in err
    assert err.count("\n") == 1


def test_the_diff_marks_what_went_and_what_came():
    left, right = _marked("a b c", "a x c")
    assert [left.plain[s.start : s.end] for s in left.spans] == ["b"]
    assert [right.plain[s.start : s.end] for s in right.spans] == ["x"]
    assert (left.plain, right.plain) == ("a b c", "a x c")


def test_all_perturbations_are_listed_with_axis_and_source(capsys):
    assert main(["ls", "perturbations"]) == 0
    out = capsys.readouterr().out
    assert f"{len(KINDS)} perturbations" in out
    assert "TP table 1" in out
