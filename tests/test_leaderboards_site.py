"""`leaderboard build` and `serve`: files and processes. Oracle: the file system, http.client."""

import http.client
import json
import shutil
import signal
import sys
import threading
from pathlib import Path

import pytest
from board_entries import make_entry
from board_site import renamed
from conftest import ROOT
from run_files import start

from tcb_bench.__main__ import main
from tcb_bench.errors import DataError, TcbBenchError
from tcb_bench.leaderboards.render import build
from tcb_bench.leaderboards.render_files import MANIFEST, write_site
from tcb_bench.leaderboards.render_page import Page
from tcb_bench.leaderboards.serve import server

TWO = (Page("index.html", "one"), Page("boards/a.html", "two"))


@pytest.fixture
def entries(tmp_path):
    for model in ("acme/North", "beta/South"):
        make_entry(tmp_path / "entries", model, "gsm8k_tcb", 5)
    return tmp_path / "entries"


def files(folder):
    return {
        p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*.*") if p.is_file()
    }


def test_the_shipped_site_is_what_the_shipped_entries_give(tmp_path):
    shipped = ROOT / "leaderboards" / "entries"
    if not list(shipped.glob("*/*.json")):
        pytest.skip("no entries are shipped yet: leaderboards/entries is empty")
    build(shipped, tmp_path / "site")
    assert files(tmp_path / "site") == files(ROOT / "leaderboards" / "site")


def test_the_same_entries_give_the_same_bytes_wherever_they_lie(entries, tmp_path):
    made = build(entries, tmp_path / "one")
    moved = shutil.copytree(entries, tmp_path / "elsewhere")
    build(moved, tmp_path / "two" / "deep")
    assert files(tmp_path / "one") == files(tmp_path / "two" / "deep")
    assert (made.entries, made.pages) == (2, len(files(tmp_path / "one")) - 1)
    assert not any(str(tmp_path).encode() in text for text in files(tmp_path / "one").values())


def test_pages_of_entries_that_are_gone_go_and_other_files_stay(entries, tmp_path):
    out = tmp_path / "site"
    build(entries, out)
    (out / "CNAME").write_text("example.org")
    (out / "entries" / "acme__North" / "notes.txt").write_text("kept")
    shutil.rmtree(entries / "beta__South")
    shutil.rmtree(entries / "acme__North")
    make_entry(entries, "gamma/East", "gsm8k_tcb", 5)
    build(entries, out)
    assert not (out / "entries" / "beta__South").exists()
    assert [p.name for p in (out / "entries" / "acme__North").iterdir()] == ["notes.txt"]
    assert (out / "entries" / "gamma__East" / "gsm8k_tcb.html").exists()
    assert (out / "CNAME").read_text() == "example.org"


def break_entry(entries):
    path = entries / "beta__South" / "gsm8k_tcb.json"
    path.write_text(path.read_text().replace('"dtype"', '"dtpye"', 1))
    return path


def change_samples(entries):
    path = entries / "beta__South" / "gsm8k_tcb.samples.jsonl.gz"
    path.write_bytes(path.read_bytes()[:-9])
    return path


def lose_samples(entries):
    path = entries / "beta__South" / "gsm8k_tcb.samples.jsonl.gz"
    path.unlink()
    return path


def copy_under_another_name(entries):
    return renamed(entries, "beta__South", "beta__West") / "gsm8k_tcb.json"


@pytest.mark.parametrize(
    "spoil", [break_entry, change_samples, lose_samples, copy_under_another_name]
)
def test_an_entry_that_cannot_be_read_is_one_line_and_the_old_site_stays(
    entries, tmp_path, capsys, spoil
):
    out = tmp_path / "site"
    build(entries, out)
    before = files(out)
    path = spoil(entries)
    assert main(["leaderboard", "build", "--entries", str(entries), "--out", str(out)]) == 1
    said = capsys.readouterr().err.strip().splitlines()
    assert len(said) == 1
    assert str(path) in said[0]
    assert files(out) == before
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith(".")] == []


def test_without_entries_it_says_so(tmp_path, capsys):
    assert main(["leaderboard", "build", "--entries", str(tmp_path), "--out", "nowhere"]) == 1
    assert "no entry there" in capsys.readouterr().err
    assert not Path("nowhere").exists()


def test_build_says_what_it_made(entries, tmp_path, capsys):
    out = tmp_path / "site"
    assert main(["leaderboard", "build", "--entries", str(entries), "--out", str(out)]) == 0
    assert "entries 2" in capsys.readouterr().out


def test_a_file_that_no_build_has_written_is_not_overwritten(tmp_path):
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "index.html").write_text("mine")
    with pytest.raises(DataError, match="index.html: is there and no build has written it"):
        write_site(TWO, tmp_path / "site")
    assert (tmp_path / "site" / "index.html").read_text() == "mine"


@pytest.mark.parametrize("name", ["../victim.html", "/etc/passwd", "entries/../../victim.html", 5])
def test_a_forged_manifest_deletes_nothing(tmp_path, name):
    out = tmp_path / "site"
    write_site(TWO, out)
    (tmp_path / "victim.html").write_text("mine")
    (out / MANIFEST).write_text(json.dumps({"files": [name, "index.html", "boards/a.html"]}))
    with pytest.raises(DataError, match="not a list of a site's pages"):
        write_site(TWO[:1], out)
    assert (tmp_path / "victim.html").read_text() == "mine"


def test_no_page_is_written_outside_the_site(tmp_path):
    with pytest.raises(DataError, match="no name of a page"):
        write_site([Page("boards/../../x.html", "")], tmp_path / "site")
    assert list(tmp_path.iterdir()) == []


def test_a_failure_half_way_leaves_the_old_site(tmp_path):
    out = tmp_path / "site"
    write_site(TWO, out)

    def failing():
        yield Page("index.html", "new")
        raise DataError("broken")

    with pytest.raises(DataError, match="broken"):
        write_site(failing(), out)
    assert (out / "index.html").read_text() == "one"


def test_a_folder_that_cannot_be_made_is_one_clear_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="the site cannot be written"):
        write_site(TWO, tmp_path / "file" / "site")


@pytest.fixture
def served(tmp_path):
    write_site(TWO, tmp_path / "site")
    (tmp_path / "secret.txt").write_text("secret")
    with server(tmp_path / "site") as made:
        thread = threading.Thread(target=made.serve_forever)
        thread.start()
        yield made.server_address
        made.shutdown()
        thread.join()


def answer(address, path):
    connection = http.client.HTTPConnection(*address, timeout=5)
    connection.request("GET", path)
    reply = connection.getresponse()
    return reply.status, reply.read()


def test_pages_are_served_on_loopback_and_nothing_else_is(served):
    assert served[0] == "127.0.0.1"
    assert answer(served, "/") == (200, b"one")
    assert answer(served, "/boards/a.html") == (200, b"two")
    for path in ("/boards/", "/../secret.txt", "/%2e%2e/secret.txt", "/boards/../../secret.txt"):
        status, text = answer(served, path)
        assert status == 404, path
        assert b"secret" not in text.replace(b"secret.txt", b"")


def test_a_port_that_is_taken_is_one_clear_error(served, tmp_path):
    with pytest.raises(TcbBenchError, match=f"port {served[1]} on 127.0.0.1"):
        server(tmp_path, served[1])
    with pytest.raises(TcbBenchError, match="port 70000"):
        server(tmp_path, 70000)


def test_serve_builds_first_prints_its_address_and_ends_on_ctrl_c(entries, tmp_path):
    site = tmp_path / "site"
    words = [sys.executable, "-m", "tcb_bench", "leaderboard", "serve"]
    process = start([*words, "--site", str(site), "--entries", str(entries)])
    lines = [process.stdout.readline() for _ in range(2)]
    try:
        assert "entries 2" in lines[0]
        host, port = lines[1].split()[0].removeprefix("http://").rstrip("/").split(":")
        status, text = answer((host, int(port)), "/index.html")
        assert status == 200
        assert text == (site / "index.html").read_bytes()
    finally:
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=20)
    assert (process.returncode, err) == (0, "")
