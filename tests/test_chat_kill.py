"""Runs against an API that are killed, interrupted or put to sleep, and go on.

Oracle: the server's record of what was asked after each kill, against what the store held by then;
and of the final texts and numbers the same command left alone.
"""

import json
import os
import random
import signal
import sys
import time

import pytest
from chat_many import REPEATS, TEMPERATURES, asked, check_texts, counts, stored, write_many
from fault_server import fault_server
from forked_cli import forked_cli
from run_files import assert_same, committed, newest, result_of, run_folder, start, without_clock

pytestmark = pytest.mark.slow

KEY = "sk-canary-of-the-kill-tests"
N = 24
TOTAL = N * len(TEMPERATURES) * REPEATS
KILLS, CONNECTIONS, DELAY_S = 5, 8, 0.08


def words(server, tasks, output):
    """The arguments of the run."""
    given = f"run --model openai/gpt-4o --tasks many --max_connections {CONNECTIONS}"
    places = ["--include_path", str(tasks), "--output_path", str(output)]
    return [*given.split(), "--model_args", f"base_url={server.url}", *places]


@pytest.fixture(scope="module")
def server():
    with fault_server(None, delay_s=DELAY_S) as server:
        yield server


@pytest.fixture(scope="module")
def tasks(tmp_path_factory):
    return write_many(tmp_path_factory.mktemp("many"), N) / "tasks"


@pytest.fixture(scope="module")
def cli():
    with forked_cli({"OPENAI_API_KEY": KEY}) as cli:
        yield cli


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory, server, tasks, cli):
    output = tmp_path_factory.mktemp("undisturbed")
    process = cli.start(words(server, tasks, output), output / "log")
    assert process.wait() == 0, process.output
    return output


def until(process, output, count):
    """Waits until the store has ``count`` responses."""
    end = time.monotonic() + 60
    while committed(output) < count and not process.has_ended:
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.fixture(scope="module")
def killed(tmp_path_factory, server, tasks, cli, undisturbed):
    """(output, sessions): of each start what was stored before it, and the requests it made."""
    output, dice = tmp_path_factory.mktemp("killed"), random.Random(7)
    sessions = []

    def session(target):
        found = counts(stored(run_folder(output))) if sessions else {}
        before = len(server.requests)
        process = cli.start(words(server, tasks, output), output / "log")
        if target:
            until(process, output, target)
            time.sleep(dice.random() * 0.1)
            os.kill(process.pid, signal.SIGKILL)
        code = process.wait()
        assert code == (-signal.SIGKILL if target else 0), process.output
        time.sleep(2 * DELAY_S)  # what was on its way has arrived
        sessions.append((found, server.requests[before:]))

    for target in sorted(dice.sample(range(1, TOTAL - 60), KILLS)):
        session(target)
    session(None)
    return output, sessions


def test_every_kill_fell_in_the_middle(killed):
    held = [sum(found.values()) for found, _ in killed[1]]
    assert held[0] == 0 and 0 < held[1] and held[-1] < TOTAL
    assert held == sorted(held)


def test_what_was_committed_is_never_asked_again(killed):
    for found, arrivals in killed[1]:
        for place, n in asked(arrivals).items():
            assert n <= REPEATS - found.get(place, 0)


def test_only_what_was_in_flight_is_asked_twice(killed):
    sent = sum(asked(arrivals).total() for _, arrivals in killed[1])
    gathered = 2 * CONNECTIONS * REPEATS  # answered in the 0.1 s before they are written
    assert TOTAL <= sent <= TOTAL + KILLS * (CONNECTIONS * REPEATS + gathered)


def test_in_the_end_every_text_is_there_once(killed, server):
    found = stored(run_folder(killed[0]))
    check_texts(found, server)
    assert set(counts(found).values()) == {REPEATS}
    assert len(found) * REPEATS == TOTAL


def samples_of(output):
    """All sample rows."""
    text = newest(output, "samples_many_*.jsonl").read_text()
    return [without_names(json.loads(line)) for line in text.splitlines()]


def without_names(value):
    """A value of JSON without the names that each reply has of its own."""
    if isinstance(value, list):
        return [without_names(item) for item in value]
    if isinstance(value, dict):
        own = ("id", "response_id")
        return {name: without_names(item) for name, item in value.items() if name not in own}
    return value


def test_a_killed_run_ends_as_one_left_alone(killed, undisturbed):
    mine, other = (without_clock(result_of(output)) for output in (killed[0], undisturbed))
    spent, least = (result["tcb_bench"]["model"].pop("spent") for result in (mine, other))
    for name in least:  # replies that were read and lost are in the bill, too
        assert spent[name] > least[name] * (1 - 1e-9) or least[name] == 0
    assert_same(mine, other)
    assert_same(samples_of(killed[0]), samples_of(undisturbed))


def test_ctrl_c_saves_what_is_finished_and_says_so_in_one_line(
    server, tasks, tmp_path, monkeypatch
):
    command = [sys.executable, "-m", "tcb_bench", *words(server, tasks, tmp_path)]
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    process = start(command)
    try:
        before = len(server.requests)
        while committed(tmp_path) < 50 and process.poll() is None:
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=30)
    finally:
        process.kill()
    saved = committed(tmp_path)
    assert process.returncode == 130
    assert 50 <= saved < TOTAL
    assert errors.splitlines()[-1] == (
        f"tcb-bench: interrupted: {saved} of {TOTAL} responses are saved; "
        "the same command continues"
    )
    assert "Traceback" not in errors
    lost = asked(server.requests[before:]).total() - saved
    assert 0 <= lost <= CONNECTIONS * REPEATS


def test_a_run_that_sleeps_for_a_while_goes_on_where_it_was(server, tasks, cli, tmp_path):
    before = len(server.requests)
    process = cli.start(words(server, tasks, tmp_path), tmp_path / "log")
    until(process, tmp_path, 50)
    os.kill(process.pid, signal.SIGSTOP)
    time.sleep(0.5)
    held = committed(tmp_path)
    time.sleep(1)
    assert committed(tmp_path) == held < TOTAL
    os.kill(process.pid, signal.SIGCONT)
    assert process.wait() == 0, process.output
    assert asked(server.requests[before:]).total() == TOTAL
    assert set(counts(stored(run_folder(tmp_path))).values()) == {REPEATS}


def test_a_run_whose_connections_ended_while_it_slept_goes_on(tasks, cli, tmp_path):
    with fault_server(None, delay_s=DELAY_S) as own:
        process = cli.start(words(own, tasks, tmp_path), tmp_path / "log")
        until(process, tmp_path, 50)
        os.kill(process.pid, signal.SIGSTOP)
        own.break_connections()
        os.kill(process.pid, signal.SIGCONT)
        assert process.wait() == 0, process.output
        sent = asked(own.requests).total()
    assert TOTAL < sent <= TOTAL + CONNECTIONS * REPEATS
    assert set(counts(stored(run_folder(tmp_path))).values()) == {REPEATS}
