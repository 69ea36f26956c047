"""OpenAI's Batch API from the first file to the last answer, through kills at every step.

Oracles: the online mode on the same server (texts exactly, all that is stored but the ids of the
replies), half of its cost, and the server's own count of the lines that it was given.
"""

import json
import os
import signal
import time
from collections import Counter

import fault_bodies as bodies
import fault_status as status
import pytest
from chat_runs import KEY, arguments, run_api, write_tasks
from fault_plan import CHAT, LINE, Fault, Rule
from fault_server import fault_server
from forked_cli import forked_cli

from tcb_bench.errors import UsageError
from tcb_bench.store import Store

BATCH = {"args": "poll_s=0.02", "api_mode": "batch"}
N_LINES = 15  # of the task rivers: 3 x 3 greedy texts, and 3 x 2 requests with 3 choices


def lines_of(server):
    """What was asked -> how often a batch was given it; greedy repeats ask the same."""
    return bodies_of(server, LINE)


def bodies_of(server, path):
    arrivals = [arrival for arrival in server.requests if arrival.path == path]
    return Counter(json.dumps(arrival.body, sort_keys=True) for arrival in arrivals)


def stored(folder):
    """Key -> request and response of a run folder, and what was spent."""
    [path] = folder.glob("runs/*/store.sqlite")
    with Store(path.parent, create=False) as store:
        keys = [key for (key,) in store._db.execute("SELECT key FROM responses")]
        return {key: (store.request(key), store.get(key)) for key in keys}, store.spent


def plain(response):
    """A response without what a server gives anew each time."""
    return {name: getattr(response, name) for name in response.__slots__ if name != "call"} | {
        "call": {name: value for name, value in response.call.items() if name != "id"}
    }


def run_online(server, folder, tasks="rivers"):
    """The same without batches, in a folder of its own."""
    (folder / "online").mkdir()
    return run_api(server, folder / "online", tasks)


def test_a_batch_stores_what_the_online_mode_stores_for_half_the_money(tmp_path):
    with fault_server(shuffles_choices=True) as server:
        online = run_online(server, tmp_path, "rivers,letters,sums")
        asked = bodies_of(server, CHAT)
        server.reset()
        batch = run_api(server, tmp_path, "rivers,letters,sums", **BATCH)
        submitted, probes = lines_of(server), bodies_of(server, CHAT)
    assert (online.exit_code, batch.exit_code) == (0, 0)
    ours, ours_spent = stored(tmp_path)
    theirs, theirs_spent = stored(tmp_path / "online")
    assert len(ours) == 27 + 4 + 4
    assert {key: plain(answer) for key, (_, answer) in ours.items()} == {
        key: plain(answer) for key, (_, answer) in theirs.items()
    }
    assert ours_spent["usd"] == pytest.approx(theirs_spent["usd"] / 2, rel=1e-9)
    assert {**ours_spent, "usd": 0} == {**theirs_spent, "usd": 0}
    assert submitted == asked - probes
    assert submitted.total() == ours_spent["requests"] == 23


def test_a_second_run_submits_nothing(tmp_path):
    with fault_server() as server:
        run_api(server, tmp_path, "rivers", **BATCH)
        seen = len(server.requests)
        assert run_api(server, tmp_path, "rivers", **BATCH).exit_code == 0
        assert len(server.requests) == seen
    [journal] = tmp_path.rglob("batches.jsonl")
    assert not list((journal.parent / "batches").iterdir())  # files are gone once they are merged


# Kills.


def posts(path):
    return lambda asked: (asked.method, asked.path) == ("POST", path)


def polls(asked):
    return asked.method == "GET" and asked.path.startswith("/v1/batches/")


def gets_errors(server):
    """The file with the failed lines, which is read when the other one is merged."""
    batches = server.app.batches.batches
    return lambda asked: any(
        batch["error_file_id"] and asked.path == f"/v1/files/{batch['error_file_id']}/content"
        for batch in batches.values()
    )


FAILS = Rule(status.server_error(), path=LINE, content="second")
NOT_MADE = Fault("not_made", reply=status.server_error(503).reply, seconds=60)


def moments(server):
    """What is not answered in time, one after the other."""
    late = bodies.slow(60)
    yield late, posts("/v1/files")  # the file is written and journalled
    yield NOT_MADE, posts("/v1/batches")  # uploaded, and there is no batch
    yield late, posts("/v1/batches")  # there is one, and nobody was told its id
    yield late, polls
    yield late, gets_errors(server)  # half of it is merged


@pytest.fixture(scope="module")
def cli():
    with forked_cli({"OPENAI_API_KEY": KEY}) as cli:
        yield cli


def start(cli, server, folder):
    words = ["run", "--model", "openai/gpt-4o", "--tasks", "rivers", "--api_mode", "batch"]
    words += ["--include_path", folder / "tasks", "--output_path", folder / "runs"]
    words += ["--bert_score_model", "none", "--model_args"]
    words += [arguments(server, "poll_s=0.02", key=None)]
    return cli.start(words, folder / "log.txt")


def stop_at(cli, server, folder, moment, number):
    """Starts the command, sends it a signal once ``moment`` comes, and returns the exit code."""
    seen = len(server.requests)
    process = start(cli, server, folder)
    end = time.monotonic() + 60
    while not any(map(moment, server.requests[seen:])):
        assert not process.has_ended and time.monotonic() < end, process.output
        time.sleep(0.02)
    os.kill(process.pid, number)
    return process.wait()


@pytest.mark.slow
def test_killed_at_every_step_nothing_is_submitted_twice(tmp_path, cli):
    write_tasks(tmp_path / "tasks")
    with fault_server() as server:
        for fault, moment in moments(server):
            server.plan = [FAILS, Rule(fault, path=None, when=moment)]
            code = stop_at(cli, server, tmp_path, moment, signal.SIGKILL)
            assert code == -signal.SIGKILL
        half, _ = stored(tmp_path)
        n_failed = 5  # lines of the document "second"
        assert len(half) == 27 - 9  # those of the output file; the other one never came
        server.plan = FAILS
        process = start(cli, server, tmp_path)
        assert process.wait() == 3, process.output
        assert len(server.app.batches.batches) == 1
        submitted = lines_of(server)
        found, _ = stored(tmp_path)
        states = Counter(getattr(answer, "state", "answered") for _, answer in found.values())
        assert states == {"answered": 18, "error": 9}
        server.plan = None
        assert run_api(server, tmp_path, "rivers", **BATCH).exit_code == 0
        assert lines_of(server).total() == N_LINES + n_failed
        server.reset()
        run_online(server, tmp_path)
    assert submitted == bodies_of(server, CHAT)
    ours, spent = stored(tmp_path)
    theirs, whole = stored(tmp_path / "online")
    assert {k: plain(a) for k, (_, a) in ours.items()} == {
        k: plain(a) for k, (_, a) in theirs.items()
    }
    assert spent["usd"] == pytest.approx(whole["usd"] / 2, rel=1e-9)
    for path in tmp_path.rglob("*"):
        assert path.is_dir() or KEY.encode() not in path.read_bytes(), path


@pytest.mark.slow
def test_ctrl_c_says_that_the_batch_goes_on(tmp_path, cli):
    write_tasks(tmp_path / "tasks")
    with fault_server(batches={"in_progress": 10**6}) as server:
        assert stop_at(cli, server, tmp_path, polls, signal.SIGINT) == 130
    output = (tmp_path / "log.txt").read_text()
    assert "batch 1 (batch_000001): still at the provider; the same command" in output
    assert "Traceback" not in output


# Parts of what was asked.


def test_answers_that_a_narrower_run_did_not_ask_for_are_there_for_the_next(tmp_path):
    with fault_server() as server:
        interrupted(server, tmp_path)
        few = {"options": {"where": {"temperature": ["0.6"]}}}
        narrow = run_api(server, tmp_path, "rivers", **BATCH, **few)
        assert (narrow.exit_code, lines_of(server).total()) == (0, N_LINES)
        assert len(stored(tmp_path)[0]) == 9
        assert run_api(server, tmp_path, "rivers", **BATCH).exit_code == 0
        assert lines_of(server).total() == N_LINES
        run_online(server, tmp_path)
    assert stored(tmp_path)[1]["usd"] == pytest.approx(
        stored(tmp_path / "online")[1]["usd"] / 2, rel=1e-9
    )


def test_a_batch_of_another_kind_of_request_is_left_alone(tmp_path):
    with fault_server() as server:
        interrupted(server, tmp_path)
        assert run_api(server, tmp_path, "letters", **BATCH).exit_code == 0
        assert len(server.app.batches.batches) == 2
        assert run_api(server, tmp_path, "rivers", **BATCH).exit_code == 0
        assert (len(server.app.batches.batches), lines_of(server).total()) == (2, N_LINES + 4)


def test_online_does_not_pay_again_for_what_a_batch_holds(tmp_path):
    with fault_server() as server:
        interrupted(server, tmp_path)
        with pytest.raises(UsageError, match=r"batch 1 \(batch_000001\).*--api_mode batch"):
            run_api(server, tmp_path, "rivers")
        assert not [arrival for arrival in server.requests if arrival.path == CHAT]
        assert run_api(server, tmp_path, "letters").exit_code == 0  # in no batch


def test_a_damaged_or_cut_journal(tmp_path):
    with fault_server() as server:
        interrupted(server, tmp_path)
        [journal] = tmp_path.rglob("batches.jsonl")
        whole = journal.read_text()
        lines = whole.splitlines(keepends=True)
        assert [json.loads(line)["event"] for line in lines] == ["written", "uploaded", "created"]
        journal.write_text("".join(lines[:2]) + lines[2][:25])  # died while it wrote the id
        assert run_api(server, tmp_path, "rivers", **BATCH).exit_code == 0
        assert (len(server.app.batches.batches), lines_of(server).total()) == (1, N_LINES)


@pytest.mark.parametrize("spoil", ["journal", "keys", "requests"])
def test_what_is_damaged_is_said_in_one_line(tmp_path, spoil):
    from tcb_bench.errors import StoreError

    with fault_server() as server:
        interrupted(server, tmp_path)
        [journal] = tmp_path.rglob("batches.jsonl")
        part = journal.parent / "batches"
        if spoil == "journal":
            journal.write_text('{"event": "created", "part": 7, "batch_id": "b"}\n')
        elif spoil == "keys":
            (part / "0001.keys.jsonl").unlink()
        else:
            (part / "0001.jsonl").write_text("{}\n")
        with pytest.raises(StoreError, match="batches.jsonl: .*to ask all again") as failed:
            run_api(server, tmp_path, "rivers", **BATCH)
    assert "\n" not in str(failed.value)


def interrupted(server, folder):
    """A run of rivers that ends once its batch is at the provider."""

    class Enough(Exception):
        pass

    class Lines(list):
        def append(self, line):
            if "submitted" in line:
                raise Enough

    with pytest.raises(Enough):
        run_api(server, folder, "rivers", lines=Lines(), **BATCH)
    assert len(server.app.batches.batches) == 1
