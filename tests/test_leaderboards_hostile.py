"""Hostile files: each refused in one clear line, quickly, with nothing executed or written.

Oracle: the rules themselves (what a file may be), stated case by case; an honest entry beside it.
"""

import gzip
import json
import os
import resource
import subprocess
import sys
import time

import pytest
from board_entries import make_entry
from board_forge import read, write
from conftest import ROOT

from tcb_bench.__main__ import main
from tcb_bench.leaderboards import checks, untrusted
from tcb_bench.leaderboards.entry_files import MAX_LINE, file_sha256, read_samples

TASK = "gsm8k_tcb"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return make_entry(tmp_path_factory.mktemp("made"), "org/model", TASK, 5)


@pytest.fixture
def path(made, tmp_path):
    """An honest entry that a test may spoil, in a folder of its own."""
    folder = tmp_path / "entries" / made.parent.name
    folder.mkdir(parents=True)
    for file in made.parent.iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    return folder / made.name


def only_problem(path):
    """The one problem of an entry; found within seconds and a few hundred megabytes more."""
    start, before = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found = [problem.text for problem in checks.problems([path])]
    assert time.process_time() - start < 10
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300 * 2**10
    assert len(found) == 1, found
    assert "\n" not in found[0]
    assert len(found[0]) < 400
    return found[0]


def test_the_entry_is_in_order_before_it_is_spoilt(path):
    assert checks.problems([path]) == []


def with_text(path, old, new):
    """The entry's JSON with one piece of it replaced; the piece is there."""
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_bytes(text.replace(old, new, 1).encode("utf-8", "surrogatepass"))
    return path


SEED, EPSILON = '"seed": 0', '"epsilon": 1.0'


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (EPSILON, '"epsilon": NaN', "epsilon: "),
        (EPSILON, '"epsilon": Infinity', "epsilon: "),
        (EPSILON, '"epsilon": 1e999', "epsilon: "),
        (SEED, f'"seed": 1{"0" * 400}', "401 digits"),
        (SEED, f'"seed": {"9" * 10_000}', "number out of range"),
        (SEED, '"seed": "0"', "seed: Input should be a valid integer"),
        (SEED, '"seed": 0, "seed": 1', "the name seed stands twice"),
        (SEED, '"seed": 0, "extra": 1', "extra: Extra inputs are not permitted"),
        (SEED, f'"seed": {"[" * 100_000}{"]" * 100_000}', "recursion limit"),
        ('"links": []', f'"links": ["https://a.example/{"x" * 10_000}"]', "at most 8192"),
        ('"submitted_by": "tests"', '"submitted_by": "a\\u202eb"', "characters that do not show"),
        ('"submitted_by": "tests"', '"submitted_by": "a\\u0000b"', "characters that do not show"),
        ('"submitted_by": "tests"', '"submitted_by": "\\ud800"', "unexpected end of hex escape"),
        ('"submitted_by": "tests"', '"submitted_by": "\ud800"', "Invalid JSON"),
        ('"id": "org/model"', '"id": "../../etc"', "organisation/name"),
        ('"id": "org/model"', '"id": "org/<script>alert(1)</script>"', "organisation/name"),
        ('"id": "org/model"', '"id": "/org/model"', "organisation/name"),
        ('"id": "org/model"', '"id": "C:\\\\org/model"', "organisation/name"),
    ],
)
def test_json_that_is_no_entry(old, new, said, path):
    found = [p.text for p in checks.problems([with_text(path, old, new)])]
    assert any(said in text for text in found), found
    assert all("\n" not in text and untrusted.UNSEEN.search(text) is None for text in found)


@pytest.mark.parametrize(
    "name", ["../model.samples.jsonl.gz", "/etc/passwd", "..\\\\a", "CON", "a/b", "a\\u0000b", ""]
)
def test_samples_elsewhere_than_beside_the_entry(name, path):
    old = '"file": "gsm8k_tcb.samples.jsonl.gz"'
    found = [p.text for p in checks.problems([with_text(path, old, f'"file": "{name}"')])]
    assert any("samples.file" in text or "do not show" in text for text in found), found


def test_an_entry_of_100_mb(path):
    with path.open("wb") as file:
        file.truncate(100 * 2**20)
    assert "has 104857600 bytes; at most 16777216" in only_problem(path)


@pytest.mark.parametrize("kind", ["link", "folder", "pipe"])
def test_something_else_in_place_of_the_entry(kind, path, made):
    path.unlink()
    if kind == "link":
        path.symlink_to(made)
    elif kind == "folder":
        path.mkdir()
    else:
        os.mkfifo(path)
    said = only_problem(path)
    assert ("symbolic link" if kind == "link" else "no plain file") in said


@pytest.mark.parametrize("kind", ["link", "folder", "pipe", "nothing"])
def test_something_else_in_place_of_the_samples(kind, path, made):
    file = path.with_name(f"{TASK}.samples.jsonl.gz")
    file.unlink()
    if kind == "link":
        file.symlink_to(made.with_name(file.name))
    elif kind == "folder":
        file.mkdir()
    elif kind == "pipe":
        os.mkfifo(file)
    said = only_problem(path)
    assert {"link": "symbolic", "nothing": "No such file"}.get(kind, "no plain file") in said


def packed(path, raw):
    """The entry with other bytes as its sample file, hash and all."""
    file = path.with_name(f"{TASK}.samples.jsonl.gz")
    file.write_bytes(raw)
    entry = json.loads(path.read_text(encoding="utf-8"))
    entry["samples"]["sha256"] = file_sha256(file)
    return write(path, entry)


def test_a_gzip_bomb_of_zeros(path):
    """256 MiB of zeros in 256 KiB: read no further than one line may be long."""
    raw = gzip.compress(bytes(2**28), 9)
    assert len(raw) < 2**20
    assert f"over {MAX_LINE} bytes" in only_problem(packed(path, raw))


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (gzip.compress(b"\n" * 2**24), "line 1: the file: Invalid JSON"),
        (gzip.compress(b"") * 100_000, "expected one member"),
        (gzip.compress(b"") + b"tail", "expected one member"),
        (gzip.compress(b"")[:-4], "ends too early"),
        (gzip.compress(b"[" * 1000 + b"\n"), "recursion limit"),
        (b"PK\x03\x04", "no readable gzip file"),
        (b"", "ends too early"),
        (gzip.compress(b'{"doc_id": "a"'), "its last line has no end"),
        (gzip.compress(b'{"doc_id": "\xff"}\n'), "line 1"),
    ],
    ids=["newlines", "members", "tail", "cut", "deep", "zip", "empty", "no end", "no utf-8"],
)
def test_a_sample_file_that_is_none(raw, said, path):
    assert said in only_problem(packed(path, raw))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda s: s["rows"][0].update(text="the whole answer"), "Extra inputs"),
        (lambda s: s.update(prompt="a question"), "Extra inputs"),
        (lambda s: s["rows"][0].update(acc=2.0), "less than or equal to 1"),
        (lambda s: s["rows"][0].update(prompt_tokens=10**400), "401 digits"),
        (lambda s: s.update(doc_id="x" * 9000), "at most 8192"),
        (lambda s: s.update(doc_id="\u202e"), "do not show"),
    ],
    ids=["text", "prompt", "acc", "huge", "long", "hidden"],
)
def test_a_sample_row_that_is_none(change, said, path):
    entry, samples = read(path)
    change(samples[1])
    assert said in only_problem(write(path, entry, samples))


def test_more_rows_than_the_entry_says_are_not_read_on(path):
    entry, samples = read(path)
    write(path, entry, samples * 1000)
    entry["samples"]["rows"] = 5
    write(path, entry)
    found = [p.text for p in checks.problems([path])]
    assert any("more rows than samples.rows = 5" in text for text in found)
    assert len(found) < 12


def test_thousands_of_problems_of_a_kind_are_counted_not_listed(path):
    entry, samples = read(path)
    for sample in samples:
        sample["rows"][0]["stability"]["v_eff"] = 0.5
    found = [p.text for p in checks.problems([write(path, entry, samples)])]
    assert [text for text in found if "and 2 more of this kind" in text]


NUMBERS = (-1e308, -1.0, 0.0, 5e-324, 1e-31, 1.0, 1e308)


@pytest.mark.parametrize("value", NUMBERS)
def test_absurd_numbers_are_problems_and_no_crash(value, path):
    """Each quantity of a row of its own, all of another one, the weight and the limit."""
    entry, samples = read(path)
    names = sorted(samples[0]["rows"][0]["stability"])
    for name in ("delta_tcb", "entropy", "h_norm", "p_top2"):
        _, fresh = read(path)
        fresh[0]["rows"][0]["stability"][name] = value
        fresh[1]["rows"][0]["stability"] = dict.fromkeys(names, value)
        fresh[2]["rows"][0]["repeat"] = 10**17
        fresh[3] |= {"weight": 1e308, "stratum": "made"}
        found = checks.problems([write(path, {**entry, "limit": value}, fresh)])
        assert found
        assert len(found) < 150
        write(path, entry, samples)


def test_what_else_lies_in_the_folder_is_named(path, tmp_path):
    root = tmp_path / "entries"
    (root / "README.md").write_text("fine")
    (root / "notes.txt").write_text("not fine")
    (root / "org__link").symlink_to(path.parent)
    (path.parent / "run.exe").write_bytes(b"MZ")
    (path.parent / "other.samples.jsonl.gz").write_bytes(b"")
    (path.parent / "deep").mkdir()
    (root / "ORG__model").mkdir()
    (root / "ORG__model" / "GSM8K_tcb.json").write_bytes(path.read_bytes())
    paths, problems = checks.folder_problems(root)
    said = {problem.path.name: problem.text for problem in problems}
    assert "a file; expected folders" in said["notes.txt"]
    assert "a symbolic link" in said["org__link"]
    assert "expected <task>.json" in said["run.exe"]
    assert "without an entry" in said["other.samples.jsonl.gz"]
    assert "a folder; expected plain files" in said["deep"]
    assert "in other case" in said["GSM8K_tcb.json"]
    assert "README.md" not in said
    assert len(paths) == 2


def test_an_entry_under_another_name_or_in_another_folder(path):
    moved = path.parent.with_name("org__other")
    path.parent.rename(moved)
    assert "lies at org__other/gsm8k_tcb.json" in only_problem(moved / path.name)


def test_the_command_says_one_line_and_writes_nothing(path, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    old = '"submitted_by": "tests"'
    with_text(path, old, '"submitted_by": "[red]<img src=x onerror=alert(1)>\\u001b[2J"')
    before = sorted(str(p) for p in tmp_path.rglob("*"))
    assert main(["leaderboard", "check", "--entries", "entries"]) == 1
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert out.splitlines()[0].startswith("entries/org__model/gsm8k_tcb.json: the text")
    assert sorted(str(p) for p in tmp_path.rglob("*")) == before


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads the peak from /proc")
def test_memory_does_not_follow_a_bomb(path):
    """A process of its own, since a peak stays: 256 MiB of honest-looking rows, unpacked."""
    entry, samples = read(path)
    line = json.dumps(samples[0]).encode() + b"\n"
    packed(path, gzip.compress(line * (2**28 // len(line)), 1))
    entry["samples"]["rows"] = entry["samples"]["responses"] = 400_000
    entry["samples"]["sha256"] = file_sha256(path.with_name(f"{TASK}.samples.jsonl.gz"))
    write(path, entry)
    script = (
        "import sys; from pathlib import Path\n"
        "from tcb_bench.leaderboards.untrusted import unpacked_lines\n"
        "n = sum(1 for _ in unpacked_lines(Path(sys.argv[1]), packed=2**26, unpacked=2**31, "
        "line=2**20))\n"
        "status = Path('/proc/self/status').read_text()\n"
        "print(n, int(status.split('VmHWM:')[1].split()[0]) // 1024)"
    )
    file = path.with_name(f"{TASK}.samples.jsonl.gz")
    done = subprocess.run(
        [sys.executable, "-c", script, str(file)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=True,
    )
    lines, mib = map(int, done.stdout.split())
    assert lines == 2**28 // len(line)
    assert mib < 200
    assert next(iter(read_samples(file))).doc_id == samples[0]["doc_id"]
