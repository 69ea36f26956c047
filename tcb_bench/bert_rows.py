"""BERTScore on every row of a run, and how far each changed text went; nothing is scored twice."""

from __future__ import annotations

import hashlib
import json
import math
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tcb_bench.config import TaskOptions
from tcb_bench.errors import ModelError, UsageError, reason
from tcb_bench.perturb.distance import cosine, distance
from tcb_bench.responses import answer_text

CACHE_FILE = "scores.sqlite"
CHUNK = 512  # pairs that a kill can lose
Sample = dict[str, Any]
Row = dict[str, Any]
Pair = tuple[str, str]
Say = Callable[[str], None]
Report = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class TextScorer:
    """What compares texts in a run: BERTScore's encoder, None to leave it out, and whom to tell."""

    encoder: Any | None = None
    say: Say = lambda line: None  # one line about what happens now
    report: Report = lambda done, total: None

    @property
    def signature(self) -> str | None:
        """The encoder's settings, or None."""
        return None if self.encoder is None else str(self.encoder.signature)

    def add(self, samples: Sequence[Sample], folder: Path) -> None:
        """Puts ``bertscore_...`` into the scores of every row that has a text and a reference.

        Of a text its answer part is compared.

        Scores are kept in ``scores.sqlite`` of the run folder under (encoder, text, reference), so
        that a resumed run or ``score`` computes only new ones; the file may be deleted at any time.
        """
        rows = [
            (row, (text, sample["reference"]))
            for sample in samples
            for row in sample["rows"]
            if (text := answer_text(row)) is not None and sample.get("reference") is not None
        ]
        if self.encoder is None or not rows:
            return
        with _Cache(folder / CACHE_FILE, self.encoder.signature) as cache:
            self._fill(cache, cache.missing(pair for _, pair in rows))
            for row, pair in rows:
                values, flags = cache.get(pair)
                row["scores"] |= values
                if flags:
                    row["score_flags"] = flags

    def _fill(self, cache: _Cache, missing: list[Pair]) -> None:
        if missing:
            self.say(f"BERTScore of {len(missing)} texts")
        waiting: list[tuple[Pair, Any]] = []
        done = 0

        def keep(index: int, score: Any) -> None:
            nonlocal done
            waiting.append((missing[index], _record(score)))
            done += 1
            if len(waiting) == CHUNK or done == len(missing):
                cache.keep(*zip(*waiting, strict=True))
                waiting.clear()
                self.report(done, len(missing))

        if missing:
            self.encoder.score(missing, keep)  # type: ignore[union-attr]


def make_scorer(
    options: TaskOptions, say: Say = lambda line: None, report: Report | None = None
) -> TextScorer:
    """The encoder of ``--bert_score_model``, loaded now: what is missing is said before a run.

    Raises:
        UsageError: the encoder's layer is not known and none was given.
        ModelError: it cannot be loaded.
    """
    report = report or (lambda done, total: None)
    name = options.bert_score_model
    if name == "none":
        return TextScorer(None, say, report)
    from tcb_bench.metrics.bert_score import BertScorer

    try:
        return TextScorer(BertScorer(name, num_layers=options.bert_score_layer), say, report)
    except ValueError as error:
        raise UsageError(f"--bert_score_model {name}: {reason(error)}") from error
    except Exception as error:  # the hub client and transformers raise a dozen kinds
        raise ModelError(
            f"BERTScore's encoder {name} cannot be loaded: {reason(error)}; give a folder or a hub "
            "name with --bert_score_model, or none to leave BERTScore out"
        ) from error


def _record(score: Any) -> tuple[dict[str, float], list[str]]:
    names = {"precision": score.precision, "recall": score.recall, "f1": score.f1}
    return {f"bertscore_{name}": value for name, value in names.items()}, list(score.flags)


def add_distances(samples: Sequence[Sample], encoder: Any | None) -> None:
    """Puts into each note of a perturbation how far the text went, and drops the texts."""
    notes = [note for sample in samples for note in sample.get("perturbation", {}).values()]
    texts = list(dict.fromkeys(t for n in notes for t in (n["before"], n["after"]) if t.strip()))
    vectors: dict[str, Any] = {}
    if encoder is not None:
        vectors = dict(zip(texts, encoder.embed(texts).numpy(), strict=True)) if texts else {}
    for sample in samples:
        sample["perturbation"] = {
            axis: _measured(note, vectors) for axis, note in sample.get("perturbation", {}).items()
        }


def _measured(note: dict[str, Any], vectors: dict[str, Any]) -> dict[str, Any]:
    before, after = note["before"], note["after"]
    known = [vectors[text] for text in (before, after) if text in vectors]
    are_known = len(known) == 2 and not any(math.isnan(v[0]) for v in known)  # NaN: no token at all
    similarity = cosine(*known) if are_known else None
    made = distance(before, after, similarity=similarity)
    kept = {key: note[key] for key in ("kind", "flags", "counts")}
    return kept | {
        "token_overlap": made.token_overlap,
        "embedding_similarity": made.embedding_similarity,
        "is_pseudo_relevant": made.is_pseudo_relevant,
    }


class _Cache:
    """(encoder, text, reference) -> values, in a file that is only ever derived data."""

    def __init__(self, path: Path, signature: str) -> None:
        self._signature = signature
        try:
            self._db = self._opened(path)
        except sqlite3.DatabaseError:  # damaged: everything in it can be computed again
            path.replace(path.with_name(f"{path.name}.damaged"))
            self._db = self._opened(path)

    @staticmethod
    def _opened(path: Path) -> sqlite3.Connection:
        database = sqlite3.connect(path, isolation_level=None)
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("CREATE TABLE IF NOT EXISTS scores (key BLOB PRIMARY KEY, value TEXT)")
        return database

    def __enter__(self) -> _Cache:
        return self

    def __exit__(self, *_: object) -> None:
        self._db.close()

    def _key(self, pair: Pair) -> bytes:
        text = json.dumps([self._signature, *pair], ensure_ascii=False)
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()

    def missing(self, pairs: Iterable[Pair]) -> list[Pair]:
        """The distinct pairs that have no score yet, in order."""
        have = {key for (key,) in self._db.execute("SELECT key FROM scores")}
        return [pair for pair in dict.fromkeys(pairs) if self._key(pair) not in have]

    def keep(self, pairs: Sequence[Pair], values: Sequence[Any]) -> None:
        """Commits the scores of some pairs in one step."""
        rows = [
            (self._key(pair), json.dumps(value)) for pair, value in zip(pairs, values, strict=True)
        ]
        self._db.execute("BEGIN")
        self._db.executemany("INSERT OR REPLACE INTO scores VALUES (?, ?)", rows)
        self._db.execute("COMMIT")

    def get(self, pair: Pair) -> Any:
        """The stored values and flags of a pair."""
        query = "SELECT value FROM scores WHERE key = ?"
        return json.loads(self._db.execute(query, (self._key(pair),)).fetchone()[0])
