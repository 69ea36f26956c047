"""Reference sentences made by a model. Oracle: TP section 4.3's rule by hand; a real SmolLM2 run."""

import json

import pytest

from tcb_bench.__main__ import main
from tcb_bench.references import TEMPLATE, first_sentences


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("It stood in Brenvik. It closed in 1981.", "It stood in Brenvik."),
        ("Yes. Both are lakes. They are deep.", "Yes. Both are lakes."),
        ("No, it is older. It was built in 1901. Later.", "No, it is older. It was built in 1901."),
        ("Yesterday it closed. Then it opened.", "Yesterday it closed."),
        ("  One\nline only", "One line only"),
        ("It was directed by J. J. Abrams. It ran.", "It was directed by J. J. Abrams."),
        ("It is in St. Louis, Missouri. It is old.", "It is in St. Louis, Missouri."),
        ("Yes, Dr. Smith did. He told Mr. Hill. Later.", "Yes, Dr. Smith did. He told Mr. Hill."),
        ("", ""),
    ],
)
def test_the_first_sentence_is_kept_or_two_after_yes_or_no(text, kept):
    assert first_sentences(text) == kept


def test_the_template_is_the_papers_with_question_and_answer():
    filled = TEMPLATE.format(question="Who?", answer="Ann")
    assert filled.startswith("Question: Who?\nAnswer: Ann\nGenerate a complete and coherent answer")


@pytest.mark.slow
def test_references_are_written_resumed_and_used_by_a_run(smollm2_folder, tmp_path, capsys):
    words = ["references", "--model", f"hf/{smollm2_folder}", "--data", "sample", "--limit", "1"]
    words += ["--output_path", str(tmp_path), "--apply_chat_template", "--batch_size", "6"]
    assert main(words) == 0
    [path] = (tmp_path / "references").glob("hotpotqa_tempperturb__*.jsonl")
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert len(rows) == 6
    for row in rows:
        assert row["reference"] == first_sentences(row["text"])
        assert row["generator"].startswith("hf/")
    first = path.read_bytes()
    assert main(words) == 0
    assert path.read_bytes() == first
    capsys.readouterr()
    run = ["run", "--model", f"hf/{smollm2_folder}", "--data", "sample", "--limit", "1"]
    run += [
        "--tasks",
        "hotpotqa_tempperturb",
        "--where",
        "temperature=0",
        "--where",
        "context=none",
    ]
    run += [
        "--references",
        str(path),
        "--bert_score_model",
        "none",
        "--gen_kwargs",
        "max_gen_toks=4",
    ]
    assert main([*run, "--output_path", str(tmp_path / "runs")]) == 0
    [result] = (tmp_path / "runs").rglob("results_*.json")
    entry = json.loads(result.read_text())["tcb_bench"]["tasks"]["hotpotqa_tempperturb"]
    assert entry["reference"]["generator"] == rows[0]["generator"]
    assert entry["reference"]["without_answer"] == [
        row["doc_id"] for row in rows if not row["contains_answer"]
    ]
    assert "|bert:none|" in entry["signature"]


def test_a_task_that_compares_nothing_has_no_references(tmp_path, capsys):
    words = ["references", "--model", "demo", "--task", "gsm8k_tcb_zeroshot", "--data", "sample"]
    assert main([*words, "--output_path", str(tmp_path)]) == 2
    assert "compares no texts" in capsys.readouterr().err
