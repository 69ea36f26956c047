"""From run folders to a report. Oracle: what was written into the folders, counted by hand."""

import base64
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from html_reader import Reader
from report_runs import STAMP, TASK, Written, noisy, rewrite, write_run

from tcb_bench.errors import DataError, TcbBenchError, UnknownName, UsageError
from tcb_bench.report import build
from tcb_bench.report.table import Column, Table

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>"


def table(rows, *keys, **more):
    columns = [Column(key, key) for key in keys]
    return Table(**{"note": "Note", **more}, columns=columns, rows=rows)


@pytest.fixture
def analysis(monkeypatch):
    """A quick analysis in place of the real one; its calls are kept."""
    calls = []

    def analyse(grids, **settings):
        calls.append(settings)
        found = [{"model": g.model, "n": len(g.questions)} for g in grids]
        sample = grids[0].samples[(grids[0].temperatures[0], "original", grids[0].questions[0])]
        gaps = [{"model": grids[0].model, "text": sample["rows"][0]["text"]}]
        return [
            table([{"model": "toy", "T": 0.6}], "model", "T", name="recommend", title="Advice"),
            table(found, "model", "n", name="summary", title="Summary"),
            table(gaps, "model", "text", name="largest_gaps", title="Gaps"),
        ]

    module = SimpleNamespace(analyse=analyse)
    monkeypatch.setitem(sys.modules, "tcb_bench.report.analysis", module)
    return calls


def quick(**more):
    given = {"temperatures": (0.0, 2.0), "contexts": ("original", "ner"), "n_questions": 3}
    return Written(**{**given, "score": noisy("x"), **more})


def sheets(path):
    """Title above a table -> its rows of texts."""
    read = Reader(path.read_text(encoding="utf-8"))
    titles = [a["aria-label"] for tag, a in read.tags if a.get("class") == "scroll"]
    return dict(
        zip(titles, [[[t for t, _ in row] for row in rows] for rows in read.tables], strict=True)
    )


def test_a_report_is_one_file_with_its_figures_inside_and_beside(tmp_path, analysis):
    folder = write_run(tmp_path / "m", quick(text=lambda *_: HOSTILE))
    html, *figures = build.report([folder], tmp_path / "out")
    assert html == tmp_path / "out" / "report.html"
    assert [path.suffix for path in figures] == [".png", ".svg"] * 3
    read = Reader(html.read_text(encoding="utf-8"))
    svgs = [
        base64.b64decode(s.split(",")[1]) for s in read.sources if s.startswith("data:image/svg")
    ]
    assert svgs == [path.read_bytes() for path in figures[1::2]]
    assert len(read.sources) == 3
    assert set(read.links) - {f"#{name}" for name in read.ids} == {"data:,"}
    found = sheets(html)
    assert list(found)[:3] == ["Advice", "Summary", "Gaps"]
    assert found["Gaps"][1] == ["toy", HOSTILE]
    assert analysis == [{"metric": "bertscore_f1", "margin": 0.01, "seed": 0}]


def test_a_report_says_its_settings_counts_and_gaps(tmp_path, analysis):
    def change(axes, question, row):
        hot = axes["temperature"] == 2.0
        scores = {**row["scores"], "garbled": int(hot), "refusal": int(axes["context"] == "ner")}
        state = "truncated" if hot else "error" if question.endswith("2") else "scored"
        return {**row, "scores": scores, "state": state}

    whole = write_run(tmp_path / "m", quick(change_row=change))
    part = write_run(tmp_path / "n", quick(model="part", keep=lambda a: a["context"] == "ner"))
    html = build.report([whole, part], tmp_path / "out", margin=0.02, seed=3)[0]
    found, text = sheets(html), Reader(html.read_text()).text
    heads, *rows = found["Responses per condition"]
    row = dict(zip(heads, rows[1], strict=True))
    assert row["condition"] == "temperature=0.0,context=original,question_type=comparison"
    assert (row["responses"], row["scored"], row["error"], row["garbled"]) == ("9", "6", "3", "0")
    hot = dict(zip(heads, rows[-1 - 4], strict=True))
    assert (hot["truncated"], hot["refusals"], hot["garbled"]) == ("9", "9", "9")
    assert found["Conditions that were not run"][1] == [TASK, "part", "bridge", "0.0", "original"]
    assert len(found["Conditions that were not run"]) == 1 + 4
    assert found["Tokens"][1][2:] == ["7200", "360"]
    assert found["Signatures"][1][-1].startswith(f"task:{TASK}|v:1|model:toy|")
    assert "12 conditions were run, of 16 that at least one model was asked" in text
    assert "Score: bertscore_f1, the default; margin 0.02; seed 3." in text
    assert "model: n_parameters" in text
    assert "model: revision" not in text  # not set


def test_the_same_runs_give_the_same_bytes(tmp_path, analysis):
    folder = write_run(tmp_path / "m", quick())
    first = build.report([folder], tmp_path / "a")
    rewrite(folder / f"results_{STAMP}.json", lambda v: v["tcb_bench"].update(wall_time_s=99.0))
    second = build.report([folder], tmp_path / "b")
    assert [p.read_bytes() for p in first] == [p.read_bytes() for p in second]


def test_a_task_without_a_sweep_is_reported_without_figures(tmp_path):
    folder = write_run(tmp_path / "m", Written(temperatures=(), contexts=(), types=()))
    rewrite(
        folder / f"results_{STAMP}.json",
        lambda v: v["results"].update(
            stock={"acc,none": 0.25, "acc_stderr,none": 0.1, "sample_len": 8}
        ),
    )
    written = build.report([folder], tmp_path / "out", metric="acc")
    assert [path.name for path in written] == ["report.html"]
    found = sheets(written[0])
    assert found["Scores"][1] == ["toy", TASK, "-", "acc", "0.5000", "0.4000", "0.6000", "4", "-"]
    assert found["Scores"][2][:5] == ["toy", "stock", "-", "acc,none", "0.2500"]
    assert "Conditions that were not run" not in found


def test_what_perturbing_came_to_and_how_documents_were_chosen_is_shown(tmp_path, analysis):
    folder = write_run(tmp_path / "m", quick())

    def change(value):
        task = value["tcb_bench"]["tasks"][TASK]
        cell = task["conditions"]["temperature=0.0,context=ner,question_type=bridge"]
        cell["perturbation"] = {"flags": {"answer_masked": 2}, "counts": {"masked_entities": 9}}
        task["data"] |= {"ids": ["x", "y"], "left_out": {"title absent": 3}}

    rewrite(folder / f"results_{STAMP}.json", change)
    html = build.report([folder], tmp_path / "out")[0]
    heads, row = sheets(html)["What the perturbations did"]
    assert heads[3:] == ["answer masked (documents)", "masked entities (sum)"]
    assert row[3:] == ["2", "9"]
    text = Reader(html.read_text()).text
    assert '"ids": "2 ids", "left_out": {"title absent": 3}' in text


@pytest.mark.parametrize(
    ("names", "chosen"),
    [
        (("acc", "f1", "rougeL", "bertscore_f1"), "bertscore_f1"),
        (("acc", "rougeL", "f1"), "rougeL"),
        (("acc", "f1"), "f1"),
        (("acc",), "acc"),
        (("other",), None),
    ],
)
def test_the_default_score_is_the_first_that_has_a_value(names, chosen):
    scores = {name: np.ones((1, 1, 1, 1)) for name in names}
    assert build.choose_metric([SimpleNamespace(scores=scores)], None) == chosen
    nothing = {"bertscore_f1": np.full((1, 1, 1, 1), np.nan), **scores}
    if "bertscore_f1" not in names:
        assert build.choose_metric([SimpleNamespace(scores=nothing)], None) == chosen


def test_a_score_that_no_task_has_is_refused_with_the_nearest(tmp_path):
    folder = write_run(tmp_path / "m", quick())
    with pytest.raises(UnknownName, match="did you mean 'bertscore_f1'"):
        build.report([folder], tmp_path / "out", metric="bertscore")
    assert not (tmp_path / "out").exists()


def test_a_study_without_any_scored_response_is_still_reported(tmp_path):
    dead = quick(change_row=lambda axes, question, row: {**row, "state": "error"})
    [html] = build.report([write_run(tmp_path / "m", dead)], tmp_path / "out")
    assert "No response has a score" in html.read_text()


def test_what_stops_a_report_is_said_in_one_line(tmp_path, monkeypatch):
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError):
        build.report([tmp_path / "empty"], tmp_path / "out")
    folder = write_run(tmp_path / "m", Written(temperatures=(), contexts=(), types=()))
    (tmp_path / "file").write_text("")
    with pytest.raises(TcbBenchError, match="the report cannot be written"):
        build.report([folder], tmp_path / "file")
    monkeypatch.setattr(build.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"pip install 'tcb-bench\[report\]'"):
        build.report([folder], tmp_path / "out")
