"""Synonyms and antonyms from WordNet, through nltk's reader."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tcb_bench.errors import DataError, reason

GET_IT = "run `python -m nltk.downloader wordnet`"
PARTS_OF_SPEECH = ("n", "v", "a", "r")  # noun, verb, adjective, adverb

Sense = tuple[Any, int]
"""A word in one sense (nltk's Lemma), and how often it is tagged so."""


class Lexicon:
    """What WordNet knows of single English words in their base form.

    A form that can also be an inflection of another word (``found`` of find, ``cars``, ``left``)
    has no entry here, because its meaning cannot be told without its sentence. Senses come in
    WordNet's order, and their counts are uses in its sense-tagged corpus. Not for several threads
    at once: nltk's reader moves through shared open files.
    """

    def __init__(self, reader: Any) -> None:
        """``reader`` is an nltk ``WordNetCorpusReader``."""
        self._reader = reader
        self._known: dict[str, dict[str, list[Sense]]] = {}
        self.version = str(reader.get_version())

    def synonyms(self, word: str) -> tuple[str, ...]:
        """Words that share the usual sense of ``word``, in WordNet's order; () where there is none.

        The usual sense must cover at least half of the tagged uses of ``word`` over all parts of
        speech; a word without tagged uses must have one sense only. Given are lower-case single
        words; for a word with tagged uses those that have some in this sense too, since the others
        are rare (``week``: hebdomad).
        """
        senses = [sense for found in self._senses(word).values() for sense in found]
        if not senses:
            return ()
        usual, uses = max(senses, key=lambda sense: sense[1])  # the first of equals
        total = sum(n for _, n in senses)
        if 2 * uses < total or (total == 0 and len(senses) > 1):
            return ()
        others = [lemma for lemma in usual.synset().lemmas() if lemma.name() != word]
        return _single_words([lemma for lemma in others if total == 0 or lemma.count()])

    def antonyms(self, word: str) -> tuple[str, ...]:
        """Direct antonyms of ``word`` in its most used part of speech; () where there is none.

        They are those of the first sense that has any: ``hot`` gives ("cold",).
        """
        by_pos = self._senses(word).values()
        main = max(by_pos, key=lambda senses: (sum(n for _, n in senses), len(senses)), default=[])
        found = (_single_words(lemma.antonyms()) for lemma, _ in main)
        return next(filter(None, found), ())

    def _senses(self, word: str) -> dict[str, list[Sense]]:
        """Part of speech -> the senses of ``word`` in it; none if it may be an inflected form."""
        if word not in self._known:
            self._known[word] = self._looked_up(word)
        return self._known[word]

    def _looked_up(self, word: str) -> dict[str, list[Sense]]:
        found: dict[str, list[Sense]] = {pos: [] for pos in PARTS_OF_SPEECH}
        for synset in self._reader.synsets(word):
            named = [lemma for lemma in synset.lemmas() if lemma.name().lower() == word]
            if not named:
                return {}
            # "s" is an adjective that stands beside a head adjective.
            place = found["a" if synset.pos() == "s" else synset.pos()]
            place += [(lemma, lemma.count()) for lemma in named if lemma.name() == word]
        return found


def load(path: str | None = None) -> Lexicon:
    """WordNet from ``path``, or from where nltk looks (``$NLTK_DATA``, ``~/nltk_data``, ...).

    Args:
        path: the folder with data.noun, index.noun, lexnames and the rest; it is added to
            ``nltk.data.path``, because nltk's reader opens files in registered folders only.

    Raises:
        DataError: WordNet is not there or cannot be read, in one line.

    Takes some seconds: the reader builds its index of words.
    """
    import nltk

    root = _registered(Path(path), nltk.data.path) if path else _found(nltk.data)
    try:
        with warnings.catch_warnings():  # "multilingual functions are not available"
            warnings.simplefilter("ignore", UserWarning)
            return Lexicon(_english_reader()(root, None))
    except (OSError, ValueError, AssertionError, LookupError) as error:
        what = f"{type(error).__name__}: {reason(error)}"
        raise DataError(f"WordNet in {root} cannot be read ({what}); {GET_IT}") from error


def _english_reader() -> Any:
    """The reader of nltk without its map to WordNet 3.0, which only other languages need.

    Building that map takes half of the time, and fails where WordNet is in no folder of nltk's.
    """
    from nltk.corpus.reader.wordnet import WordNetCorpusReader

    return type("EnglishReader", (WordNetCorpusReader,), {"map_wn": lambda self: None})


def _found(data: Any) -> Any:
    try:
        return data.find("corpora/wordnet")
    except LookupError:
        pass
    try:
        return data.find("corpora/wordnet.zip/wordnet/")  # the downloader may leave it packed
    except LookupError as error:
        raise DataError(f"WordNet is not among nltk's data (corpora/wordnet); {GET_IT}") from error


def _registered(folder: Path, registered: list[str]) -> str:
    if not (folder / "data.noun").is_file():
        raise DataError(f"{folder}: no WordNet there (data.noun is missing); {GET_IT}")
    root = str(folder.resolve())
    if root not in registered:
        registered.append(root)
    return root


def _single_words(lemmas: Sequence[Any]) -> tuple[str, ...]:
    names = [lemma.name() for lemma in lemmas]
    return tuple(dict.fromkeys(name for name in names if _is_plain(name)))


def _is_plain(name: str) -> bool:
    """One lower-case word of three letters or more: no phrase, no name, not ``yr`` or ``hr``."""
    return name.isalpha() and name.islower() and len(name) > 2
