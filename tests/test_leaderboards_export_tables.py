"""A run as csv and parquet. Oracles: the result and sample files value by value, read back by the
csv module, pandas and pyarrow; what a spreadsheet takes for a formula, by OWASP's list."""

import csv
import json

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from export_runs import DATE, write_toy_run

from tcb_bench.errors import DataError
from tcb_bench.leaderboards import export_parquet
from tcb_bench.leaderboards.export import export
from tcb_bench.leaderboards.export_csv import cell, inert
from tcb_bench.leaderboards.export_options import ExportOptions
from tcb_bench.leaderboards.export_tables import QUANTITIES, SCORES, TOKENS
from tcb_bench.metrics import METRICS

TEXTS = ExportOptions(model_id="org/toy", has_texts=True)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    return json.loads(write_toy_run(folder).read_text()), folder


@pytest.fixture(scope="module")
def out(run, tmp_path_factory):
    folder = tmp_path_factory.mktemp("out")
    for name in ("csv", "parquet"):
        export(run[1], name, out=folder, options=TEXTS)
    return folder


def rows_of(path):
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def number(text):
    return float(text) if text else None


def test_every_number_of_the_result_is_a_row(out, run):
    rows = {
        (r["task"], r["condition"], r["filter"], r["metric"]): r
        for r in rows_of(out / "metrics.csv")
    }
    n = len(rows)
    for task, record in run[0]["tcb_bench"]["tasks"].items():
        for condition, found in record["conditions"].items():
            for key, name in (("metrics", "none"), ("metrics_completed", "completed")):
                for metric, values in found[key].items():
                    row = rows.pop((task, condition, name, metric))
                    assert {part: number(row[part]) for part in values} == values
                    assert (row["model"], row["version"]) == ("org/toy", "1")
                    assert row["signature"] == record["signature"].replace(
                        "model:demo", "model:org/toy"
                    )
                    axes = {
                        k.removeprefix("axis_"): v for k, v in row.items() if k.startswith("axis_")
                    }
                    assert axes == {k: str(found["axes"].get(k, "")) for k in axes}
    flat = run[0]["results"]["toy_rag"]
    whole = {key for key in rows if key[0] == "toy_rag"}
    assert whole == {
        ("toy_rag", "", name, key.removesuffix(f"_n,{name}"))
        for key in flat
        for name in ("none", "completed")
        if key.endswith(f"_n,{name}")
    }
    for task, condition, name, metric in whole:
        row = rows.pop((task, condition, name, metric))
        assert number(row["value"]) == flat[f"{metric},{name}"]
        assert number(row["ci_low"]) == flat[f"{metric}_ci_low,{name}"]
    assert {key: row["value"] for key, row in rows.items()} == {("stock", "", "none", "acc"): "0.5"}
    assert n > 400


def test_units_and_directions(out):
    rows = {r["metric"]: r for r in rows_of(out / "metrics.csv")}
    assert (rows["acc_macro"]["unit"], rows["acc_macro"]["higher_is_better"]) == ("share", "true")
    assert rows["delta_tcb_median"]["unit"] == "length in h-space"
    assert rows["garbled"]["higher_is_better"] == "false"
    assert rows["nll_mean"]["higher_is_better"] == ""


def test_every_response_is_a_row(out, run):
    rows = rows_of(out / "samples.csv")
    ours = []
    for task in ("toy_mc_a", "toy_mc_b", "toy_num", "toy_rag"):
        [path] = run[1].glob(f"samples_{task}_*")
        samples = [json.loads(line) for line in path.read_text().splitlines()]
        ours += [(sample, row) for sample in samples for row in sample["rows"]]
    assert len(rows) == len(ours) == 3 + 3 + 7 + 32
    for row, (sample, own) in zip(rows, ours, strict=True):
        for key in ("doc_id", "condition", "task", "doc_sha256"):
            assert row[key] == sample[key]
        assert (row["state"], int(row["repeat"])) == (own["state"], own["repeat"])
        assert number(row["acc"]) == own["acc"]
        assert row["answer"] == (own["answer"] or "")
        for name in (*QUANTITIES, *TOKENS):
            assert number(row[name]) == own["stability"].get(name)
        for name in SCORES:
            assert number(row[name]) == (own.get("scores") or {}).get(name)
        assert number(row["weight"]) == sample.get("weight")
        assert json.loads(row["choice_logprobs"] or "null") == own.get("choice_logprobs")
        text = row["text"].removeprefix("'")
        assert text == own.get("text", "")
        assert row["accuracy_case"] == (own["conflict"]["accuracy"] or "")


def test_texts_only_where_they_are_asked_for(run, tmp_path):
    files, _ = export(run[1], "csv", out=tmp_path)
    words = files[1].read_text()
    assert "It is 12" not in words
    assert "What is" not in words
    assert "text" not in rows_of(files[1])[0]
    assert "-5" in {row["answer"] for row in rows_of(files[1])}  # a number is no text


def test_the_answer_of_an_exact_task_is_a_text(tmp_path):
    path = write_toy_run(tmp_path / "run", keep=["toy_num"])
    result = json.loads(path.read_text())
    result["configs"]["toy_num"]["tcb"]["answer"] = "exact"
    path.write_text(json.dumps(result))
    files, _ = export(tmp_path / "run", "csv", out=tmp_path / "out")
    assert {row["answer"] for row in rows_of(files[1])} == {""}
    files, _ = export(
        tmp_path / "run", "csv", out=tmp_path / "out", options=ExportOptions(has_texts=True)
    )
    assert {row["answer"] for row in rows_of(files[1])} == {"", "12", "-5"}


@pytest.mark.parametrize(
    "text",
    [
        "=1+1",
        "+1+1",
        "-1+1",
        "@SUM(A1)",
        "\t=1",
        "\r=1",
        "\n=1",
        "＝1",
        "-",
        "'=1",
        "-5+cmd|' /C calc'!A0",
    ],
)
def test_no_cell_is_a_formula_and_one_apostrophe_gives_the_text_back(text):
    made = inert(text)
    assert made == "'" + text


@pytest.mark.parametrize(
    "text", ["-5", "+3.5", "-1,234", "-2e5", "12", "temperature=0.0", "ner", ""]
)
def test_numbers_and_other_texts_stay_as_they_are(text):
    assert inert(text) == text


def test_a_hostile_model_and_answer_are_inert(out, tmp_path):
    write_toy_run(tmp_path / "run", label="=HYPERLINK(1)", keep=["toy_num"])
    files, _ = export(tmp_path / "run", "csv", out=tmp_path / "out")
    assert {row["model"] for row in rows_of(files[0])} == {"'=HYPERLINK(1)"}
    texts = [row["text"] for row in rows_of(out / "samples.csv")]
    assert '\'=HYPERLINK("http://x") -5' in texts
    assert "'@0 It is 0." in texts


def test_floats_are_written_so_that_they_read_back_the_same():
    for value in (0.1, 1 / 3, 1e-300, 123456789.123456789, -2.5e17, 5e-324):
        assert float(cell(value)) == value
    assert [cell(None), cell(True), cell(3)] == ["", "true", "3"]


def test_parquet_has_the_same_rows_with_real_types(out):
    for name in ("metrics", "samples"):
        table = pq.read_table(out / f"{name}.parquet")
        rows = rows_of(out / f"{name}.csv")
        assert table.column_names == list(rows[0])
        found = table.to_pylist()
        assert len(found) == len(rows)
        for own, row in zip(found, rows, strict=True):
            assert {key: cell(value) for key, value in own.items()} == row
    schema = pq.read_schema(out / "samples.parquet")
    assert schema.field("axis_temperature").type == pa.float64()
    assert schema.field("axis_context").type == pa.string()
    assert schema.field("repeat").type == schema.field("top1_token").type == pa.int64()
    assert schema.field("is_reused").type == pa.bool_()
    assert schema.field("choice_logprobs").type == pa.list_(pa.float64())
    assert schema.field("nll").metadata[b"unit"] == b"nats"


def test_pandas_reads_both_alike(out):
    one = pd.read_parquet(out / "metrics.parquet")
    two = pd.read_csv(out / "metrics.csv", keep_default_na=False, na_values=[""])
    for name in ("value", "ci_low", "ci_high", "stderr", "n", "axis_temperature"):
        pd.testing.assert_series_equal(one[name].astype(float), two[name].astype(float))
    assert one["value"].isna().sum() == sum(not r["value"] for r in rows_of(out / "metrics.csv"))
    assert list(one["metric"]) == list(two["metric"])


def test_parquet_is_written_in_row_groups(run, tmp_path, monkeypatch):
    monkeypatch.setattr(export_parquet, "GROUP", 10)
    files, _ = export(run[1], "parquet", out=tmp_path, options=TEXTS)
    found = pq.ParquetFile(files[1])
    assert found.num_row_groups == 5
    assert found.metadata.num_rows == 45


def test_tables_of_two_invocations_keep_each_tasks_newest(tmp_path):
    write_toy_run(tmp_path / "run")
    write_toy_run(tmp_path / "run", date=DATE + 60, keep=["toy_num"])
    files, _ = export(tmp_path / "run", "csv", out=tmp_path / "out")
    dates = {(row["task"], row["date"]) for row in rows_of(files[0])}
    assert dates >= {("toy_num", "2026-11-30T09:20:12Z"), ("toy_rag", "2026-11-30T09:19:12Z")}
    assert len(dates) == 6


def test_every_quantity_has_a_column_and_an_unknown_one_is_not_dropped(tmp_path):
    assert set(METRICS) - {*QUANTITIES, *SCORES} == {"acc", "acc_macro", "greedy_is_choice"}
    path = write_toy_run(tmp_path / "run", keep=["toy_num"])
    [samples] = path.parent.glob("samples_*")
    samples.write_text(samples.read_text().replace('"v_eff"', '"w_eff"'))
    with pytest.raises(DataError, match="no column for w_eff"):
        export(tmp_path / "run", "csv")
