"""Which runs the precision note pairs. Oracle: run folders written here, by hand."""

import pytest
from precision_runs import OLDER, measured, narrow, tables, written
from report_runs import STAMP, rewrite, write_run

from tcb_bench.report.analysis_precision import precision_tables
from tcb_bench.report.load import load


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"data": "xyz"}, "other documents (data sample@abc and sample@xyz)"),
        ({"settings": "limit:5"}, "other settings (limit all and 5)"),
        ({"facts": {"peft": "adapter"}}, "other settings (peft none and adapter)"),
    ],
)
def test_runs_that_differ_in_more_than_precision_are_not_compared(tmp_path, more, reason):
    found, [row] = tables(tmp_path, written(measured([1.0])), narrow(measured([2.0]), **more))
    assert found == {}
    assert row["reason"] == f"not compared: {reason}"
    assert row.get("n") is None


def test_only_vllm_digests_weights_as_they_are_stored(tmp_path):
    def run(dtype, backend):
        settings = f"limit:all|weights:{dtype}"
        return written(measured([1.0]), dtype=dtype, backend=backend, settings=settings)

    reasons = []
    for number, backends in enumerate((("vllm", "vllm"), ("hf", "hf"), ("hf", "vllm"))):
        two = [run(*given) for given in zip(("float32", "float16"), backends, strict=True)]
        reasons.append(tables(tmp_path / str(number), *two)[1][0].get("reason"))
    other = "not compared: other settings (weights float32 and float16)"
    assert reasons == [other, None, None]


def test_a_prompt_in_more_tokens_is_another_point(tmp_path):
    rows = measured([1.0], prompt_tokens=100), measured([1.0], prompt_tokens=101)
    _, [row] = tables(tmp_path, written(rows[0]), narrow(rows[1]))
    assert (row["n"], row["other_text"]) == (0, 1)


def test_documents_that_changed_under_one_revision_are_not_compared(tmp_path):
    folders = [write_run(tmp_path / "a", written(measured([1.0])))]
    folders.append(write_run(tmp_path / "b", narrow(measured([2.0]))))
    path = folders[1] / f"results_{STAMP}.json"
    rewrite(path, lambda v: next(iter(v["tcb_bench"]["tasks"].values()))["data"].update(sha256="d"))
    [row] = precision_tables(load(folders).runs)[1].rows
    assert row["reason"] == "not compared: other documents (data abc and d)"


@pytest.mark.parametrize(
    "more", [{"model": "other", "dtype": "bfloat16"}, {}, {"task": "another", "dtype": "bfloat16"}]
)
def test_another_model_another_task_or_the_same_precision_is_no_pair(tmp_path, more):
    runs = written(measured([1.0])), written(measured([2.0]), **more)
    assert tables(tmp_path, *runs) == ({}, [])


def grouped(folder, values, dtype, *, data="abc"):
    """A folder with the tasks ``one`` and ``two`` and their group ``both``."""
    for task, value, stamp in (("one", values[0], OLDER), ("two", values[1], STAMP)):
        run = written(
            measured(value), dtype=dtype, task=task, data=data if task == "two" else "abc"
        )
        write_run(folder, run, stamp)

    def change(result):
        tasks = result["tcb_bench"]["tasks"]
        entry = {**tasks["two"], "signature": tasks["two"]["signature"].replace("two", "both")}
        tasks["both"] = entry
        result["configs"]["both"] = {"group": "both", "task": ["one", "two"]}

    rewrite(folder / f"results_{STAMP}.json", change)
    return folder


def test_a_group_is_one_pair_over_the_samples_of_all_its_tasks(tmp_path):
    a = grouped(tmp_path / "a", ([1.0], [1.0, 2.0]), "float32")
    b = grouped(tmp_path / "b", ([1.5], [1.25, 2.0]), "bfloat16")
    differences, compared = precision_tables(load([a, b]).runs)
    assert [(row["task"], row["n"]) for row in compared.rows] == [("both", 3)]
    assert [(row["median"], row["max"], row["n"]) for row in differences.rows] == [(0.25, 0.5, 3)]


def test_of_a_group_with_other_documents_the_tasks_that_agree_are_compared(tmp_path):
    a = grouped(tmp_path / "a", ([1.0], [1.0]), "float32")
    b = grouped(tmp_path / "b", ([1.5], [9.0]), "bfloat16", data="xyz")
    differences, compared = precision_tables(load([a, b]).runs)
    found = {row["task"]: (row.get("n"), row.get("reason", "")[:13]) for row in compared.rows}
    assert found == {"one": (1, ""), "both": (None, "not compared:")}
    assert [(row["task"], row["max"]) for row in differences.rows] == [("one", 0.5)]
