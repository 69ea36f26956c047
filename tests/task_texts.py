"""Task files that tests write, and what the strict reader says of them."""

import pytest

from tcb_bench.errors import UsageError
from tcb_bench.task_yaml import read_strict

BASE = """\
class: !function tcb_bench.task.TcbTask
task: mine
dataset_path: json
dataset_kwargs: {data_files: rows.jsonl}
test_split: train
doc_to_text: "{{question}}"
doc_to_target: answer
generation_kwargs: {until: ["\\n"]}
metadata: {version: 1}
"""
TRACED = BASE + "tcb: {request: generate_traced}\n"  # the 10th line is the mapping `tcb`
HUB = TRACED.replace("json\ndataset_kwargs: {data_files: rows.jsonl}", "some/data")


def write(folder, text, name="mine.yaml"):
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def refusal(path):
    with pytest.raises(UsageError) as caught:
        read_strict(path)
    assert "\n" not in str(caught.value)
    return str(caught.value).removeprefix(str(path.parent) + "/")
