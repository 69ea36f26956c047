"""Changes of the evidence. Expected values: by hand, from the rules of TP 4.1; else properties."""

import random
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from perturb_items import items, numbered, real_items, shown, steady

from tcb_bench.perturb import sentences
from tcb_bench.perturb.item import NotApplicable, Sentence

FACTS = ["A0", "A0 B1", "B1 A0 A2", "A0 B1 A2 B0", "B0 A3 A0 B2 A1"]
HALF_KEPT = ["A0", "A0", "B1 A0", "A0 B1", "B0 A3 A0"]  # k = 0, 1, 1, 2, 2 for n = 1 to 5
HALVES = list(zip(FACTS, HALF_KEPT, strict=True))
DRAWN = [sentences.replace_half, sentences.unit_replacement]


def apply(change, item, argument=None, seed=0):
    return change(item, random.Random(seed), None, argument)


def evidence(change):
    return change.value.evidence


# The half rules


@pytest.mark.parametrize(("facts", "kept"), HALVES)
def test_remove_half_deletes_the_last_half_as_the_record_lists_it(facts, kept):
    change = apply(sentences.remove_half, numbered(5, 5, facts=facts))
    assert shown(change.value) == kept
    assert change.counts == {"removed": len(facts.split()) // 2}


@pytest.mark.parametrize(("facts", "kept"), HALVES)
@pytest.mark.parametrize("seed", range(5))
def test_replace_half_keeps_place_and_title_and_takes_unused_sentences(facts, kept, seed):
    item = numbered(5, 5, facts=facts)
    change = apply(sentences.replace_half, item, seed=seed)
    after, n_kept = evidence(change), len(kept.split())
    assert [s.text for s in after[:n_kept]] == kept.split()
    assert [s.title for s in after] == [s.title for s in item.evidence]
    assert not {s.text for s in after[n_kept:]} & set(facts.split())
    assert all(item.documents[s.title][s.index] == s.text for s in after)
    assert change.counts["replaced"] == len(facts.split()) - n_kept
    assert change.flags == ()


def test_every_unused_sentence_of_the_title_is_drawn_about_equally_often():
    item = numbered(1, 5, facts="A0 B2")
    drawn = Counter(shown(apply(sentences.replace_half, item, seed=s).value) for s in range(400))
    assert set(drawn) == {"A0 B0", "A0 B1", "A0 B3", "A0 B4"}
    assert min(drawn.values()) > 60  # 100 expected, standard deviation 9


def test_without_labels_each_document_loses_its_own_last_half():
    facts = "A0 A1 A2 B0 C0 C1"
    item = numbered(3, 1, 2, facts=facts, has_support=False)
    assert shown(apply(sentences.remove_half, item).value) == "A0 A1 B0 C0"
    item = numbered(3, 1, 2, facts=facts, elsewhere=["z0", "z1"], has_support=False)
    change = apply(sentences.replace_half, item)
    assert [s.text[0] for s in evidence(change)] == ["A", "A", "z", "B", "C", "z"]


# Where a replacement comes from


def test_a_title_without_spare_sentences_borrows_from_the_other_documents():
    change = apply(sentences.replace_half, numbered(1, 1, 1, facts="A0 B0"))
    assert evidence(change) == (Sentence("A", 0, "A0"), Sentence("B", -1, "C0"))
    assert change.flags == ("other_title",)
    assert change.counts == {"replaced": 1, "other_title": 1, "other_record": 0, "removed": 0}


def test_after_the_documents_come_other_records_and_at_last_removal():
    item = numbered(1, 1, facts="A0 B0", elsewhere=["A0", "", "z"])
    change = apply(sentences.replace_half, item)
    assert evidence(change)[1] == Sentence("B", -1, "z")
    assert change.flags == ("other_record",)
    change = apply(sentences.replace_half, numbered(1, 1, facts="A0 B0", elsewhere=[" B0 ", "."]))
    assert shown(change.value) == "A0"
    assert change.flags == ("removed",)
    assert change.counts["removed"] == 1


@pytest.mark.parametrize("seed", range(10))
def test_a_title_is_served_from_its_own_sentences_before_others_borrow_them(seed):
    item = numbered(3, 2, facts="A0 A1 A2 B0")  # the last two: A has no spare one, B has B1
    change = apply(sentences.replace_half, item, seed=seed)
    assert shown(change.value) == "A0 A1 B1"
    assert change.counts == {"replaced": 1, "other_title": 0, "other_record": 0, "removed": 1}


def test_a_sentence_that_was_masked_before_is_not_replaced_by_its_own_text():
    item = numbered(1, 1, facts="A0 B0", elsewhere=["z"])
    masked = replace(item, evidence=(item.evidence[0], Sentence("B", 0, "[MASK]")))
    assert shown(apply(sentences.replace_half, masked).value) == "A0 z"


@steady
@given(items(), st.integers(0, 9))
def test_replacements_are_new_say_something_and_leave_the_rest(item, seed):
    for kind in DRAWN if item.evidence else DRAWN[:1]:
        change = apply(kind, item, seed=seed)
        old = {s.text.strip() for s in item.evidence}
        new = [s for s in evidence(change) if s not in item.evidence]
        assert len({s.text.strip() for s in new}) == len(new) == change.counts["replaced"]
        assert all(s.text.strip() not in old and any(map(str.isalnum, s.text)) for s in new)
        gone = len(item.evidence) - len(evidence(change))
        assert gone == change.counts["removed"]
        kept = [s for s in evidence(change) if s in item.evidence]
        assert kept == [s for s in item.evidence if s in kept]


# Subsets and order


def test_remove_deletes_the_numbered_sentences():
    item = numbered(5, 5, facts="A0 B1 A2 B0")
    assert shown(apply(sentences.remove, item, (1, 3)).value) == "B1 B0"
    assert evidence(apply(sentences.remove, item, (1, 2, 3, 4))) == ()


@pytest.mark.parametrize(
    ("kind", "argument"),
    [
        (sentences.remove, (1, 3)),
        (sentences.combination, 3),
        (sentences.unit_replacement, 3),
    ],
)
def test_a_number_beyond_the_evidence_makes_the_kind_not_applicable(kind, argument):
    with pytest.raises(NotApplicable, match="has 2 evidence sentences; at least 3 needed"):
        apply(kind, numbered(5, 5, facts="A0 B1"), argument)


def test_combination_draws_every_subset_of_the_size_in_the_given_order():
    item = numbered(5, 5, facts="B1 A0 A2")
    drawn = {shown(apply(sentences.combination, item, 2, seed).value) for seed in range(50)}
    assert drawn == {"B1 A0", "B1 A2", "A0 A2"}


def test_unit_replacement_takes_the_numbered_sentence_or_draws_one():
    item = numbered(2, 2, facts="A0 B0")
    assert shown(apply(sentences.unit_replacement, item, 1).value) == "A1 B0"
    assert shown(apply(sentences.unit_replacement, item, 2).value) == "A0 B1"
    drawn = {shown(apply(sentences.unit_replacement, item, seed=s).value) for s in range(20)}
    assert drawn == {"A1 B0", "A0 B1"}


def test_sources_come_in_every_order_but_the_given_one_each_whole():
    item = numbered(5, 5, 5, facts="B1 A3 B0 C2 A0")
    drawn = {shown(apply(sentences.source_reordering, item, seed=s).value) for s in range(80)}
    a, b, c = "A3 A0", "B1 B0", "C2"
    assert drawn == {f"{a} {b} {c}", f"{a} {c} {b}", f"{b} {c} {a}", f"{c} {a} {b}", f"{c} {b} {a}"}


def test_one_document_cannot_be_reordered():
    item = numbered(5, facts="A3 A0")
    assert apply(sentences.source_reordering, item).value == item


def test_a_distractor_stands_between_documents_under_its_own_title():
    item = numbered(5, 5, 1, facts="A0 A1 B0")
    drawn = {shown(apply(sentences.distractor, item, seed=s).value) for s in range(30)}
    assert drawn == {"C0 A0 A1 B0", "A0 A1 C0 B0", "A0 A1 B0 C0"}


def test_a_distractor_comes_from_elsewhere_where_the_record_has_no_other_document():
    change = apply(sentences.distractor, numbered(5, 5, facts="A0 B0", elsewhere=["z"]))
    assert change.flags == ("other_record",)
    assert "z" in shown(change.value)
    item = numbered(5, 5, facts="A0 B0")
    assert apply(sentences.distractor, item).flags == ("no_candidate",)
    assert apply(sentences.distractor, item).value == item


def test_closed_book_shows_nothing_and_original_everything():
    item = numbered(5, 5, facts="A0 B0")
    assert evidence(apply(sentences.none, item)) == ()
    assert apply(sentences.original, item).value is item


# Real records


def test_on_real_records_the_borrowed_sentences_are_those_of_titles_without_a_spare(shared_data):
    borrowed = 0
    found = real_items(shared_data, limit=300)
    for item in found:
        change = apply(sentences.replace_half, item)
        last = item.evidence[len(item.evidence) - len(item.evidence) // 2 :]
        facts = {s.text.strip() for s in item.evidence}
        needed = Counter(s.title for s in last)
        has_all = all(
            len({t.strip() for t in item.documents[title]} - facts - {"", ".", '".'}) >= n
            for title, n in needed.items()
        )
        assert ("other_title" not in change.flags) == has_all
        assert change.counts["removed"] == 0
        borrowed += not has_all
    assert 0.1 < borrowed / len(found) < 0.35
