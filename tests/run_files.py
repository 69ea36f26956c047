"""Starting a whole command, and reading what it left in its run folder."""

import json
import signal
import sqlite3
import subprocess

import pytest

TASKS = "mmlu_tcb_reasoning,gsm8k_tcb_zeroshot"
TOTAL = 5 * 4 + 4
BATCH = 2
KILLS = 5
RUN = (
    f"run --data sample --tasks {TASKS} --limit 4 --batch_size {BATCH} --gen_kwargs max_gen_toks=24"
)
FLOAT = 1e-5


def start(words):
    """The command in a process that hears Ctrl-C, also where the tests run in the background."""
    return subprocess.Popen(
        words,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


def run_folder(output):
    """The one folder that a run makes in its output path."""
    folders = [path for path in output.iterdir() if path.is_dir()] if output.exists() else []
    return folders[0] if folders else output / "none"


def committed(output):
    store = run_folder(output) / "store.sqlite"
    if not store.exists():
        return 0
    connection = sqlite3.connect(f"file:{store}?mode=ro", uri=True)
    try:
        return connection.execute("SELECT count(*) FROM responses").fetchone()[0]
    except sqlite3.OperationalError:  # not created yet
        return 0
    finally:
        connection.close()


def asked(log):
    return sum(map(int, log.read_text().split())) if log.exists() else 0


def newest(output, pattern):
    return max(run_folder(output).glob(pattern))


def result_of(output):
    return json.loads(newest(output, "results_*.json").read_text())


def samples_of(output):
    found = {}
    for task in [
        "gsm8k_tcb_zeroshot",
        *(f"mmlu_tcb_reasoning_{s}" for s in ("philosophy", "formal_logic")),
    ]:
        lines = newest(output, f"samples_{task}_*.jsonl").read_text().splitlines()
        found[task] = [json.loads(line) for line in lines]
    return found


def assert_same(a, b, path="", tolerance=FLOAT):
    """Everything equal; floats to 1e-5 of their size, since batches differ."""
    assert type(a) is type(b), path
    if isinstance(a, dict):
        assert a.keys() == b.keys(), path
        for key in a:
            assert_same(a[key], b[key], f"{path}/{key}", tolerance)
    elif isinstance(a, list):
        assert len(a) == len(b), path
        for i, (x, y) in enumerate(zip(a, b, strict=True)):
            assert_same(x, y, f"{path}/{i}", tolerance)
    elif isinstance(a, float):
        assert a == pytest.approx(b, rel=tolerance, abs=tolerance), path
    else:
        assert a == b, path


def without_clock(result):
    block = {k: v for k, v in result["tcb_bench"].items() if k != "wall_time_s"}
    drop = ("date", "total_evaluation_time_seconds")
    return {**{k: v for k, v in result.items() if k not in drop}, "tcb_bench": block}
