"""scripts/verify_cuda: passes here on a CPU, and fails when something is broken on purpose."""

import subprocess
import sys

import pytest
import torch
import transformers
from conftest import ROOT

sys.path.insert(0, str(ROOT / "scripts"))

import plain_oracle  # noqa: E402
import random_llama  # noqa: E402
import verify_compare  # noqa: E402
import verify_costs  # noqa: E402
import verify_cuda  # noqa: E402

from tcb_bench.metrics.delta_tcb import token_stability  # noqa: E402
from tcb_bench.models.hf_capture import Capture  # noqa: E402
from tcb_bench.models.hf_engine import Engine  # noqa: E402

SCRIPT = ROOT / "scripts" / "verify_cuda.sh"
CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def bench():
    return random_llama.Bench(random_llama.TINY, torch.bfloat16, CPU)


def failures(check, *given):
    """Names of the lines that a check printed as FAILED."""
    report = verify_compare.Report()
    check(report, *given)
    assert report.n_checks > 0
    return report.failed


@pytest.mark.slow
def test_all_checks_pass_on_a_cpu_with_a_tiny_model():
    command = [str(SCRIPT), "--tiny", "--device", "cpu"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    checks = [line for line in lines if line.startswith(("ok", "FAILED"))]
    assert len(checks) > 20
    assert all(line.startswith("ok ") for line in checks)
    assert all("(limit " in line or "(expected " in line for line in checks)
    assert lines[-1].startswith(f"all checks passed ({len(checks)} checks, ")
    *_, machine, software, verified, not_verified, _ = lines
    assert "no GPU was used" in machine
    assert torch.__version__ in software
    assert transformers.__version__ in software
    assert verified.startswith("verified: the hf back end in bfloat16")
    assert not_verified.startswith("not verified: trained weights")


def test_without_a_gpu_one_line_says_what_is_missing_and_how_to_try(monkeypatch, capsys):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert verify_cuda.main([]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert len(shown.err.splitlines()) == 1
    assert "sees no CUDA GPU" in shown.err
    assert "scripts/verify_cuda.sh --tiny --device cpu" in shown.err


def test_the_full_model_is_refused_on_a_cpu(capsys):
    assert verify_cuda.main(["--device", "cpu"]) == 2
    assert "--tiny" in capsys.readouterr().err


def test_the_script_shows_its_help_from_any_folder(tmp_path):
    done = subprocess.run([str(SCRIPT), "--help"], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "--tiny" in done.stdout


def test_the_script_says_which_python_lacks_the_package(tmp_path):
    bare = tmp_path / "python"
    bare.write_text("#!/bin/sh\nexit 1\n")
    bare.chmod(0o755)
    given = {"PYTHON": str(bare), "PATH": "/usr/bin:/bin"}
    done = subprocess.run([str(SCRIPT)], capture_output=True, text=True, env=given)
    assert done.returncode == 2
    assert f"{bare} cannot import tcb_bench" in done.stderr


def test_the_full_model_has_the_size_and_settings_of_llama_3_1_8b():
    config = random_llama.config_of(random_llama.FULL.shape)
    with torch.device("meta"):
        model = transformers.LlamaForCausalLM(config)
    assert sum(weight.numel() for weight in model.parameters()) == 8_030_261_248  # its model card
    assert random_llama.FULL.n_parameters == 8_030_261_248
    assert (config.bos_token_id, config.eos_token_id) == (128000, 128001)
    assert (config.max_position_embeddings, config.rms_norm_eps) == (131072, 1e-5)
    assert config.tie_word_embeddings is False
    assert len(random_llama.tokenizer_of(128256)) == 128256


def test_the_oracle_equals_autograds_jacobian_and_moves_across_the_flip():
    torch.manual_seed(0)
    weight = torch.randn(37, 5, dtype=torch.float64)
    hidden = torch.randn(6, 5, dtype=torch.float64)
    found = plain_oracle.truth(hidden, weight, rows=10)
    for i, h in enumerate(hidden):
        jacobian = torch.autograd.functional.jacobian(lambda x: torch.softmax(weight @ x, 0), h)
        assert 10 ** -found.log10_delta[i] == pytest.approx(jacobian.norm().item(), rel=1e-12)
        z = weight @ h
        others = [j for j in range(37) if j != int(z.argmax())]
        gaps = [(z.max() - z[j]) / (weight[z.argmax()] - weight[j]).norm() for j in others]
        nearest = others[int(torch.stack(gaps).argmin())]
        away = weight[nearest] - weight[z.argmax()]
        for share, same in ((0.999, True), (1.001, False)):
            moved = weight @ (h + share * found.flip[i] * away / away.norm())
            assert (moved.argmax() == found.top1[i]) == same
    logprobs = torch.log_softmax(hidden @ weight.T, 1)
    assert torch.allclose(found.logprobs, logprobs, rtol=0, atol=1e-12)


def test_states_alone_and_padded_are_the_same_in_float32():
    model = random_llama.random_model(random_llama.TINY.shape, torch.float32, CPU)
    sequences = [[1, 2, 3], [7] * 20, list(range(11))]
    padded = plain_oracle.last_states(model, sequences)
    for tokens, state in zip(sequences, padded, strict=True):
        whole = model.model(torch.tensor([tokens])).last_hidden_state[0, -1]
        assert torch.allclose(state, whole, rtol=0, atol=1e-4)


@pytest.mark.slow
def test_states_of_another_row_are_noticed(bench, monkeypatch):
    add = Capture.add
    monkeypatch.setattr(Capture, "add", lambda self, state: add(self, state.roll(1, 0)))
    failed = failures(verify_cuda.check_engine, bench)
    assert "engine against the oracle, log-probabilities, largest difference" in failed
    assert "engine against the oracle, other top-1 tokens" in failed


@pytest.mark.slow
def test_padding_that_is_read_as_text_is_noticed(bench, monkeypatch):
    inputs = Engine.inputs

    def unmasked(self, prompts):
        given = inputs(self, prompts)
        return {**given, "attention_mask": torch.ones_like(given["attention_mask"])}

    monkeypatch.setattr(Engine, "inputs", unmasked)
    failed = failures(verify_cuda.check_engine, bench)
    assert "a prompt alone against in a batch, log-probabilities, largest difference" in failed


def test_a_metric_that_is_off_by_a_thousandth_is_noticed(bench, monkeypatch):
    states = plain_oracle.last_states(bench.model, [[1, 2, 3], [4, 5]])
    assert failures(verify_cuda.check_metric, bench, states) == []

    def scaled(hidden, weight):
        return token_stability(hidden, weight, eps=1.001)

    monkeypatch.setattr(verify_cuda, "token_stability", scaled)
    assert failures(verify_cuda.check_metric, bench, states) == [
        "metric on 6 states, log10 delta_tcb"
    ]


def test_a_metric_that_holds_rows_times_vocabulary_times_width_is_noticed(bench, monkeypatch):
    def wasteful(hidden, head):
        torch.empty(len(hidden), *head.weight.shape)
        return token_stability(hidden, head)

    states = torch.ones(4, bench.head.shape[1], dtype=torch.bfloat16)
    assert failures(verify_costs.check_memory, bench, states) == []
    monkeypatch.setattr(verify_costs, "token_stability", wasteful)
    assert failures(verify_costs.check_memory, bench, states) == [
        "memory of the metric on 512 states, MiB"
    ]


def test_a_check_that_breaks_is_a_failed_check_and_others_still_run(monkeypatch, capsys):
    ran = []

    def broken(*_):
        raise RuntimeError("no kernel image is available")

    monkeypatch.setattr(verify_cuda, "Bench", broken)
    monkeypatch.setattr(verify_cuda, "check_float32", lambda *_: ran.append(True))
    assert verify_cuda.main(["--tiny", "--device", "cpu"]) == 1
    shown = capsys.readouterr().out
    assert "FAILED model in bfloat16: RuntimeError: no kernel image is available" in shown
    assert "all checks passed" not in shown
    assert ran
