"""WordNet 3.0 itself. Oracle: its entries, read in a WordNet browser by hand.

The files are Debian's; where they are not installed, the tests that need them are skipped.
"""

import random
import shutil
from types import SimpleNamespace

import nltk
import pytest
from wordnet_files import lexnames, make_nltk_data

from tcb_bench.errors import DataError
from tcb_bench.perturb import words
from tcb_bench.perturb.wordnet import Lexicon, load


@pytest.fixture(scope="module")
def nltk_data(tmp_path_factory):
    return make_nltk_data(tmp_path_factory.mktemp("nltk_data"))


@pytest.fixture
def search_path(monkeypatch):
    """nltk's list of folders, empty for one test."""
    monkeypatch.setattr(nltk.data, "path", [])
    return nltk.data.path


@pytest.fixture(scope="module")
def lexicon(nltk_data):
    """WordNet by its path; nltk reads registered folders only, so it stays registered."""
    return load(str(nltk_data / "corpora" / "wordnet"))


def test_hot_has_the_antonym_cold(lexicon):
    assert lexicon.antonyms("hot") == ("cold",)
    assert lexicon.version == "3.0"


@pytest.mark.parametrize(
    ("word", "synonyms"),
    [
        ("big", ("large",)),
        ("quickly", ("rapidly", "speedily")),
        ("buy", ("purchase",)),
        ("week", ()),  # hebdomad is never used in the tagged corpus
        ("hour", ()),  # hr is an abbreviation
        ("run", ()),  # no sense of run makes up half of its uses
        ("found", ()),  # may be a form of find
        ("cars", ()),
        ("same", ()),  # Saame is another word for Same, the people
        ("qwxz", ()),
        ("", ()),
        ("\u00e9t\u00e9", ()),
    ],
)
def test_synonyms_are_those_of_the_usual_sense(lexicon, word, synonyms):
    assert lexicon.synonyms(word) == synonyms


@pytest.mark.parametrize(
    ("word", "antonyms"),
    [("old", ("young",)), ("sell", ("buy",)), ("quickly", ("slowly",)), ("film", ()), ("qwxz", ())],
)
def test_antonyms_are_those_of_the_first_sense_that_has_any(lexicon, word, antonyms):
    assert lexicon.antonyms(word) == antonyms


def test_real_sentences_change_their_keywords_only(lexicon):
    tools = SimpleNamespace(wordnet=lambda: lexicon)
    text = "Did Big Ben, the old hot clock of 1859, not ring?"
    change = words.antonym(text, random.Random(0), tools, 9)
    assert change.value == "Did Big Ben, the young cold clock of 1859, not ring?"
    change = words.synonym("A singer wrote the big Film.", random.Random(0), tools, 9)
    assert change.value == "A vocalist wrote the large Film."


def test_wordnet_is_found_where_nltk_keeps_its_data(nltk_data, search_path):
    search_path.append(str(nltk_data))
    assert load().antonyms("hot") == ("cold",)


def test_wordnet_is_read_from_the_archive_that_the_downloader_leaves(
    nltk_data, search_path, tmp_path
):
    (tmp_path / "corpora").mkdir()
    archive = str(tmp_path / "corpora" / "wordnet")
    shutil.make_archive(archive, "zip", nltk_data / "corpora", "wordnet")
    search_path.append(str(tmp_path))
    assert load().antonyms("hot") == ("cold",)


def one_line(error):
    text = str(error.value)
    assert "\n" not in text
    assert "python -m nltk.downloader wordnet" in text
    return text


@pytest.mark.usefixtures("search_path")
def test_missing_wordnet_is_one_line_with_the_command_that_gets_it(monkeypatch):
    monkeypatch.delenv("NLTK_DATA", raising=False)
    with pytest.raises(DataError) as error:
        load()
    assert "corpora/wordnet" in one_line(error)


def test_a_folder_without_wordnet_or_with_half_of_it_is_refused_in_one_line(tmp_path, monkeypatch):
    monkeypatch.setattr(nltk.data, "path", list(nltk.data.path))
    with pytest.raises(DataError) as error:
        load(str(tmp_path))
    assert "data.noun is missing" in one_line(error)
    (tmp_path / "data.noun").write_text("")
    with pytest.raises(DataError) as error:
        load(str(tmp_path))
    assert "lexnames" in one_line(error)


def test_the_table_of_lexicographer_files_has_its_45_lines():
    lines = lexnames().splitlines()
    assert (lines[0], lines[3], lines[44]) == (
        "00\tadj.all\t3",
        "03\tnoun.Tops\t1",
        "44\tadj.ppl\t3",
    )
    assert len(lines) == 45


class FakeLemma:
    """A lemma as nltk's reader gives it: the word in one sense."""

    def __init__(self, name, count, sense):
        self._name, self._count, self._sense = name, count, sense

    def name(self):
        return self._name

    def count(self):
        return self._count

    def synset(self):
        return self._sense


def fake_reader(*senses):
    """A reader with one word; each sense is {lemma: uses}, all of them nouns."""

    def sense(uses):
        made = SimpleNamespace(pos=lambda: "n")
        lemmas = [FakeLemma(name, count, made) for name, count in uses.items()]
        made.lemmas = lambda: lemmas
        return made

    made = [sense(uses) for uses in senses]
    return SimpleNamespace(synsets=lambda word: made, get_version=lambda: "fake")


@pytest.mark.parametrize(
    ("senses", "expected"),
    [
        ([{"word": 5, "one": 1}, {"word": 5, "other": 1}], ("one",)),  # exactly half
        ([{"word": 4, "one": 1}, {"word": 5, "other": 1}], ("other",)),
        ([{"word": 4, "one": 1}, {"word": 5, "other": 1}, {"word": 2}], ()),
        ([{"word": 0, "one": 0}], ("one",)),  # a single sense without uses
        ([{"word": 0, "one": 0}, {"word": 0}], ()),
        ([{"word": 3, "one": 0, "other": 2, "two_words": 9, "Name": 9, "w1": 9}], ("other",)),
        ([{"word": 3, "one": 1}, {"wort": 1}], ()),  # the word is a form of "wort" too
    ],
)
def test_the_usual_sense_covers_half_of_the_uses(senses, expected):
    assert Lexicon(fake_reader(*senses)).synonyms("word") == expected
