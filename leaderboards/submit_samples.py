"""A run's sample rows as an entry has them: numbers and hashes, no text of anyone."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from tcb_bench.errors import DataError
from tcb_bench.leaderboards.entry import EntrySample
from tcb_bench.leaderboards.entry_files import first_problem
from tcb_bench.leaderboards.submit_results import run_samples
from tcb_bench.records import ResultFile
from tcb_bench.sample_records import ScoreRow

READ_ANSWERS = ("choice", "final_number")
"""Kinds of answers that are a letter or a number; every other answer is a text and left out."""

LONGEST_ANSWER = 64
NUMBER_WORDS = re.compile(r"\\[dt]?frac|(?<=\d)[eE](?=[-+]?\d)")
REASONS = (
    (r"no number found in the answer", None),
    (r"no (?:final_number|first|last) token", None),
    (r"not finite: [a-z0-9_]+(?:, [a-z0-9_]+)*", None),
    (r"the task has no choices, so nothing is right or wrong", None),
    (r"not a response of this task", None),
    (r"the critical position is token .*", "the critical position was not kept"),
    (r"not answered yet.*", "not answered yet"),
    (r"out of memory.*", "out of memory"),
    (r"the prompt has .* tokens.*", "the prompt is longer than the model reads"),
    (r"the model's final hidden state or logits are not finite.*", "not finite: hidden state"),
)
"""Texts that a reason may be, and what an entry says instead where that may hold a name."""

FINISHED = ("stop", "length")


def entry_samples(
    result_path: Path, result: ResultFile, tasks: Sequence[str]
) -> Iterator[EntrySample]:
    """The samples of ``tasks`` (a task, or the members of a group) in the run's order."""
    for task in tasks:
        keeps = answer_kind(result.configs.get(task, {})) in READ_ANSWERS
        for sample in run_samples(result_path, [task]):
            yield without_text(sample, keeps_answer=keeps)


def answer_kind(config: Mapping[str, Any]) -> str:
    """How a task reads answers: as its YAML says, else by what it asks."""
    own = config.get("tcb") or {}
    if "answer" in own:
        return str(own["answer"])
    if own.get("request") == "next_token":
        return "choice"
    is_number = own.get("position", "final_number") == "final_number"
    return "final_number" if own.get("request") == "generate_traced" and is_number else "exact"


def without_text(sample: Mapping[str, Any], *, keeps_answer: bool = True) -> EntrySample:
    """A run's sample row with nothing of the question, the context or the response.

    Args:
        sample: the row.
        keeps_answer: whether an answer is a letter or a number, which alone may stay.

    Raises:
        DataError: the row is not one of this version.
    """
    own = {key: sample[key] for key in EntrySample.model_fields if key in sample and key != "rows"}
    rows = [_row(row, keeps_answer) for row in sample.get("rows", ())]
    try:
        return EntrySample.model_validate({**own, "rows": rows})
    except ValidationError as error:
        raise DataError(
            f"sample {sample.get('doc_id')!r}: {first_problem(error)}; "
            "`tcb-bench score RUN` writes the samples again"
        ) from None


def _row(row: Mapping[str, Any], keeps_answer: bool) -> dict[str, Any]:
    kept = {key: row[key] for key in ScoreRow.model_fields if key in row}
    answer, ended = row.get("answer"), row.get("finish_reason")
    kept["answer"] = answer if keeps_answer and answer is not None and is_read(answer) else None
    kept["reason"] = known_reason(row.get("reason"), row.get("state", ""))
    if ended is not None:
        kept["finish_reason"] = ended if ended in FINISHED else "other"
    return kept


def is_read(answer: str) -> bool:
    """Whether an answer is one letter or a number, not a text.

    >>> [is_read(answer) for answer in ("B", "-9{,}500", "1e5", "Paris", "5 Main St")]
    [True, True, True, False, False]
    """
    if re.fullmatch("[A-Z]", answer):
        return True
    rest = NUMBER_WORDS.sub("", answer)
    has_letters = re.search(r"[^\W\d_]", rest) is not None
    return len(answer) <= LONGEST_ANSWER and not has_letters and any(map(str.isdecimal, rest))


def known_reason(reason: str | None, state: str) -> str | None:
    """Our own words for why something is null; of a provider's message only the kind.

    >>> known_reason("HTTP 401: key sk-1234 of user jo is not valid", "error")
    'error'
    """
    if reason is None:
        return None
    for pattern, said in REASONS:
        if re.fullmatch(pattern, reason, re.DOTALL):
            return said or reason
    return state if state in ("error", "filtered", "unscored") else "other"
