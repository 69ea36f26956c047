"""The store: nothing committed is lost, nothing is mixed up, and what is broken says so."""

import math
import os
import signal
import sqlite3
import subprocess
import sys
import textwrap

import pytest

from tcb_bench.errors import StoreError
from tcb_bench.responses import Failure, Generation, NextToken, Plain
from tcb_bench.store import STORE_FILE, Store

TEXT = Generation(
    "a\n— 😀", [1, 2], [[0, 1], [1, 5]], "stop", 7, {"delta_tcb": [math.inf]}, [1], "final_number/1"
)
TOKEN = NextToken({"delta_tcb": 1e300, "v_eff": 1.0}, [-1.5, -0.2], [3, 4], 4, " B", 12)


@pytest.mark.parametrize(
    "response", [TEXT, TOKEN, Plain([-1.25, True]), Failure("too long")], ids=type
)
def test_a_response_comes_back_as_it_went_in(tmp_path, response):
    with Store(tmp_path) as store:
        store.put("k", {"prompt": "é"}, response)
    with Store(tmp_path) as store:
        assert store.get("k") == response
        assert store.request("k") == {"prompt": "é"}


def test_a_failure_is_kept_but_is_no_answer_and_is_replaced_by_one(tmp_path):
    with Store(tmp_path) as store:
        store.put("k", {}, Failure("overloaded"))
        store.put("f", {}, Failure("content filter", "filtered"))
        assert store.answered(["k", "f", "x"]) == set()
        store.put("k", {}, TOKEN)
        assert store.answered(["k"]) == {"k"}
        assert store.count() == 1


def test_everything_put_before_sigkill_is_there_afterwards(tmp_path):
    writer = textwrap.dedent("""
        import sys
        from pathlib import Path
        from tcb_bench.store import Store
        from tcb_bench.responses import Plain
        store = Store(Path(sys.argv[1]))
        for i in range(100_000):
            store.put(str(i), {}, Plain(i))
            print(i, flush=True)
    """)
    process = subprocess.Popen(
        [sys.executable, "-c", writer, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    for _ in range(50):
        last = int(process.stdout.readline())
    os.kill(process.pid, signal.SIGKILL)
    rest = process.stdout.read().split()
    process.wait()
    last = int(rest[-1]) if rest else last
    with Store(tmp_path) as store:
        assert store.answered(map(str, range(last + 1))) == set(map(str, range(last + 1)))
        assert store.get(str(last)) == Plain(last)


def test_a_second_writer_is_refused_while_the_first_runs_and_let_in_afterwards(tmp_path):
    with Store(tmp_path), pytest.raises(StoreError, match="another tcb-bench is writing"):
        Store(tmp_path)
    Store(tmp_path).close()


def test_a_file_that_is_no_database_is_named_and_fresh_keeps_it_aside(tmp_path):
    (tmp_path / STORE_FILE).write_bytes(b"not a database at all" * 400)
    with pytest.raises(StoreError, match=r"store\.sqlite: damaged .*--fresh"):
        Store(tmp_path)
    with Store(tmp_path, fresh=True) as store:
        assert store.count() == 0
    assert list(tmp_path.glob("store.sqlite.*.old"))


def test_a_store_with_damaged_pages_is_refused_before_anything_is_asked(tmp_path):
    with Store(tmp_path) as store:
        for i in range(300):
            store.put(f"key{i}", {"prompt": os.urandom(60).hex()}, TEXT)
    path = tmp_path / STORE_FILE
    data = bytearray(path.read_bytes())
    data[8192:20480] = os.urandom(12288)
    path.write_bytes(data)
    with pytest.raises(StoreError, match="damaged"):
        Store(tmp_path)


def test_a_response_that_cannot_be_unpacked_is_a_damaged_store(tmp_path):
    with Store(tmp_path) as store:
        store.put("k", {}, TEXT)
    with sqlite3.connect(tmp_path / STORE_FILE) as raw:
        raw.execute("UPDATE responses SET response = x'00'")
    raw.close()
    with Store(tmp_path) as store, pytest.raises(StoreError, match="damaged"):
        store.get("k")


def test_a_folder_that_cannot_be_written_fails_at_once(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot write there.*--output_path"):
        Store(tmp_path / "file" / "run")


def test_a_full_disk_fails_before_any_inference():
    if os.geteuid() != 0:
        pytest.skip("a small file system can only be mounted by root")
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", folder]
        if subprocess.run(mount, capture_output=True).returncode:
            pytest.skip("mounting is not allowed here")
        try:
            from pathlib import Path

            with pytest.raises(StoreError, match="No space left"):
                Store(Path(folder) / "run")
        finally:
            subprocess.run(["umount", folder], check=True)


def test_a_missing_run_is_named(tmp_path):
    with pytest.raises(StoreError, match="give the folder of a run"):
        Store(tmp_path / "nothing", create=False)


def test_manifests_keep_settings_and_plans_apart(tmp_path):
    with Store(tmp_path) as store:
        first = store.begin({"seed": 0})
        store.plan(first, [("task", "doc/1", 0, 0, "k")])
        second = store.begin({"seed": 1})
        store.finish(second, {"seed": 1, "done": True})
        assert store.manifest().settings == {"seed": 1, "done": True}
        assert store.manifest(first).settings == {"seed": 0}
        assert store.manifest(first).finished_s is None
        assert store.keys(first) == {("task", "doc/1", 0, 0): "k"}
        assert store.keys(second) == {}
