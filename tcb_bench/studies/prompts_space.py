"""The space of prompts: what a YAML offers, one prompt of it, and the moves between prompts."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tcb_bench.data_files import read_jsonl
from tcb_bench.errors import UnknownName, UsageError
from tcb_bench.results import digest
from tcb_bench.strict_yaml import parse

HERE = Path(__file__).parent
OWN = "own"
"""The set of examples that is the task's own."""

TEXTS = ("instructions", "directives", "reflections", "phrasings")
KEYS = (*TEXTS, "directive_place", "n_shots", "orders", "shots")
SLOTS = {"instruction": "instructions", "directive": "directives", "reflection": "reflections"}
"""Field of a prompt that holds a text -> where the space lists its values."""

MAX_DRAWS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """One prompt: what is put to the task's own fields. All empty is the task's zero-shot prompt.

    Attributes:
        instruction: at the end of the description; ``reflection`` stands behind it.
        directive: a line of its own before or after the question's text.
        shots: name of the set of examples; ``n_shots`` of them are shown.
        order: 0 = the set as it is; others are seeded orders of all of it, so that they choose too.
    """

    instruction: str = ""
    directive: str = ""
    reflection: str = ""
    shots: str = OWN
    n_shots: int = 0
    order: int = 0

    @property
    def fields(self) -> dict[str, Any]:
        """As JSON types."""
        texts = {name: getattr(self, name) for name in SLOTS}
        return {**texts, "shots": self.shots, "n_shots": self.n_shots, "order": self.order}

    @property
    def key(self) -> str:
        """A short name, the same for the same prompt."""
        return digest(self.fields)[:12]

    def __str__(self) -> str:
        """What differs from the bare task, for tables."""
        parts = [getattr(self, name) for name in SLOTS if getattr(self, name)]
        if self.n_shots:
            parts.append(f"{self.n_shots} of {self.shots}, order {self.order}")
        return " | ".join(parts) or "zero-shot, nothing added"


@dataclass(frozen=True, slots=True)
class ShotSet:
    """Examples by name: rows (None: the task's own) and what to change in its fewshot_config."""

    rows: tuple[Mapping[str, Any], ...] | None
    config: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Space:
    """Everything a prompt may be made of; ``sizes`` is the usable number of examples per set."""

    texts: Mapping[str, tuple[str, ...]]
    is_directive_first: bool
    n_shots: tuple[int, ...]
    orders: int
    shots: Mapping[str, ShotSet]
    sizes: Mapping[str, int] = field(default_factory=dict)
    content: Mapping[str, Any] = field(default_factory=dict)
    is_shipped: bool = False

    def code(self, prompt: Prompt) -> str:
        """The prompt in short: ``I2 R1 4 own/0``, numbers being places in the space from 1."""
        parts = []
        for name, plural in SLOTS.items():
            text, known = getattr(prompt, name), self.texts[plural]
            if text:
                parts.append(f"{name[0].upper()}{known.index(text) + 1 if text in known else '?'}")
        if prompt.n_shots:
            parts.append(f"{prompt.n_shots} {prompt.shots}/{prompt.order}")
        return " ".join(parts) or "bare"

    def fits(self, prompt: Prompt) -> bool:
        """Whether the prompt's examples exist."""
        return prompt.n_shots <= self.sizes.get(prompt.shots, 0)

    def moves(self, prompt: Prompt) -> dict[str, list[Prompt]]:
        """Name of a move -> the prompts that it can lead to; none that leaves the prompt as it is.

        Moves: add, change or drop each text, the number of examples, their set, their order.
        """
        found: dict[str, list[Prompt]] = {}
        for name, plural in SLOTS.items():
            now = getattr(prompt, name)
            others = [text for text in self.texts[plural] if text != now]
            verb = "change" if now else "add"
            found[f"{verb} {name}"] = [_with(prompt, name, text) for text in others]
            found[f"drop {name}"] = [_with(prompt, name, "")] if now else []
        counts = [n for n in self.n_shots if n != prompt.n_shots]
        found["number of shots"] = [_with(prompt, "n_shots", n) for n in counts]
        if prompt.n_shots:
            sets = [name for name in self.sizes if name != prompt.shots]
            found["shot set"] = [_with(prompt, "shots", name) for name in sets]
            orders = [order for order in range(self.orders) if order != prompt.order]
            found["shot order"] = [_with(prompt, "order", order) for order in orders]
        kept = {move: [p for p in prompts if self.fits(p)] for move, prompts in found.items()}
        return {move: prompts for move, prompts in kept.items() if prompts}

    def draw(self, rng: random.Random) -> Prompt:
        """A prompt drawn at random: every slot evenly among its values, empty among them."""
        for _ in range(MAX_DRAWS):
            prompt = Prompt(
                **{n: rng.choice(("", *self.texts[plural])) for n, plural in SLOTS.items()},
                shots=rng.choice(list(self.sizes) or [OWN]),
                n_shots=rng.choice(self.n_shots),
                order=rng.randrange(self.orders),
            )
            if not prompt.n_shots:  # nothing to choose or order: one prompt, not many
                prompt = replace(prompt, shots=OWN, order=0)
            if self.fits(prompt):
                return prompt
        raise UsageError("the space has hardly a prompt that fits: give smaller n_shots, or 0")


def _with(prompt: Prompt, name: str, value: Any) -> Prompt:
    changed = replace(prompt, **{name: value})
    return changed if changed.n_shots else replace(changed, shots=OWN, order=0)


def read_space(given: Any, request: str) -> Space:
    """The space that a user gives as a file or a mapping, or the shipped one of a request kind.

    Raises:
        UsageError: not readable, or a value that is not as the shipped files show it.
        UnknownName: a key that a space does not have.
    """
    shipped = HERE / f"prompts_space_{request}.yaml"
    if isinstance(given, Mapping):
        content, where, folder = dict(given), "space", Path()
    else:
        path = Path(str(given)) if given else shipped
        content, where, folder = parse(path, str(path.name)).config, path.name, path.parent
    for key in content:
        if key not in KEYS:
            raise UnknownName(f"key in {where}", str(key), KEYS, f"see {shipped.name}")
    space = Space(
        texts={key: _texts(content.get(key), f"{where}: {key}") for key in TEXTS},
        is_directive_first=_place(content.get("directive_place", "before"), where),
        n_shots=_counts(content.get("n_shots", [0]), f"{where}: n_shots"),
        orders=_whole(content.get("orders", 1), 1, f"{where}: orders"),
        shots=_sets(content.get("shots", {OWN: {}}), folder, where),
    )
    sets = {name: list(one.rows) for name, one in space.shots.items() if one.rows is not None}
    return replace(space, content={**content, "rows": sets}, is_shipped=not given)


def _texts(value: Any, where: str) -> tuple[str, ...]:
    values = [] if value is None else value
    if not isinstance(values, list) or not all(isinstance(v, str) and v.strip() for v in values):
        raise UsageError(f"{where} is {value!r}; expected a list of texts")
    return tuple(dict.fromkeys(values))


def _place(value: Any, where: str) -> bool:
    if value not in ("before", "after"):
        raise UsageError(f"{where}: directive_place is {value!r}; expected before or after")
    return bool(value == "before")


def _whole(value: Any, least: int, where: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise UsageError(f"{where} is {value!r}; expected whole numbers >= {least}")
    return value


def _counts(value: Any, where: str) -> tuple[int, ...]:
    values = value if isinstance(value, list) and value else [value]
    return tuple(dict.fromkeys(_whole(v, 0, where) for v in values))


def _sets(value: Any, folder: Path, where: str) -> dict[str, ShotSet]:
    if not isinstance(value, dict) or not all(isinstance(v, dict | None) for v in value.values()):
        raise UsageError(f"{where}: shots is {value!r}; expected names with `rows:` or `file:`")
    found: dict[str, ShotSet] = {}
    for name, entry in value.items():
        entry = entry or {}
        unknown = [key for key in entry if key not in ("rows", "file", "fewshot_config")]
        rows = entry.get("rows")
        if "file" in entry:
            rows = read_jsonl(folder / str(entry["file"]))
        is_table = isinstance(rows, list) and rows and all(isinstance(r, dict) for r in rows)
        if unknown or (name != OWN and not is_table):
            given = f"the key {unknown[0]!r}" if unknown else "no examples"
            raise UsageError(
                f"{where}: shots.{name} has {given}; expected rows (a list of mappings) or file "
                "(a JSONL beside the space), and fewshot_config where its columns need it"
            )
        own = None if name == OWN else tuple(rows or ())
        found[str(name)] = ShotSet(own, dict(entry.get("fewshot_config") or {}))
    return found
