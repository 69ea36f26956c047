"""Studies that are killed, or whose disk is full or read-only, lose nothing.

Oracle: the same study undisturbed in a folder of its own; the store's own count; real file systems.
"""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing

import pytest
from test_studies import CONTEXTS, norm_study, norms, study_of  # noqa: F401 - a fixture
from toy_models import byte_tokenizer, toy

from tcb_bench.__main__ import main
from tcb_bench.errors import StoreError
from tcb_bench.studies.findings import Findings

N_PROMPTS = 60


@pytest.fixture
def command(tmp_path):
    """Words of a study on a toy model; prompts of which some make it loop."""
    toy().save_pretrained(tmp_path / "model")
    byte_tokenizer().save_pretrained(tmp_path / "model")
    rows = [{"id": f"p{i}", "kind": "own", "prompt": f"{i} go on"} for i in range(N_PROMPTS)]
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text("".join(json.dumps(row) + "\n" for row in rows))

    def words(folder, *settings):
        fixed = ("before=2", "window=4", "resamples=200", f"prompts='{prompts}'", *settings)
        place = ["--model", f"hf/{tmp_path / 'model'}", "--output_path", str(tmp_path / folder)]
        given = [word for setting in fixed for word in ("--set", setting)]
        return ["study", "dynamics", *place, "--batch_size", "1", *given]

    return words


def stored(folder):
    """Responses in the store of a study that may be writing."""
    paths = list(folder.glob("*/studies/dynamics/store.sqlite"))
    if not paths:
        return 0
    with closing(sqlite3.connect(f"file:{paths[0]}?mode=ro", uri=True)) as db:
        try:
            return db.execute("SELECT count(*) FROM responses").fetchone()[0]
        except sqlite3.OperationalError:  # not set up yet, or busy
            return 0


def killed(words, folder, least=5):
    """Starts the study, and ends it with SIGKILL once some answers are in the store."""
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with subprocess.Popen([sys.executable, "-m", "tcb_bench", *words], **quiet) as process:
        deadline = time.monotonic() + 900
        while stored(folder) < least and process.poll() is None:
            assert time.monotonic() < deadline, "the study does not begin"
            time.sleep(0.02)
        process.send_signal(signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL, "it was faster than the kill"
    return stored(folder)


def record(folder):
    """study.json and the samples, without what tells the time or the place."""
    [path] = folder.glob("*/studies/dynamics/study.json")
    rows = (path.parent / "samples.jsonl").read_text()
    return {**json.loads(path.read_text()), "environment": None}, rows


@pytest.mark.slow
def test_a_killed_study_goes_on_with_other_settings_as_if_it_had_begun_with_them(
    command, tmp_path, capsys
):
    n = killed(command("killed", "max_gen_toks=40"), tmp_path / "killed")
    assert 5 <= n < N_PROMPTS
    analysis = ["max_gen_toks=40", "threshold=1.0", "before=3"]
    assert main(command("killed", *analysis)) == 0
    assert f"asked {N_PROMPTS - n}, found in the store {n}" in capsys.readouterr().err
    assert main(command("fresh", *analysis)) == 0
    assert record(tmp_path / "killed") == record(tmp_path / "fresh")
    capsys.readouterr()
    other = ["max_gen_toks=30"]  # another request: none of the answers may serve
    assert main(command("killed", *other)) == 0
    assert f"asked {N_PROMPTS}, found in the store 0" in capsys.readouterr().err
    assert main(command("other", *other)) == 0
    assert record(tmp_path / "killed") == record(tmp_path / "other")


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 4 MiB where studies write; ``set`` remounts it with other options."""
    if os.geteuid() != 0:
        pytest.skip("a small file system can only be mounted by root")
    folder = tmp_path / "runs"
    folder.mkdir()

    def mount(options):
        words = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
        return subprocess.run(words, capture_output=True).returncode

    if mount("size=4m"):
        pytest.skip("mounting is not allowed here")
    yield folder, mount
    subprocess.run(["umount", str(folder)], check=True)


def filled(folder):
    """Leaves no byte of the file system."""
    with (folder / "ballast").open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError as error:
            assert error.strerror == "No space left on device"


@pytest.mark.parametrize("at_end", [False, True])
def test_a_disk_that_runs_full_is_one_line_and_loses_nothing(study_of, small_disk, at_end):  # noqa: F811
    folder, _ = small_disk

    def study(session):
        session.states("norm", CONTEXTS if at_end else CONTEXTS[:1], norms, seed=session.seed)
        filled(folder)
        if not at_end:
            session.states("norm", CONTEXTS, norms, seed=session.seed)
        return Findings(tables=[], rows=[{"text": "x" * 10_000}])

    with pytest.raises(StoreError) as caught:
        study_of(study, batch_size="1")
    message = str(caught.value)
    assert "\n" not in message and "cannot be written" in message
    assert "free space" in message or "safe in the store" in message
    (folder / "ballast").unlink()
    kept = 4 if at_end else 1
    _, said = study_of(norm_study, batch_size="1")
    assert f"asked {7 - kept}, found in the store {kept}" in said


def test_a_folder_that_became_read_only_is_one_line_and_loses_nothing(study_of, small_disk):  # noqa: F811
    folder, mount = small_disk
    before, _ = study_of(norm_study)
    written = (before.folder / "study.json").read_text()
    assert mount("remount,ro") == 0
    with pytest.raises(StoreError, match=r"cannot write there: Read-only file system; choose"):
        study_of(norm_study)
    assert (before.folder / "study.json").read_text() == written
    assert mount("remount,rw") == 0
    _, said = study_of(norm_study)
    assert "asked 0, found in the store 7" in said
