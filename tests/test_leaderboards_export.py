"""`tcb-bench export`: which results are taken, where files land, what must not leave the machine.

Oracle: the run folder itself, and files put in the way by hand. The formats have tests of their own.
"""

import json
import subprocess
import sys

import pytest
from export_runs import DATE, write_toy_run

from tcb_bench.__main__ import main
from tcb_bench.errors import DataError, StoreError, UnknownName, UsageError
from tcb_bench.leaderboards.export import export
from tcb_bench.leaderboards.export_clean import cleaned, model_name
from tcb_bench.leaderboards.export_options import FORMATS, ExportOptions
from tcb_bench.leaderboards.export_source import find_sources

NAMED = ExportOptions(model_id="org/toy")
LABEL = "hf//home/alice/my models/ckpt-7"
SECRETS = ("/home/alice", "alice", "my models", "sk-abcdefghijklmnop", "hf_abcdefghijklmnopqr")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    write_toy_run(folder)
    return folder


@pytest.fixture
def two(tmp_path):
    """A run that was measured whole, and whose numbers task was measured again."""
    write_toy_run(tmp_path / "run")
    write_toy_run(tmp_path / "run", date=DATE + 60, keep=["toy_num"])
    return tmp_path / "run"


def tasks_of(sources):
    return [(source.stamp[-9:], source.tasks, source.stock) for source in sources]


def test_each_task_comes_from_the_newest_result_that_has_it(two):
    sources, notes = find_sources(two)
    assert notes == []
    assert tasks_of(sources) == [
        ("12.500000", ("toy_num",), ()),
        ("12.500000", ("toy_mc", "toy_mc_a", "toy_mc_b", "toy_rag"), ("stock",)),
    ]
    assert sources[0].result.date == DATE + 60


def test_a_named_result_is_taken_alone_by_path_or_by_name(two):
    old = min(two.glob("results_*.json"))
    for name in (old, type(old)(old.name)):
        [source] = find_sources(two, file=name)[0]
        assert (source.result.date, "toy_num" in source.tasks) == (DATE, True)


def test_a_named_group_brings_its_tasks(run):
    [source] = find_sources(run, ["toy_mc"])[0]
    assert source.tasks == ("toy_mc", "toy_mc_a", "toy_mc_b")
    assert (source.heads, source.leaves) == (["toy_mc"], ["toy_mc_a", "toy_mc_b"])


def test_a_task_that_is_not_there_comes_with_the_nearest(run):
    with pytest.raises(UnknownName, match="no task of this run 'toy_rga'; did you mean 'toy_rag'"):
        find_sources(run, ["toy_rga"])


def test_an_older_result_of_another_version_is_left_out_with_a_note(two):
    old = min(two.glob("results_*.json"))
    old.write_text('{"results": {}}')
    sources, notes = find_sources(two)
    assert tasks_of(sources) == [("12.500000", ("toy_num",), ())]
    assert len(notes) == 1
    assert old.name in notes[0]
    with pytest.raises(DataError, match="no result of this version"):
        find_sources(two, file=old)


def test_no_run_and_no_samples_are_one_line(tmp_path, two):
    with pytest.raises(DataError, match="give the folder of a run"):
        export(tmp_path, "csv")
    for path in two.glob("samples_toy_rag*"):
        path.unlink()
    with pytest.raises(DataError, match=r"samples_toy_rag_.*cannot be read"):
        export(two, "csv", out=tmp_path / "out")
    assert not (tmp_path / "out").exists()  # nothing half-written
    files, _ = export(two, "csv", out=tmp_path / "out", options=ExportOptions(has_samples=False))
    assert [path.name for path in files] == ["metrics.csv"]


@pytest.mark.parametrize("name", FORMATS)
def test_the_same_export_gives_the_same_bytes_and_no_second_copy(run, tmp_path, name):
    def bytes_of():
        files, _ = export(run, name, out=tmp_path, options=NAMED)
        assert files == sorted(p for p in tmp_path.rglob("*") if p.is_file() and p.name[0] != ".")
        return {path: path.read_bytes() for path in files}

    first = bytes_of()
    assert first
    assert bytes_of() == first


def test_its_own_files_are_replaced_and_nobody_elses(two, tmp_path):
    out = tmp_path / "out"
    export(two, "csv", out=out, options=ExportOptions(model_id="org/old"))
    files, _ = export(two, "csv", out=out, options=NAMED)
    assert "org/toy" in files[0].read_text()
    files[0].write_text("mine now")
    with pytest.raises(DataError, match=r"metrics\.csv: is there, and no export wrote it as it is"):
        export(two, "csv", out=out, options=NAMED)
    assert files[0].read_text() == "mine now"
    assert sorted(path.name for path in out.iterdir()) == [
        *(".tcb-bench-export.json", "metrics.csv", "samples.csv"),
    ]
    export(two, "csv", out=out, options=ExportOptions(model_id="org/toy", force=True))
    assert "org/toy" in files[0].read_text()


def test_a_file_as_folder_and_a_folder_that_cannot_be_written(run, tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(UsageError, match="is a file"):
        export(run, "csv", out=tmp_path / "file")
    with pytest.raises(StoreError, match="cannot be written"):
        export(run, "csv", out=tmp_path / "file" / "below")
    (tmp_path / "out" / "metrics.csv").mkdir(parents=True)
    with pytest.raises(DataError, match="a folder is in the way"):
        export(run, "csv", out=tmp_path / "out")


@pytest.mark.parametrize("name", FORMATS)
def test_no_path_user_or_secret_is_in_any_exported_file(tmp_path, name):
    extra = {"tokenizer": "/home/alice/tok", "api_key": "sk-abcdefghijklmnop", "peft": None}
    arguments = "pretrained=/home/alice/my models/ckpt-7,token=hf_abcdefghijklmnopqr"
    write_toy_run(tmp_path / "run", label=LABEL, info=extra, model_args=arguments)
    files, _ = export(tmp_path / "run", name, out=tmp_path / "out", options=NAMED)
    for path in [*files, tmp_path / "out" / ".tcb-bench-export.json"]:
        found = path.read_bytes() + str(path.relative_to(tmp_path)).encode()
        assert [word for word in SECRETS if word.encode() in found] == [], path
    if name in ("lm-eval", "csv"):  # which can do without a public name
        files, _ = export(tmp_path / "run", name, out=tmp_path / "unnamed")
        for path in files:
            found = path.read_bytes() + str(path.relative_to(tmp_path)).encode()
            assert [word for word in SECRETS if word.encode() in found] == [], path
            assert b"ckpt-7" in found or "samples" in path.name


@pytest.mark.parametrize(
    ("given", "left"),
    [
        ("/home/me/x.txt", "x.txt"),
        ("cannot read '/data/set/a.csv': no", "cannot read 'a.csv': no"),
        (r"C:\Users\me\x", "x"),
        ("~/ckpt", "ckpt"),
        ("file:///home/me/x", "x"),
        ("pretrained=/home/me/x,dtype=float32", "pretrained=x,dtype=float32"),
        ("https://host.org/a/b?c=1", "https://host.org/a/b?c=1"),
        ("http://me:pw@host.org/a", "http://[removed]@host.org/a"),
        ("cais/mmlu", "cais/mmlu"),
        ("5/8 of it, and/or", "5/8 of it, and/or"),
        ("{split}/{row}", "{split}/{row}"),
        ("Bearer abc.def", "Bearer [removed]"),
    ],
)
def test_paths_and_secrets_are_found_and_nothing_else(given, left):
    assert cleaned([given], "demo", "demo") == [left]


def test_a_model_is_called_by_its_id_or_its_folders_last_name():
    assert model_name("hf/org/name@main") == "org/name"
    assert model_name("vllm/../ckpts/best") == "best"
    assert model_name("deepseek/deepseek-chat") == "deepseek/deepseek-chat"
    assert model_name("hf/.") == model_name("hf/..") == "local"  # no name of a folder to write to


@pytest.mark.parametrize(
    "name", ["toy", "a/../b", "/etc/x", "a/b\\c", "org/", "a/b c", "a/.b", "a/b."]
)
def test_an_id_that_is_no_organisation_and_name_is_refused(run, name):
    with pytest.raises(UsageError, match="expected organisation/name"):
        export(run, "csv", options=ExportOptions(model_id=name))


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("lm-eval", ExportOptions(has_texts=True), "--texts says nothing to lm-eval"),
        ("model-index", ExportOptions(has_samples=False), "--no-samples says nothing"),
        ("csv", ExportOptions(has_conditions=True), "--conditions says nothing to csv"),
        ("csv", ExportOptions(organization="us"), "belongs to every-eval-ever"),
    ],
)
def test_an_option_that_a_format_does_not_heed_is_refused(run, name, options, said):
    with pytest.raises(UsageError, match=said):
        export(run, name, options=options)


@pytest.mark.parametrize("name", ["every-eval-ever", "model-index"])
def test_public_formats_ask_for_a_public_name(tmp_path, run, name):
    with pytest.raises(UsageError, match="give --model-id HuggingFaceTB/SmolLM2-135M-Instruct"):
        export(run, name, out=tmp_path / "out")
    write_toy_run(tmp_path / "run", label=LABEL)
    with pytest.raises(UsageError, match=r"local folder .*--model-id ORG/NAME"):
        export(tmp_path / "run", name, out=tmp_path / "out")
    assert not (tmp_path / "out").exists()
    write_toy_run(tmp_path / "hub", label="hf/org/name@main", info={"revision": "abc"})
    export(tmp_path / "hub", name, out=tmp_path / "out")


def test_the_command_prints_its_files_and_its_notes(run, tmp_path, capsys):
    words = ["export", str(run), "--to", "csv", "--task", "toy_num,stock", "--out", str(tmp_path)]
    assert main(words) == 0
    assert capsys.readouterr().out.splitlines() == [
        str(tmp_path / "metrics.csv"),
        str(tmp_path / "samples.csv"),
    ]
    assert main([*words[:2], "--to", "model-index", "--model-id", "org/toy"]) == 0
    shown = capsys.readouterr()
    assert shown.out.strip() == str(run / "export" / "model-index" / "model-index.md")
    assert shown.err == "tcb-bench: left out: stock, one of lm-eval's own tasks\n"


def test_an_unknown_format_is_a_usage_error_with_the_nearest(run, capsys):
    assert main(["export", str(run), "--to", "parqet"]) == 2
    assert "did you mean parquet?" in capsys.readouterr().err
    with pytest.raises(UnknownName, match="did you mean 'parquet'"):
        export(run, "parqet")


def test_the_formats_are_loaded_when_they_are_asked_for():
    script = (
        "import sys, tcb_bench.leaderboards.export\n"
        "sys.exit(str({'pyarrow', 'huggingface_hub', 'torch', 'lm_eval'} & set(sys.modules) or ''))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stderr.strip() == ""


@pytest.mark.slow
def test_a_real_run_is_exported_in_every_format(do, task_folder, tmp_path):
    tasks = ("phrases", "mmlu_tcb_philosophy")
    outcome = do("exported", *tasks, include=(task_folder,), options={"limit": 1})
    for name in FORMATS:
        files, _ = export(outcome.path.parent, name, out=tmp_path / name, options=NAMED)
        assert files
        for path in files:
            if path.suffix == ".json":
                json.loads(path.read_text())
    rows = (tmp_path / "csv" / "samples.csv").read_text().splitlines()
    assert len(rows) == 1 + 3 * 3 + 1  # phrases: 3 temperatures, 3 repeats
