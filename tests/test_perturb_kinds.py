"""The table of kinds. Oracle: the lists of TP table 1 and BC C.4.3, by hand; else properties."""

import inspect
import subprocess
import sys
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from perturb_items import Capitals, items, numbered, shown, steady, texts

from tcb_bench.errors import UnknownName, UsageError
from tcb_bench.perturb.item import Change, Kind, NotApplicable, Shots, generator
from tcb_bench.perturb.kinds import KINDS, change_item, change_shots, change_text, needs, parse

CONTEXT = "original none replace_half remove_half ner remove combination source_reordering"
CONTEXT += " unit_replacement distractor"
TEXT = "entity_replacement word_reordering synonym antonym random_noise typos prefix_injection"
TEXT += " term_augmentation clause_reordering distractor_sentence paraphrase"
SHOTS = "shots_reordering shots_replacement"
NAMES = ["original", "none", "replace_half", "remove_half", "ner", "remove:1", "remove:1+3"]
NAMES += ["combination:2", "source_reordering", "unit_replacement", "unit_replacement:2"]
NAMES += ["distractor", "entity_replacement"]


def reverse_words(text, _rng, _tools, argument=None):
    """A text kind for the tests: flags a text without a blank, counts words."""
    words = text.split(" ")[::-1]
    return Change(" ".join(words), ("odd",) if len(words) == 1 else (), {"words": len(words)})


def noisy(text, rng, _tools, argument=None):
    """A text kind for the tests: one drawn number behind the text."""
    return Change(f"{text}{rng.random()}")


@pytest.fixture
def own_kinds(monkeypatch):
    """The table with two text kinds of this file."""
    for function in (reverse_words, noisy):
        kind = Kind("text", f"{__name__}:{function.__name__}", "for tests", "ours")
        monkeypatch.setitem(KINDS, function.__name__, kind)


def change(item, name, seed=0):
    return change_item(item, name, seed=seed, tools=Capitals())


# The table


def test_the_table_names_every_perturbation_of_both_papers():
    assert set(KINDS) == {*CONTEXT.split(), *TEXT.split(), *SHOTS.split()}
    for kind in KINDS.values():
        assert kind.target in ("any", "context", "text", "shots")
        assert len(kind.meaning) <= 90
        assert kind.source.startswith(("TP 4.1", "TP table 1", "BC C.4.3", "ours"))


@pytest.mark.parametrize("name", sorted(KINDS))
def test_each_kind_resolves_to_a_function_of_value_generator_tools_and_argument(name):
    kind = KINDS[name]
    parameters = list(inspect.signature(kind.resolve()).parameters.values())
    assert len(parameters) == 4
    is_optional = parameters[3].default is None
    assert is_optional == (kind.argument is None or kind.argument.endswith("?"))


def test_reading_the_table_imports_nothing_heavy():
    script = (
        "import sys, tcb_bench.perturb.kinds\n"
        "heavy = {'spacy', 'torch', 'nltk', 'numpy', 'transformers'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_needs_are_those_of_all_names_together():
    assert needs(["ner", "synonym:2", "original", "antonym"]) == {"ner", "wordnet"}
    assert needs(["paraphrase"]) == {"paraphraser"}
    with pytest.raises(UnknownName, match="did you mean 'synonym'"):
        needs(["synonim"])


# Names


@pytest.mark.parametrize(
    ("name", "argument"),
    [
        ("ner", None),
        ("remove:1", (1,)),
        ("remove:1+3+10", (1, 3, 10)),
        ("combination:2", 2),
        ("unit_replacement", None),
        ("unit_replacement:3", 3),
        ("synonym:2", 2),
    ],
)
def test_a_name_gives_its_kind_and_argument(name, argument):
    assert parse(name, "context") == (KINDS[name.split(":")[0]], argument)


@pytest.mark.parametrize(
    "name",
    [
        "remove",
        "remove:",
        "remove:0",
        "remove:3+1",
        "remove:1+1",
        "remove:01",
        "remove:1+",
        "remove:a",
    ]
    + [
        "remove:-1",
        "remove:1.0",
        "remove:\u0661",
        "combination",
        "combination:0",
        "combination:1+2",
    ]
    + [
        "combination:x",
        "combination:1000000000",
        "unit_replacement:",
        "ner:1",
        "original:",
        "none:1",
    ],
)
def test_a_missing_unwanted_or_malformed_argument_is_refused_in_one_line(name):
    with pytest.raises(UsageError) as caught:
        parse(name, "context")
    assert name in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("axis", "allowed"),
    [
        ("context", CONTEXT.split() + TEXT.split()),
        ("query", ["original", *TEXT.split()]),
        ("shots", ["original", *SHOTS.split()]),
    ],
)
def test_an_axis_takes_its_own_kinds_only(axis, allowed):
    arguments = {"remove": ":1", "combination": ":1"}
    for name in allowed:
        parse(name + arguments.get(name, ""), axis)
    for name in set(KINDS) - set(allowed):
        with pytest.raises(UnknownName, match=f"no {axis} perturbation"):
            parse(name, axis)


def test_the_nearest_name_is_offered():
    with pytest.raises(UnknownName, match="did you mean 'replace_half'"):
        parse("replace_halv", "context")
    with pytest.raises(ValueError, match="no axis 'documents'"):
        parse("ner", "documents")


# Changes


@steady
@given(items(), st.sampled_from(NAMES), st.integers(0, 3))
def test_a_change_is_the_same_each_time_and_concerns_the_evidence_only(item, name, seed):
    try:
        first = change(item, name, seed)
    except NotApplicable:
        with pytest.raises(NotApplicable):
            change(item, name, seed)
        return
    assert change(item, name, seed) == first
    assert replace(first.value, evidence=item.evidence) == item
    assert ("unchanged" in first.flags) == (first.value == item and name != "original")


@steady
@given(items(), st.sampled_from(["original", "none", "source_reordering"]))
def test_what_should_be_idempotent_is(item, name):
    once = change(item, name).value
    twice = change(once, name).value
    if name == "source_reordering":  # an order of wholes: the same documents, each in its order
        assert sorted(map(repr, once.evidence)) == sorted(map(repr, twice.evidence))
    else:
        assert twice == once


def test_one_fact_has_no_half_and_is_flagged():
    item = numbered(5, facts="A0")
    for name in ("remove_half", "replace_half"):
        assert change(item, name).value == item
        assert change(item, name).flags == ("unchanged",)


def test_draws_differ_between_documents_seeds_and_names():
    item = numbered(40, facts="A0 A1")
    base = shown(change(item, "replace_half").value)
    others = [
        change(item, "replace_half", seed=1),
        change(replace(item, id="other"), "replace_half"),
        change(item, "unit_replacement:2"),
    ]
    assert len({base, *(shown(other.value) for other in others)}) == 4


def test_a_text_kind_changes_every_shown_sentence_and_adds_up(own_kinds):
    item = numbered(3, 1, facts="A0 B0")
    item = replace(item, evidence=(replace(item.evidence[0], text="a b"), item.evidence[1]))
    found = change(item, "reverse_words")
    assert shown(found.value) == "b a B0"
    assert found.counts == {"words": 3}
    assert found.flags == ("odd",)
    assert change(numbered(3, facts="A0"), "reverse_words").flags == ("odd", "unchanged")


def test_a_sentence_changes_alike_whatever_stands_beside_it(own_kinds):
    alone = change(numbered(3, 1, facts="B0"), "noisy").value.evidence[0]
    beside = change(numbered(3, 1, facts="A0 B0"), "noisy").value.evidence[1]
    assert alone == beside
    every = change(numbered(3, 1, facts="A0 A1 A2 B0"), "noisy").value.evidence
    assert len({sentence.text[2:] for sentence in every}) == 4


@steady
@given(texts, st.integers(0, 3))
def test_a_text_changes_as_its_function_says(text, seed):
    found = change_text(text, "entity_replacement", seed=seed, document="d", tools=Capitals())
    rng = generator(seed, "entity_replacement", "d")
    direct = KINDS["entity_replacement"].resolve()(text, rng, Capitals(), None)
    assert found.value == direct.value
    assert ("unchanged" in found.flags) == (found.value == text)


def test_shots_change_by_name_and_original_leaves_them():
    shots = Shots(({"q": "a"}, {"q": "b"}), ({"q": "c"},))

    def changed(name):
        return change_shots(shots, name, seed=0, document="d", tools=Capitals())

    assert changed("shots_reordering").value.chosen == ({"q": "b"}, {"q": "a"})
    assert {"q": "c"} in changed("shots_replacement").value.chosen
    assert changed("original") == Change(shots)
