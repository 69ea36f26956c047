"""The command line: one clear line and the right exit code for everything a user can get wrong."""

import json
import subprocess
import sys

import pytest

from tcb_bench.__main__ import main
from tcb_bench.cli import parse_pairs
from tcb_bench.config import mask_secrets
from tcb_bench.errors import UsageError


def failed(capsys, *words):
    """(exit code, the one line on stderr) of a command that fails."""
    code = main(list(words))
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 1, lines
    assert lines[0].startswith("tcb-bench: ")
    return code, lines[0]


@pytest.mark.parametrize(
    ("words", "code", "part"),
    [
        (["runn"], 2, "did you mean run?"),
        (["run", "--modle", "demo"], 2, "did you mean --model?"),
        (["run", "--limit", "many"], 2, "--limit"),
        (["ls", "taks"], 2, "did you mean tasks?"),
        (["run", "--tasks", "gms8k_tcb", "--data", "sample"], 2, "did you mean 'gsm8k_tcb'"),
        (["run", "--tasks", "", "--data", "sample"], 2, "no tasks given"),
        (["run", "--data", ""], 2, "--data: it is empty"),
        (["run", "--output_path", " "], 2, "--output_path: it is empty"),
        (["run", "--dtype", "flaot32"], 2, "did you mean float32?"),
        (["trace", "--prompt", ""], 2, "--prompt: it is empty"),
        (["run", "--limit", "0"], 2, "--limit 0 takes no document"),
        (["run", "--limit", "-3"], 2, "--limit -3"),
        (
            ["run", "--limit", "1.5", "--tasks", "gsm8k_tcb", "--data", "sample"],
            2,
            "neither whole nor a share",
        ),
        (["run", "--seed", "-1"], 2, "--seed -1"),
        (["run", "--batch_size", "0"], 2, "--batch_size '0'"),
        (["run", "--num_fewshot", "-1"], 2, "--num_fewshot -1"),
        (
            ["run", "--num_fewshot", "9", "--tasks", "gsm8k_tcb", "--data", "sample"],
            2,
            "the pool has 5",
        ),
        (["run", "--gen_kwargs", "temprature=1"], 2, "did you mean 'temperature'"),
        (["run", "--gen_kwargs", "temperature=hot"], 2, "temperature='hot' is not a number"),
        (["run", "--gen_kwargs", "temperature=-1"], 2, "outside [0, inf]"),
        (["run", "--gen_kwargs", "temperature"], 2, "is not name=value"),
        (["run", "--fewshot_as_multiturn"], 2, "needs --apply_chat_template"),
        (["run", "--include_path", "/nowhere", "--data", "sample"], 2, "/nowhere"),
        (["run", "--data", "/nowhere", "--tasks", "gsm8k_tcb"], 1, "no such folder"),
        (["score", "/nowhere"], 1, "give the folder of a run"),
        (["validate", "nothing.yaml"], 2, "no such file"),
        (["validate", "mmlu_tbc"], 2, "did you mean 'mmlu_tcb'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_a_wrong_command_is_one_line_with_the_right_exit_code(capsys, tmp_path, words, code, part):
    if words[0] == "run" and "--output_path" not in words:
        words = [*words, "--output_path", str(tmp_path)]
    found, line = failed(capsys, *words)
    assert part in line
    assert found == code


@pytest.mark.parametrize(
    ("model", "code", "part"),
    [
        ("demmo", 2, "did you mean 'demo'"),
        ("hf/./no/such/folder", 1, "no folder"),
        ("hf", 2, "write --model hf/"),
    ],
)
def test_a_wrong_model_is_one_line(capsys, tmp_path, model, code, part):
    words = (
        "run",
        "--model",
        model,
        "--tasks",
        "gsm8k_tcb",
        "--data",
        "sample",
        "--output_path",
        str(tmp_path),
    )
    done = subprocess.run(
        [sys.executable, "-m", "tcb_bench", *words], capture_output=True, text=True
    )
    assert done.returncode == code, done.stderr
    assert part in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr


def test_pairs_are_literals_where_they_are_such():
    assert parse_pairs("temperature=0.6, top_k=5,until=End", "--gen_kwargs") == {
        "temperature": 0.6,
        "top_k": 5,
        "until": "End",
    }
    with pytest.raises(UsageError, match="given twice"):
        parse_pairs("a=1,a=2", "--gen_kwargs")


@pytest.mark.parametrize(
    "text",
    [
        "pretrained=x,api_key=sk-canary,token=hf_canary,api_keys=canary",
        '{"pretrained": "x", "token": "hf_canary", "hf_token": "canary"}',
        'pretrained=x,token="aa,canary",password=[1,"canary"]',
    ],
)
def test_secrets_in_model_args_are_masked_in_every_form(text):
    assert "canary" not in mask_secrets(text)
    assert "think_end_token=</think>" in mask_secrets("pretrained=x,think_end_token=</think>")


def test_a_closed_pipe_is_no_error():
    script = f"{sys.executable} -m tcb_bench ls tasks | head -1"
    done = subprocess.run(["bash", "-o", "pipefail", "-c", script], capture_output=True, text=True)
    assert done.stderr == ""


def test_ls_finds_by_text_and_by_user_folder(capsys, tmp_path):
    (tmp_path / "mine.yaml").write_text(
        "task: mine\nclass: !function tcb_bench.task.TcbTask\ndataset_path: json\n"
        "dataset_kwargs: {data_files: {test: a.jsonl}}\ntest_split: test\ndoc_to_text: x\n"
        "tcb: {request: next_token}\nmetadata: {version: 3, license: MIT, description: my own}\n"
    )
    assert main(["ls", "tasks", "my own", "--include_path", str(tmp_path)]) == 0
    assert "1 tasks with 'my own'" in capsys.readouterr().out


def test_validate_shows_prompt_expected_answer_and_critical_point(capsys):
    assert main(["validate", "mmlu_tcb_philosophy", "--data", "sample"]) == 0
    shown = capsys.readouterr().out
    assert "Answer: <- critical point: ' A', ' B', ' C', ' D'" in shown
    assert "expected   '" in shown
    assert "1 task(s) valid" in shown


@pytest.mark.parametrize(("limit", "n"), [("1", 1), ("0.1", 3), ("1000", 30)])
def test_a_limit_takes_what_it_says_and_at_most_all(capsys, limit, n):
    assert main(["validate", "gsm8k_tcb_zeroshot", "--data", "sample", "--limit", limit]) == 0
    assert f"documents  {n} of 30" in capsys.readouterr().out


def test_a_tasks_own_gold_that_would_not_score_is_refused(capsys, tmp_path):
    (tmp_path / "d.jsonl").write_text(json.dumps({"q": "1+1", "a": "two"}) + "\n")
    (tmp_path / "t.yaml").write_text(
        "task: t\nclass: !function tcb_bench.task.TcbTask\ndataset_path: json\n"
        "dataset_kwargs: {data_files: {test: d.jsonl}}\ntest_split: test\ndoc_to_text: q\n"
        "doc_to_target: a\ntcb: {request: generate_traced}\ngeneration_kwargs: {until: []}\n"
        "metadata: {version: 1, license: MIT}\n"
    )
    assert main(["validate", str(tmp_path / "t.yaml")]) == 1
    assert "gold answer 'two' has no number; use `answer: exact`" in capsys.readouterr().err


@pytest.mark.parametrize("study", ["geometry", "dynamics"])
def test_the_tasks_of_a_study_are_those_that_were_asked(study):
    from tcb_bench.cli import study_settings
    from tcb_bench.parser import build_parser

    words = ["study", study, "--tasks", "gsm8k_tcb, dpd_tcb"]
    settings = study_settings(build_parser().parse_args(words))
    assert settings["tasks"] == ["gsm8k_tcb", "dpd_tcb"]  # study.json shows them
