"""Documents: exactly as written, with ids that count the rows of the source, and clear refusals."""

import json

import pytest

from tcb_bench.data import ID_COLUMN, MissingData, load_documents
from tcb_bench.errors import DataError
from tcb_bench.task_files import read_strict, tasks_folder, tcb_spec

BASE = {"task": "t", "dataset_path": "x/y", "dataset_name": "law", "test_split": "test"}


def spec(**tcb):
    return tcb_spec({"tcb": {"request": "next_token", **tcb}}, "t")


def local(columns=None, adapt="none", files="{config}.csv"):
    layout = {"files": files, "adapt": adapt}
    return spec(local={**layout, **({"columns": columns} if columns else {})})


def test_an_option_none_or_na_stays_text_from_csv(tmp_path):
    (tmp_path / "law.csv").write_text('q?,None,NA,nan,"a\nb",A\n')
    mmlu = local(["question", "A", "B", "C", "D", "answer"], "mmlu_csv")
    [row] = load_documents(BASE, mmlu, str(tmp_path), tmp_path)["test"]
    assert row["choices"] == ["None", "NA", "nan", "a\nb"]
    assert (row["answer"], row["subject"], row[ID_COLUMN]) == (0, "law", "0")


@pytest.mark.parametrize("suffix", ["csv", "json", "parquet"])
def test_an_option_none_stays_text_from_a_users_own_file(tmp_path, suffix):
    import pandas

    rows = pandas.DataFrame({"q": ["a", "b"], "option": ["None", "NA"], "id": ["i1", "i2"]})
    path = tmp_path / f"d.{suffix}"
    {
        "csv": lambda: rows.to_csv(path, index=False),
        "json": lambda: rows.to_json(path, orient="records", lines=True),
        "parquet": lambda: rows.to_parquet(path),
    }[suffix]()
    config = {**BASE, "dataset_path": suffix, "dataset_kwargs": {"data_files": {"test": path.name}}}
    documents = load_documents(config, spec(), "hub", tmp_path)["test"]
    assert list(documents["option"]) == ["None", "NA"]
    assert list(documents[ID_COLUMN]) == ["i1", "i2"]


def test_ids_count_the_rows_of_the_source_by_the_template(tmp_path):
    (tmp_path / "law.csv").write_text("q\na\nb\n")
    [first, second] = load_documents(BASE, local(), str(tmp_path), tmp_path)["test"]
    assert [first[ID_COLUMN], second[ID_COLUMN]] == ["0", "1"]
    named = tcb_spec(
        {
            "tcb": {
                "request": "next_token",
                "doc_id": "{config}/{split}/{row}",
                "local": {"files": "{config}.csv"},
            }
        },
        "t",
    )
    assert (
        load_documents(BASE, named, str(tmp_path), tmp_path)["test"][1][ID_COLUMN] == "law/test/1"
    )


def test_two_rows_with_one_id_are_refused(tmp_path):
    (tmp_path / "law.csv").write_text("id,q\na,1\na,2\n")
    with pytest.raises(DataError, match="'a' occurs twice"):
        load_documents(BASE, local(), str(tmp_path), tmp_path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"q\n\xff\xfe\n", "byte 2 is not UTF-8"),
        (b"q\n", "t: no documents in split 'test'"),
        (b"q,r\n1\n", r"law\.csv row 0: 1 cells, expected 2"),
    ],
)
def test_a_bad_csv_is_one_clear_line(tmp_path, content, message):
    (tmp_path / "law.csv").write_bytes(content)
    with pytest.raises(DataError, match=message) as caught:
        load_documents(BASE, local(), str(tmp_path), tmp_path)
    assert "\n" not in str(caught.value)


def test_a_line_that_is_not_json_is_named(tmp_path):
    (tmp_path / "law.jsonl").write_text('{"q": 1}\n{"q": \n')
    with pytest.raises(DataError, match=r"law\.jsonl:2: not JSON"):
        load_documents(BASE, local(files="{config}.jsonl"), str(tmp_path), tmp_path)


def test_a_line_separator_inside_a_string_does_not_split_the_row(tmp_path):
    (tmp_path / "law.jsonl").write_text(json.dumps({"q": "a\u2028b"}, ensure_ascii=False) + "\n")
    [row] = load_documents(BASE, local(files="{config}.jsonl"), str(tmp_path), tmp_path)["test"]
    assert row["q"] == "a\u2028b"


def test_a_folder_without_the_subject_is_missing_data_and_no_folder_is_an_error(tmp_path):
    with pytest.raises(MissingData, match=r"law\.csv is not in"):
        load_documents(BASE, local(), str(tmp_path), tmp_path)
    with pytest.raises(DataError, match="no such folder"):
        load_documents(BASE, local(), str(tmp_path / "none"), tmp_path)


def test_the_hub_out_of_reach_says_what_to_do(tmp_path):
    with pytest.raises(DataError, match="--data sample .* --data DIR") as caught:
        load_documents(
            {**BASE, "dataset_path": "cais/mmlu-that-is-not-there"}, spec(), "hub", tmp_path
        )
    assert "\n" not in str(caught.value)


def test_the_real_mmlu_files_give_the_official_rows(shared_data):
    import csv

    config = read_strict(tasks_folder() / "mmlu_tcb" / "mmlu_tcb_philosophy.yaml").config
    documents = load_documents(config, tcb_spec(config, "t"), str(shared_data), tasks_folder())
    with (shared_data / "mmlu/test/philosophy.csv").open(newline="", encoding="utf-8") as file:
        expected = list(csv.reader(file))
    assert len(documents["test"]) == len(expected) == 311
    row = documents["test"][17]
    assert [row["question"], *row["choices"], "ABCD"[row["answer"]]] == expected[17]
    assert row[ID_COLUMN] == "philosophy/test/17"
    assert len(documents["dev"]) == 5


@pytest.mark.parametrize("answer", ["BC", "E", "", "a"])
def test_an_mmlu_answer_that_is_no_letter_is_refused(tmp_path, answer):
    (tmp_path / "law.csv").write_text(f"q?,a,b,c,d,{answer}\n")
    mmlu = local(["question", "A", "B", "C", "D", "answer"], "mmlu_csv")
    with pytest.raises(DataError, match="is not one of A, B, C, D"):
        load_documents(BASE, mmlu, str(tmp_path), tmp_path)
