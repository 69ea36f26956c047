"""The sample rows of an entry, read once as a stream: what is wrong, and what the rest needs."""

from __future__ import annotations

import hashlib
import re
import statistics
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tcb_bench.errors import DataError
from tcb_bench.leaderboards.bounds import TOKENS
from tcb_bench.leaderboards.check_rows import STABLE_SLACK, label_problem, row_problems
from tcb_bench.leaderboards.entry import Entry, EntrySample
from tcb_bench.leaderboards.entry_files import Loaded, read_samples
from tcb_bench.leaderboards.untrusted import shown
from tcb_bench.metrics import METRICS
from tcb_bench.metrics.answers import final_number
from tcb_bench.row_tables import MEANS, MEDIANS
from tcb_bench.sample_records import Conflict, ScoreRow

MAX_RESPONSES = 400_000  # of one entry; TempPerturb-Eval has 79,200
MAX_REPEATS = 1000
KEPT = frozenset((*MEDIANS, *MEANS))
KNOWN = frozenset((*METRICS, *TOKENS))
FINGERPRINT = ("p_top1", "v_eff", "nll", "entropy", "flip_radius", "log10_delta_tcb")
PER_KIND = 3  # problems of one kind that are shown
MAX_KINDS = 100  # and so many kinds


class Findings:
    """Problems of one entry; of those of one kind the first few, and how many there are."""

    def __init__(self) -> None:
        """Nothing is wrong yet."""
        self._texts: dict[str, list[str]] = {}
        self._counts: Counter[str] = Counter()

    def add(self, text: str, place: str = "") -> None:
        """``place`` is a document; texts that differ in numbers alone are of one kind."""
        kind = re.split(r"[=<>\d]", text, maxsplit=1)[0][:60]
        if kind not in self._counts and len(self._counts) >= MAX_KINDS:
            kind = "other problems"
        self._counts[kind] += 1
        if self._counts[kind] <= PER_KIND:
            self._texts.setdefault(kind, []).append(f"{place}: {text}" if place else text)

    def lines(self) -> Iterator[str]:
        """The problems, in the order of their kinds' first."""
        for kind, texts in self._texts.items():
            yield from texts
            if (more := self._counts[kind] - len(texts)) > 0:
                yield f"{kind.strip(' :,')}: and {more} more of this kind"


@dataclass(slots=True)
class Cell:
    """What the samples of one condition add up to."""

    documents: list[dict[str, Any]] = field(default_factory=list)
    asked: set[tuple[str, str]] = field(default_factory=set)
    states: Counter[str] = field(default_factory=Counter)
    flags: Counter[str] = field(default_factory=Counter)
    counts: Counter[str] = field(default_factory=Counter)
    text_flags: Counter[str] = field(default_factory=Counter)
    is_changed: bool = False


@dataclass(slots=True)
class Read:
    """A sample file as the other checks need it, without what they do not.

    Attributes:
        cells: condition id -> its samples and sums.
        drawn: task (or member) -> document id -> sha256.
        strata: stratum -> document id -> weight.
        verdicts: (task, document id) -> (answer, whether it counts as right).
        marks: 64-bit hashes of the stability numbers of rows, of whatever document;
            ``text_marks`` of rows without such.
        repeats: how many rows samples have; ``labels`` each distinct label once.
        responses: rows of all samples; ``tokens`` the tokens of all, and without equal repeats;
            ``bills`` those that an API billed.
    """

    cells: dict[str, Cell] = field(default_factory=dict)
    drawn: dict[str, dict[str, str]] = field(default_factory=dict)
    strata: dict[str, dict[str, float]] = field(default_factory=dict)
    verdicts: dict[tuple[str, str], set[tuple[str, bool]]] = field(default_factory=dict)
    marks: set[int] = field(default_factory=set)
    text_marks: set[int] = field(default_factory=set)
    repeats: set[int] = field(default_factory=set)
    labels: dict[Conflict, Conflict] = field(default_factory=dict)
    lines: int = 0
    responses: int = 0
    tokens: Counter[str] = field(default_factory=Counter)
    bills: Counter[str] = field(default_factory=Counter)
    least_tokens: Counter[str] = field(default_factory=Counter)


def read_and_check(loaded: Loaded, findings: Findings) -> Read | None:
    """Reads an entry's samples; None where they cannot be read to the end.

    Memory grows by some 2 KB a response, and there are at most ``MAX_RESPONSES``.
    """
    path, entry, found = loaded.samples, loaded.entry, Read()
    if path is None:
        return None
    if entry.samples.responses > MAX_RESPONSES:
        findings.add(
            f"samples.responses is {entry.samples.responses}; at most {MAX_RESPONSES} are allowed"
        )
        return None
    try:
        for sample in read_samples(path):
            _take(sample, entry, found, findings)
            if found.responses > MAX_RESPONSES or found.lines > entry.samples.rows:
                findings.add(f"samples: more rows than samples.rows = {entry.samples.rows}")
                return None
    except DataError as error:
        findings.add(str(error).removeprefix(f"{shown(path)}: "), "samples")
        return None
    _check_labels(found, findings)
    return found


def _take(sample: EntrySample, entry: Entry, found: Read, findings: Findings) -> None:
    place = _place(sample.doc_id, sample.condition)
    found.lines += 1
    found.responses += len(sample.rows)
    cell = found.cells.setdefault(sample.condition, Cell())
    own = (sample.task, sample.doc_id)
    if own in cell.asked:
        findings.add("this document has two samples in the condition", place)
    cell.asked.add(own)
    sha256 = found.drawn.setdefault(sample.task, {}).setdefault(sample.doc_id, sample.doc_sha256)
    if sha256 != sample.doc_sha256:
        findings.add("doc_sha256 differs from the same document's in another condition", place)
    weight = 1.0 if sample.weight is None else sample.weight
    if sample.stratum is not None:
        known = found.strata.setdefault(sample.stratum, {}).setdefault(sample.doc_id, weight)
        if known != weight:
            findings.add("weight differs from the same document's in another condition", place)
    elif weight != 1.0:
        findings.add("has a weight, but no stratum", place)
    if [row.repeat for row in sample.rows] != list(range(len(sample.rows))):
        findings.add("repeats: expected 0, 1, 2, ... in order, each once", place)
    found.repeats.add(len(sample.rows))
    _add_changes(sample, cell)
    for row in sample.rows:
        for text in row_problems(entry, row):
            findings.add(text, place)
        for name in sorted(row.stability.keys() - KNOWN):
            findings.add(f"stability: unknown quantity {shown(name)}", place)
        cell.states[row.state] += 1
        cell.text_flags.update(row.score_flags or ())
        _add_verdict(own, row, found)
    _add_tokens(sample, found)
    _add_mark(sample, found)
    rows = [_slim(row, found.labels) for row in sample.rows]
    kept = {"task": sample.task, "doc_id": sample.doc_id, "weight": weight, "rows": rows}
    cell.documents.append(kept)


def _place(doc_id: str, condition: str) -> str:
    return shown(f"{doc_id} [{condition}]" if condition else doc_id)


def _slim(row: ScoreRow, labels: dict[Conflict, Conflict]) -> dict[str, Any]:
    """What aggregates are made of; a quantity without a value is left out."""
    values = {k: v for k, v in row.stability.items() if v is not None and k in KEPT}
    kept: dict[str, Any] = {"repeat": row.repeat, "state": row.state, "stability": values}
    kept["acc"], kept["conflict"] = row.acc, labels.setdefault(row.conflict, row.conflict)
    if row.greedy_is_choice is not None:
        kept["greedy_is_choice"] = row.greedy_is_choice
    if row.scores is not None:
        kept["scores"] = {k: v for k, v in row.scores.items() if v is not None}
    return kept


def _add_changes(sample: EntrySample, cell: Cell) -> None:
    for note in (sample.perturbation or {}).values():
        cell.is_changed = True
        cell.flags.update(note.flags)
        for name, value in note.counts.items():
            cell.counts[name] += value  # type: ignore[assignment]


def _add_verdict(own: tuple[str, str], row: ScoreRow, found: Read) -> None:
    if row.answer is None or row.acc not in (0.0, 1.0):
        return
    answer = row.answer if row.choice_logprobs else canonical(row.answer)
    if answer is not None:
        found.verdicts.setdefault(own, set()).add((answer, row.acc == 1.0))


def canonical(answer: str) -> str | None:
    """The number of an answer's text as one text for one value; None where it holds none.

    >>> canonical("9{,}500"), canonical("9500.0")
    ('9500', '9500')
    """
    number = final_number(answer[:200])
    return None if number is None else f"{number.value.normalize():f}"


def _add_tokens(sample: EntrySample, found: Read) -> None:
    """Tokens of all rows; and of different rows only, since an equal repeat may be a reused one."""
    seen = []
    for row in sample.rows:
        if row.usage is not None:
            found.bills.update({k: v or 0 for k, v in row.usage.model_dump().items()})
        same = (row.prompt_tokens, row.completion_tokens, row.stability, row.scores, row.answer)
        tokens = {"prompt_tokens": row.prompt_tokens or 0}
        tokens["completion_tokens"] = row.completion_tokens or 0
        found.tokens.update(tokens)
        if same not in seen:
            seen.append(same)
            found.least_tokens.update(tokens)


def _add_mark(sample: EntrySample, found: Read) -> None:
    """Hashes of each row's numbers at five digits: a copy keeps most of them under any noise.

    Rows without stability (of an API, empty texts) say little: models share them by chance.
    """
    for row in sample.rows:
        values = [row.stability.get(name) for name in FINGERPRINT]
        if None not in values:
            found.marks.add(_hash64(" ".join(f"{value:.5g}" for value in values)))
        elif row.state != "empty":
            counts = (row.prompt_tokens, row.completion_tokens)
            scores = sorted((row.scores or {}).items())
            told = (sample.doc_id, row.state, row.answer, row.acc, *counts, scores)
            found.text_marks.add(_hash64(repr(told)))


def _hash64(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest())


def _check_labels(found: Read, findings: Findings) -> None:
    """The labels against the rows' numbers; stable is relative to the median of the own task."""
    radii: dict[str, list[float]] = {}
    for _, document, row in _rows(found):
        radius = row["stability"].get("relative_flip_radius")
        if radius is not None:
            radii.setdefault(document["task"], []).append(radius)
    stable_at = {task: statistics.median(own) * (1 - STABLE_SLACK) for task, own in radii.items()}
    for condition, document, row in _rows(found):
        given: Conflict = row.pop("conflict")
        text = label_problem(row, stable_at.get(document["task"], 0.0), given)
        if text:
            findings.add(text, _place(document["doc_id"], condition))


def _rows(found: Read) -> Iterator[tuple[str, Mapping[str, Any], dict[str, Any]]]:
    for condition, cell in found.cells.items():
        for document in cell.documents:
            for row in document["rows"]:
                yield condition, document, row
