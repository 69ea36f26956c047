"""A small real run for the tests of `submit`: a random model of two layers, the whole engine."""

import json
import shutil

import pytest
from run_tools import QUESTIONS, SWEEP

MODEL_ID = "tests/tiny-llama"


@pytest.fixture(scope="session")
def tiny_run(tmp_path_factory):
    """Run folder: a partial group and GSM8K asked first, then a sweep whose answers are texts."""
    import torch
    from toy_models import byte_tokenizer, toy

    from tcb_bench.config import RunConfig, TaskOptions
    from tcb_bench.run import run

    torch.set_num_threads(1)
    home = tmp_path_factory.mktemp("tiny")
    lines = (f"{json.dumps(question)}\n" for question in QUESTIONS)
    (home / "phrases.jsonl").write_text("".join(lines))
    (home / "phrases.yaml").write_text(SWEEP)
    model = home / "weights"
    toy(max_position_embeddings=4096).save_pretrained(model)
    byte_tokenizer().save_pretrained(model)

    def ask(*tasks, **options):
        return run(
            RunConfig(
                model=f"hf/{model}",
                tasks=tasks,
                include_path=(home,),
                output_path=home / "runs",
                device="cpu",
                options=TaskOptions(data="sample", **options),
            )
        )

    ask("mmlu_tcb", "gsm8k_tcb", limit=2, gen_kwargs={"max_gen_toks": 6})
    return ask("phrases").path.parent


@pytest.fixture
def own_run(tiny_run, tmp_path):
    """A copy of it that a test may change."""
    return shutil.copytree(tiny_run, tmp_path / "run")


def submission(**changes):
    from tcb_bench.leaderboards.submit import Submission

    return Submission(**{"model_id": MODEL_ID, "submitted_by": "tests", **changes})


def written(run, task, root, **changes):
    """The entry of one task of a run, written under ``root``."""
    from tcb_bench.leaderboards.entry_files import Loaded
    from tcb_bench.leaderboards.submit import write_entry_of
    from tcb_bench.leaderboards.submit_results import find_tasks

    [found] = find_tasks(run, [task])
    return Loaded(*write_entry_of(found.path, task, root, submission(**changes)))
