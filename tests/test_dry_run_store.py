"""Looking into a run folder. Oracle: its files' bytes before and after, and sqlite3 itself."""

import shutil

import pytest

from tcb_bench.dry_run_store import StoreView
from tcb_bench.errors import StoreError
from tcb_bench.responses import Failure, Generation, Plain
from tcb_bench.store import Store

ENGINE = {"backend": "hf", "model": "m"}


def text(n_tokens, **call):
    return Generation("t", list(range(n_tokens)), [], "stop", 3, call=call)


def fill(store):
    manifest = store.begin({"model_args": "", "dtype": None})
    answers = {
        "a": text(5),
        "b": text(8),
        "c": text(0, n=3, choice=0, usage={"completion_tokens": 60}),
        "d": text(0, n=3, choice=1),
        "e": Failure("lost"),
        "f": Failure("cut", "unscored", call={"n": 1, "usage": {"completion_tokens": 7}}),
        "g": Plain("no count"),
    }
    store.plan(manifest, [("t|x=1", key, 0, 0, key) for key in answers])
    for key, answer in answers.items():
        store.put(key, {"engine": ENGINE}, answer)
    store.put("h", {"engine": ENGINE}, text(1000), reused_from="a")
    store.plan(manifest, [("t|x=2", "h", 0, 1, "h"), ("u", "i", 0, 0, "i")])


@pytest.fixture
def folder(tmp_path):
    with Store(tmp_path / "run") as store:
        fill(store)
    return tmp_path / "run"


def files(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_looking_changes_no_file_and_makes_none(folder):
    before = files(folder)
    with StoreView(folder) as view:
        assert view.answered("abcdefgh") == set("abcdfgh")
        assert view.answered("abcdefgh", is_final=True) == set("abcdefgh")
        assert view.completion_mean(["t|x=1", "t|x=2"]) is not None
    assert files(folder) == before


def test_the_mean_is_over_texts_and_each_bill_counts_once(folder):
    with StoreView(folder) as view:
        mean = view.completion_mean(["t|x=1", "t|x=2"])
        assert mean == pytest.approx((5 + 8 + 60 + 7) / (1 + 1 + 3 + 1))
        assert view.completion_mean(["u"]) is None


def test_without_a_store_there_is_nothing_and_nothing_is_made(tmp_path):
    with StoreView(tmp_path / "none") as view:
        assert (view.answered(["a"]), view.spent, view.meta("model")) == (set(), {}, None)
        assert view.completion_mean(["t"]) is None
        assert view.engine(lambda settings: True) is None
    assert not (tmp_path / "none").exists()


def test_a_running_writer_is_neither_stopped_nor_waited_for(tmp_path):
    with Store(tmp_path / "run") as store:
        fill(store)
        with StoreView(tmp_path / "run") as view:
            assert "a" in view.answered("ax")
            store.put("x", {"engine": ENGINE}, text(1))
            assert "x" in view.answered("ax")


def test_what_a_killed_run_left_in_its_log_is_seen(tmp_path):
    with Store(tmp_path / "run") as store:
        fill(store)
        shutil.copytree(tmp_path / "run", tmp_path / "killed")
    assert (tmp_path / "killed" / "store.sqlite-wal").stat().st_size > 0
    with StoreView(tmp_path / "killed") as view:
        assert "a" in view.answered("a")
    with Store(tmp_path / "killed") as store:  # and the run goes on
        assert store.count() == 7


def test_the_engine_is_that_of_the_newest_invocation_that_is_the_same(folder):
    with StoreView(folder) as view:
        assert view.engine(lambda settings: settings["model_args"] == "") == ENGINE
        assert view.engine(lambda settings: settings["model_args"] == "dtype=x") is None


def test_a_damaged_store_is_one_line(tmp_path):
    (tmp_path / "store.sqlite").write_bytes(b"no database at all" * 100)
    with pytest.raises(StoreError, match="cannot be read"):
        StoreView(tmp_path)
