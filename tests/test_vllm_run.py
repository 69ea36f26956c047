"""Whole commands on vLLM: interrupted, killed, continued, and no engine left behind.

Oracle of the continued run: the hf back end, asked the same at temperature 0.
"""

import json
import os
import signal
import subprocess
import sys
import time

import psutil
import pytest
from run_files import committed, newest, run_folder

pytest.importorskip("vllm", reason="vLLM has an environment of its own: make test-vllm")
pytestmark = pytest.mark.vllm

RUN = "run --data sample --tasks gsm8k_tcb_zeroshot --limit 12 --gen_kwargs max_gen_toks=48".split()
TOTAL = 12


def command(output, *words):
    return [sys.executable, "-m", "tcb_bench", *RUN, *words, "--output_path", str(output)]


def engines(process):
    """The engine's processes: descendants of the command that vLLM has named."""
    children = psutil.Process(process.pid).children(recursive=True)
    return [child for child in children if "VLLM" in child.name()]


def ended(processes, within_s=10):
    gone, alive = psutil.wait_procs(processes, timeout=within_s)
    return not [p for p in alive if p.status() != psutil.STATUS_ZOMBIE]


def stopped_midway(words, output, sign):
    """Starts the command, sends ``sign`` to it once a few answers are stored; its end."""
    process = subprocess.Popen(
        words,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    before = committed(output)
    while committed(output) < before + 2 and process.poll() is None:
        time.sleep(0.01)
    running = engines(process)
    if sign == signal.SIGINT:
        os.killpg(process.pid, sign)  # a terminal's Ctrl-C reaches the engine's processes too
    else:
        process.send_signal(sign)
    out, err = process.communicate(timeout=120)
    return process.returncode, out, err, running


@pytest.mark.full  # three starts of whole commands
def test_interrupted_then_killed_then_continued(tmp_path):
    words = command(tmp_path, "--model", "vllm/demo", "--batch_size", "2")
    code, out, err, running = stopped_midway(words, tmp_path, signal.SIGINT)
    assert code == 130, (out, err)
    assert "interrupted" in err and "saved" in err
    assert "Traceback" not in err and "INFO" not in out + err
    assert len(running) >= 2
    assert ended(running)

    first = committed(tmp_path)
    code, _, _, running = stopped_midway(words, tmp_path, signal.SIGKILL)
    assert code == -signal.SIGKILL
    assert ended(running), "kill -9 of a run leaves no engine"
    second = committed(tmp_path)
    assert 0 < first < second < TOTAL

    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert f"asked {TOTAL - second}, found in the store {second}" in done.stderr + done.stdout
    assert (run_folder(tmp_path) / "vllm.log").stat().st_size > 1000

    other = tmp_path / "hf"
    done = subprocess.run(command(other, "--model", "demo"), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    ours, theirs = (
        {s["doc_id"]: s["rows"][0] for s in map(json.loads, path.read_text().splitlines())}
        for path in (
            newest(tmp_path, "samples_*.jsonl"),
            newest(other, "samples_*.jsonl"),
        )
    )
    assert len(ours) == len(theirs) == TOTAL
    for name, row in theirs.items():
        assert (ours[name]["text"], ours[name]["state"]) == (row["text"], row["state"])
        assert ours[name]["answer"] == row["answer"]


def test_a_run_that_is_ended_while_the_engine_loads_leaves_none(tmp_path):
    process = subprocess.Popen(
        command(tmp_path, "--model", "vllm/demo"), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    log = tmp_path / "vllm__demo" / "vllm.log"
    while process.poll() is None and not (log.exists() and "V1 LLM engine" in log.read_text()):
        time.sleep(0.05)
    running = engines(process)
    assert running
    process.terminate()
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert b"interrupted" in err and b"Traceback" not in err
    assert ended(running)
