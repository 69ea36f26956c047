"""Names masked or replaced. Oracles: hand-made cases; spaCy's own spans on real records."""

import random
import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from perturb_items import ODD, Capitals, items, numbered, real_items, spacy_tools, steady, texts

from tcb_bench.perturb.entities import entity_replacement, mask, ner, title_spans
from tcb_bench.perturb.item import Sentence
from tcb_bench.perturb.words import NOISE_WORDS


class Scripted:
    """Finds the given names wherever they stand."""

    def __init__(self, *names):
        self.names = names

    def ner(self, text):
        return [(*m.span(), "X") for name in self.names for m in re.finditer(re.escape(name), text)]


NOTHING = Scripted()


def named(text, title):
    """What of the text counts as the title."""
    return [text[a:b] for a, b in title_spans(text, title)]


# The title


@pytest.mark.parametrize(
    ("text", "title", "expected"),
    [
        ("David Dunn is David Dunn's name.", "David Dunn", ["David Dunn", "David Dunn"]),
        ("Unbreakable (film) is Unbreakable.", "Unbreakable (film)", None),
        ("Texas A&M is Texas A&amp;M.", "Texas A&amp;M", ["Texas A&M", "Texas A&amp;M"]),
        ("Red\xa0Hot and Red Hot", "Red Hot", ["Red\xa0Hot", "Red Hot"]),
        ("\u200eRed\u200e Hot pipes", "Red Hot", ["Red\u200e Hot"]),
        ("The pygmy hippopotamus eats.", "Pygmy hippopotamus", ["pygmy hippopotamus"]),
        ("Rust is not rust.", "Rust", ["Rust"]),  # case matters where it can
        ("It rains, and it pours.", "It (novel)", ["It"]),
        ("When it rains", "It (novel)", []),
        ("the red mile", "Red Mile (song)", ["red mile"]),
        ("Redder Hotly", "Red", []),
        ("Kerrang! and Kerrang!s", "Kerrang!", ["Kerrang!"]),
        ("Nothing here", "", []),
        ("(film)", "(film)", ["(film)"]),
    ],
)
def test_the_title_is_found_as_a_whole_word_in_each_of_its_forms(text, title, expected):
    expected = expected or (["Unbreakable (film)", "Unbreakable"] if expected is None else [])
    assert named(text, title) == expected


# Masks


@pytest.mark.parametrize(
    ("text", "title", "names", "expected"),
    [
        (" Ann met Bob.", "Z", ["Ann", "Bob"], " [MASK] met [MASK]."),
        ("The Oberoi Group owns it.", "Oberoi", ["Oberoi Group"], "The [MASK] owns it."),
        ("Bruce Willis's role", "Bruce Willis", ["Bruce Willis's"], "[MASK] role"),
        ("New York City Hall", "Z", ["New York City", "City Hall"], "[MASK]"),
        ("at A&amp;M now", "Z", ["A&amp"], "at [MASK]M now"),  # the HTML entity is not cut
        ("at Ann &amp; Bob", "Z", ["Ann", "Bob"], "at [MASK] &amp; [MASK]"),
        ("at\xa0 Ann \tnow", "Z", ["\xa0 Ann \t"], "at\xa0 [MASK] \tnow"),
        ("no names", "Z", [" "], "no names"),
        ("US$5 note", "Z", ["US$", "5"], "[MASK][MASK] note"),  # beside is not over
    ],
)
def test_names_are_masked_whole_and_nothing_beside_them(text, title, names, expected):
    assert mask(text, title, Scripted(*names)).text == expected


def test_masks_of_the_title_are_counted_apart():
    masked = mask("Oberoi Group and Ann", "Oberoi", Scripted("Oberoi Group", "Ann"))
    assert masked.hidden == ("Oberoi Group", "Ann")
    assert masked.n_title == 1


def test_only_the_last_evidence_sentence_is_masked():
    item = numbered(2, 2, facts="B0 A0")
    change = ner(item, random.Random(0), Scripted("A0", "B0"))
    assert [s.text for s in change.value.evidence] == ["B0", "[MASK]"]
    assert change.counts == {"masked": 1, "title_masked": 0}


def test_without_labels_the_last_sentence_of_each_document_is_masked():
    item = numbered(2, 1, facts="A0 A1 B0", has_support=False)
    change = ner(item, random.Random(0), Scripted("A0", "A1", "B0"))
    assert [s.text for s in change.value.evidence] == ["A0", "[MASK]", "[MASK]"]
    assert change.counts["masked"] == 2


@pytest.mark.parametrize(
    ("answer", "is_masked"),
    [
        ("the Yoruba", True),
        ("Yoruba people", True),
        ("YORUBA", True),
        ("Yoru", False),
        ("people of", False),
        ("", False),
        ("the", False),
        ("yes", False),
    ],
)
def test_an_answer_inside_a_mask_is_flagged(answer, is_masked):
    evidence = (Sentence("Ida", 0, "Used by the Yoruba people of old."),)
    item = replace(numbered(1, facts="A0"), evidence=evidence, answer=answer)
    change = ner(item, random.Random(0), Scripted("the Yoruba people"))
    assert ("answer_masked" in change.flags) == is_masked


@pytest.mark.parametrize(
    ("text", "answer", "flags"),
    [
        ("In the United States and Canada.", "United States and Canada", ("answer_cut",)),
        ("Canada, US: the US and Canada.", "US and Canada", ("answer_cut",)),
        ("In Canada or so.", "United States", ()),
        ("He flew in space over Canada.", "flew in space", ()),
        ("In Canada.", "", ()),
    ],
)
def test_an_answer_that_masks_take_apart_is_flagged(text, answer, flags):
    evidence = (Sentence("Ida", 0, text),)
    item = replace(numbered(1, facts="A0"), evidence=evidence, answer=answer)
    names = Scripted("United States", "Canada", "US")
    assert ner(item, random.Random(0), names).flags == flags


def test_no_name_and_no_title_is_flagged_and_changes_nothing():
    item = numbered(1, facts="A0")
    change = ner(item, random.Random(0), NOTHING)
    assert change.value == item
    assert change.flags == ("no_entity",)


@steady
@given(items())
def test_masking_odd_items_changes_the_marked_sentences_only(item):
    change = ner(item, random.Random(0), Capitals())
    assert replace(change.value, evidence=item.evidence) == item
    for old, new in zip(item.evidence, change.value.evidence, strict=True):
        assert (old.title, old.index) == (new.title, new.index)
        assert new.text == old.text or "[MASK]" in new.text
    assert ("no_entity" in change.flags) == (change.value == item and not change.counts["masked"])


@steady
@given(texts, st.sampled_from(["Ab", "x (film)", "a&amp;b", "(", "\\", "MASK"]) | texts)
def test_hidden_parts_put_back_give_the_text(text, title):
    text = text.replace("[MASK]", "")
    masked = mask(text, title, Capitals())
    pieces = masked.text.split("[MASK]")
    if len(pieces) == len(masked.hidden) + 1:  # else the title's own brackets made a "[MASK]"
        back = "".join(a + b for a, b in zip(pieces, (*masked.hidden, ""), strict=True))
        assert back == text
    assert masked.n_title <= len(masked.hidden)


# Entity replacement


@steady
@given(texts, st.integers(0, 5))
def test_every_name_becomes_a_noun_and_the_rest_stays(text, seed):
    change = entity_replacement(text, random.Random(seed), Capitals())
    spans = [(a, b) for a, b, _ in Capitals().ner(text)]
    nouns = "|".join(NOISE_WORDS)
    cuts = [0, *(edge for span in spans for edge in span), len(text)]
    kept = [re.escape(text[a:b]) for a, b in zip(cuts[::2], cuts[1::2], strict=True)]
    assert re.fullmatch(f"(?:{nouns})".join(kept), change.value)
    assert change.counts == {"replaced": len(spans)}
    assert change.flags == (() if spans else ("no_entity",))


def test_a_noun_is_never_replaced_by_itself():
    nouns = {
        entity_replacement("Anchor", random.Random(s), Scripted("Anchor")).value for s in range(400)
    }
    assert "anchor" in NOISE_WORDS
    assert nouns == set(NOISE_WORDS) - {"anchor"}


# spaCy on real records


def spans_of(masked, text):
    """Where the masks of a text lie, from its pieces and what is hidden between them."""
    spans, at = [], 0
    for piece, hidden in zip(masked.text.split("[MASK]"), masked.hidden, strict=False):
        spans.append((at + len(piece), at + len(piece) + len(hidden)))
        at = spans[-1][1]
    assert [text[a:b] for a, b in spans] == list(masked.hidden)
    return spans


@pytest.mark.parametrize("text", [*ODD, "\xa0".join(ODD), "Ann\n" * 3, "\ud83d Ann", "a" * 3000])
def test_odd_texts_keep_everything_but_their_names(text):
    text = text.replace("[MASK]", "")
    masked = mask(text, "A", spacy_tools())
    pieces = masked.text.split("[MASK]")
    parts = zip(pieces, (*masked.hidden, ""), strict=True)
    assert "".join(piece + hidden for piece, hidden in parts) == text


def test_on_real_records_each_name_lies_in_one_mask_and_the_title_is_gone(shared_data):
    tools, n_title, n_answer = spacy_tools(), 0, 0
    for item in real_items(shared_data, limit=100):
        change, last = ner(item, random.Random(0), tools), item.evidence[-1]
        masked = mask(last.text, last.title, tools)
        assert change.value.evidence == (*item.evidence[:-1], replace(last, text=masked.text))
        spans = spans_of(masked, last.text)
        for start, end, _ in tools.ner(last.text):
            name = last.text[start:end].strip()
            start = last.text.index(name, start)
            [inside] = [(a, b) for a, b in spans if a < start + len(name) and start < b]
            assert inside[0] <= start
            assert start + len(name) <= inside[1]
        plain_title = re.sub(r"\s*\(.*\)$", "", last.title)
        assert not re.search(rf"\b{re.escape(plain_title)}\b", masked.text)
        is_masked = any(item.answer in hidden for hidden in masked.hidden)
        assert not is_masked or "answer_masked" in change.flags
        n_title += bool(change.counts["title_masked"])
        n_answer += "answer_masked" in change.flags
    assert n_title > 40
    assert n_answer > 10
