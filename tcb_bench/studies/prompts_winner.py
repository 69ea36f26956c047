"""The winning prompt as a task of its own, checked to give the prompts that were scored."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from tcb_bench.data import ID_COLUMN
from tcb_bench.errors import TcbBenchError
from tcb_bench.studies.prompts_ask import Asker, Question
from tcb_bench.studies.prompts_space import Prompt
from tcb_bench.studies.prompts_task import SUFFIX, write_group, write_variant

WINNER = "winner.yaml"


def write_winner(asker: Asker, prompt: Prompt) -> Path:
    """Writes ``winner.yaml``: the task with this prompt, or a group of tasks with it.

    Of several tasks each has a file of its own beside it; examples lie in JSONL files.

    Raises:
        TcbBenchError: the file does not give the very prompts that were scored.
    """
    session = asker.session
    for old in (*session.folder.glob("winner*.yaml"), *session.folder.glob("winner*.jsonl")):
        old.unlink()
    target = session.folder / WINNER
    is_one = len(asker.bases) == 1
    for base in asker.bases:
        own = target if is_one else session.folder / f"winner_{base.name}.yaml"
        write_variant(base, prompt, asker.space, session.seed, own)
    names = [base.new_name for base in asker.bases]
    if not is_one:
        write_group(names, _group_name(session.config.tasks), target)
    _check(asker, prompt, names)
    return target


def _group_name(tasks: Sequence[str]) -> str:
    name = tasks[0] if len(tasks) == 1 else ""
    return f"{name}{SUFFIX}" if re.fullmatch(r"[A-Za-z0-9._+-]{1,100}", name) else "winner"


def _check(asker: Asker, prompt: Prompt, names: Sequence[str]) -> None:
    session = asker.session
    config = session.config
    include = replace(config, include_path=(*config.include_path, session.folder))
    found = replace(session, config=include, data={}).load(names, limit=asker.limit).tasks
    given: dict[Question, str] = {}
    for base in asker.bases:
        for request in session.prompts(found[base.new_name]):
            given[base.name, str(request.doc[ID_COLUMN])] = str(request.args[0])
    if given != asker.texts(prompt, asker.questions):
        raise TcbBenchError(
            f"{session.folder / WINNER} does not give the prompts that were scored; this is a "
            "fault of tcb-bench: please report it with the task's YAML"
        )
