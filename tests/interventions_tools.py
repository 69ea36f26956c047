"""Sessions without a model and files of interventions, shared by the tests of that study."""

import json

from tcb_bench.config import RunConfig, TaskOptions
from tcb_bench.studies.session import Session
from tcb_bench.studies.settings import read_settings

SHOTS = [
    {"question": f"Q{i}?", "target": f"It is {i}. The final answer is \\boxed{{{i}}}."}
    for i in "123"
]


def session_in(folder, item="test/5", **over):
    """A session without a model: prompts need none."""
    settings = read_settings("interventions", None, {"item": item, **over})
    config = RunConfig(model="demo", tasks=("gsm8k_tcb",), options=TaskOptions(data="sample"))
    return Session(
        name="interventions",
        config=config,
        settings=settings,
        folder=folder,
        start=lambda: None,
        say=lambda line: None,
    )


def file_in(folder, rows, **more):
    """A file with these rows, its path; beside it mine.jsonl with three examples."""
    (folder / "mine.jsonl").write_text("".join(json.dumps(shot) + "\n" for shot in SHOTS))
    path = folder / "mine.yaml"
    path.write_text(json.dumps({"rows": rows, **more}))  # JSON is YAML
    return str(path)
