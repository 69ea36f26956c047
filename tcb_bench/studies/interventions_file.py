"""A file of interventions: rows and their example sets, read strictly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tcb_bench.data_files import read_jsonl
from tcb_bench.errors import DataError, UnknownName, UsageError
from tcb_bench.results import digest
from tcb_bench.strict_yaml import nearest, parse, wrong

HERE = Path(__file__).parent
SETS = ("algebraic", "arithmetic", "hyper_specific")
"""Example sets of our own that ship, one JSONL each; questions of their own, no GSM8K text."""

TEXTS = ("description", "question_suffix", "prefix", "cue", "instruction", "shots")
PAPER = ("acc", "delta_tcb", "v_eff", "logit_margin")
FILE_KEYS = ("version", "written_for", "headline", "note", "rows")

Shot = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Intervention:
    """One row: what is done to the prompt.

    Attributes:
        description: its name in tables, unique in its file.
        shots: the pool of examples; the seed orders it.
        shots_name: the set's name, or its path.
        n_shots: how many of the pool a prompt shows.
        question_suffix: put behind the question, after a blank.
        prefix: an instruction put directly before the cue of the new question.
        cue: the sentence that opens each answer, of examples too; None = the task's own.
        instruction: in place of the task's description; None = the task's own.
        paper: the paper's figures of this row, on LLaMA-3.1-8B.
    """

    description: str
    shots: tuple[Shot, ...] = ()
    shots_name: str = "none"
    n_shots: int = 0
    question_suffix: str = ""
    prefix: str = ""
    cue: str | None = None
    instruction: str | None = None
    paper: Mapping[str, float] = field(default_factory=dict)

    def record(self) -> dict[str, Any]:
        """All that makes the prompt, JSON types."""
        names = ("description", "n_shots", "question_suffix", "prefix", "cue", "instruction")
        own = {name: getattr(self, name) for name in names}
        return {**own, "shots": self.shots_name, "examples": [dict(shot) for shot in self.shots]}


@dataclass(frozen=True, slots=True, kw_only=True)
class Interventions:
    """A whole file: its rows, row 1 the baseline that the others are compared with.

    Attributes:
        name: of the file.
        rows: in order, numbered from 1.
        written_for: the document id that its texts speak of, if they do.
        headline: number of the row that asks whether a clarification lowers accuracy and raises
            delta_tcb, against row 1; None = no row does.
        note: shown where ``written_for`` is among the items.
    """

    name: str
    rows: tuple[Intervention, ...]
    written_for: str | None = None
    headline: int | None = None
    note: str = ""

    @property
    def sha256(self) -> str:
        """Of everything that reaches a prompt."""
        return digest([row.record() for row in self.rows])


def read_interventions(given: str) -> Interventions:
    """The file of that path, else the shipped one of that name.

    Raises:
        UsageError: not there, not YAML, a key that is not known (with the nearest), a value of
            another kind, or a description given twice.
        DataError: an example set that cannot be read.
    """
    path = _existing(given)
    config = parse(path, path.name).config
    for key in config:
        if key not in FILE_KEYS:
            raise wrong(path.name, f"no key {key!r}", nearest(key, FILE_KEYS, _list(FILE_KEYS)))
    rows = config.get("rows")
    if not isinstance(rows, list) or not rows:
        raise wrong(path.name, "no rows", "expected `rows:` and a list of interventions")
    found = tuple(_row(row, f"{path.name}: row {i}", path) for i, row in enumerate(rows, 1))
    names = [row.description for row in found]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise wrong(path.name, f"description {twice!r} is given twice", "expected one name a row")
    return Interventions(
        name=path.name,
        rows=found,
        written_for=_text(config, "written_for", path.name),
        headline=_headline(config.get("headline"), len(found), path.name),
        note=_text(config, "note", path.name) or "",
    )


def _existing(given: str) -> Path:
    for path in (Path(given), HERE / given):
        if path.is_file():
            return path
    shipped = sorted(p.name for p in HERE.glob("interventions_*.yaml"))
    raise UsageError(
        f"--interventions {given}: no such file; give a path, or a shipped one: "
        f"{', '.join(shipped)}"
    )


def _row(row: Any, at: str, path: Path) -> Intervention:
    known = (*TEXTS, "n_shots", "paper")
    if not isinstance(row, dict):
        raise wrong(at, f"{row!r} is no mapping", f"expected keys of {_list(known)}")
    for key in row:
        if key not in known:
            raise wrong(at, f"no key {key!r}", nearest(key, known, f"keys: {_list(known)}"))
    texts = {key: _text(row, key, at) for key in TEXTS}
    if not (texts["description"] or "").strip():
        raise wrong(at, "no description", "expected a name for the row, as `description: ...`")
    name = texts.pop("shots") or "none"
    shots = _shots(name, at, path.parent)
    given = {key: value for key, value in texts.items() if value is not None}
    n_shots = _n_shots(row.get("n_shots"), len(shots), at)
    paper = _paper(row.get("paper"), at)
    return Intervention(**given, shots=shots, shots_name=name, n_shots=n_shots, paper=paper)


def _text(mapping: Mapping[str, Any], key: str, at: str) -> str | None:
    value = mapping.get(key)
    if value is not None and not isinstance(value, str):
        raise wrong(at, f"{key}: {value!r} is no text", "expected a text (use quotes)")
    return value


def _shots(name: str, at: str, folder: Path) -> tuple[Shot, ...]:
    if name == "none":
        return ()
    path = HERE / f"interventions_{name}.jsonl" if name in SETS else folder / name
    if name not in SETS and path.suffix != ".jsonl":
        raise UnknownName(f"set of examples in {at}:", name, (*SETS, "none"), _list_shots())
    shots = read_jsonl(path)
    if not shots or not all(isinstance(shot, dict) for shot in shots):
        raise DataError(f"{at}: {path}: expected one JSON object per line, with the task's columns")
    return tuple(shots)


def _list_shots() -> str:
    return f"give {_list((*SETS, 'none'))} or a path that ends in .jsonl"


def _n_shots(value: Any, pool: int, at: str) -> int:
    if value is None:
        return pool
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= pool:
        raise wrong(at, f"n_shots: {value!r}", f"expected a whole number from 0 to {pool}, the set")
    return value


def _paper(value: Any, at: str) -> dict[str, float]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise wrong(at, f"paper: {value!r}", f"expected a mapping of {_list(PAPER)}")
    for key, number in value.items():
        if key not in PAPER:
            raise wrong(at, f"paper: no key {key!r}", nearest(key, PAPER, _list(PAPER)))
        if isinstance(number, bool) or not isinstance(number, int | float):
            raise wrong(at, f"paper: {key}: {number!r} is no number", "expected a number")
    return {key: float(number) for key, number in value.items()}


def _headline(value: Any, n: int, at: str) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 2 <= value <= n:
        raise wrong(at, f"headline: {value!r}", f"expected the number of a row, from 2 to {n}")
    return value


def _list(names: Sequence[str]) -> str:
    return ", ".join(names)
