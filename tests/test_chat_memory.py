"""Memory and file handles of a run against an API do not grow with the number of its requests.

Oracle: the kernel's own counts (resident pages, open descriptors) after 2,000 answers, after each
2,000 more, and at the end of the same run, whose plan is made before the first request. It has
10,000 requests, or as many as TCB_BENCH_MANY_REQUESTS says.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from fault_server import fault_process

pytestmark = pytest.mark.slow

EVERY = 2000
MANY = int(os.environ.get("TCB_BENCH_MANY_REQUESTS", "10000"))
MOST_MIB = 4  # the store's cache of pages, 2 MiB, fills up later than after 2,000 rows
MOST_HANDLES = 4  # at the first look a few of the 32 connections may not be open


@pytest.fixture(scope="module")
def seen(tmp_path_factory):
    """[answers, MiB, handles] in the course of the run."""
    script, folder = Path(__file__).with_name("chat_watched.py"), tmp_path_factory.mktemp("run")
    with fault_process("--instant") as url:
        words = [sys.executable, str(script), url, str(MANY), str(EVERY), str(folder)]
        done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_run_was_watched_from_2000_answers_to_its_last(seen):
    assert EVERY <= seen[0][0] < EVERY + 600
    assert seen[-1][0] == MANY
    assert len(seen) >= 3


def test_memory_is_flat(seen):
    first = seen[0][1]
    assert max(mib for _, mib, _ in seen) - first <= MOST_MIB, seen


def test_file_handles_are_flat(seen):
    assert max(handles for _, _, handles in seen) <= seen[0][2] + MOST_HANDLES, seen
