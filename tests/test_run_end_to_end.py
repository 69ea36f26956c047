"""Whole commands on the real SmolLM2: killed, interrupted, resumed, scored again.

Oracle of the killed run: the same command left alone. Oracle of `score`: the run's own result.
"""

import json
import random
import signal
import sqlite3
import subprocess
import sys
import time
import zlib
from pathlib import Path

import pytest
from conftest import ROOT
from run_files import (
    BATCH,
    KILLS,
    RUN,
    TOTAL,
    asked,
    assert_same,
    committed,
    newest,
    result_of,
    run_folder,
    samples_of,
    start,
    without_clock,
)

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def command(smollm2_folder):
    """(output, log) -> the words of a run; run in the model's folder, so that its name is short."""
    runner = Path(__file__).with_name("logged_cli.py")
    model = ["--model", f"hf/{smollm2_folder}"]
    return lambda output, log: [
        sys.executable,
        str(runner),
        str(log),
        *RUN.split(),
        *model,
        "--output_path",
        str(output),
    ]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory, command):
    output = tmp_path_factory.mktemp("undisturbed")
    done = subprocess.run(command(output, output / "log"), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return output, done.stdout


@pytest.fixture(scope="module")
def killed(tmp_path_factory, command):
    """The same run, killed five times while it had some but not all responses, then finished."""
    output = tmp_path_factory.mktemp("killed")
    log, rng, seen = output / "log", random.Random(0), []
    targets = sorted(rng.sample(range(1, TOTAL - BATCH), KILLS))
    for target in targets:
        process = start(command(output, log))
        while committed(output) < target and process.poll() is None:
            time.sleep(0.01)
        time.sleep(rng.random() * 0.1)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        seen.append(committed(output))
    done = subprocess.run(command(output, log), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return output, seen


def test_every_kill_fell_in_the_middle_and_nothing_committed_was_asked_again(killed):
    output, seen = killed
    assert len(seen) == KILLS
    assert all(0 < count < TOTAL for count in seen), seen
    starts = KILLS + 1  # each start checks the model on one prompt of its own
    assert asked(output / "log") - starts <= TOTAL + KILLS * BATCH


def test_a_killed_run_ends_with_the_results_of_an_undisturbed_one(killed, undisturbed):
    assert_same(without_clock(result_of(killed[0])), without_clock(result_of(undisturbed[0])))


def test_a_killed_run_ends_with_the_samples_of_an_undisturbed_one(killed, undisturbed):
    assert_same(samples_of(killed[0]), samples_of(undisturbed[0]))


def test_score_without_a_model_gives_the_same_numbers_and_samples(undisturbed):
    output, _ = undisturbed
    before, samples = result_of(output), samples_of(output)
    script = "import sys\nfrom tcb_bench.__main__ import main\ncode = main(sys.argv[1:])\nsys.exit(code or 'tcb_bench.models.hf' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", script, "score", str(run_folder(output))],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert without_clock(result_of(output)) == without_clock(before)
    assert samples_of(output) == samples


def test_score_really_scores_a_changed_response_changes_acc(undisturbed, tmp_path):
    import shutil

    output = tmp_path / "copy"
    shutil.copytree(undisturbed[0], output)
    wrong = [s for s in samples_of(output)["gsm8k_tcb_zeroshot"] if s["acc"] == 0.0]
    sample = wrong[0]
    key, gold = sample["rows"][0]["key"], sample["target"].rsplit("####", 1)[1].strip()
    with sqlite3.connect(run_folder(output) / "store.sqlite") as store:
        [blob] = store.execute("SELECT response FROM responses WHERE key = ?", (key,)).fetchone()
        response = json.loads(zlib.decompress(blob))
        response["text"] = f"The final answer is \\boxed{{{gold}}}."
        store.execute(
            "UPDATE responses SET response = ? WHERE key = ?",
            (zlib.compress(json.dumps(response).encode()), key),
        )
    store.close()
    done = subprocess.run(
        [sys.executable, "-m", "tcb_bench", "score", str(run_folder(output))],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    before = result_of(undisturbed[0])["results"]["gsm8k_tcb_zeroshot"]["acc,none"]
    assert result_of(output)["results"]["gsm8k_tcb_zeroshot"]["acc,none"] == pytest.approx(
        before + 0.25
    )


def test_ctrl_c_says_what_is_saved_exits_130_and_the_same_command_continues(tmp_path, command):
    log = tmp_path / "log"
    process = start(command(tmp_path, log))
    while committed(tmp_path) < 2 and process.poll() is None:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    saved = committed(tmp_path)
    assert process.returncode == 130
    assert "interrupted:" in errors and "the same command continues" in errors
    assert f"{saved} of " in errors
    assert 0 < saved < TOTAL


def test_an_interrupted_run_can_be_scored_and_the_same_command_then_finishes_it(
    tmp_path, command, undisturbed
):
    log = tmp_path / "log"
    process = start(command(tmp_path, log))
    while committed(tmp_path) < 2 and process.poll() is None:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    saved = committed(tmp_path)
    words = [sys.executable, "-m", "tcb_bench", "score", str(run_folder(tmp_path))]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 3, done.stderr
    partial = result_of(tmp_path)
    counts = partial["tcb_bench"]["tasks"]["mmlu_tcb_reasoning"]["counts"]
    assert counts["error"] == 20 - saved
    assert partial["tcb_bench"]["is_partial"] is True
    assert partial["tcb_bench"]["tasks"]["gsm8k_tcb_zeroshot"]["counts"]["error"] == 4
    done = subprocess.run(command(tmp_path, log), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert_same(without_clock(result_of(tmp_path)), without_clock(result_of(undisturbed[0])))


def test_no_secret_of_the_model_arguments_reaches_a_file(tmp_path, smollm2_folder):
    arguments = json.dumps({"pretrained": str(smollm2_folder), "token": "hf_canary"})
    words = f"run --model hf --tasks mmlu_tcb_philosophy --data sample --limit 1 --output_path {tmp_path}"
    done = subprocess.run(
        [sys.executable, "-m", "tcb_bench", *words.split(), "--model_args", arguments],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    for path in [p for p in tmp_path.rglob("*") if p.is_file()]:
        assert b"canary" not in path.read_bytes(), path
    assert "canary" not in done.stdout + done.stderr


def test_fresh_with_a_wrong_task_leaves_the_store_where_it_is(tmp_path, smollm2_folder):
    words = (
        f"run --model hf/{smollm2_folder} --data sample --limit 1 --output_path {tmp_path} --tasks"
    )
    base = [sys.executable, "-m", "tcb_bench", *words.split()]
    subprocess.run([*base, "mmlu_tcb_philosophy"], check=True, capture_output=True)
    done = subprocess.run([*base, "mmlu_tbc", "--fresh"], capture_output=True, text=True)
    assert done.returncode == 2
    assert committed(tmp_path) == 1
    assert not list(tmp_path.rglob("*.old"))


def test_the_result_has_lm_evals_shape_with_strict_numbers(undisturbed):
    text = newest(undisturbed[0], "results_*.json").read_text()

    def refuse(constant):
        raise AssertionError(constant)

    result = json.loads(text, parse_constant=refuse)
    entry = result["results"]["mmlu_tcb_reasoning"]
    for key in (
        "acc,none",
        "acc,completed",
        "acc_stderr,none",
        "acc_macro,none",
        "flip_radius_median,none",
        "log10_relative_delta_mean,none",
    ):
        assert isinstance(entry[key], float), key
    assert entry["acc_n,none"] == 20
    keys = (
        "results",
        "configs",
        "versions",
        "n-shot",
        "higher_is_better",
        "n-samples",
        "config",
        "group_subtasks",
    )
    assert all(key in result for key in keys)
    assert not any("|" in name for name in result["results"])
    assert str(ROOT) not in text


def test_the_results_files_are_read_by_lm_evals_own_table(undisturbed):
    from lm_eval.utils import make_table

    result = result_of(undisturbed[0])
    result["results"] = {"mmlu_tcb_reasoning": result["results"]["mmlu_tcb_reasoning"]}
    table = make_table(result)  # (it cannot print a null, which a single completed text leads to)
    assert "mmlu_tcb_reasoning" in table
    assert "flip_radius_median" in table


def test_the_terminal_shows_n_interval_counts_and_signature(undisturbed):
    output = undisturbed[1]
    assert "mmlu_tcb_reasoning   (20 scored)" in output
    for part in ("95 % interval", "flip_radius, median", "task:gsm8k_tcb_zeroshot|v:1|model:hf/"):
        assert part in output.replace("\n ", "")
    tables = [line for line in output.splitlines() if not line.startswith(("result", "samples"))]
    assert max(map(len, tables)) <= 100


def test_a_run_folder_of_another_model_is_refused(undisturbed, command, tmp_path):
    import shutil

    output = tmp_path / "copy"
    shutil.copytree(undisturbed[0], output)
    with sqlite3.connect(run_folder(output) / "store.sqlite") as store:
        store.execute(
            "UPDATE meta SET value = ? WHERE name = 'model'",
            (json.dumps({"backend": "hf", "model": "other"}),),
        )
    store.close()
    done = subprocess.run(command(output, tmp_path / "log"), capture_output=True, text=True)
    assert done.returncode == 1
    assert "holds responses of other, not of " in done.stderr
    assert done.stderr.splitlines()[-1].startswith("tcb-bench: ")
